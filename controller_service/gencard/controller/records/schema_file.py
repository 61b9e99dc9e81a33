"""The public schema as a TOML file that people write, review and version.

title = "..."
description = "..."
declared_by = "..."
reviewed = false
records = 10_000            # the public number of records, as declared; it is not counted
person = "id"               # the column that identifies persons; it is no attribute
most_records = 3            # records of a person that count, chosen by a keyed hash; noise protects
persons

[[attributes]]
name = "age"
edges = [0, 18, 65, 120]    # integer = true: whole numbers; decimals = 2: such as 12.50
missing = ["-8"]            # or true: only empty values are missing

[[attributes]]
name = "interview"
dates = ["2019-01-01", "2019-07-01", "2019-12-31"]  # intervals of dates

[[attributes]]
name = "departure"
dates = ["2013-01-01", "2013-07-01", "2013-12-31"]
zone = "America/New_York"   # values are instants with an offset; their date is that in this zone

[[attributes]]
name = "departure_time"
time_of = "departure"       # the time of day of the same instants, in minutes; step = 1
edges = ["00:00", "06:00", "12:00", "18:00", "24:00"]

[[attributes]]
name = "expenditure"
edges = [0, 10, 100, 1_000, 10_000]
step = "0.01"               # values are multiples of it; others are rounded half up
points = [0]                # values that are levels of their own
above = "highest"           # larger values count as the last edge; below = "lowest" likewise
fine = "ten-a-decade"       # cells of the histogram: this word, a width, or a list of edges
fine_points = [12.5]        # values that are cells of their own in the histogram alone
drafted = "records"         # the edges were drafted from the records, and no person declared them

[[attributes]]
name = "birth"
age_at = "2019-12-31"       # stored are dates of birth; the attribute is the age on this day
edges = [0, 18, 65, 120]

[[attributes]]
name = "sex"
labels = ["female", "male"]

[[attributes]]
name = "occupation"
labels = ["farmer", "teacher", "other"]
other = "other"             # the level of all values that are not declared
groups = { "manual" = ["farmer"], "office" = ["teacher"] }  # the level above the labels, for readers

[[attributes]]
name = "region"
labels = ["01", "02", "1"]
text = true                 # compared as text: 01 and 1 are two labels

[[structural_zeros]]        # cells that cannot occur, by the names of their levels
clique = ["age", "sex"]
cells = [["[0, 18)", "male"]]
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from gencard.controller.base.files import Section, Table, read_text, table_of_text, validated
from gencard.controller.records import declarations
from gencard.controller.records.encoding import zones
from gencard.controller.records.source import Persons
from gencard.core.card.budget import MOST_RECORDS
from gencard.core.coding import (
    PLAIN,
    Attribute,
    Coding,
    Edges,
    Labels,
    Reading,
    StructuralZeros,
    date_of_days,
    days_of_date,
    minutes_of_time,
    time_text,
)
from gencard.core.domain import Clique
from gencard.core.errors import InvalidCodingError, InvalidInputError
from gencard.core.scale import DAY, Scale, shortest

Groups = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PublicSchema:
    """Public facts about a dataset, by declaration.

    Args:
        reviewed: Whether a person has reviewed every line; drafts are not reviewed.
        readings: How values of an attribute become levels, beyond labels and edges; by attribute.
        records: Declared number of records; None if it is not declared.
        groups: Attribute -> names of groups of its labels -> labels; each in at most one group.
        most_records: Number of records of a person that count; 0 if each record is a person of its own.
    """

    title: str
    description: str
    declared_by: str
    reviewed: bool
    coding: Coding
    readings: Mapping[str, Reading] = field(default_factory=dict)
    records: int | None = None
    groups: Mapping[str, Groups] = field(default_factory=dict)
    person: str = ""
    most_records: int = 0

    def persons(self, salt: bytes = b"") -> Persons | None:
        """Return the persons of records; the dataset's salt decides which records of a person count."""
        return Persons.of(self.person, self.most_records, salt) if self.person else None


PLACEHOLDER = "Say what this is, where it comes from, and under which terms."
"""Description in drafts of earlier versions; it is not published."""

UNDECLARED = "nobody yet"
"""Value of ``declared_by`` in a draft."""


def _minutes(value: object) -> Decimal:
    with suppress(ValueError):
        return Decimal(DAY if value == time_text(DAY) else minutes_of_time(str(value)))
    raise PydanticCustomError("time_of_day", "no time of day")


def _number(value: object) -> Decimal:
    """Return the number that a file states: a float as its shortest decimal, a date as its day."""
    if isinstance(value, date):
        return Decimal(days_of_date(value))
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(InvalidOperation):
            return Decimal(str(value))
        with suppress(ValueError):
            return Decimal(days_of_date(date.fromisoformat(str(value))))
    raise PydanticCustomError("float_type", "no number")


def _numbers(values: object, info: ValidationInfo) -> tuple[Decimal, ...]:
    """Return the numbers of a list; times of day if the attribute is one of times."""
    if not isinstance(values, list | tuple):
        raise PydanticCustomError("tuple_type", "no list")
    return tuple(map(_minutes if info.data.get("time_of") else _number, values))


def _edges(values: object, info: ValidationInfo) -> object:
    if info.data.get("time_of") and values is not None:
        return _numbers(values, info)
    if isinstance(values, list | tuple) and any(":" in one for one in values if isinstance(one, str)):
        raise PydanticCustomError("time_without_source", "times of day of nothing")
    return values


def _fine(value: object, info: ValidationInfo) -> declarations.Fine:
    if value == declarations.TEN_A_DECADE:
        return declarations.TEN_A_DECADE
    return _numbers(value, info) if isinstance(value, list | tuple) else _number(value)


Numbers = Annotated[tuple[Decimal, ...], BeforeValidator(_numbers)]


class _AttributeTable(declarations.DerivedTable):
    name: str
    description: str = ""
    time_of: str | None = None  # before edges, which are times of day beside it
    zone: str | None = None
    labels: tuple[str, ...] | None = None
    edges: Annotated[tuple[float, ...] | None, BeforeValidator(_edges)] = None
    dates: tuple[date, ...] | None = None
    integer: bool = False
    decimals: int | None = None
    ordered: bool = False
    boolean: bool = False
    text: bool = False
    age_at: date | None = None
    other: str | None = None
    missing: bool | tuple[str, ...] = False
    groups: Groups = Field(default_factory=dict)
    step: Annotated[Decimal, BeforeValidator(_number)] | None = None
    points: Numbers | None = None
    fine: Annotated[Any, BeforeValidator(_fine)] = None
    fine_points: Numbers | None = None
    above: Literal["highest"] | None = None
    below: Literal["lowest"] | None = None
    drafted: Literal["records"] | None = None

    @property
    def is_derived(self) -> bool:
        return bool(self.of or self.compare or self.sources) or not self.any is self.number is None

    def attribute(self, stored: Coding | None = None) -> Attribute:
        """Return the attribute, derived from stored attributes if its table says so."""
        # zone and time of day must not contradict the other keys
        zoned, timed = self.zone is not None, self.time_of is not None
        if self.is_derived and (zoned or timed):
            raise self._refusal("zone and time_of are not allowed with a derived attribute")
        if timed and (self.edges is None or zoned):
            raise self._refusal("time_of needs edges of times of day, and has the zone of its source")
        if timed and self.age_at is not None:
            raise self._refusal("time_of and age_at are two ways to read a value: leave one out")
        if zoned and self.dates is None:
            raise self._refusal("zone is allowed only with dates, whose values are instants")
        if zoned and self.zone not in zones():
            problem = "zone is not a name of the IANA database of zones, such as America/New_York"
            raise self._refusal(problem)
        given = [part for part in (self.labels, self.edges, self.dates) if part is not None]
        if len(given) > 1:
            raise self._refusal("it needs either labels, edges or dates")
        coding: Labels | Edges | None = None
        if given:
            coding = self._intervals() if self.labels is None else self._labels(self.labels)
        if self.is_derived and stored is not None:
            derived = self.derived(self.name, stored, coding, self.other, missing=bool(self.missing))
            return replace(derived, description=self.description)
        if coding is None:
            raise self._refusal("it needs either labels, edges or dates")
        return Attribute(self.name, coding, self.description, drafted=self.drafted or "")

    def _labels(self, labels: tuple[str, ...]) -> Labels:
        if self.decimals is not None or self.age_at is not None:
            raise self._refusal("decimals and age_at are allowed only with edges")
        if stated := self._stated_of_scale():
            raise self._refusal(f"{stated[0]} is allowed only with edges or dates")
        if self.other is not None and self.other not in labels:
            raise self._refusal("other must be one of the labels")
        grouped = [label for members in self.groups.values() for label in members]
        if not set(grouped) <= set(labels) or len(set(grouped)) < len(grouped):
            raise self._refusal("groups must hold declared labels, each at most once")
        missing = bool(self.missing)
        return Labels(labels, self.integer, self.ordered, missing, self.boolean, self.text)

    def _intervals(self) -> Edges:
        if self.ordered or self.boolean or self.text or self.other is not None or self.groups:
            raise self._refusal("ordered, boolean, text, other and groups are allowed only with labels")
        missing = bool(self.missing)
        if self.dates is not None:
            if self.age_at is not None or self.integer or self.decimals is not None:
                raise self._refusal("integer, decimals and age_at are allowed only with edges")
            edges = tuple(float(days_of_date(day)) for day in self.dates)
            return self._on_scale(edges) or Edges(edges, missing, 0, dates=True)
        whole = self.integer or self.age_at is not None
        if whole and self.decimals:
            raise self._refusal("whole numbers have no decimals")
        edges = self.edges or ()
        return self._on_scale(edges) or Edges(edges, missing, 0 if whole else self.decimals)

    def _stated_of_scale(self) -> list[str]:
        names = ("step", "points", "fine", "fine_points", "above", "below")
        return [name for name in names if getattr(self, name) is not None]

    def _on_scale(self, edges: tuple[float, ...]) -> Edges | None:
        """Return the levels on a scale; None if no step is stated."""
        step = self.step
        if step is None and (self.zone is not None or self.time_of is not None):
            step = Decimal(1)  # no earlier schema has a zone
        if step is None:
            if stated := self._stated_of_scale():
                raise self._refusal(f"{stated[0]} needs a step, such as step = 1 for whole numbers")
            return None
        if self.is_derived:
            raise self._refusal("a derived attribute has the step of its source")
        if self.integer or self.decimals is not None:
            raise self._refusal("the step says how values are written: leave out integer and decimals")
        dates, times = self.dates is not None, self.time_of is not None
        if (dates or self.age_at is not None) and step != 1:
            raise self._refusal("the step of dates and ages is 1")
        points, fine_points = self.points or (), self.fine_points or ()
        flags = (self.above is not None, self.below is not None, times)
        in_edges = tuple(map(shortest, edges))
        declared = declarations.DeclaredScale(step, in_edges, points, self.fine, fine_points, *flags)
        try:
            return declared.edges_of(missing=bool(self.missing), dates=dates)
        except ValueError as error:
            problem = str(error)
        raise self._refusal(problem)

    def reading(self, zone: str) -> Reading:
        absent = self.missing if isinstance(self.missing, tuple) else ()
        return Reading(absent, self.age_at, self.other, zone, self.time_of or "")

    def _refusal(self, problem: str) -> InvalidCodingError:
        return InvalidCodingError(attribute=self.name, problem=problem)


class _ZerosTable(Section):
    clique: Clique
    cells: tuple[tuple[str, ...], ...]

    def zeros(self, coding: Coding) -> StructuralZeros:
        levels = [coding.attribute(name).coding.level_names for name in self.clique]
        cells = []
        for cell in self.cells:
            known = len(cell) == len(levels)
            if not known or any(name not in names for name, names in zip(cell, levels, strict=True)):
                problem = "a structural zero names an unknown level"
                raise InvalidCodingError(attribute=", ".join(self.clique), problem=problem)
            cells.append(tuple(names.index(name) for name, names in zip(cell, levels, strict=True)))
        return StructuralZeros(self.clique, tuple(cells))


class _SchemaTable(Section):
    title: str
    description: str = ""
    declared_by: str
    reviewed: bool = False
    records: int | None = Field(default=None, ge=1)
    person: str = ""
    most_records: int = Field(default=0, ge=0, le=MOST_RECORDS)
    attributes: tuple[_AttributeTable, ...] = Field(min_length=1)
    structural_zeros: tuple[_ZerosTable, ...] = ()

    def coding(self) -> Coding:
        tables = self.attributes
        stored_coding = Coding(tuple(one.attribute() for one in tables if not one.is_derived))
        plain = Coding(tuple(one.attribute(stored_coding) for one in tables))
        of_persons = [one for one in plain.attributes if one.derivation and one.derivation.per_person]
        if of_persons and self.most_records != 1:
            problem = "is an attribute of persons, so each person must be one row: set most_records = 1"
            raise InvalidCodingError(attribute=of_persons[0].name, problem=problem)
        return Coding(plain.attributes, tuple(part.zeros(plain) for part in self.structural_zeros))

    def zone_of(self, attribute: _AttributeTable) -> str:
        source = attribute.time_of or attribute.name
        return next((one.zone or "" for one in self.attributes if one.name == source), "")

    def check_times(self) -> None:
        """Raise InvalidCodingError if a time of day belongs to no instants."""
        names = {one.name for one in self.attributes}
        for one in self.attributes:
            if one.time_of is not None and one.time_of not in names:
                problem = "time_of names an attribute that the schema does not have"
                raise InvalidCodingError(attribute=one.name, problem=problem)
            if one.time_of is not None and not self.zone_of(one):
                problem = f"time_of names '{one.time_of}', which has no zone"
                raise InvalidCodingError(attribute=one.name, problem=problem)


def read_schema(path: Path) -> PublicSchema:
    """Return the schema in a file; raises InvalidInputError, InvalidCodingError, InvalidDomainError."""
    return schema_of_text(read_text(path), path.name)


def schema_of_text(text: str, file: str) -> PublicSchema:
    """Return the schema in the text of a file; errors say in which line the attribute begins."""
    table = table_of_text(text, file)
    try:
        return schema_of_table(table, file)
    except InvalidCodingError as error:
        name, problem = error.fields["attribute"], error.fields["problem"]
        place = _line_of(text, name)
        refusal: InvalidInputError = error
        if place:
            refusal = InvalidCodingError(attribute=name, problem=f"{problem} ({file}, line {place})")
    except InvalidInputError as error:
        refusal = error
        entry = re.fullmatch(
            rf"{re.escape(file)}: attributes\.([0-9]+)\.(.+)", error.fields.get("field", "")
        )
        if entry is not None:  # name and line in place of the attribute's number
            name = str(table["attributes"][int(entry[1])].get("name", ""))
            place = _line_of(text, name)
            where = f"{file}, line {place}" if place else file
            field = f"{where}: {name}.{entry[2]}"
            refusal = InvalidInputError(field=field, problem=error.fields["problem"])
    raise refusal


def place_of(path: Path, name: str) -> str:
    """Return the file of a schema and the line in which the attribute begins, in words."""
    line = _line_of(read_text(path), name)
    return f"{path.name}, line {line}" if line else path.name


def _line_of(text: str, name: str) -> int:
    """Return the line in which the table of an attribute states its name; 0 if there is none."""
    pattern = re.compile(r"""\s*name\s*=\s*(?P<mark>["'])(?P<name>.*)(?P=mark)\s*(#.*)?""")
    lines = enumerate(text.splitlines(), 1)
    return next((at for at, line in lines if (it := pattern.fullmatch(line)) and it["name"] == name), 0)


def schema_of_table(table: Table, file: str = "") -> PublicSchema:
    """Return the schema of a table; errors name its file; raises as ``read_schema``."""
    entry = validated(_SchemaTable, table, file)
    one_alone = bool(entry.person) != bool(entry.most_records)
    if one_alone or entry.person in {part.name for part in entry.attributes}:
        problem = (
            "identifies the person of a record: it must not be an attribute, and needs most_records"
        )
        raise InvalidCodingError(attribute=entry.person or "person", problem=problem)
    coding = entry.coding()
    entry.check_times()
    readings = {
        part.name: part.reading(entry.zone_of(part)) for part in entry.attributes if not part.is_derived
    }
    return PublicSchema(
        title=entry.title,
        description="" if entry.description == PLACEHOLDER else entry.description,
        declared_by=entry.declared_by,
        reviewed=entry.reviewed,
        coding=coding,
        readings={name: reading for name, reading in readings.items() if reading != PLAIN},
        records=entry.records,
        groups={part.name: part.groups for part in entry.attributes if part.groups},
        person=entry.person,
        most_records=entry.most_records,
    )


def table_of_schema(schema: PublicSchema) -> Table:
    """Return the inverse of ``schema_of_table``; also the JSON form in which jobs receive a schema."""
    readings = schema.readings
    table: Table = {
        "title": schema.title,
        "description": schema.description,
        "declared_by": schema.declared_by,
        "reviewed": schema.reviewed,
        **({} if schema.records is None else {"records": schema.records}),
        **({"person": schema.person, "most_records": schema.most_records} if schema.person else {}),
        "attributes": [
            _attribute_table(one, readings.get(one.name, PLAIN), schema.groups.get(one.name, {}))
            for one in schema.coding.attributes
        ],
    }
    levels = {one.name: one.coding.level_names for one in schema.coding.attributes}
    for zeros in schema.coding.structural_zeros:
        names = [levels[name] for name in zeros.clique]
        cells = [[own[code] for own, code in zip(names, cell, strict=True)] for cell in zeros.cells]
        entry = {"clique": list(zeros.clique), "cells": cells}
        table.setdefault("structural_zeros", []).append(entry)
    return table


def _attribute_table(attribute: Attribute, reading: Reading, groups: Groups) -> Table:
    table: Table = {"name": attribute.name}
    if attribute.description:
        table["description"] = attribute.description
    match attribute.coding:
        case Labels(labels, integer, ordered, missing, boolean, text):
            flags = {"integer": integer, "ordered": ordered, "boolean": boolean, "text": text}
            table |= {"labels": list(labels)} | {name: True for name, flag in flags.items() if flag}
            table |= {"other": reading.other} if reading.other else {}
        case Edges(missing=missing, scale=Scale() as scale):
            coding = attribute.coding
            table |= declarations.declared_scale(coding, scale).keys(dates=coding.dates)
            zone = {"time_of": reading.time_of} if reading.time_of else {"zone": reading.zone}
            table |= zone if reading.zone else {}
            table |= {} if reading.age_at is None else {"age_at": reading.age_at.isoformat()}
        case Edges(edges, missing, dates=True):
            table["dates"] = [date_of_days(day).isoformat() for day in edges]
        case Edges(edges, missing, decimals) if reading.age_at is not None:
            table |= {"age_at": reading.age_at.isoformat(), "edges": list(map(int, edges))}
        case Edges(edges, missing, decimals=0):
            table |= {"edges": list(map(int, edges)), "integer": True}
        case Edges(edges, missing, decimals):
            table |= {"edges": list(edges)} | ({} if decimals is None else {"decimals": decimals})
    if (how := attribute.derivation) is not None:
        table |= {"sources": list(how.sources), "codes": list(how.codes)}
        table |= {"per_person": True} if how.per_person else {}
    if missing:
        table["missing"] = list(reading.absent) or True
    table |= {"drafted": attribute.drafted} if attribute.drafted else {}
    table |= {"groups": {name: list(labels) for name, labels in groups.items()}} if groups else {}
    return table
