"""Numbers that are asked for: what no message could hold is refused before anything is sent."""

from operator import index

from gencard.core.card.terms import MOST_ROWS
from gencard.core.errors import InvalidNumberError

LARGEST_WORD = 2**64 - 1
"""Seeds, and places in the log."""


def whole(field: str, value: int, least: int, most: int) -> int:
    """A whole number within its bounds.

    >>> whole("rows", 7, 1, 10)
    7

    Raises:
        InvalidNumberError: It is none, or beyond them.
    """
    expected = f"a whole number from {least} to {most}"
    try:
        number = index(value)
    except TypeError:
        raise InvalidNumberError(field=field, expected=expected) from None
    if not least <= number <= most:
        raise InvalidNumberError(field=field, expected=expected)
    return number


def rows_asked(rows: int) -> int:
    """Rows of a release or of a run; raises InvalidNumberError."""
    return whole("rows", rows, 1, MOST_ROWS)


def seed_asked(seed: int) -> int:
    """A seed; raises InvalidNumberError."""
    return whole("seed", seed, 0, LARGEST_WORD)
