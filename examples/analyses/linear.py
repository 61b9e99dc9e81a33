"""Ordinary least squares with a formula."""

import statsmodels.formula.api as smf

from gencard.run import output, records

frame = records()
fit = smf.ols("affairs ~ rate_marriage + religious + educ", frame).fit()
output.coefficients("affairs", fit)
