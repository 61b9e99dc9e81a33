"""Differential privacy: noise by OpenDP, its sensitivity and its accounting.

In: exact statistics and a privacy budget. Out: noisy statistics, standard deviations, budget spent.
"""
