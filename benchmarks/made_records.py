"""Made-up records of 15 attributes, as many as one likes, written in pieces: the records of ``engines``.

Labels with missing values and letters beyond ASCII, whole numbers, amounts with many zeros, numbers with
one decimal, numbers that are nearly all different, and dates. Record ``i`` is a function of ``i`` alone.
"""

from collections.abc import Iterator
from datetime import date
from itertools import combinations
from pathlib import Path

import duckdb

from gencard.core.coding import Attribute, Coding, Edges, Labels, days_of_date

PIECE = 2_500_000
"""Records in one file of a folder."""

PERSON = "person"

_TEXTS = 9
_WITH_MISSING = 3
_YEARS = range(2000, 2012)
_DAYS = tuple(float(days_of_date(date(year, 1, 1))) for year in range(2000, 2013, 2))


def _labels(k: int) -> Labels:
    return Labels(tuple(f"läge {level}" for level in range(3 + k)), missing=k < _WITH_MISSING)


CODING = Coding(
    (
        *(Attribute(f"text_{k}", _labels(k)) for k in range(_TEXTS)),
        Attribute("year", Labels(tuple(map(str, _YEARS)), ordered=True)),
        Attribute("age", Edges((0.0, 18.0, 30.0, 45.0, 60.0, 75.0, 120.0))),
        Attribute("income", Edges((0.0, 0.01, 1e3, 1e4, 1e5, 1e6, 1e7), missing=True)),
        Attribute("hours", Edges(tuple(map(float, range(0, 101, 10))))),
        Attribute("share", Edges((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))),
        Attribute("day", Edges(_DAYS, dates=True, decimals=0)),
    )
)

PAIRS = tuple(combinations(CODING.domain.attributes, 2))


def _text(k: int) -> str:
    text = f"'läge ' || (h{k} % {3 + k})"
    return f"CASE WHEN h{k} % 50 > 0 THEN {text} END" if k < _WITH_MISSING else text


_VALUES = {
    **{f"text_{k}": _text(k) for k in range(_TEXTS)},
    "year": f"CAST({_YEARS.start} + h9 % {len(_YEARS)} AS INTEGER)",
    "age": "CAST(h10 % 100 AS INTEGER)",
    "income": "CASE WHEN h11 % 20 > 0 THEN (h11 % 10000000) * least(h11 // 10000000 % 5, 1) / 1.0 END",
    "hours": "(h12 % 1000) / 10.0",
    "share": "CAST((h13 % 1000003) / 1000003.0 AS FLOAT)",
    "day": "DATE '2000-01-01' + CAST(h14 % 4380 AS INTEGER)",
}


def write(folder: Path, first: int, last: int, kind: str = "parquet", *, people: int = 0) -> None:
    """Records ``first`` to ``last``, in files of ``PIECE`` records.

    Args:
        kind: Or csv.
        people: Of so many, the column ``PERSON`` says whose each record is; 0 for no such column.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config={"threads": 2, "memory_limit": "512MiB"}) as engine:
        engine.execute("SET enable_progress_bar = false")
        for begin, end in _pieces(first, last):
            file = folder / f"{begin:010}.{kind}"
            engine.execute(f"COPY ({_records(begin, end, people)}) TO '{file}' (FORMAT {kind})")


def _pieces(first: int, last: int) -> Iterator[tuple[int, int]]:
    for begin in range(first, last, PIECE):
        yield begin, min(begin + PIECE, last)


def _records(first: int, last: int, people: int) -> str:
    hashes = ", ".join(f"hash(i * {len(_VALUES)} + {k}) AS h{k}" for k in range(len(_VALUES)))
    values = ", ".join(f"{value} AS {name}" for name, value in _VALUES.items())
    if people:
        hashes += ", hash(-1 - i) AS whose"
        values += f", CAST(whose % {people} AS BIGINT) AS {PERSON}"
    return f"SELECT {values} FROM (SELECT {hashes} FROM range({first}, {last}) r(i))"
