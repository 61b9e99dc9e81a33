"""Column types: how times, seeds and growing numbers are stored, alike on every database."""

from datetime import datetime

from sqlalchemy import BigInteger, Dialect, Integer, String
from sqlalchemy.types import TypeDecorator

from gencard.wire.signatures.canonical import time_of, time_text

SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database gives, always larger than those before it."""


class Instant(TypeDecorator[datetime]):
    """An aware datetime as RFC 3339 text in UTC, to the second: as in every document."""

    impl = String(20)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the base class's signature
        """Raises ValueError, a StorageError outside, for a datetime without a time zone."""
        if value is not None and value.tzinfo is None:
            raise ValueError("a time without a zone")
        return None if value is None else time_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  the base class's signature
        return None if value is None else time_of(value)


class Seed(TypeDecorator[int]):
    """A seed as decimal text: it has 64 bits without a sign, and integer columns have 63."""

    impl = String(20)
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the base class's signature
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> int | None:  # noqa: ARG002  the base class's signature
        return None if value is None else int(value)
