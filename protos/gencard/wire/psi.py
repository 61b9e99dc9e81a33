"""psi and the public schema as documents: RFC 8785 JSON, identified by its SHA-256."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from gencard.core.card.budget import decimal_text
from gencard.core.coding import Attribute, Coding, Derivation, Edges, Labels, StructuralZeros
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidInputError, InvalidPsiError
from gencard.core.scale import CLAMPS, Scale, shortest
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.psi import (
    HistogramMeasurement,
    LinearMeasurement,
    Measurement,
    Psi,
    SumMeasurement,
    stddev_text,
)
from gencard.core.typed_json import AS_IT_IS, INTEGER_TEXT, JsonForm
from gencard.wire.canonical import (
    LONGEST_DECIMAL,
    Document,
    digest_of,
    document_of,
    integer_of,
    json_bytes,
    text_of,
    texts_of,
)

# The public schema: the part that gives codes their meaning.


def coding_document(coding: Coding) -> Document:
    return {
        "attributes": [_attribute_document(attribute) for attribute in coding.attributes],
        "structuralZeros": [
            {"cells": [list(map(str, cell)) for cell in zeros.cells], "clique": list(zeros.clique)}
            for zeros in coding.structural_zeros
        ],
    }


def coding_of_document(document: Document) -> Coding:
    """The coding in a document, without descriptions; raises InvalidInputError if there is none."""
    try:
        return Coding(
            tuple(map(_attribute_of_document, document["attributes"])),
            tuple(
                StructuralZeros(
                    texts_of(entry["clique"]),
                    tuple(tuple(map(integer_of, cell)) for cell in entry["cells"]),
                )
                for entry in document["structuralZeros"]
            ),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidInputError(field="schema", problem="is malformed") from None


def coding_digest(coding: Coding) -> str:
    """SHA-256, in hex, of the coding's canonical document; named by the card."""
    return digest_of(coding_document(coding))


def _attribute_document(attribute: Attribute) -> Document:
    match attribute.coding:
        case Labels(labels, integer, ordered, missing, boolean, text):
            coding: Document = {"integer": integer, "labels": list(labels)}
            coding |= {"missing": missing, "ordered": ordered}
            coding |= {"boolean": True} if boolean else {}
            coding |= {"text": True} if text else {}
        case Edges(missing=missing, scale=Scale() as scale):
            # levels and cells by their first numbers and the last edge, in days or minutes
            dates = attribute.coding.dates
            flags = {"above": scale.above, "below": scale.below, "dates": dates, "times": scale.times}
            coding = {
                "cells": list(map(decimal_text, scale.cells)),
                "edges": [decimal_text(shortest(edge)) for edge in attribute.coding.edges],
                "missing": missing,
                "step": decimal_text(scale.step),
                **{name: CLAMPS.get(name, True) for name, flag in flags.items() if flag},
            }
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


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError


# psi, with counts as decimal strings.

_FORM = JsonForm({str: AS_IT_IS[str], int: INTEGER_TEXT})
"""Form of histograms and sums: that of signed documents, without loading cryptography in each job."""

PSI_OPENS = b'{"attributes":['
"""Beginning of every document of psi, which alone may be as large as psi."""


def psi_document(psi: Psi) -> bytes:
    """Return the canonical bytes of psi; kinds of statistics that psi does not have are left out."""
    document: Document = {
        "attributes": list(psi.domain.attributes),
        "measurements": [
            {
                "clique": list(measurement.clique),
                "counts": list(map(str, measurement.values.ravel().tolist())),
                "stddev": stddev_text(measurement.stddev),
            }
            for measurement in psi.measurements
        ],
        "sizes": list(map(str, psi.domain.sizes)),
    }
    if psi.linear:
        document["linear"] = [_linear_document(linear) for linear in psi.linear]
    return json_bytes(document | numbers_document(psi))


def numbers_document(psi: Psi) -> Document:
    """Histograms and sums; what psi has none of is not there."""
    parts = {"histograms": psi.histograms, "sums": psi.sums}
    return {name: [_FORM.write(one) for one in part] for name, part in parts.items() if part}


def numbers_of_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``Psi`` that ``numbers_document`` writes; raises InvalidPsiError for others."""
    kinds = {"histograms": HistogramMeasurement, "sums": SumMeasurement}
    try:
        return {
            name: tuple(_FORM.read(kind, one, field=name) for one in document.get(name, []))
            for name, kind in kinds.items()
        }
    except (TypeError, GencardError):
        raise InvalidPsiError(problem="a histogram or a sum is malformed") from None


def psi_of_document(data: bytes) -> Psi:
    """Measured psi from its bytes; raises InvalidPsiError if they hold none."""
    try:
        document = document_of(data, "psi")
        domain = Domain(texts_of(document["attributes"]), tuple(map(integer_of, document["sizes"])))
        psi = Psi(
            domain,
            tuple(_measurement(entry, domain) for entry in document["measurements"]),
            tuple(map(_linear, document.get("linear", []))),
            **numbers_of_document(document),
        )
    except InvalidPsiError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, GencardError):
        raise InvalidPsiError(problem="the document is malformed") from None
    if {"linear", "histograms", "sums"} & document.keys() and psi_document(psi) != data:
        raise InvalidPsiError(problem="a linear statistic, histogram or sum is not in canonical form")
    return psi


def _linear_document(linear: LinearMeasurement) -> Document:
    statistic = linear.statistic
    functions = zip(statistic.functions, linear.values.tolist(), linear.stddevs.tolist(), strict=True)
    return {
        "clique": list(statistic.clique),
        "functions": [
            {
                "denominator": str(function.denominator),
                "name": function.name,
                "stddev": stddev_text(stddev),
                "sum": str(value),
                "values": list(map(str, function.values)),
            }
            for function, value, stddev in functions
        ],
    }


def _linear(entry: Document) -> LinearMeasurement:
    functions = entry["functions"]
    statistic = LinearStatistic(
        texts_of(entry["clique"]),
        tuple(
            Function(
                text_of(function["name"]),
                tuple(map(integer_of, function["values"])),
                integer_of(function["denominator"]),
            )
            for function in functions
        ),
    )
    return LinearMeasurement(
        statistic,
        np.array([integer_of(function["sum"]) for function in functions], dtype=np.int64),
        np.array([float(text_of(function["stddev"])) for function in functions]),
    )


def _measurement(entry: Document, domain: Domain) -> Measurement:
    clique = texts_of(entry["clique"])
    counts = [int(count) for count in texts_of(entry["counts"])]
    stddev = float(text_of(entry["stddev"]))
    if entry["counts"] != [str(count) for count in counts] or entry["stddev"] != stddev_text(stddev):
        raise InvalidPsiError(problem="a number is not in canonical form")
    table = np.array(counts, dtype=np.int64).reshape(domain.project(clique).sizes)
    return Measurement(clique, table, stddev)
