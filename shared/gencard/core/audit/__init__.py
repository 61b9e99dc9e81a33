"""Audits of black boxes from their outputs alone: does a box use more of a dataset than Phi.

In: a black box and Phi. Out: a report with p-values, the marginals that leaked, and what the audit
could have missed.
"""
