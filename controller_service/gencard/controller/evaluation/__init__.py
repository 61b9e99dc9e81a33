"""Evaluation of releases at the records: requested, run once for a card, charged, rounded.

In: a card, a release, names of evaluations. Out: rounded findings.
"""
