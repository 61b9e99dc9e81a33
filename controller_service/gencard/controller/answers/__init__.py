"""Answers from the records: runs asked for under a card, judged by output rules, released, signed.

In: a card, a question. Out: a signed answer, or a signed refusal.
"""
