"""Rows in files: CSV, and Parquet where pyarrow is installed; written in batches, read whole."""

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

from gencard.client.files.comma_separated import read_csv, write_csv
from gencard.client.files.folder import appearing
from gencard.client.files.numbers import Numbers
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError

_UNREADABLE = (OSError, ValueError, LookupError, NotImplementedError, OverflowError, MemoryError)
"""What readers raise at damaged files."""


def write_rows(dataset: Dataset, coding: Coding, path: Path, numbers: Numbers | None = None) -> None:
    """Write records with their labels; the file appears only once it is whole.

    "Missing" is an empty cell in CSV and null in Parquet.

    Args:
        numbers: Draws numbers inside the intervals, which go by their names where it is not given.

    Raises:
        InvalidInputError: Another ending than .csv or .parquet, or a place that cannot be written.
    """
    write = _parquet().write_parquet if _ending(path) == ".parquet" else write_csv
    with appearing(path) as part:
        write(dataset, coding, part, numbers)


def read_rows(path: Path, coding: Coding, domain: Domain) -> Dataset:
    """The codes behind a file that ``write_rows`` wrote, or any with the same labels or numbers.

    Raises:
        InvalidInputError: The file cannot be read, or has another ending than .csv or .parquet.
        DomainMismatchError, UndeclaredLevelError: It does not hold what the schema declares.
    """
    read = _parquet().read_parquet if _ending(path) == ".parquet" else read_csv
    try:
        dataset: Dataset = read(path, coding, domain)
    except (*_UNREADABLE, csv.Error):
        raise InvalidInputError(field="file", problem=f"cannot read {path}") from None
    return dataset


def is_parquet(path: Path) -> bool:
    """By the name; raises InvalidInputError where it is neither .csv nor .parquet."""
    return _ending(path) == ".parquet"


def parquet_problem(path: Path, again: Path) -> str | None:
    """What a Parquet file holds otherwise than the same rows written again; None where nothing."""
    try:
        problem: str | None = _parquet().difference(path, again)
    except _UNREADABLE:
        return "it cannot be read"
    return problem


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise InvalidInputError(field="file", problem="needs a name that ends in .csv or .parquet")
    return ending


def _parquet() -> Any:
    """The part that needs pyarrow.

    Raises:
        InvalidInputError: It is not installed.
    """
    try:
        return import_module("gencard.client.files.parquet")
    except ModuleNotFoundError:
        problem = "Parquet needs: pip install 'gencard[parquet]'"
        raise InvalidInputError(field="file", problem=problem) from None
