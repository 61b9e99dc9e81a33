"""A request has one effect and one answer, however often it is sent."""

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, delete, select, update

from gencard.controller.state.database import insert_if_absent
from gencard.controller.state.tables import answers
from gencard.core.errors import InvalidInputError, RequestIdReusedError, StorageError
from gencard.wire.signatures.identity import Identity

_ZLIB = b"\x78\x9c"
"""First bytes of what ``zlib.compress`` makes."""


def answered_once(
    tx: Connection,
    *,
    actor: str,
    method: str,
    request_id: str,
    request_digest: str,
    now: datetime,
    make: Callable[[], bytes],
) -> bytes:
    """The answer to a request: made now, or the stored bytes of the first time.

    The id is claimed before ``make`` runs, so of two equal requests at the same moment one makes the
    answer and the other waits for it. Where ``make``, which works inside ``tx``, raises, the claim is
    undone with all that it did. ``request_digest`` is the SHA-256, in hex, of the whole request; ids of
    different actors never meet.

    Raises:
        InvalidInputError: The id is not a random UUID in its usual spelling.
        RequestIdReusedError: The id came before with another method or request.
    """
    _check_random_uuid(request_id)
    key = {"actor": actor, "request_id": request_id.lower()}
    request = {"method": method, "request_digest": request_digest}
    # the claim comes first: of two equal requests at once, only one may charge and measure
    with tx.begin_nested():
        if insert_if_absent(tx, answers, {**key, **request, "answer": b"", "created": now}):
            answer = make()
            _store(tx, key, answer)
            return answer
    known = answer_of(tx, actor=actor, request_id=request_id, **request)
    if known is None:
        raise StorageError()
    return known


def answer_of(
    tx: Connection, *, actor: str, method: str, request_id: str, request_digest: str
) -> bytes | None:
    """The stored answer to a request; None where it did not come before.

    Raises:
        RequestIdReusedError: The id came before with another method or request.
    """
    mine = (answers.c.actor == actor, answers.c.request_id == request_id.lower())
    row = tx.execute(select(answers).where(*mine)).mappings().one_or_none()
    if row is None:
        return None
    # a reused id must not return the answer to a different request as if it were this one's
    if (row["method"], row["request_digest"]) != (method, request_digest):
        raise RequestIdReusedError()
    return _unpacked(bytes(row["answer"]))


def forget(tx: Connection, methods: Collection[str], before: datetime) -> None:
    """Drop stored answers of some methods that were given before a time."""
    tx.execute(delete(answers).where(answers.c.method.in_(methods), answers.c.created < before))


def _store(tx: Connection, key: dict[str, str], answer: bytes) -> None:
    mine = [answers.c[name] == value for name, value in key.items()]
    if tx.execute(update(answers).where(*mine).values(answer=_packed(answer))).rowcount != 1:
        raise StorageError()


def _packed(answer: bytes) -> bytes:
    """Compressed where that is shorter: the body of a card holds its purpose three times."""
    packed = zlib.compress(answer)
    return packed if len(packed) < len(answer) or answer.startswith(_ZLIB) else answer


def _unpacked(stored: bytes) -> bytes:
    """The answer as it was given, also where it was stored before there was packing.

    None of those begins as zlib's output does: a card begins with 0x0A, its first field, and a name
    with ``operations/``.
    """
    return zlib.decompress(stored) if stored.startswith(_ZLIB) else stored


def _check_random_uuid(text: str) -> None:
    """Version 4 in 36 characters: what has no bits of randomness could be met by accident."""
    try:
        uuid = UUID(text)
    except ValueError:
        uuid = None
    if uuid is None or uuid.version != 4 or str(uuid) != text.lower():
        raise InvalidInputError(field="request_id", problem="is not a random UUID (version 4)")


@dataclass(frozen=True, slots=True)
class Request:
    """Method, the caller's UUID, and a digest of everything else that was asked."""

    method: str
    request_id: str
    digest: str

    def answer(self, tx: Connection, who: Identity) -> bytes | None:
        """The stored answer to this request; None where it did not come before."""
        return answer_of(
            tx,
            actor=who.uri,
            method=self.method,
            request_id=self.request_id,
            request_digest=self.digest,
        )

    def once(self, tx: Connection, who: Identity, now: datetime, make: Callable[[], bytes]) -> bytes:
        """The stored answer to this request, or the one that ``make`` gives now."""
        return answered_once(
            tx,
            actor=who.uri,
            method=self.method,
            request_id=self.request_id,
            request_digest=self.digest,
            now=now,
            make=make,
        )
