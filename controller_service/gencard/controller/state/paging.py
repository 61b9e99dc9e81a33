"""Pages of a list, newest first, by a token that stays right while the list grows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Connection, Select

from gencard.core.errors import InvalidInputError

LARGEST_PAGE = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, newest first; ``next_token`` asks for the rest and is empty at the end."""

    rows: tuple[T, ...]
    next_token: str


def page_of(
    tx: Connection,
    query: Select[Any],
    number: Column[int],
    make: Callable[[Mapping[Any, Any]], T],
    *,
    before: str,
    limit: int,
) -> Page[T]:
    """The rows older than the token ``before``, at most ``limit`` and at most 500.

    ``number`` is the selected column that grows with every row; an empty token asks for the first page.

    Raises:
        InvalidInputError: The token was not given by this list.
    """
    size = max(1, min(limit, LARGEST_PAGE))
    if before:
        query = query.where(number < _number_of(before))
    found = tx.execute(query.order_by(number.desc()).limit(size + 1)).mappings().all()
    return Page(
        tuple(map(make, found[:size])), str(found[size - 1][number]) if len(found) > size else ""
    )


def _number_of(token: str) -> int:
    if not (token.isascii() and token.isdigit() and len(token) <= 18):
        raise InvalidInputError(field="page_token", problem="was not issued by this list")
    return int(token)
