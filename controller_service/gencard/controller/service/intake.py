"""What may come in: bytes that are a message, of bounded size, with no field that nobody knows."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from gencard.core.errors import InvalidInputError, TooLargeError

MOST_PARTS = 100_000
"""Entries in all lists of one message; ten times what the richest proposal needs."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What a database cannot keep, and what would move the cursor of a terminal."""

Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Garbage:
    """Stands in for a request whose bytes were no message."""


def decoder(decode: Decode | None) -> Decode | None:
    """The same decoder, with ``Garbage`` in place of its errors."""
    if decode is None:
        return None

    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except (DecodeError, ValueError, RecursionError):
            return Garbage()

    return decoded


def check_request(request: Any) -> None:
    """Look at the form of a request before anybody looks at what it says.

    Raises:
        InvalidInputError: Garbage bytes, a field this service does not know, a control
            character in a text.
        TooLargeError: More than ``MOST_PARTS`` parts.
    """
    if isinstance(request, Garbage):
        raise InvalidInputError(field="request", problem="is not a valid message")
    if isinstance(request, Message):
        _check_parts(request)


def _check_parts(message: Message) -> None:
    waiting, parts = [message], 0
    while waiting:
        part = waiting.pop()
        if len(UnknownFieldSet(part)):
            raise InvalidInputError(
                field="request", problem="holds fields that this service does not know"
            )
        for descriptor, value in part.ListFields():
            values = value if descriptor.is_repeated else (value,)
            parts += len(values)
            if parts > MOST_PARTS:
                raise TooLargeError(what="The number of parts of the message", limit=MOST_PARTS)
            if descriptor.message_type is not None:
                waiting.extend(values)
            elif descriptor.type == FieldDescriptor.TYPE_STRING and any(map(_CONTROL.search, values)):
                raise InvalidInputError(field=descriptor.name, problem="holds a control character")
