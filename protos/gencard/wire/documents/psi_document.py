"""psi as a document: RFC 8785 JSON with counts as decimal strings, identified by its SHA-256."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidPsiError
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
from gencard.wire.signatures.canonical import (
    Document,
    document_of,
    integer_of,
    json_bytes,
    text_of,
    texts_of,
)

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
                "counts": _texts(measurement.values.ravel().tolist()),
                "stddev": stddev_text(measurement.stddev),
            }
            for measurement in psi.measurements
        ],
        "sizes": _texts(psi.domain.sizes),
    }
    if psi.linear:
        document["linear"] = [_linear_document(linear) for linear in psi.linear]
    return json_bytes(document | numbers_document(psi))


def numbers_document(psi: Psi) -> Document:
    """Histograms and sums; what psi has none of is not there."""
    parts = {"histograms": psi.histograms, "sums": psi.sums}
    return {name: [_FORM.write(one) for one in part] for name, part in parts.items() if part}


def numbers_of_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Psi`` that ``numbers_document`` writes.

    Raises:
        InvalidPsiError: They are no histograms and sums.
    """
    kinds = {"histograms": HistogramMeasurement, "sums": SumMeasurement}
    try:
        return {
            name: tuple(_FORM.read(kind, one, field=name) for one in document.get(name, []))
            for name, kind in kinds.items()
        }
    except (TypeError, GencardError):
        raise InvalidPsiError(problem="a histogram or a sum is malformed") from None


def psi_of_document(data: bytes) -> Psi:
    """Psi from its bytes.

    Raises:
        InvalidPsiError: The bytes hold no psi.
    """
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


def _texts(numbers: Iterable[int]) -> list[str]:
    return [str(number) for number in numbers]


def _linear_document(linear: LinearMeasurement) -> Document:
    functions = zip(
        linear.statistic.functions, linear.values.tolist(), linear.stddevs.tolist(), strict=True
    )
    return {
        "clique": list(linear.statistic.clique),
        "functions": [
            {
                "denominator": str(function.denominator),
                "name": function.name,
                "stddev": stddev_text(stddev),
                "sum": str(value),
                "values": _texts(function.values),
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
