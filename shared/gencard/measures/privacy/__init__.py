"""Privacy risk: uniques and disclosure; distances, attacks and canaries in folders.

In: records, synthetic rows, and for some a holdout. Out: rates and distances with their baselines.
"""
