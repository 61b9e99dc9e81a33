"""Files on the analyst's side: folders, CSV, Parquet, data frames."""
