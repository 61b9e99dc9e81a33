"""The maximum-entropy distribution of given marginals and moments: tables, triangles, junction trees.

In: psi and a domain. Out: a model that rows are drawn from.
"""
