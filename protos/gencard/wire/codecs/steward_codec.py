"""Stewards' actions on the wire: their arguments as JSON, and the digest that two stewards agree on."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from gencard.core.errors import TooLargeError
from gencard.v1 import steward_pb2 as pb
from gencard.wire.codecs.card_codec import datetime_of
from gencard.wire.signatures.canonical import Document, digest_of, document_of, json_bytes, time_text

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


def first_decision_document(message: pb.FirstDecision) -> Document:
    """A decision that waits for a second steward, as JSON for people and programs."""

    def text(time: Timestamp) -> str:
        return time_text(datetime_of(time))

    return {
        "kind": message.kind,
        "resource": message.resource,
        "arguments": arguments_of(message.arguments),
        "reason": message.reason,
        "by": message.who,
        "digest": message.digest,
        "time": text(message.time),
        "expires": text(message.expire_time),
    }
