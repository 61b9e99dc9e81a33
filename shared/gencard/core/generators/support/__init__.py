"""Distributions on a sampled support, for domains too large for a table or a tree.

In: psi and a domain. Out: weights on the rows of the support.
"""
