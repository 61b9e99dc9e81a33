"""PrivBayes: a Bayesian network with noisy conditional tables.

In: records and a privacy budget. Out: rows drawn from the network.
"""
