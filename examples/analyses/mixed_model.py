"""A linear model with a random intercept for each level of education."""

import statsmodels.formula.api as smf

from gencard.run import output, records

frame = records()
model = smf.mixedlm("rate_marriage ~ religious + affairs", frame, groups=frame["educ"])
output.coefficients("rating, random intercept by education", model.fit(reml=True))
