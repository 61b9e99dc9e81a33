"""Kaplan-Meier on the declared years, with the number at risk beside each step."""

import pandas as pd

from gencard.run import output, records

frame = records()
event = frame["affairs"] > 0.01
years = frame["yrs_married"].astype(str).astype(float)
places = [float(label) for label in frame["yrs_married"].cat.categories]
at_risk = pd.Series([(years >= place).sum() for place in places], index=places)
events = pd.Series([(event & (years == place)).sum() for place in places], index=places)
survival = (1 - events / at_risk).cumprod()
output.curve(
    "no affair yet", pd.DataFrame({"survival": survival, "at_risk": at_risk}), at_risk="at_risk"
)
