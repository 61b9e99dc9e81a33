"""Files on the analyst's side: folders, CSV, Parquet, data frames.

In: codes and the schema. Out: files and frames with labels, numbers and dates, and the way back.
"""
