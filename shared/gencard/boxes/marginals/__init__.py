"""MST, AIM and PrivBayes: models of noisy marginals, each private by its own choices and noise.

In: records and a privacy budget. Out: a fitted model, from which rows are drawn without the records.
"""
