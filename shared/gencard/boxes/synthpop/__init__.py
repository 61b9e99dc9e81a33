"""Sequential classification and regression trees, as in the R package synthpop.

In: records and options (order, predictors, rules). Out: fitted trees, which hold codes of records in
their leaves.
"""
