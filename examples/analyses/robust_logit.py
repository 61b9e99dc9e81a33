"""Logistic regression with standard errors that hold where the variance is another one (HC1)."""

import statsmodels.formula.api as smf

from gencard.run import output, records

frame = records()
frame["any"] = (frame["affairs"] > 0.01).astype(float)
fit = smf.logit("any ~ rate_marriage + religious + educ", frame).fit(disp=False, cov_type="HC1")
output.coefficients("any affair, robust", fit)
