"""The public schema: core values <-> messages and documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.derivation import Derivation
from gencard.core.errors import InvalidInputError
from gencard.v1 import catalog_pb2 as pb
from gencard.v1 import common_pb2 as common
from gencard.wire.signatures.canonical import Document, digest_of, integer_of, text_of, texts_of


@dataclass(frozen=True, slots=True)
class DeclaredAttribute:
    """One attribute of the public schema, with what is declared of its values besides the levels.

    Args:
        absent: Values that stand for "missing", besides empty ones.
        age_at: Values are dates of birth, and the level is that of the age on this day.
        other: The label of all values that are not declared.
        groups: The level above the labels: names of groups -> labels.
    """

    attribute: Attribute
    absent: tuple[str, ...] = ()
    age_at: date | None = None
    other: str | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.attribute.name

    @property
    def type(self) -> str:
        """Integer, decimal, date, boolean, ordered or nominal, with what qualifies it."""
        how = self.attribute.derivation
        per_person = ", per person" if how is not None and how.per_person else ""
        derived = "" if how is None else f", derived from {', '.join(how.sources)}{per_person}"
        return f"{self._type_of_values}{derived}"

    @property
    def _type_of_values(self) -> str:
        coding = self.attribute.coding
        if isinstance(coding, Edges):
            return self._type_of_edges(coding)
        if coding.boolean:
            return "boolean"
        if coding.ordered:
            return "integer" if coding.integer else "ordered"
        return "nominal" if self.other is None else f"nominal, others are '{self.other}'"

    def _type_of_edges(self, coding: Edges) -> str:
        if coding.dates:
            return "date"
        if self.age_at is not None:
            return f"integer, age on {self.age_at.isoformat()}"
        if coding.decimals == 0:
            return "integer"
        return "decimal" if coding.decimals is None else f"decimal, {coding.decimals} places"

    @property
    def missing(self) -> str:
        """Which values are missing; empty where none may be."""
        return ", ".join(("empty", *self.absent)) if self.attribute.coding.missing else ""

    @property
    def groups_text(self) -> str:
        """The groups in one line."""
        return "; ".join(f"{name}: {', '.join(labels)}" for name, labels in self.groups.items())


def attribute_message(attribute: Attribute) -> pb.Attribute:
    message = pb.Attribute(name=attribute.name, description=attribute.description)
    if (how := attribute.derivation) is not None:
        derivation = pb.Derivation(sources=how.sources, codes=how.codes, per_person=how.per_person)
        message.derivation.CopyFrom(derivation)
    match attribute.coding:
        case Labels(labels, integer, ordered, missing, boolean):
            message.labels.CopyFrom(
                pb.Labels(
                    labels=labels, integer=integer, ordered=ordered, missing=missing, boolean=boolean
                )
            )
        case Edges(edges, missing, decimals, dates):
            message.edges.CopyFrom(
                pb.Edges(edges=edges, missing=missing, decimals=decimals, dates=dates)
            )
    return message


def attribute_of(message: pb.Attribute) -> Attribute:
    """Raises InvalidInputError or InvalidCodingError where the message holds no attribute."""
    coding: Labels | Edges
    if message.HasField("labels"):
        labels = message.labels
        coding = Labels(
            tuple(labels.labels), labels.integer, labels.ordered, labels.missing, labels.boolean
        )
    elif message.HasField("edges"):
        edges = message.edges
        decimals = edges.decimals if edges.HasField("decimals") else None
        coding = Edges(tuple(edges.edges), edges.missing, decimals, edges.dates)
    else:
        raise InvalidInputError(field="attribute.coding", problem="is missing")
    how, derivation = message.derivation, None
    if message.HasField("derivation"):
        derivation = Derivation(tuple(how.sources), tuple(how.codes), how.per_person)
    return Attribute(message.name, coding, message.description, derivation)


def declared_message(declared: DeclaredAttribute) -> pb.Attribute:
    """The message of an attribute in the catalogue."""
    message = attribute_message(declared.attribute)
    age_at = "" if declared.age_at is None else declared.age_at.isoformat()
    reading = pb.Reading(absent=declared.absent, age_at=age_at, other=declared.other or "")
    if reading.ByteSize():
        message.reading.CopyFrom(reading)
    groups = declared.groups.items()
    message.groups.extend(pb.LabelGroup(name=name, labels=labels) for name, labels in groups)
    return message


def declared_of(message: pb.Attribute) -> DeclaredAttribute:
    """Raises InvalidInputError or InvalidCodingError where the message holds no attribute."""
    reading = message.reading
    return DeclaredAttribute(
        attribute_of(message),
        absent=tuple(reading.absent),
        age_at=_date_of(reading.age_at),
        other=reading.other or None,
        groups={group.name: tuple(group.labels) for group in message.groups},
    )


def _date_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInputError(field="attribute.reading.age_at", problem="is not a date") from None


def zeros_message(zeros: StructuralZeros) -> pb.StructuralZeros:
    return pb.StructuralZeros(
        clique=common.Clique(attributes=zeros.clique),
        cells=[pb.Cell(codes=cell) for cell in zeros.cells],
    )


def zeros_of(message: pb.StructuralZeros) -> StructuralZeros:
    return StructuralZeros(
        tuple(message.clique.attributes), tuple(tuple(cell.codes) for cell in message.cells)
    )


def coding_of(message: pb.Dataset) -> Coding:
    """The coding of a dataset's catalogue entry."""
    return Coding(
        tuple(attribute_of(attribute) for attribute in message.attributes),
        tuple(zeros_of(zeros) for zeros in message.structural_zeros),
    )


def coding_document(coding: Coding) -> Document:
    """The part of the schema that gives codes their meaning."""
    return {
        "attributes": [_attribute_document(attribute) for attribute in coding.attributes],
        "structuralZeros": [
            {"cells": [list(map(str, cell)) for cell in zeros.cells], "clique": list(zeros.clique)}
            for zeros in coding.structural_zeros
        ],
    }


def coding_of_document(document: Document) -> Coding:
    """The coding that a document holds; descriptions are not part of it.

    Raises:
        InvalidInputError: The document is malformed, or is not what the core accepts.
    """
    try:
        return Coding(
            tuple(map(_attribute_of_document, document["attributes"])),
            tuple(map(_zeros_of_document, document["structuralZeros"])),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidInputError(field="schema", problem="is malformed") from None


def coding_digest(coding: Coding) -> str:
    """SHA-256, in hex, of the coding's canonical document; named by the card."""
    return digest_of(coding_document(coding))


def _attribute_document(attribute: Attribute) -> Document:
    match attribute.coding:
        case Labels(labels, integer, ordered, missing, boolean):
            coding: Document = {
                "integer": integer,
                "labels": list(labels),
                "missing": missing,
                "ordered": ordered,
            }
            coding |= {"boolean": True} if boolean else {}
        case Edges(edges, missing, decimals, dates):
            coding = {"edges": [repr(float(edge)) for edge in edges], "missing": missing}
            coding |= {} if decimals is None else {"decimals": str(decimals)}
            coding |= {"dates": True} if dates else {}
    document = {"name": attribute.name, **coding}
    if (how := attribute.derivation) is not None:
        per_person = {"perPerson": True} if how.per_person else {}
        codes = list(map(str, how.codes))
        document["derivation"] = {"codes": codes, "sources": list(how.sources), **per_person}
    return document


def _attribute_of_document(entry: Document) -> Attribute:
    how = _derivation_of_document(entry["derivation"]) if "derivation" in entry else None
    return Attribute(text_of(entry["name"]), _coding_of_document(entry), derivation=how)


def _coding_of_document(entry: Document) -> Labels | Edges:
    missing = _flag(entry["missing"])
    if "edges" in entry:
        decimals = integer_of(entry["decimals"]) if "decimals" in entry else None
        edges = tuple(map(float, texts_of(entry["edges"])))
        return Edges(edges, missing, decimals, _flag(entry.get("dates", False)))
    labels, boolean = texts_of(entry["labels"]), _flag(entry.get("boolean", False))
    return Labels(labels, _flag(entry["integer"]), _flag(entry["ordered"]), missing, boolean)


def _derivation_of_document(entry: Document) -> Derivation:
    codes = tuple(map(integer_of, texts_of(entry["codes"])))
    return Derivation(texts_of(entry["sources"]), codes, _flag(entry.get("perPerson", False)))


def _zeros_of_document(entry: Document) -> StructuralZeros:
    cells = tuple(tuple(map(integer_of, cell)) for cell in entry["cells"])
    return StructuralZeros(texts_of(entry["clique"]), cells)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError
