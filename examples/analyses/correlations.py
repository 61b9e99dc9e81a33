"""Spearman's rank correlations of all columns."""

from gencard.run import output, records

frame = records().apply(lambda column: column.astype(str).astype(float))
output.table("rank correlations", frame.rank().corr())
