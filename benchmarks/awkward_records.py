"""Made-up records on which engines could differ, and one undeclared value for each attribute.

Labels with quotes, backslashes, combining characters, text from right to left and signs of several code
points; numbers exactly at edges and next to them, as floats, decimals and texts; ages from dates of
birth, also of 29 February; instants beside midnight and the changes of daylight saving time, before 1970
too; missing values as NULL, as NaN and as marks.
"""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa

from gencard.controller.records.declarations import DeclaredScale
from gencard.core.coding import PLAIN, Attribute, Coding, Edges, Labels, Reading, days_of_date

_DAYS = tuple(float(days_of_date(dt.date(year, 1, 1))) for year in (1990, 2000, 2030))
_SEXES = ("f", "m'\\ü", "女 \U0001f642")
_WORDS = (
    "\u00e9",
    "e\u0301",  # the same to the eye
    "שלום",
    "\u200fעברית, العربية",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    'it\'s "so"; -- %s $1 {x} \\n',
    " spaces ",
    "İ",
    "1e3",
)


def _on_scale(
    step: str,
    edges: str,
    points: str = "",
    clamps: str = "",
    *,
    dates: bool = False,
    times: bool = False,
) -> Edges:
    numbers, single = (tuple(map(Decimal, one.split())) for one in (edges, points))
    above, below = "above" in clamps, "below" in clamps
    declared = DeclaredScale(Decimal(step), numbers, single, above=above, below=below, times=times)
    return declared.edges_of(missing=True, dates=dates)


_CENTS = _on_scale("0.01", "-1 0 0.05 1 100", "0 0.1 100", "above")
_QUARTERS = _on_scale("0.25", "-2 -0.5 1 2", clamps="below")
_DEBTS = _on_scale("0.25", "-5000.5 -1000 -99.75 -0.25", "-100", "above")
_WHOLE = _on_scale("5", "0 10 100", "10", "above below")
_SEEN = _on_scale("1", " ".join(str(int(day)) for day in _DAYS), clamps="above below", dates=True)
_LEFT = _on_scale("1", "-36524 0 15774 18262", "15774", dates=True)
_HOUR = _on_scale("1", "0 60 180 720 1440", "119 1439", times=True)
_AGED = _on_scale("1", "1 18 65", "18", "above below")
CODING = Coding(
    (
        Attribute("sex", Labels(_SEXES, missing=True)),
        Attribute("grade", Labels(("1", "2.5"), missing=True)),
        Attribute("age", Edges((0.0, 0.1, 18.0, 120.0), missing=True)),
        Attribute("day", Edges(_DAYS, missing=True, decimals=0, dates=True)),
        Attribute("born", Edges((0.0, 18.0, 65.0), missing=True, decimals=0)),
        Attribute("alive", Labels(("false", "true"), boolean=True)),
        Attribute("income", Edges((0.0, 1e3, 1e6), missing=True)),
        Attribute("city", Labels(("Zürich", "zürich", "other"))),
        Attribute("price", Edges((0.0, 0.01, 0.3, 1e3), missing=True, decimals=2)),
        Attribute("word", Labels(_WORDS, missing=True)),
        Attribute("cost", _CENTS),
        Attribute("paid", _CENTS),
        Attribute("fee", _CENTS),
        Attribute("rate", _QUARTERS),
        Attribute("count", _WHOLE),
        Attribute("seen", _SEEN),
        Attribute("aged", _AGED),
        Attribute("left", _LEFT),
        Attribute("left_at", _HOUR),
        Attribute("debt", _DEBTS),
    )
)
READINGS = {
    "sex": Reading(("?",)),
    "age": Reading(("-8",)),
    "born": Reading(age_at=dt.date(2001, 2, 28)),
    "city": Reading(other="other"),
    "paid": Reading(("-9",)),
    "aged": Reading(age_at=dt.date(2001, 2, 28)),
    "left": Reading(zone="America/New_York"),
    "left_at": Reading(zone="America/New_York", time_of="left"),
}
_LEFT_AT = (
    "2013-03-10T06:59:59.999999",  # 1:59:59 before the hour that does not exist
    "2013-03-10T07:00:00",
    "2013-11-03T05:30:00",  # both are 1:30
    "2013-11-03T06:30:00",
    "2013-03-10T04:59:59.7",
    "2013-03-10T05:00:00",
    "1969-12-31T23:59:59.5",
    "1970-01-01T05:00:00",
    "1950-07-01T03:59:59.999999",
    "1905-01-01T04:59:00.25",
)
"""Instants in UTC."""

_BORN = ("2000-02-28", "2000-02-29", "1983-02-28", "1983-03-01", "2002-02-27", "1935-03-01")
_OWED = "-5000.5 -5000.375 -999.875 -100.126 -100.125 -100 -99.875 -0.374 -0.25 0.000 12.345"
_HALVES = "-1 -0.004 -0.005 0 0.004 0.005 0.0149 0.045 0.1 0.105 1.005 2.675 99.994 99.995 1e6"
_AT_HALVES = _HALVES.split()
"""Values at halves of a cent and beside them."""

_VALUES = {
    "sex": pa.array([*_SEXES, "?", None]),
    "grade": pa.array([1.0, 2.5, np.nan, None]),
    "age": pa.array([0.0, -0.0, 0.1, np.nextafter(0.1, 0), 18.0, 120.0, -8.0, np.nan, None]),
    "day": pa.array([*map(dt.date.fromisoformat, ("1990-01-01", "1999-12-31", "2030-01-01")), None]),
    "born": pa.array([*map(dt.date.fromisoformat, _BORN), None]),
    "alive": pa.array([True, False]),
    "income": pa.array(["0", "1e3", " 999.999", "1e006", "5.\v", ".5", "1e-100", "NaN", None]),
    "city": pa.array(["Zürich", "zürich", "Zurich", "Bern"]),
    "price": pa.array([*map(Decimal, ("0.00", "0.01", "0.30", "0.29", "1000.00")), None]),
    "word": pa.array([*_WORDS, None]),
    "cost": pa.array([*map(float, _AT_HALVES), np.nan, None]),
    "paid": pa.array([*_AT_HALVES, "-9", "NaN", None]),
    "fee": pa.array([*(Decimal(one).quantize(Decimal("0.0001")) for one in _AT_HALVES), None]),
    "rate": pa.array(np.array([-9, -2.125, -0.5, -0.625, 0.1, 0.125, 1.9, np.nan], np.float32)),
    "count": pa.array([-7, 0, 2, 3, 7, 8, 10, 12, 13, 99, 10**9, None]),
    "seen": pa.array([*map(dt.date.fromisoformat, ("1234-05-06", "2000-01-01", "9999-12-31")), None]),
    "left": pa.array(
        [*(dt.datetime.fromisoformat(f"{one}+00:00") for one in _LEFT_AT), None],
        pa.timestamp("us", tz="UTC"),
    ),
    "aged": pa.array([*map(dt.date.fromisoformat, (*_BORN, "1700-01-01", "2050-01-01")), None]),
    "debt": pa.array([*map(Decimal, _OWED.split()), None], pa.decimal128(12, 3)),
}


def awkward(records: int) -> pa.Table:
    """Make records of ``CODING``, the same in every run."""
    random = np.random.default_rng(5)
    columns = {name: one.take(random.integers(len(one), size=records)) for name, one in _VALUES.items()}
    return pa.table(columns)


def with_undeclared(
    records: pa.Table, coding: Coding, readings: Mapping[str, Reading]
) -> tuple[pa.Table, tuple[str, ...]]:
    """The records with one undeclared value of each attribute that can have any, and these attributes.

    The values are as near to declared ones as their type allows, each in a record of its own.
    """
    domain = coding.domain
    names = tuple(
        one
        for one in domain.attributes
        if not (readings.get(one, PLAIN).other or readings.get(one, PLAIN).time_of)
        and not _takes_all(coding.attribute(one).coding)
    )
    for place, name in enumerate(names):
        column = records.column(name).combine_chunks()
        column = column.cast(_roomy(column.type))
        value = pa.array([_undeclared(column.type, coding.attribute(name).coding)], column.type)
        parts = [column[:place], value, column[place + 1 :]]
        records = records.set_column(records.column_names.index(name), name, pa.concat_arrays(parts))
    return records, names


def _takes_all(coding: Labels | Edges) -> bool:
    """Whether each number has a level."""
    scale = coding.scale if isinstance(coding, Edges) else None
    return scale is not None and scale.above and scale.below


def _roomy(kind: pa.DataType) -> pa.DataType:
    """A type with room for values that are not declared."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.int32() if pa.types.is_integer(kind) else kind


def _undeclared(kind: pa.DataType, coding: Labels | Edges) -> object:
    if pa.types.is_boolean(kind):
        return None
    if pa.types.is_temporal(kind):  # the instant: a day after the last one, in New York
        is_date = pa.types.is_date(kind)
        return dt.date(1800, 1, 1) if is_date else dt.datetime(2020, 1, 2, 5, tzinfo=dt.UTC)
    if pa.types.is_string(kind):
        return f"{coding.labels[0]}\u0301" if isinstance(coding, Labels) else "1_000"
    if isinstance(coding, Edges) and coding.scale is not None:
        step, (*_, last) = float(coding.scale.step), coding.edges
        number = coding.edges[0] - step if coding.scale.above else last + step
        return Decimal(str(round(number, 4))) if pa.types.is_decimal(kind) else number
    last = max(map(float, coding.labels)) if isinstance(coding, Labels) else coding.edges[-1]
    if pa.types.is_decimal(kind):
        return Decimal(str(last)) + Decimal("0.01")
    return int(last) + 1 if pa.types.is_integer(kind) else float(np.nextafter(last, np.inf))
