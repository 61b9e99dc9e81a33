"""A mutating request as the state remembers it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from google.protobuf.message import Message
from sqlalchemy import Connection

from gencard.controller.state.idempotency import answer_of, answered_once
from gencard.wire.signatures.canonical import sha256
from gencard.wire.signatures.identity import Identity


@dataclass(frozen=True, slots=True)
class Request:
    """Method, the caller's UUID, and a digest of everything else that was asked."""

    method: str
    request_id: str
    digest: str

    @classmethod
    def of(cls, method: str, message: Message, request_id: str) -> "Request":
        plain = type(message)()
        plain.CopyFrom(message)
        plain.ClearField("request_id")
        return cls(method, request_id, sha256(plain.SerializeToString(deterministic=True)))

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
