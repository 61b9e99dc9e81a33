"""Proportional hazards: years married until an affair, as far as a survey of one day can tell."""

import statsmodels.formula.api as smf

from gencard.run import output, records

frame = records()
frame["years"] = frame["yrs_married"].astype(str).astype(float)
frame["event"] = (frame["affairs"] > 0.01).astype(int)
model = smf.phreg("years ~ rate_marriage + religious", frame, status=frame["event"], ties="efron")
output.coefficients("hazard of an affair", model.fit())
