"""The data of a plot: mean rating over years married, with its interval and the records behind it."""

import pandas as pd

from gencard.run import output, records

frame = records()
frame["years"] = frame["yrs_married"].astype(str).astype(float)
groups = frame.groupby("years")["rate_marriage"].agg(["mean", "sem", "size"])
places = [float(label) for label in frame["yrs_married"].cat.categories]
groups = groups.reindex(places)
half = 1.96 * groups["sem"]
curve = pd.DataFrame(
    {"mean": groups["mean"], "low": groups["mean"] - half, "high": groups["mean"] + half}
)
output.curve("rating over years", curve.assign(records=groups["size"].fillna(0)), at_risk="records")
