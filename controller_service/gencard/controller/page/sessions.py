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


@dataclass(slots=True)
class Session:
    """A steward who is signed in.

    Args:
        name: Digest of the browser's secret.
        passkey: Name of the passkey that was used.
        csrf: What every change must bring along.
        notices: Texts that the next page shows once.
    """

    name: str
    who: Identity
    passkey: str
    csrf: str
    began: datetime
    seen: datetime
    notices: list[str] = field(default_factory=list)

    def check_csrf(self, token: str) -> None:
        """Raises PermissionDeniedError where a change does not come from a form of this session."""
        if not compare_digest(token.encode(), self.csrf.encode()):
            raise PermissionDeniedError


@dataclass(slots=True)
class Sessions:
    """Everybody who is signed in.

    Args:
        idle: After so long without a request that a person made.
        includes: Whether a steward is enrolled and not disabled at this moment.
        is_kept: Whether a passkey is still enrolled.
    """

    idle: timedelta
    includes: Includes
    is_kept: IsKept
    clock: Callable[[], datetime]
    _sessions: dict[str, Session] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, who: Identity, passkey: str, earlier: str = "") -> str:
        """The secret of a new session; the one that the browser had before ends.

        Raises:
            UnauthenticatedError: Nobody of this name is enrolled as a steward now.
        """
        if not self._may_enter(who):
            raise UnauthenticatedError
        token, now = secrets.token_urlsafe(32), self.clock()
        name = _name(token)
        session = Session(name, who, passkey, secrets.token_urlsafe(32), now, now)
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
        """The session of a browser's secret.

        Args:
            by_person: Whether a person caused the request; what the page asks by itself keeps nobody in.

        Raises:
            UnauthenticatedError: There is none, it is over, or the steward may enter no more.
        """
        now = self.clock()
        with self._lock:
            session = self._sessions.get(_name(token))
            if session is not None and self._is_over(session, now):
                del self._sessions[session.name]
                session = None
        if session is None:
            raise UnauthenticatedError
        if not self._may_enter(session.who) or not self.is_kept(session.passkey):
            self.close(token)
            raise UnauthenticatedError
        if by_person:
            session.seen = now
        return session

    def close(self, token: str) -> None:
        """End a session, if there is one."""
        with self._lock:
            self._sessions.pop(_name(token), None)

    def _may_enter(self, who: Identity) -> bool:
        return who.role is Role.STEWARD and self.includes(who)

    def _is_over(self, session: Session, now: datetime) -> bool:
        return now - session.seen >= self.idle or now - session.began >= LONGEST


def _name(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
