"""Audits on the controller: requested, run, resumed, pooled by family of black boxes.

In: a card, a black box, a plan. Out: a signed verdict, and the report for those who may read it.
"""
