"""Undeclared values of the records with their counts, and the lines of the schema that declare them.

For the steward alone: this is where values leave the records, and only the steward's shell imports it.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from gencard.controller.base.files import Table
from gencard.controller.drafting.profiles import MOST_LABELS, in_order
from gencard.controller.drafting.units import rounded
from gencard.controller.records.declarations import declared_scale
from gencard.controller.records.encoding import encoder_of
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import OpenRecords
from gencard.controller.settings import DatasetTable
from gencard.core.coding import PLAIN, Attribute, Edges, Labels, Reading, date_of_days, days_of_date
from gencard.core.scale import DAY, shortest
from gencard.core.values import MARKS, NUMBER_MARKS, number_of, number_text

OTHER = "other"
"""Label proposed for all other values, if there are too many to list."""

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class UndeclaredValues:
    """The values of one attribute that have no level.

    Args:
        counts: Value -> number of records, the most frequent first; the empty text: empty values.
        mended: Keys of the attribute's table in the schema file, and their values that declare these.
        notes: Questions for the steward to decide.
    """

    attribute: str
    counts: Mapping[str, int]
    mended: Table
    notes: tuple[str, ...] = ()


def undeclared_values(
    entry: DatasetTable, schema: PublicSchema, *, holdout: bool = False
) -> list[UndeclaredValues]:
    """Return all values without a level, in the order of the schema; raises DatasetError."""
    place = entry.holdout if holdout and entry.holdout else entry.data
    attributes = [one for one in schema.coding.attributes if one.derivation is None]
    readings = [schema.readings.get(one.name, PLAIN) for one in attributes]
    if isinstance(place, TableAddress):
        from gencard.controller.records.databases import open_table  # noqa: PLC0415 - large libraries

        with open_table(place, place.secret(), schema.coding, schema.readings) as table:
            counted = [table.undeclared(one.name) for one in attributes]
        values = []
        for one, counts in zip(attributes, counted, strict=True):
            dates = isinstance(one.coding, Edges) and one.coding.dates
            values.append((counts, {text: _number_of(text, dates=dates) for text in counts}))
    else:
        with OpenRecords(place, entry.format.value, explains=True) as records:
            values = [_of_file(records, one, how) for one, how in zip(attributes, readings, strict=True)]
    listed = []
    for one, how, (counts, numbers) in zip(attributes, readings, values, strict=True):
        if counts:
            ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            own = {text: numbers[text] for text in ordered}
            listed.append(UndeclaredValues(one.name, ordered, *_mended(one, how, own)))
    return listed


_Counts = dict[str, int]
_Numbers = dict[str, float]


def _number_of(text: str, *, dates: bool) -> float:
    if dates:
        with suppress(ValueError):
            return float(days_of_date(date.fromisoformat(text[:10])))
    number = number_of(text)
    return math.inf if number is None else number


def _of_file(records: OpenRecords, attribute: Attribute, reading: Reading) -> tuple[_Counts, _Numbers]:
    (column,) = records.columns_named([reading.time_of or attribute.name])
    encoder = encoder_of(attribute, reading)
    query = f"SELECT coalesce({column.text}, ''), {encoder.expression(column)}, count(*)"
    numbers: _Numbers = {}
    counts: _Counts = {}
    for batch in records.batches(f"{query} FROM records GROUP BY 1, 2"):
        undeclared = ~encoder.declared(batch[1])
        for text, number, count in zip(*(part[undeclared] for part in batch), strict=True):
            numbers[text], counts[text] = float(number), counts.get(text, 0) + int(count)
    return counts, numbers


def _mended(
    attribute: Attribute, reading: Reading, numbers: Mapping[str, float]
) -> tuple[Table, tuple[str, ...]]:
    """Keys that declare the values, as far as guessed, and notes. Numbers are infinite for texts."""
    coding = attribute.coding
    absent = [text for text, number in numbers.items() if text and _is_mark(text, number, coding)]
    mended: Table = {"missing": [*reading.absent, *absent] or True} if absent or "" in numbers else {}
    rest = {text: number for text, number in numbers.items() if text and text not in absent}
    match coding:
        case Labels(boolean=True):
            return mended, _unreadable(list(rest), "truth value")
        case Labels(labels) if coding.text or None in map(number_of, labels):
            declaration, notes = _mended_labels(coding, list(rest))
            return mended | declaration, notes
    unreadable = [text for text, number in rest.items() if not math.isfinite(number)]
    finite = [number for number in rest.values() if math.isfinite(number)]
    is_date = isinstance(coding, Edges) and (coding.dates or reading.age_at is not None)
    kind = "date" if is_date else "number"
    if reading.zone:
        kind = "instant with an offset, such as 2013-01-01T05:15:00-05:00"
    elif isinstance(coding, Edges) and coding.dates and any(":" in text for text in unreadable):
        kind = "date: instants need a zone in the schema, and an offset in the records"
    notes = _unreadable(unreadable, kind)
    return mended | (_mended_numbers(coding, finite) if finite else {}), notes


def _is_mark(text: str, number: float, coding: Labels | Edges) -> bool:
    if text in MARKS:
        return True
    if isinstance(coding, Edges):
        return not coding.dates and coding.edges[0] >= 0 and number in NUMBER_MARKS
    return coding.by_value and min(map(float, coding.labels)) >= 0 and number in NUMBER_MARKS


def _unreadable(texts: list[str], kind: str) -> tuple[str, ...]:
    if not texts:
        return ()
    first = ", ".join(map(repr, texts[:_MOST_NAMED]))
    more = ", ..." if len(texts) > _MOST_NAMED else ""
    return (f"Not a {kind}: {first}{more}. Correct the records, or add it to missing.",)


def _mended_labels(coding: Labels, texts: list[str]) -> tuple[Table, tuple[str, ...]]:
    if not texts:
        return {}, ()
    if len(coding.labels) + len(texts) > MOST_LABELS:
        other_labels = [label for label in coding.labels if label != OTHER]
        note = f"{len(texts)} labels are missing: {OTHER!r} stands for all values that are not declared."
        return {"labels": [*other_labels, OTHER], "other": OTHER}, (note,)
    labels, known = in_order((*coding.labels, *texts))
    if coding.ordered and known:
        return {"labels": list(labels)}, ()
    notes = ("Move the new labels to their places in the order.",) if coding.ordered else ()
    return {"labels": [*coding.labels, *texts]}, notes


def _mended_numbers(coding: Labels | Edges, numbers: list[float]) -> Table:
    """Labels with these numbers; or edges that reach to round numbers, or whole months, beyond them."""
    if isinstance(coding, Labels):
        labels = {float(label): label for label in coding.labels}
        labels |= {number: number_text(number) for number in numbers}
        return {"labels": [labels[number] for number in sorted(labels)]}
    low, *middle, high = coding.edges
    if coding.times:
        low, high = 0.0, float(DAY)
    elif coding.dates:
        low = min([low, *(_month(number) for number in numbers)])
        high = max([high, *(_month(number, 1) - 1 for number in numbers if number > high)])
    else:
        low = min(low, rounded(min(numbers), math.floor))
        high = max(high, rounded(max(numbers), math.ceil))
    if coding.scale is not None:
        declared = declared_scale(coding, coding.scale)
        return declared.reaching(shortest(low), shortest(high)).keys(dates=coding.dates)
    if coding.dates:
        return {"dates": [date_of_days(day).isoformat() for day in (low, *middle, high)]}
    return {"edges": [int(edge) if edge.is_integer() else edge for edge in (low, *middle, high)]}


def _month(day: float, later: int = 0) -> float:
    first = date_of_days(day)
    months = first.year * 12 + first.month - 1 + later
    return float(days_of_date(date(months // 12, months % 12 + 1, 1)))
