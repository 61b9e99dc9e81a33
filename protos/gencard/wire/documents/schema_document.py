"""The public schema as a document: the part that gives codes their meaning, and its digest."""

from decimal import Decimal, InvalidOperation

from gencard.core.card.budget import decimal_text
from gencard.core.coding import Attribute, Coding, Derivation, Edges, Labels, StructuralZeros
from gencard.core.errors import InvalidInputError
from gencard.core.scale import CLAMPS, Scale, shortest
from gencard.wire.signatures.canonical import (
    LONGEST_DECIMAL,
    Document,
    digest_of,
    integer_of,
    text_of,
    texts_of,
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
        case Labels(labels, integer, ordered, missing, boolean, text):
            coding: Document = {
                "integer": integer,
                "labels": list(labels),
                "missing": missing,
                "ordered": ordered,
            }
            coding |= {"boolean": True} if boolean else {}
            coding |= {"text": True} if text else {}
        case Edges(missing=missing, scale=Scale() as scale):
            coding = _scale_document(attribute.coding, scale) | {"missing": missing}
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


def _scale_document(coding: Edges, scale: Scale) -> Document:
    """Return levels and cells by their first numbers and the last edge, in days or minutes."""
    texts = {
        "cells": list(map(decimal_text, scale.cells)),
        "edges": [decimal_text(shortest(edge)) for edge in coding.edges],
        "step": decimal_text(scale.step),
    }
    flags = {"above": scale.above, "below": scale.below, "dates": coding.dates, "times": scale.times}
    return texts | {name: CLAMPS.get(name, True) for name, flag in flags.items() if flag}


def _decimal_of(text: str) -> Decimal:
    """Return the number of a text; raises ValueError if the text is not its one form."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if number.is_finite() and len(text) <= LONGEST_DECIMAL and decimal_text(number) == text:
        return number
    raise ValueError


def _attribute_of_document(entry: Document) -> Attribute:
    how = None
    if "derivation" in entry:
        derivation = entry["derivation"]
        codes = tuple(map(integer_of, texts_of(derivation["codes"])))
        per_person = _flag(derivation.get("perPerson", False))
        how = Derivation(texts_of(derivation["sources"]), codes, per_person)
    return Attribute(text_of(entry["name"]), _coding_of_document(entry), derivation=how)


def _coding_of_document(entry: Document) -> Labels | Edges:
    missing = _flag(entry["missing"])
    if "step" in entry:
        *starts, last = map(_decimal_of, texts_of(entry["edges"]))
        cells = tuple(map(_decimal_of, texts_of(entry["cells"])))
        if cells[-1] != last or any(entry.get(name, word) != word for name, word in CLAMPS.items()):
            raise ValueError
        above, below = (name in entry for name in CLAMPS)
        dates, times = (_flag(entry.get(name, False)) for name in ("dates", "times"))
        scale = Scale(_decimal_of(text_of(entry["step"])), cells, above, below, times)
        return Edges.of_scale(starts, scale, missing=missing, dates=dates)
    if "edges" in entry:
        decimals = integer_of(entry["decimals"]) if "decimals" in entry else None
        edges = tuple(map(float, texts_of(entry["edges"])))
        return Edges(edges, missing, decimals, _flag(entry.get("dates", False)))
    labels = texts_of(entry["labels"])
    boolean, text = (_flag(entry.get(name, False)) for name in ("boolean", "text"))
    return Labels(labels, _flag(entry["integer"]), _flag(entry["ordered"]), missing, boolean, text)


def _zeros_of_document(entry: Document) -> StructuralZeros:
    cells = tuple(tuple(map(integer_of, cell)) for cell in entry["cells"])
    return StructuralZeros(texts_of(entry["clique"]), cells)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError
