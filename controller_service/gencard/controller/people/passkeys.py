"""Passkeys of stewards in the state: enrolled by a link that works once, used, removed; all in the log.

The state holds public keys and digests alone: a reader of the state can neither sign in nor enrol a
passkey.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from gencard.controller.state.database import Database
from gencard.controller.state.log import EventLog
from gencard.controller.state.tables import passkey_links, passkeys
from gencard.core.errors import InvalidInputError, NotFoundError, UnauthenticatedError

LINK_LIFE = timedelta(minutes=15)
MOST_OF_ONE = 8
"""Passkeys of one steward."""


@dataclass(frozen=True, slots=True)
class Passkey:
    """A steward's passkey.

    Args:
        key: SHA-256, in hex, of the credential's id: its name in the log.
        holder: URI of the steward.
        credential: The id that the authenticator gave.
        public_key: COSE bytes.
        uses: The authenticator's counter at the last use; 0 for one that does not count.
    """

    key: str
    holder: str
    credential: bytes
    public_key: bytes
    uses: int
    created: datetime
    used: datetime | None = None


def key_of(credential: bytes) -> str:
    """Return the name of a credential in state and log."""
    return hashlib.sha256(credential).hexdigest()


@dataclass(frozen=True, slots=True)
class Passkeys:
    """All passkeys, and the links by which they are enrolled."""

    database: Database
    log: EventLog
    clock: Callable[[], datetime]

    def new_link(self, holder: str, actor: str) -> str:
        """Return the secret of a new link for a steward; valid once, for ``LINK_LIFE``."""
        token = secrets.token_urlsafe(32)
        with self.database.transaction() as tx:
            now = self.clock()
            tx.execute(delete(passkey_links).where(passkey_links.c.ends < now))
            row = {"digest": _digest(token), "holder": holder, "ends": now + LINK_LIFE}
            tx.execute(insert(passkey_links).values(**row))
            self._note(tx, "passkey-link", actor, holder)
        return token

    def holder_of_link(self, token: str) -> str:
        """Return the steward whom a link enrols; raises UnauthenticatedError if it is not valid."""
        with self.database.reading() as tx:
            return self._open_link(tx, token)

    def add(self, token: str, credential: bytes, public_key: bytes, uses: int) -> Passkey:
        """Keep the passkey that a link was for; the link works no more.

        Raises:
            UnauthenticatedError: The link is used, too old, or none.
            InvalidInputError: The credential is enrolled already, or the steward has ``MOST_OF_ONE``.
        """
        with self.database.transaction() as tx:
            holder, now = self._open_link(tx, token), self.clock()
            passkey = Passkey(key_of(credential), holder, credential, public_key, uses, now)
            if self._named(tx, passkey.key) or len(_of(tx, holder)) >= MOST_OF_ONE:
                problem = f"is enrolled already, or the steward has {MOST_OF_ONE} passkeys"
                raise InvalidInputError(field="passkey", problem=problem)
            statement = update(passkey_links).where(passkey_links.c.digest == _digest(token))
            tx.execute(statement.values(used=now))
            row = {name: getattr(passkey, name) for name in passkeys.c.keys()}  # noqa: SIM118
            tx.execute(insert(passkeys).values(**row))
            self._note(tx, "add-passkey", holder, holder, key=passkey.key)
        return passkey

    def named(self, key: str) -> Passkey:
        """Raises UnauthenticatedError if no such passkey is enrolled."""
        with self.database.reading() as tx:
            passkey = self._named(tx, key)
        if passkey is None:
            raise UnauthenticatedError
        return passkey

    def is_kept(self, key: str) -> bool:
        """Whether the passkey is still enrolled."""
        with self.database.reading() as tx:
            return self._named(tx, key) is not None

    def are_kept(self, tx: Connection, keys: Iterable[str]) -> bool:
        """Whether all these passkeys are still enrolled."""
        return all(self._named(tx, key) is not None for key in keys)

    def of(self, holder: str) -> list[Passkey]:
        """Return all of a steward, oldest first."""
        with self.database.reading() as tx:
            return _of(tx, holder)

    def note_use(self, passkey: Passkey, uses: int, action: str = "") -> None:
        """Keep the counter, and log ``action`` if given; UnauthenticatedError after another use."""
        with self.database.transaction() as tx:
            same = (passkeys.c.key == passkey.key) & (passkeys.c.uses == passkey.uses)
            statement = update(passkeys).where(same).values(uses=uses, used=self.clock())
            if tx.execute(statement).rowcount != 1:
                raise UnauthenticatedError
            if action:
                self._note(tx, action, passkey.holder, passkey.holder, key=passkey.key)

    def remove(self, holder: str, actor: str, key: str = "") -> int:
        """Remove passkeys of a steward whose names begin with ``key``; their sessions end.

        Raises:
            NotFoundError: No passkey matches.
        """
        with self.database.transaction() as tx:
            passkeys_of_key = [passkey for passkey in _of(tx, holder) if passkey.key.startswith(key)]
            if not passkeys_of_key:
                raise NotFoundError
            self._take_off(tx, passkeys_of_key, actor)
        return len(passkeys_of_key)

    def forget(self, tx: Connection, holder: str, actor: str) -> None:
        """Remove all passkeys and open links of a person, as part of a larger change."""
        tx.execute(delete(passkey_links).where(passkey_links.c.holder == holder))
        self._take_off(tx, _of(tx, holder), actor)

    def forget_all(self, tx: Connection, actor: str) -> None:
        """Take all passkeys and links of all stewards off, as part of a larger change."""
        tx.execute(delete(passkey_links))
        for holder in sorted(tx.execute(select(passkeys.c.holder).distinct()).scalars()):
            self._take_off(tx, _of(tx, holder), actor)

    def _take_off(self, tx: Connection, removed: list[Passkey], actor: str) -> None:
        for passkey in removed:
            tx.execute(delete(passkeys).where(passkeys.c.key == passkey.key))
            self._note(tx, "remove-passkey", actor, passkey.holder, key=passkey.key)

    def _note(self, tx: Connection, action: str, actor: str, holder: str, **details: str) -> None:
        name = f"people/{holder.rpartition('/')[2]}"
        now = self.clock()
        self.log.append(tx, action=action, actor=actor, resource=name, details=details, now=now)

    def _open_link(self, tx: Connection, token: str) -> str:
        query = select(passkey_links).where(passkey_links.c.digest == _digest(token))
        row = tx.execute(query).mappings().one_or_none()
        if row is None or row["used"] is not None or row["ends"] < self.clock():
            raise UnauthenticatedError
        return str(row["holder"])

    @staticmethod
    def _named(tx: Connection, key: str) -> Passkey | None:
        row = tx.execute(select(passkeys).where(passkeys.c.key == key)).mappings().one_or_none()
        return None if row is None else _passkey(row)


def _of(tx: Connection, holder: str) -> list[Passkey]:
    query = select(passkeys).where(passkeys.c.holder == holder).order_by(passkeys.c.created)
    return [_passkey(row) for row in tx.execute(query).mappings()]


def _passkey(row: Any) -> Passkey:
    return Passkey(**{name: row[name] for name in passkeys.c.keys()})  # noqa: SIM118


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
