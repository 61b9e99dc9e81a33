"""Utility of synthetic data: tables, fidelity to psi, propensity scores and predictions.

In: synthetic rows, and psi or records. Out: scores beside their expectation without a difference.
"""
