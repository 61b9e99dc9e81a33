"""RFC 8785 JSON: one value, one sequence of bytes, one digest."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import rfc8785

from gencard.core.errors import InvalidInputError

Document = dict[str, Any]
"""A JSON object; numbers that matter (counts, budgets, seeds) are decimal strings."""


def json_bytes(document: Document) -> bytes:
    """The one sequence of bytes that stands for a document (RFC 8785)."""
    return rfc8785.dumps(document)


def digest_of(document: Document) -> str:
    """SHA-256, in hex, of the canonical bytes."""
    return sha256(json_bytes(document))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def document_of(data: bytes, field: str) -> Document:
    """The JSON object that some bytes hold.

    Raises:
        InvalidInputError: Not UTF-8, not JSON, nested too deeply, or not an object.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidInputError(field=field, problem="is not a JSON object")
    return document


def time_text(time: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
