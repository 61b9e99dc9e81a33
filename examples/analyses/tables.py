"""Two tables: how marriages are rated by religiousness, and the mean of the index of affairs."""

import pandas as pd

from gencard.run import output, records

frame = records()
output.table("rating by religiousness", pd.crosstab(frame["rate_marriage"], frame["religious"]))
by_children = frame.groupby("children", observed=False)["affairs"]
output.table("affairs by children", by_children.agg(["mean", "std", "size"]))
