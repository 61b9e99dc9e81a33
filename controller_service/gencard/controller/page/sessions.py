"""Sessions of the page: kept in memory, by the digest of a secret that only the browser has.

A session is a steward's for a time: it ends by signing out, by idleness, by age, with its passkey, and
with the steward's enrolment. A restart of the service ends all.
"""

import hashlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hmac import compare_digest

from gencard.core.errors import PermissionDeniedError, UnauthenticatedError
from gencard.wire.signatures.identity import Identity, Role

LONGEST = timedelta(hours=12)
MOST_OF_ONE = 5
"""Sessions of one steward; the longest idle one makes room."""

Includes = Callable[[Identity], bool]
IsKept = Callable[[str], bool]
KeyOf = Callable[[Identity], str]


@dataclass(slots=True)
class Session:
    """A steward who is signed in.

    Args:
        name: Digest of the browser's secret.
        passkey: Name of the passkey that was used; empty after a sign-in at an issuer.
        key: Fingerprints of the steward's keys when the session began: with other keys it is over.
        csrf: Token that every change must send.
        notices: Texts that the next page shows once.
    """

    name: str
    who: Identity
    passkey: str
    key: str
    csrf: str
    began: datetime
    seen: datetime
    notices: list[str] = field(default_factory=list)

    def check_csrf(self, token: str) -> None:
        """Raise PermissionDeniedError if a change does not come from a form of this session."""
        if not compare_digest(token.encode(), self.csrf.encode()):
            raise PermissionDeniedError


@dataclass(slots=True)
class Sessions:
    """Sessions of all signed-in stewards.

    Args:
        idle: Time without a request of a person after which a session ends.
        key_of: Returns a steward's key fingerprints; empty for strangers and disabled people.
        is_kept: Returns whether a passkey is still enrolled.
    """

    idle: timedelta
    key_of: KeyOf
    is_kept: IsKept
    clock: Callable[[], datetime]
    _sessions: dict[str, Session] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, who: Identity, passkey: str, earlier: str = "") -> str:
        """Return the secret of a new session; the browser's earlier session ends.

        Raises:
            UnauthenticatedError: No person of this name is enrolled as a steward now.
        """
        key = self._key(who)
        if not key:
            raise UnauthenticatedError
        token, now = secrets.token_urlsafe(32), self.clock()
        name = _name(token)
        session = Session(name, who, passkey, key, secrets.token_urlsafe(32), now, now)
        with self._lock:
            self._sessions.pop(_name(earlier), None)
            self._sessions = {
                key: kept for key, kept in self._sessions.items() if not self._is_over(kept, now)
            }
            own = sorted(
                (kept for kept in self._sessions.values() if kept.who == who),
                key=lambda kept: kept.seen,
            )
            for oldest in own[: max(0, len(own) - MOST_OF_ONE + 1)]:
                del self._sessions[oldest.name]
            self._sessions[name] = session
        return token

    def find(self, token: str, *, by_person: bool = True) -> Session:
        """Return the session of a browser's secret.

        Args:
            by_person: Whether a person caused the request; the page's own requests extend no session.

        Raises:
            UnauthenticatedError: The session is unknown or over, or the steward may not enter any more.
        """
        now = self.clock()
        with self._lock:
            session = self._sessions.get(_name(token))
            if session is not None and self._is_over(session, now):
                del self._sessions[session.name]
                session = None
        if session is None:
            raise UnauthenticatedError
        if not self._stands(session):
            self.close(token)
            raise UnauthenticatedError
        if by_person:
            session.seen = now
        return session

    def close(self, token: str) -> None:
        """End a session, if there is one."""
        with self._lock:
            self._sessions.pop(_name(token), None)

    def _stands(self, session: Session) -> bool:
        """Whether the steward may enter still, with the same keys and the same passkey."""
        is_passkey_kept = not session.passkey or self.is_kept(session.passkey)
        return is_passkey_kept and self._key(session.who) == session.key

    def _key(self, who: Identity) -> str:
        return self.key_of(who) if who.role is Role.STEWARD else ""

    def _is_over(self, session: Session, now: datetime) -> bool:
        return now - session.seen >= self.idle or now - session.began >= LONGEST


def _name(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
