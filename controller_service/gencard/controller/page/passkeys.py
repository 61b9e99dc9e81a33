"""Ceremonies of WebAuthn: a passkey is enrolled, signs a steward in, or signs a decision.

Each challenge is made here and is valid for one purpose, once, for two minutes. User verification is
always required: a passkey is a second factor by nature.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any
from urllib.parse import urlsplit

from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import (
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from gencard.controller.people.passkeys import Passkey, Passkeys, key_of
from gencard.core.errors import PermissionDeniedError, UnauthenticatedError
from gencard.wire.keys import Identity, Role

# Sessions of the page: kept in memory, by the digest of a secret that only the browser has.
#
# A session is a steward's for a time: it ends by signing out, by idleness, by age, with its passkey, and
# with the steward's enrolment. A restart of the service ends all.


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
        # the steward may still enter, with the same keys and the same passkey
        is_passkey_kept = not session.passkey or self.is_kept(session.passkey)
        if not (is_passkey_kept and self._key(session.who) == session.key):
            self.close(token)
            raise UnauthenticatedError
        if by_person:
            session.seen = now
        return session

    def close(self, token: str) -> None:
        """End a session, if there is one."""
        with self._lock:
            self._sessions.pop(_name(token), None)

    def _key(self, who: Identity) -> str:
        return self.key_of(who) if who.role is Role.STEWARD else ""

    def _is_over(self, session: Session, now: datetime) -> bool:
        return now - session.seen >= self.idle or now - session.began >= LONGEST


def _name(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


CHALLENGE_SECONDS = 120
SIGN_IN = "sign-in"
NO_PASSKEY = (
    "Two stewards must agree on this, each with a passkey, and you have none: "
    "`gencard-controller person passkey NAME` prints a link for one."
)
_FOREIGN = (WebAuthnException, ValueError, KeyError, TypeError, AttributeError)


@dataclass(slots=True)
class Challenges:
    """Challenges with their purpose and end, signed by a key of this process; only used ones are stored.

    A caller who requests many challenges therefore cannot displace the challenges of others.

    Args:
        now: Clock in seconds that never goes back.
        seconds: Lifetime of a challenge.
    """

    now: Callable[[], float] = time.monotonic
    seconds: float = CHALLENGE_SECONDS
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _used: OrderedDict[bytes, float] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new(self, purpose: str) -> bytes:
        """Return a challenge for one purpose."""
        ends = int(1000 * (self.now() + self.seconds)).to_bytes(8)
        body = ends + secrets.token_bytes(16) + _digest(purpose)
        return body + self._signature(body)

    def take(self, challenge: bytes, purpose: str) -> None:
        """Use a challenge up; raises UnauthenticatedError if it is not open for this purpose."""
        body, signature = challenge[:-32], challenge[-32:]
        if not hmac.compare_digest(signature, self._signature(body)):
            raise UnauthenticatedError
        now, ends = self.now(), int.from_bytes(body[:8]) / 1000
        with self._lock:
            while self._used and next(iter(self._used.values())) < now:
                self._used.popitem(last=False)
            again = body in self._used
            if now <= ends:
                self._used[body] = ends
        if again or now > ends or not hmac.compare_digest(body[24:], _digest(purpose)):
            raise UnauthenticatedError

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")


def _digest(purpose: str) -> bytes:
    return bytes.fromhex(key_of(purpose.encode()))


@dataclass(frozen=True, slots=True)
class Ceremonies:
    """WebAuthn ceremonies of a browser and its authenticator with this page.

    Args:
        origin: Origin of the page, ``https://host:port``; its host is the relying party.
        includes: Returns whether a person is enrolled and not disabled at this moment.
    """

    passkeys: Passkeys
    origin: str
    includes: Includes
    challenges: Challenges = field(default_factory=Challenges)

    @property
    def party(self) -> str:
        return urlsplit(self.origin).hostname or ""

    def holder(self, assertion: str, link: str) -> str:
        """Return the URI of the steward whose passkey or link a request shows, unchecked; else empty."""
        try:
            if link:
                return self.passkeys.holder_of_link(link)
            credential = parse_authentication_credential_json(assertion)
            return self.passkeys.named(key_of(credential.raw_id)).holder
        except (UnauthenticatedError, *_FOREIGN):
            return ""

    def enrolment_options(self, token: str) -> str:
        """Return the options for a browser to make a passkey, as JSON; raises UnauthenticatedError."""
        holder = self._steward(self.passkeys.holder_of_link(token))
        known = [PublicKeyCredentialDescriptor(one.credential) for one in self.passkeys.of(holder.uri)]
        options = generate_registration_options(
            rp_id=self.party,
            rp_name="Gencard",
            user_name=holder.name,
            user_display_name=f"{holder.name}, steward",
            user_id=bytes.fromhex(key_of(holder.uri.encode())),
            challenge=self.challenges.new(_of_link(token)),
            exclude_credentials=known,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                require_resident_key=True,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
        )
        return options_to_json(options)

    def enrol(self, token: str, answer: Any) -> Passkey:
        """Keep the passkey that a browser made; raises as ``Passkeys.add`` does."""
        self._steward(self.passkeys.holder_of_link(token))
        verified = self._registration(token, answer)
        if verified is None:
            raise UnauthenticatedError
        return self.passkeys.add(token, *verified)

    def assertion_options(self, purpose: str, session: Session | None = None) -> str:
        """Return the options by which a browser requests a signature of its authenticator, as JSON.

        Args:
            session: Session whose passkey is accepted, or any passkey of its steward if it began without
                a passkey. None accepts passkeys of all stewards.

        Raises:
            PermissionDeniedError: The session's steward has no passkey.
        """
        allowed = None
        if session is not None:
            own = self.passkeys.of(session.who.uri)
            own = [one for one in own if session.passkey in ("", one.key)]
            if not own:
                raise PermissionDeniedError(advice=NO_PASSKEY)
            allowed = [PublicKeyCredentialDescriptor(one.credential) for one in own]
        options = generate_authentication_options(
            rp_id=self.party,
            challenge=self.challenges.new(purpose),
            allow_credentials=allowed,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return options_to_json(options)

    def assertion(self, purpose: str, answer: Any, action: str = "") -> tuple[Identity, Passkey]:
        """Return the steward who answered the challenge of a purpose, and the passkey.

        Args:
            action: Action for the log; if empty, the use is not logged.

        Raises:
            UnauthenticatedError: The answer is wrong in any way, or its steward may not enter.
        """
        checked = self._assertion(purpose, answer)
        if checked is None:
            raise UnauthenticatedError
        passkey, uses = checked
        who = self._steward(passkey.holder)
        self.passkeys.note_use(passkey, uses, action)
        return who, passkey

    def _steward(self, uri: str) -> Identity:
        who = Identity.of(uri)
        if who.role is not Role.STEWARD or not self.includes(who):
            raise UnauthenticatedError
        return who

    def _registration(self, token: str, answer: Any) -> tuple[bytes, bytes, int] | None:
        try:
            credential = parse_registration_credential_json(answer)
            challenge = parse_client_data_json(credential.response.client_data_json).challenge
            self.challenges.take(challenge, _of_link(token))
            registration = verify_registration_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.party,
                expected_origin=self.origin,
                require_user_verification=True,
            )
        except _FOREIGN:
            return None
        return registration.credential_id, registration.credential_public_key, registration.sign_count

    def _assertion(self, purpose: str, answer: Any) -> tuple[Passkey, int] | None:
        try:
            credential = parse_authentication_credential_json(answer)
            challenge = parse_client_data_json(credential.response.client_data_json).challenge
            self.challenges.take(challenge, purpose)
            passkey = self.passkeys.named(key_of(credential.raw_id))
            checked = verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.party,
                expected_origin=self.origin,
                credential_public_key=passkey.public_key,
                credential_current_sign_count=passkey.uses,
                require_user_verification=True,
            )
        except _FOREIGN:
            return None
        return passkey, checked.new_sign_count


def _of_link(token: str) -> str:
    return f"link {key_of(token.encode())}"
