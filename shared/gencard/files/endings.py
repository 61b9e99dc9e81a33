"""Kinds of files of records, by the ending of their names."""

from pathlib import Path

TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".zip")
"""Lines of values with a delimiter; a ``.zip`` holds one such file."""

PARQUET = (".parquet",)

SHEETS = (".xlsx", ".xls", ".ods")
"""Workbooks with sheets."""

STATISTICS = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
"""Files of Stata, SPSS and SAS."""

ENDINGS = (*TEXT, *PARQUET, *SHEETS, *STATISTICS)

WRITTEN = (".csv", ".parquet", ".dta", ".sav", ".xlsx")
"""Files that rows are written to."""


def ending_of(path: Path) -> str:
    """The longest ending that is one of ``ENDINGS``, in lower case; empty if there is none.

    >>> [ending_of(Path(name)) for name in ("a.csv", "a.b.CSV.GZ", "a.gz", "a")]
    ['.csv', '.csv.gz', '', '']
    """
    name = path.name.lower()
    return max((ending for ending in ENDINGS if name.endswith(ending)), key=len, default="")
