"""Transforms of exact counts, as messages and in documents. What says nothing is left out of both."""

from dataclasses import fields

from gencard.core.transform import AS_COUNTED, Transform
from gencard.v1 import common_pb2 as pb
from gencard.wire.signatures.canonical import Document, integer_of

_NUMBERS = tuple(field.name for field in fields(Transform) if field.name != "zeros")


def transform_message(transform: Transform) -> pb.Transform | None:
    """None for counts as they are."""
    if transform == AS_COUNTED:
        return None
    numbers = {name: getattr(transform, name) for name in _NUMBERS}
    return pb.Transform(**numbers, zeros=transform.zeros)


def transform_of(message: pb.Transform) -> Transform:
    """Raises InvalidNumberError where a number is out of its range."""
    numbers = {name: getattr(message, name) for name in _NUMBERS}
    return Transform(**numbers | {"rounding": message.rounding or 1}, zeros=message.zeros)


def transform_document(transform: Transform) -> Document:
    """Only what differs from counts as they are."""
    document: Document = {
        name: str(getattr(transform, name))
        for name in _NUMBERS
        if getattr(transform, name) != getattr(AS_COUNTED, name)
    }
    return document | ({"zeros": True} if transform.zeros else {})


def transform_of_document(document: Document) -> Transform:
    """Raises TypeError, ValueError or InvalidNumberError where the document is no transform."""
    numbers = {name: integer_of(value) for name, value in document.items() if name != "zeros"}
    return Transform(**numbers, zeros=document.get("zeros", False))
