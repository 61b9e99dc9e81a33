"""psi as a document: RFC 8785 JSON with counts as decimal strings, identified by its SHA-256."""

import numpy as np

from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidPsiError
from gencard.core.statistics.psi import Measurement, Psi
from gencard.wire.canonical import Document, document_of, integer_of, json_bytes, text_of, texts_of


def psi_document(psi: Psi) -> bytes:
    """Psi's one sequence of bytes."""
    return json_bytes(
        {
            "attributes": list(psi.domain.attributes),
            "measurements": [
                {
                    "clique": list(measurement.clique),
                    "counts": [str(count) for count in measurement.values.ravel().tolist()],
                    "stddev": stddev_text(measurement.stddev),
                }
                for measurement in psi.measurements
            ],
            "sizes": [str(size) for size in psi.domain.sizes],
        }
    )


def psi_of_document(data: bytes) -> Psi:
    """Psi from its bytes.

    Raises:
        InvalidPsiError: The bytes hold no psi.
    """
    try:
        document = document_of(data, "psi")
        domain = Domain(texts_of(document["attributes"]), tuple(map(integer_of, document["sizes"])))
        return Psi(domain, tuple(_measurement(entry, domain) for entry in document["measurements"]))
    except InvalidPsiError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, GencardError):
        raise InvalidPsiError(problem="the document is malformed") from None


def stddev_text(stddev: float) -> str:
    """The shortest decimal that reads back as the same float; "0" for exact counts."""
    return "0" if stddev == 0 else repr(float(stddev))


def _measurement(entry: Document, domain: Domain) -> Measurement:
    clique = texts_of(entry["clique"])
    counts = [int(count) for count in texts_of(entry["counts"])]
    stddev = float(text_of(entry["stddev"]))
    if entry["counts"] != [str(count) for count in counts] or entry["stddev"] != stddev_text(stddev):
        raise InvalidPsiError(problem="a number is not in its one form")
    table = np.array(counts, dtype=np.int64).reshape(domain.project(clique).sizes)
    return Measurement(clique, table, stddev)
