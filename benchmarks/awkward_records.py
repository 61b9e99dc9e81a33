"""Made-up records on which engines could differ, and one undeclared value for each attribute.

Labels with quotes, backslashes, combining characters, text from right to left and signs of several code
points; numbers exactly at edges and next to them, as floats, decimals and texts; ages from dates of
birth, also of 29 February; missing values as NULL, as NaN and as marks.
"""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa

from gencard.controller.records.encoding import PLAIN, Reading
from gencard.core.coding import Attribute, Coding, Edges, Labels, days_of_date

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
    )
)
READINGS = {
    "sex": Reading(("?",)),
    "age": Reading(("-8",)),
    "born": Reading(age_at=dt.date(2001, 2, 28)),
    "city": Reading(other="other"),
}
_BORN = ("2000-02-28", "2000-02-29", "1983-02-28", "1983-03-01", "2002-02-27", "1935-03-01")
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
}


def awkward(records: int) -> pa.Table:
    """So many records of ``CODING``, always the same."""
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
    names = tuple(one for one in domain.attributes if readings.get(one, PLAIN).other is None)
    for place, name in enumerate(names):
        column = records.column(name).combine_chunks()
        column = column.cast(_roomy(column.type))
        value = pa.array([_undeclared(column.type, coding.attribute(name).coding)], column.type)
        parts = [column[:place], value, column[place + 1 :]]
        records = records.set_column(records.column_names.index(name), name, pa.concat_arrays(parts))
    return records, names


def _roomy(kind: pa.DataType) -> pa.DataType:
    """A type with room for values that are not declared."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.int32() if pa.types.is_integer(kind) else kind


def _undeclared(kind: pa.DataType, coding: Labels | Edges) -> object:
    if pa.types.is_boolean(kind):
        return None
    if pa.types.is_date(kind):
        return dt.date(1800, 1, 1)
    if pa.types.is_string(kind):
        return f"{coding.labels[0]}\u0301" if isinstance(coding, Labels) else "1_000"
    last = max(map(float, coding.labels)) if isinstance(coding, Labels) else coding.edges[-1]
    if pa.types.is_decimal(kind):
        return Decimal(str(last)) + Decimal("0.01")
    return int(last) + 1 if pa.types.is_integer(kind) else float(np.nextafter(last, np.inf))
