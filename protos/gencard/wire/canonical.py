"""RFC 8785 JSON: one value, one sequence of bytes, one digest."""

import hashlib
import json
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

import rfc8785

from gencard.core.errors import InvalidInputError

Document = dict[str, Any]
"""A JSON object; numbers that matter (counts, budgets, seeds) are decimal strings."""


def json_bytes(document: Document) -> bytes:
    """The one sequence of bytes that stands for a document (RFC 8785).

    Raises:
        InvalidInputError: It has none: a lone surrogate, a number beyond 2^53, NaN or infinity.
    """
    try:
        return rfc8785.dumps(document)
    except rfc8785.CanonicalizationError:
        pass
    raise InvalidInputError(field="document", problem="has no canonical form")


def digest_of(document: Document) -> str:
    """SHA-256, in hex, of the canonical bytes."""
    return hashlib.sha256(json_bytes(document)).hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def document_of(data: bytes, field: str, *, compared: bool = False) -> Document:
    """The JSON object that some bytes hold.

    Args:
        compared: The caller compares the bytes with the canonical form of what it has read. Bytes that
            are ambiguous are not equal to it, and are not refused here.

    Raises:
        InvalidInputError: Not UTF-8, not JSON, nested too deeply, not an object, or ambiguous: a name
            that stands twice, NaN or infinity.
    """
    document = None
    with suppress(ValueError, RecursionError):
        check_json(data)
        document = json.loads(data.decode(), **({} if compared else _STRICT))
    if not isinstance(document, dict):
        raise InvalidInputError(field=field, problem="is not a JSON object")
    return document


MOST_CONTAINERS = 1_000_000
"""Arrays and objects in one document; each takes up to 100 times the memory of its brackets."""


def check_json(data: bytes) -> None:
    """Raise ValueError if reading some JSON would take far more memory than its size says."""
    if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS:
        raise ValueError


def text_of(value: object) -> str:
    """The string that a document's value is; raises TypeError where it is something else."""
    if isinstance(value, str):
        return value
    raise TypeError


def texts_of(value: object) -> tuple[str, ...]:
    """The strings of a document's array; raises TypeError where it is something else."""
    if isinstance(value, list):
        return tuple(map(text_of, value))
    raise TypeError


def integer_of(value: object) -> int:
    """The number of a decimal string in its one form; raises TypeError or ValueError for others."""
    text = text_of(value)
    number = int(text)
    if str(number) == text:
        return number
    raise ValueError


def time_text_of(value: object) -> str:
    """The time that a value is, as it stands there; raises TypeError or ValueError for anything else."""
    text = text_of(value)
    time_of(text)
    return text


def time_text(time: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def time_of(text: str) -> datetime:
    """Raises ValueError where the text is not such a time, in its one form."""
    time = datetime.fromisoformat(text)  # which takes other forms too; strptime takes thrice as long
    if time.tzinfo is UTC and time.isoformat(timespec="seconds").replace("+00:00", "Z") == text:
        return time
    raise ValueError("not a time in UTC to the second")


def _each_name_once(pairs: list[tuple[str, Any]]) -> Document:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError
    return number


_STRICT: dict[str, Any] = {
    "object_pairs_hook": _each_name_once,
    "parse_constant": _finite,  # NaN and the infinities by their names
    "parse_float": _finite,
}


LONGEST_DECIMAL = 32
"""Characters."""


def decimal_of_text(text: str) -> Decimal:
    """Raises ValueError."""
    if len(text) > LONGEST_DECIMAL or not text.replace(".", "", 1).isdecimal():
        raise ValueError
    return Decimal(text)
