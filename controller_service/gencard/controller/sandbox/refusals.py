"""Errors of built-in boxes that may leave the cell: those that hang on what was asked alone."""

from collections.abc import Iterator

from gencard.core.errors import (
    BlackBoxError,
    GencardError,
    InvalidInputError,
    TooLargeError,
)
from gencard.wire.signatures.canonical import Document


def relayed() -> tuple[type[GencardError], ...]:
    """Their classes, with those below them."""
    return InvalidInputError, TooLargeError


def error_of_refusal(reason: str, fields: Document) -> GencardError:
    """The error again; that of a broken contract where none of this reason may leave."""
    kinds = {kind.reason: kind for root in relayed() for kind in _with_those_below(root)}
    try:
        return kinds[reason](**fields)
    except (KeyError, TypeError):
        return BlackBoxError(problem="it reported an error that it may not report")


def _with_those_below(kind: type[GencardError]) -> Iterator[type[GencardError]]:
    yield kind
    for lower in kind.__subclasses__():
        yield from _with_those_below(lower)
