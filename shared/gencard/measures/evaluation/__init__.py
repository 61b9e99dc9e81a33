"""Risk and utility of a release: which evaluations exist, what they need and cost, and their numbers.

In: records, psi and rows, as far as an evaluation needs them. Out: numbers with their rounding.
"""
