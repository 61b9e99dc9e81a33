"""Answers from marginals and sums: regressions, tables and tests, as on the records if psi is exact."""
