"""MST and AIM: graphical models of noisy marginals that the box selects by itself.

In: records and a privacy budget. Out: rows drawn from the fitted model.
"""
