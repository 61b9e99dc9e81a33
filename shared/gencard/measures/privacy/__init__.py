"""Privacy risk: of rows by uniques, disclosure, distances, attacks and canaries; of psi by itself.

In: records, synthetic rows, and for some a holdout; or the exact tables of all cards together. Out:
rates and distances with their baselines, bounds on epsilon; or numbers about psi for stewards alone.
"""
