"""The datasets on offer, as everybody may know them: public schema, policy, version. No record.

The public schema is a TOML file that people write, review and version:

title = "..."
description = "..."
declared_by = "..."
reviewed = false

[[attributes]]
name = "age"
edges = [0, 18, 65, 120]
missing = ["-8"]            # or true: only empty values are missing

[[attributes]]
name = "sex"
labels = ["female", "male"]

[[structural_zeros]]        # cells that cannot occur, by the names of their levels
clique = ["age", "sex"]
cells = [["[0, 18)", "male"]]
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from gencard.controller.policy.policy import Policy
from gencard.controller.settings.files import Section, Table, read_table, toml_text, validated
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCodingError, NotFoundError
from gencard.core.evaluation.material import NOTHING_DECLARED, Declared
from gencard.wire.codecs.schema_codec import coding_digest


@dataclass(frozen=True, slots=True)
class PublicSchema:
    """What everybody may know about a dataset, by declaration.

    Args:
        reviewed: A person has looked at every line; drafts are not reviewed.
        absent: Attribute -> values that stand for "missing" beside empty ones.
    """

    title: str
    description: str
    declared_by: str
    reviewed: bool
    coding: Coding
    absent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class _AttributeTable(Section):
    name: str
    description: str = ""
    labels: tuple[str, ...] | None = None
    edges: tuple[float, ...] | None = None
    integer: bool = False
    ordered: bool = False
    missing: bool | tuple[str, ...] = False

    def attribute(self) -> Attribute:
        missing = bool(self.missing)
        if (self.labels is None) == (self.edges is None):
            raise InvalidCodingError(attribute=self.name, problem="it needs either labels or edges")
        if self.labels is not None:
            labels = Labels(self.labels, self.integer, self.ordered, missing)
            return Attribute(self.name, labels, self.description)
        if self.integer or self.ordered:
            raise InvalidCodingError(
                attribute=self.name, problem="integer and ordered are allowed only with labels"
            )
        return Attribute(self.name, Edges(self.edges or (), missing), self.description)


class _ZerosTable(Section):
    clique: Clique
    cells: tuple[tuple[str, ...], ...]

    def zeros(self, coding: Coding) -> StructuralZeros:
        levels = [coding.attribute(name).coding.level_names for name in self.clique]
        return StructuralZeros(self.clique, tuple(self._codes(cell, levels) for cell in self.cells))

    def _codes(self, cell: tuple[str, ...], levels: list[tuple[str, ...]]) -> tuple[int, ...]:
        known = len(cell) == len(levels)
        if not known or any(name not in names for name, names in zip(cell, levels, strict=True)):
            raise InvalidCodingError(
                attribute=", ".join(self.clique), problem="a structural zero names an unknown level"
            )
        return tuple(names.index(name) for name, names in zip(cell, levels, strict=True))


class _SchemaTable(Section):
    title: str
    description: str = ""
    declared_by: str
    reviewed: bool = False
    attributes: tuple[_AttributeTable, ...] = Field(min_length=1)
    structural_zeros: tuple[_ZerosTable, ...] = ()


def read_schema(path: Path) -> PublicSchema:
    """The schema in a file.

    Raises:
        InvalidInputError: The file cannot be read, or a field is missing, unknown or of a wrong type.
        InvalidCodingError, InvalidDomainError: The fields do not make a coding.
    """
    return schema_of_table(read_table(path), path.name)


def schema_of_table(table: Table, file: str = "") -> PublicSchema:
    """The schema that a table describes, of a file that refusals name; raises as ``read_schema``."""
    entry = validated(_SchemaTable, table, file)
    plain = Coding(tuple(attribute.attribute() for attribute in entry.attributes))
    zeros = tuple(part.zeros(plain) for part in entry.structural_zeros)
    absent = {part.name: part.missing for part in entry.attributes if isinstance(part.missing, tuple)}
    return PublicSchema(
        title=entry.title,
        description=entry.description,
        declared_by=entry.declared_by,
        reviewed=entry.reviewed,
        coding=Coding(plain.attributes, zeros),
        absent={name: tokens for name, tokens in absent.items() if tokens},
    )


def table_of_schema(schema: PublicSchema) -> Table:
    """The inverse of ``schema_of_table``; also the JSON form in which jobs receive a schema."""
    attributes = schema.coding.attributes
    table: Table = {
        "title": schema.title,
        "description": schema.description,
        "declared_by": schema.declared_by,
        "reviewed": schema.reviewed,
        "attributes": [
            _attribute_table(attribute, schema.absent.get(attribute.name, ()))
            for attribute in attributes
        ],
    }
    if schema.coding.structural_zeros:
        table["structural_zeros"] = [
            _zeros_table(zeros, schema.coding) for zeros in schema.coding.structural_zeros
        ]
    return table


def schema_text(schema: PublicSchema) -> str:
    """The schema as TOML."""
    table = table_of_schema(schema)
    parts = [_lines({name: value for name, value in table.items() if not isinstance(value, list)})]
    for name in ("attributes", "structural_zeros"):
        parts += [f"[[{name}]]\n{_lines(entry)}" for entry in table.get(name, ())]
    return "\n".join(parts)


def _attribute_table(attribute: Attribute, absent: tuple[str, ...]) -> Table:
    table: Table = {"name": attribute.name}
    if attribute.description:
        table["description"] = attribute.description
    match attribute.coding:
        case Labels(labels, integer, ordered, missing):
            flags = {"integer": integer, "ordered": ordered}
            table |= {"labels": list(labels)} | {name: True for name, flag in flags.items() if flag}
        case Edges(edges, missing):
            table["edges"] = list(edges)
    if missing:
        table["missing"] = list(absent) or True
    return table


def _zeros_table(zeros: StructuralZeros, coding: Coding) -> Table:
    levels = [coding.attribute(name).coding.level_names for name in zeros.clique]
    cells = [[names[code] for names, code in zip(levels, cell, strict=True)] for cell in zeros.cells]
    return {"clique": list(zeros.clique), "cells": cells}


def _lines(table: Table) -> str:
    return "".join(f"{name} = {toml_text(value)}\n" for name, value in table.items())


PREFIX = "datasets/"


@dataclass(frozen=True, slots=True)
class Holdout:
    """Where the records lie, and their salted digest in hex."""

    data: Path
    version: str


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """One dataset on offer.

    Args:
        name: datasets/{dataset}.
        data: Where its records lie; only the vault opens it.
        version: Salted digest of the records, in hex.
        holdout: Other records under the same schema, that no release is made from, and their version.
        declared: What measures of cards are told.
    """

    name: str
    schema: PublicSchema
    policy: Policy
    data: Path
    version: str
    holdout: Holdout | None = None
    declared: Declared = NOTHING_DECLARED

    @property
    def domain(self) -> Domain:
        return self.schema.coding.domain

    @property
    def coding_digest(self) -> str:
        return coding_digest(self.schema.coding)


class Catalogue:
    """All datasets on offer, by name."""

    def __init__(self, catalogue: Iterable[DatasetEntry]) -> None:
        self._by_name = {
            dataset_entry.name: dataset_entry
            for dataset_entry in sorted(catalogue, key=lambda one: one.name)
        }

    def __iter__(self) -> Iterator[DatasetEntry]:
        return iter(self._by_name.values())

    def named(self, name: str) -> DatasetEntry:
        """Raises NotFoundError for a name that is not on offer."""
        if name not in self._by_name:
            raise NotFoundError
        return self._by_name[name]


def dataset_of(name: str) -> str:
    """The dataset that a resource below it belongs to.

    >>> dataset_of("datasets/census/cards/5f")
    'datasets/census'

    Raises:
        NotFoundError: The name is not below a dataset.
    """
    parts = name.split("/")
    if len(parts) < 2 or parts[0] != "datasets" or not all(parts):
        raise NotFoundError
    return "/".join(parts[:2])
