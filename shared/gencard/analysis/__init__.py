"""Analyses: formulas, answers from marginals, and the output checks of runs on the records.

In: a formula, a schema and marginals, from psi or from records. Out: estimates with intervals, and
whether they may be disclosed.
"""
