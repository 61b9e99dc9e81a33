"""Stored values as codes, and as numbers on a scale, inside a database: expressions of Ibis.

Codes are CASE expressions, and those that ``records.encoding`` gives for a file with the same values.
"""

from calendar import isleap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import reduce
from itertools import pairwise
from math import ceil, floor, inf, isfinite
from operator import add, and_, or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import ibis
except ImportError:  # the extra ``ibis``, which opening a table names
    ibis = None

from gencard.controller.records.encoding import (
    TextEncoder,
    are_plain_days,
    encoder_of,
    without_offset,
    without_zone,
)
from gencard.core.coding import (
    PLAIN,
    Attribute,
    Coding,
    Derivation,
    Edges,
    Labels,
    Reading,
    date_of_days,
)
from gencard.core.errors import InvalidInputError, MissingAttributeError
from gencard.core.scale import Scale
from gencard.core.types import FloatArray
from gencard.core.values import (
    DAYS,
    EMPTY,
    EXACT,
    NUMBER,
    PLAIN_NUMBER,
    SPACES,
    WHOLE_NUMBER,
    number_of,
    plain_numbers,
)

UNDECLARED = -1

_DAY = timedelta(1)

_DIGITS = r"([0-9]{1,100}(\.[0-9]{0,100})?|\.[0-9]{1,100})([eE][+-]?[01]?[0-9]{1,2})?"
_NUMBER = f"^{SPACES}[+-]?{_DIGITS}{SPACES}$"
"""Texts that every engine reads as the same finite number. A CASE keeps the others from being read."""

_LONG = f"^{NUMBER.replace('([eE][+-]?[0-9]+)?', '')}$"
"""Texts of more digits, without an exponent; of ``MOST_DIGITS`` they are within the range of floats."""

_FAR = f"^{NUMBER.replace('([eE][+-]?[0-9]+)?', '[eE][+-]?[0-9]+')}$"
"""Texts that may be beyond the range of floats, which PostgreSQL refuses to read."""

_LOWEST, _HIGHEST = -323.6072, 308.2547
"""Decimal logarithms of half the least float, which is read as 0, and of the largest."""

_PLAIN, _MOST_PLAIN = r"^[+-]?[0-9]+\.?[0-9]*$", 100
"""Most texts of ``_NUMBER``, up to so long: PostgreSQL finds them 20 times as fast as by bounds."""

_Cases = list[tuple[Any, int]]


def code_of(column: Any, attribute: Attribute, reading: Reading) -> Any:
    """Return an expression for the code of a column's value; ``UNDECLARED`` if it has no level."""
    coding = attribute.coding
    absent = coding.size - 1 if coding.missing else UNDECLARED
    in_texts = isinstance(encoder_of(attribute, reading), TextEncoder)
    labels = coding.labels if isinstance(coding, Labels) else ()
    tests = absences(
        column,
        reading.absent,
        labels,
        as_text=isinstance(coding, Labels) and coding.text,
        empty=EMPTY not in labels and not (in_texts and reading.other is not None),
    )
    missing = [(test, absent) for test in tests]
    rest = UNDECLARED
    if isinstance(coding, Labels) and reading.other:
        rest = coding.labels.index(reading.other)
    match coding:
        case Labels() if in_texts:
            kind = column.type()
            if (kind.is_floating() or kind.is_decimal()) and reading.other is None:
                missing.append((as_number(column).isnan(), absent))
            cases = _of_texts(column, coding)
        case Edges() if is_of_dates(coding, reading):
            if is_float(column):
                missing.append((as_number(column).isnan(), absent))
            cases = _of_periods(as_date(column, attribute), coding, reading)
        case _:
            number = as_number(column, attribute)
            missing.append((number.isnan(), absent))
            cases = _of_numbers(number, coding)
    return ibis.cases(*missing, *cases, else_=rest).cast("int64")


def text_of(column: Any) -> Any:
    """Return values as text. Enums need a cast too: for Ibis they are text, for PostgreSQL not."""
    nullable = column.type().nullable
    # Workaround: Ibis leaves out a cast to the type that it assumes. "!string", a text that is never
    # NULL, is another type for Ibis and the same one for the database, so the cast is written.
    return column.cast("!string" if column.type().is_string() and nullable else "string")


def as_date(column: Any, attribute: Attribute) -> Any:
    """Return values as dates; on a scale, NULL for a value with a time of day, which has no zone."""
    if column.type().is_numeric():
        return compact_date(column)
    if not (column.type().is_date() or column.type().is_timestamp()):
        problem = (
            f"'{attribute.name}' must be stored as a date or as whole numbers YYYYMMDD in the table, or "
            "be cast to a date in a view"
        )
        raise InvalidInputError(field="data", problem=problem)
    day = column.cast("date")
    if column.type().is_timestamp() and are_plain_days(attribute.coding):
        return ibis.cases((is_timed(column), ibis.null("date")), else_=day)
    return day


def compact_date(column: Any) -> Any:
    """Whole numbers YYYYMMDD as dates, NULL for others."""
    number = column.cast("float64")
    whole = ibis.cases((number.between(*DAYS), number), else_=0.0).cast("int64")
    year, month, day = whole // 10_000, whole // 100 % 100, whole % 100
    is_leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    days = ibis.cases(
        (month.isin([4, 6, 9, 11]), 30), ((month == 2) & is_leap, 29), (month == 2, 28), else_=31
    )
    valid = (number == whole) & month.between(1, 12) & (day >= 1) & (day <= days)
    return ibis.cases((valid, ibis.date(year, month, day)), else_=ibis.null("date"))


def is_timed(column: Any) -> Any:
    """Return an expression for whether timestamps have a time of day."""
    return column != column.truncate("D")


def as_number(column: Any, attribute: Attribute | None = None) -> Any:
    """Return values as floats: NaN for the text NaN, infinity for texts that are no number.

    Args:
        attribute: If it has labels, whole numbers that equal a label only as floats are infinite.
    """
    coding = attribute.coding if attribute else None
    large = (
        [one for one in coding.labels if abs(float(one)) >= EXACT] if isinstance(coding, Labels) else ()
    )
    number = _number(column)
    if not large or is_float(column):
        return number
    text = text_of(column)
    other = text.re_search(f"^{WHOLE_NUMBER}$") & text.notin(large) & (number.abs() >= EXACT)
    return ibis.cases((other, ibis.literal(inf)), else_=number)


def is_float(column: Any) -> bool:
    """Whether values are numbers whose texts differ from engine to engine."""
    kind = column.type()
    return bool(kind.is_floating() or (kind.is_decimal() and kind.scale != 0))


def _number(column: Any) -> Any:
    if column.type().is_float32():  # 0.7 of half the digits is 0.7, and not 0.699999988
        return column.cast("string").cast("float64")
    if column.type().is_numeric():
        return column.cast("float64")
    text = text_of(column)
    nan = text.strip().lower().isin(["nan", "+nan", "-nan"])
    plain = (text.length() <= _MOST_PLAIN) & text.re_search(_PLAIN)
    tests = (plain, text.re_search(_NUMBER), text.re_search(_LONG))
    cases = [(test, text.cast("float64")) for test in tests]
    cases.append((text.re_search(_FAR), _far_number(text)))
    return ibis.cases(*cases, (nan, ibis.literal(float("nan"))), else_=ibis.literal(float("inf")))


def _far_number(text: Any) -> Any:
    """Texts with an exponent as floats: 0 below the range of floats, and infinite above it."""
    zero, infinite = ibis.literal(0.0), ibis.literal(inf)
    digits = text.re_replace("[eE].*$", "").cast("float64")
    exponent = text.re_extract("[eE][+]?(-?[0-9]+)", 1).cast("int64")
    size = digits.abs().log10() + exponent
    is_long = text.re_search("[eE][+-]?0*[1-9][0-9]{5,}")
    return ibis.cases(
        (digits == 0, zero),
        (is_long & text.re_search("[eE]-"), zero),
        (is_long, infinite),
        (size < _LOWEST, zero),
        (size > _HIGHEST, infinite),
        else_=text.cast("float64"),
    )


def is_of_dates(coding: Labels | Edges, reading: Reading) -> bool:
    """Whether a date is stored, of which days or ages count."""
    return isinstance(coding, Edges) and (coding.dates or reading.age_at is not None)


def value_of(column: Any, attribute: Attribute, reading: Reading) -> Any:
    """Return an expression that decides about the code, and about a person's records that count.

    A code if labels are compared as text; else a float, a date or, for dates without times that are
    stored as timestamps, a text; NULL if the value is missing.
    """
    if isinstance(encoder_of(attribute, reading), TextEncoder):
        return code_of(column, attribute, reading)
    value = stored_number(column, attribute, reading)
    if column.type().is_timestamp() and are_plain_days(attribute.coding):
        value = text_of(column)  # in which a time of day is not lost
    coding = attribute.coding
    labels = coding.labels if isinstance(coding, Labels) else ()
    absent = [(test, ibis.null(value.type())) for test in absences(column, reading.absent, labels)]
    return ibis.cases(*absent, else_=value)


def key_text(column: Any, name: str) -> Any:
    """Return an expression for a record's person."""
    kind = column.type()
    if not (kind.is_string() or kind.is_integer() or kind.is_uuid()):
        problem = f"'{name}' must be text, whole numbers or UUIDs, or be cast to text in a view"
        raise InvalidInputError(field="data", problem=problem)
    return column.cast("string")


def derived_code(codes: Sequence[Any], sizes: Sequence[int], derivation: Derivation) -> Any:
    """Return an expression for the code of a derived attribute, from the codes of its sources.

    ``UNDECLARED`` if the code of a source is.
    """
    cell: Any = 0
    for code, size in zip(codes, sizes, strict=True):
        cell = cell * size + code
    cells: dict[int, list[int]] = {}
    for number, level in enumerate(derivation.codes):
        cells.setdefault(level, []).append(number)
    largest = max(cells, key=lambda level: len(cells[level]))
    cases = [(cell.isin(inside), level) for level, inside in cells.items() if level != largest]
    undeclared = [(code == UNDECLARED, UNDECLARED) for code in codes]
    return ibis.cases(*undeclared, *cases, else_=largest).cast("int64")


def stored_number(column: Any, attribute: Attribute, reading: Reading) -> Any:
    """Return an expression for the uncoded value: a float, or a date for attributes of days or ages."""
    if is_of_dates(attribute.coding, reading):
        return as_date(column, attribute)
    return as_number(column, attribute)


def numbers_of_stored(values: NDArray[Any], attribute: Attribute, reading: Reading) -> FloatArray:
    """Values of ``stored_number`` that are declared -> numbers, days since 1970-01-01, or ages."""
    coding = attribute.coding
    if not isinstance(coding, Edges) or not is_of_dates(coding, reading):
        return values.astype(np.float64)
    days = values.astype("datetime64[D]")
    if reading.age_at is None:
        return days.astype(np.int64).astype(np.float64)
    low, high = ceil(coding.edges[0]), floor(coding.edges[-1])
    births = [np.datetime64(born_before(age, reading.age_at)) for age in range(high, low - 1, -1)]
    return high - np.searchsorted(np.array(births), days, side="right").astype(np.float64)


def born_before(age: int, day: date) -> date:
    """Return the date before which all people of at least this age on a day were born.

    As in DuckDB, a person born on 29 February is a year older on 28 February in years without 29
    February, and a person born in the year after the day is 0 years old.
    """
    if age <= 0:
        return _years_later(day, 1 - age)
    last = _years_later(day, -age)
    if (day.month, day.day) == (2, 28) and isleap(last.year) and not isleap(day.year):
        last = last.replace(day=29)
    return last + timedelta(1)


def _years_later(day: date, years: int) -> date:
    year = min(max(day.year + years, date.min.year), date.max.year)
    in_february = (day.month, day.day) == (2, 29) and not isleap(year)
    return day.replace(year=year, day=28 if in_february else day.day)


def absences(
    column: Any,
    tokens: Sequence[str],
    labels: Sequence[str] = (),
    *,
    as_text: bool = False,
    empty: bool = True,
) -> list[Any]:
    """Return tests of whether a value is missing; arguments are those of ``EngineColumn.absent``."""
    absent = column.isnull()
    if column.type().is_floating():  # for Spark, a float that is no number is NULL, too
        absent &= ~column.isnan().fill_null(False)
    tests = [absent]
    texts = [*tokens, *([EMPTY] if empty and column.type().is_string() else [])]
    if texts:
        tests.append(text_of(column).isin(texts))
    numbers = [number for token in tokens if (number := number_of(token)) is not None]
    if numbers and (column.type().is_numeric() or (column.type().is_string() and not as_text)):
        is_token = as_number(column).isin(numbers)
        tests.append(is_token & text_of(column).notin(labels) if labels else is_token)
    return tests


def _of_texts(column: Any, coding: Labels) -> _Cases:
    kind = column.type()
    places = plain_numbers(coding.labels, exact=not is_float(column))
    number = _number(column)
    if is_float(column):  # as text 1 is 1, 1.0 or 1.00, by engine and type
        return [(number == value, code) for value, code in places.items()]
    text = text_of(column)
    text = text.lower() if coding.boolean else text
    cases = [(text == label, code) for code, label in enumerate(coding.labels)]
    by_number = kind.is_numeric() or (kind.is_string() and not coding.text)
    if not (places and by_number):
        return cases
    inside = number.abs() < EXACT
    inside &= True if kind.is_numeric() else text.re_search(f"^{PLAIN_NUMBER}$")
    return [*cases, *((inside & (number == value), code) for value, code in places.items())]


def _of_numbers(value: Any, coding: Labels | Edges) -> _Cases:
    if isinstance(coding, Labels):
        return [(value == float(label), code) for code, label in enumerate(coding.labels)]
    edges = list(coding.edges)
    if coding.scale is not None:
        low, *highs = coding.scale.bounds(edges[:-1])
        # the first true case counts; infinity is no number, and has no level where values are clamped
        below = (value < low) if isfinite(low) else (value == -inf)
        return [(below, UNDECLARED), *((value < high, code) for code, high in enumerate(highs))]
    inner = [((value >= low) & (value < high), code) for code, (low, high) in enumerate(pairwise(edges))]
    return [*inner, (value == edges[-1], len(edges) - 2)]


def _of_periods(day: Any, coding: Edges, reading: Reading) -> _Cases:
    """Return levels of dates, or of ages by dates of birth; dates beyond are clamped if so declared."""
    last, scale, is_age = coding.size - coding.missing - 1, coding.scale, reading.age_at is not None
    cases: _Cases = []
    for code, (first_day, last_day) in enumerate(_periods(coding, reading)):
        beyond = [scale is not None and scale.below and code == 0]
        beyond.append(scale is not None and scale.above and code == last)
        no_first, no_end = reversed(beyond) if is_age else beyond  # who is older was born earlier
        tests = [] if no_first else [day >= first_day]
        tests += [] if no_end else [day <= last_day]
        cases.append((reduce(and_, tests, day.notnull()), code))
    return cases


def adjustments(column: Any, attribute: Attribute, reading: Reading) -> tuple[Any, Any, Any]:
    """Return tests of whether a value is rounded, is clamped from above, is clamped from below."""
    coding, never = attribute.coding, ibis.literal(False)
    scale = coding.scale if isinstance(coding, Edges) else None
    if scale is None or not isinstance(coding, Edges):
        return never, never, never
    if is_of_dates(coding, reading):
        day = as_date(column, attribute)
        periods = sorted(_periods(coding, reading))
        rounded, earlier, later = never, day < periods[0][0], day > periods[-1][1]
        above, below = (earlier, later) if reading.age_at is not None else (later, earlier)
    else:
        value = as_number(column)
        low, *_, high = replace(scale, above=False, below=False).bounds(coding.edges[:-1])
        over, under = map(float, scale.step.as_integer_ratio())
        finite = (value > -inf) & (value < inf)
        small = (value > -scale.largest) & (value < scale.largest)  # as whole numbers have 64 bits here
        divided = small & (value.abs() >= over / under / 4)  # in PostgreSQL, an underflow is an error
        steps = (ibis.cases((divided, value), else_=0.0) * under / over + 0.5).floor().cast("float64")
        rounded = small & (steps * over / under != value)
        above, below = finite & (value >= high), finite & (value < low)
    absent = reduce(or_, absences(column, reading.absent))
    tests = (rounded, above if scale.above else never, below if scale.below else never)
    return tuple(ibis.cases((absent, never), else_=test) for test in tests)


def _periods(coding: Edges, reading: Reading) -> Iterator[tuple[date, date]]:
    *inner, last = coding.edges
    if reading.age_at is None:
        starts = [date_of_days(edge) for edge in inner]
        # the day after the last one may lie behind the calendar
        yield from zip(starts, [*(day - _DAY for day in starts[1:]), date_of_days(last)], strict=True)
        return
    ages = [*map(ceil, inner), floor(last) + 1]  # as there are no other ages than whole ones
    for low, high in pairwise(ages):
        yield born_before(high, reading.age_at), born_before(low, reading.age_at) - _DAY


def in_zones(
    records: Any, coding: Coding, readings: Mapping[str, Reading], instants: Collection[str]
) -> tuple[Any, dict[str, Reading]]:
    """Return records with dates and minutes in place of ``instants``, and readings without zones."""
    local: dict[str, Any] = {}
    for name in coding.stored:
        reading = readings.get(name, PLAIN)
        column = reading.time_of or name
        if column not in records.columns:
            if column != name:  # a column that has the name of the time of day is another one
                raise MissingAttributeError(attribute=column)
            continue  # the table refuses it, with all others that are missing
        if reading.zone:
            if column not in instants:
                raise without_offset(name)
            if reading.absent:  # they are compared as texts, which instants of a table have not
                problem = f"'{name}' has a zone, so in a table only NULL is missing: missing = true"
                raise InvalidInputError(field="data", problem=problem)
            local[name] = _local(records[column], reading.zone, times=bool(reading.time_of))
        elif column in instants and are_plain_days(coding.attribute(name).coding):
            raise without_zone(name)
    plain = {name: replace(one, zone="", time_of="") for name, one in readings.items()}
    return (records.mutate(**local) if local else records), plain


def _local(instant: Any, zone: str, *, times: bool) -> Any:
    """Return the date of an instant, or its minutes since midnight, in a zone."""

    @ibis.udf.scalar.builtin(signature=(("string", "timestamp('UTC')"), "timestamp"))
    def timezone(zone, instant):  # type: ignore[no-untyped-def]
        """Convert an instant in PostgreSQL and DuckDB."""

    @ibis.udf.scalar.builtin(signature=(("timestamp", "string"), "timestamp"))
    def from_utc_timestamp(instant, zone):  # type: ignore[no-untyped-def]
        """Convert an instant in Spark, whose session is in UTC."""

    if instant.type().timezone is None:  # so Ibis has all timestamps of Spark
        local = from_utc_timestamp(instant, zone)
    else:
        local = timezone(zone, instant)
    if times:
        return local.hour().cast("int64") * 60 + local.minute().cast("int64")
    return local.cast("date")


# Numbers on a scale in whole units, and a hash of each record.
#
# The units are those of ``core.scale`` for the same values. Floats only compare values with halves of
# steps, as there; all that is added is whole, and wide enough for any number of records.


_WIDE = "decimal(38, 0)"
"""Products of units have 61 bits, and hashes 60, so that sums of 2^64 records fit."""

_POSTGRES = "postgres"  # name of a backend of Ibis
_ALL = 2**62  # records
_HEX_DIGITS = "0123456789abcdef"
_HASHED = 15  # hexadecimal digits, which 64 bits with a sign hold


def bounded_number(column: Any, attribute: Attribute, scale: Scale, reading: Reading) -> Any:
    """Return an expression of a value as a float between the edges: a value beyond counts as the edge.

    The value is not yet rounded. One without a level gives a number all the same, or NULL.
    """
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
    over, under = map(float, scale.step.as_integer_ratio())
    twice = steps.cast("float64") * 2.0
    low, high = ((twice + side) * over / (2 * under) for side in (-1.0, 1.0))
    unit = steps - scale.centre
    return ibis.cases((number < low, unit - 1), (number >= high, unit + 1), else_=unit)


def cell_of(unit: Any, starts: Sequence[int]) -> Any:
    """Return an expression of the cell of a unit, by halving; ``starts`` are first units, ascending."""

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
    """
    text = ibis.literal("|").join([table[name].cast("string") for name in table.columns])
    digests = computed_once(table.select(digest=_digest(text)))
    places = (digests.digest.substr(place, 1) for place in range(_HASHED))
    # Workaround: Ibis leaves out a cast to the type that it assumes, and "!int64" is another type for
    # it. In some databases the place has 32 bits, in which the products below would overflow.
    digits = (ibis.literal(_HEX_DIGITS).find(place).cast("!int64") for place in places)
    whole = reduce(add, (digit * 16**place for place, digit in enumerate(digits)))
    return digests.select(whole=whole).aggregate(sum=lambda own: total(own.whole))


def _digest(text: Any) -> Any:
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
