"""Numbers on a scale inside a database, in whole units, and a hash of each record: expressions of Ibis.

The units are those of ``core.scale`` for the same values. Floats only compare values with halves of
steps, as there; all that is added is whole, and wide enough for any number of records.
"""

from collections.abc import Sequence
from functools import reduce
from math import ceil, floor
from operator import add
from typing import Any

import numpy as np

from gencard.controller.records.tables.codes import as_date, as_number, born_before, is_of_dates
from gencard.core.coding import Attribute, Edges, Reading, date_of_days
from gencard.core.scale import Scale

_WIDE = "decimal(38, 0)"
"""Products of units have 61 bits, and hashes 60, so that sums of 2^64 records fit."""

_POSTGRES = "postgres"
"""Name of a backend of Ibis."""

_ALL = 2**62  # records
_DIGITS = "0123456789abcdef"
_HASHED = 15  # hexadecimal digits, which 64 bits with a sign hold


def bounded_number(column: Any, attribute: Attribute, scale: Scale, reading: Reading) -> Any:
    """Return an expression of a value as a float between the edges: a value beyond counts as the edge.

    The value is not yet rounded. One without a level gives a number all the same, or NULL.

    Raises:
        InvalidInputError: Values of the column's type cannot be read so.
    """
    import ibis  # noqa: PLC0415 - the extra ``ibis``

    coding = attribute.coding
    (first, _), last = scale.ends, scale.last
    low, high = map(float, scale.numbers(np.array([first, last])))
    if isinstance(coding, Edges) and is_of_dates(coding, reading):
        day = as_date(column, attribute)
        if reading.age_at is not None:
            ages = range(ceil(low), floor(high) + 1)
            cases = [(day >= born_before(age + 1, reading.age_at), float(age)) for age in ages]
            return ibis.cases(*cases, else_=float(ages[-1]))
        # before days are counted, as a database may have a date without end
        ends = [
            (day < date_of_days(low), date_of_days(low)),
            (day > date_of_days(high), date_of_days(high)),
        ]
        return ibis.cases(*ends, else_=day).epoch_days().cast("float64")
    number = as_number(column)
    near = (number.abs() < float(scale.step) / 4, 0.0)  # in PostgreSQL, an underflow is an error
    return ibis.cases((number < low, low), (number > high, high), near, else_=number)


def steps_about(number: Any, scale: Scale) -> Any:
    """Return an expression of a number of ``bounded_number`` in whole steps, off by one at most."""
    over, under = map(float, scale.step.as_integer_ratio())
    return (number * under / over + 0.5).floor().cast("int64")


def unit_of(number: Any, steps: Any, scale: Scale) -> Any:
    """Return an expression of the unit of a number of ``bounded_number``; see ``Scale.units``.

    Args:
        steps: Column of ``steps_about``; both halves beside it are compared with the number itself.
    """
    import ibis  # noqa: PLC0415 - the extra ``ibis``

    over, under = map(float, scale.step.as_integer_ratio())
    twice = steps.cast("float64") * 2.0
    low, high = ((twice + side) * over / (2 * under) for side in (-1.0, 1.0))
    unit = steps - scale.centre
    return ibis.cases((number < low, unit - 1), (number >= high, unit + 1), else_=unit)


def cell_of(unit: Any, starts: Sequence[int]) -> Any:
    """Return an expression of the cell that a unit lies in, by halving.

    Args:
        starts: First unit of each cell, ascending.
    """
    import ibis  # noqa: PLC0415 - the extra ``ibis``

    def among(begin: int, end: int) -> Any:
        if end - begin == 1:
            return ibis.literal(begin, "int64")
        middle = (begin + end) // 2
        return ibis.cases((unit < starts[middle], among(begin, middle)), else_=among(middle, end))

    return among(0, len(starts))


def computed_once(table: Any) -> Any:
    """Return the same records; columns that are used several times are computed once.

    PostgreSQL puts the expressions of an inner query in place of its columns, but not below a LIMIT.
    Other engines do not, and a LIMIT would keep them from computing in parallel.
    """
    return table.limit(_ALL) if table.get_backend().name == _POSTGRES else table


def total(whole: Any) -> Any:
    """Return an expression of the sum of whole numbers of 64 bits, which are added in 126 bits."""
    return whole.cast(_WIDE).sum().cast(_WIDE)


def sum_of_hashes(table: Any) -> Any:
    """Return a query for one whole number: the sum of hashes of 60 bits of all records.

    Two sets of records have the same sum by chance alone, if they differ. A hash is a part of the
    SHA-256 of the record's numbers as text, which no later version of an engine changes.

    Args:
        table: Table of whole numbers, never NULL.
    """
    import ibis  # noqa: PLC0415 - the extra ``ibis``

    text = ibis.literal("|").join([table[name].cast("string") for name in table.columns])
    digests = computed_once(table.select(digest=_digest(text)))
    places = (digests.digest.substr(place, 1) for place in range(_HASHED))
    # Workaround: Ibis leaves out a cast to the type that it assumes, and "!int64" is another type for
    # it. In some databases the place has 32 bits, in which the products below would overflow.
    digits = (ibis.literal(_DIGITS).find(place).cast("!int64") for place in places)
    whole = reduce(add, (digit * 16**place for place, digit in enumerate(digits)))
    return digests.select(whole=whole).aggregate(sum=lambda own: total(own.whole))


def _digest(text: Any) -> Any:
    """Return the SHA-256 of a text in hexadecimal digits."""
    import ibis  # noqa: PLC0415 - the extra ``ibis``

    @ibis.udf.scalar.builtin(signature=(("string", "string"), "binary"))
    def convert_to(text, encoding):  # type: ignore[no-untyped-def]
        """Return the bytes of a text in PostgreSQL."""

    @ibis.udf.scalar.builtin(signature=(("binary",), "binary"))
    def sha256(data):  # type: ignore[no-untyped-def]
        """Return the digest of bytes in PostgreSQL."""

    @ibis.udf.scalar.builtin(signature=(("binary", "string"), "string"))
    def encode(data, form):  # type: ignore[no-untyped-def]
        """Return bytes as text in PostgreSQL."""

    if text.get_backend().name != _POSTGRES:
        return text.hexdigest("sha256")
    return encode(sha256(convert_to(text, "UTF8")), "hex")
