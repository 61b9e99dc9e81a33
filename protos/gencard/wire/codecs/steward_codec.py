"""Stewards' actions on the wire: their arguments as JSON, and the digest that two stewards agree on."""

from collections.abc import Mapping
from typing import Any

from gencard.core.errors import TooLargeError
from gencard.wire.signatures.canonical import Document, digest_of, document_of, json_bytes

LARGEST = 1 << 18
"""Bytes of an action's arguments."""


def action_digest(kind: str, resource: str, arguments: Mapping[str, Any], shown: str) -> str:
    """SHA-256, in hex, of an action and what was shown before it, without its reason.

    Args:
        shown: Digest of what the steward was shown.

    Raises:
        InvalidInputError: The arguments have no canonical form.
    """
    action = {"kind": kind, "resource": resource, "arguments": dict(arguments), "shown": shown}
    return digest_of(action)


def arguments_bytes(arguments: Mapping[str, Any]) -> bytes:
    """Arguments as RFC 8785 JSON; nothing for none.

    Raises:
        InvalidInputError: They have no canonical form.
        TooLargeError: They have more than 256 KiB.
    """
    content = json_bytes(dict(arguments)) if arguments else b""
    if len(content) > LARGEST:
        raise TooLargeError(what="The number of bytes of the arguments", limit=LARGEST)
    return content


def arguments_of(content: bytes) -> Document:
    """The arguments in a message; raises InvalidInputError or TooLargeError where they are none."""
    if len(content) > LARGEST:
        raise TooLargeError(what="The number of bytes of the arguments", limit=LARGEST)
    return document_of(content, "arguments") if content else {}
