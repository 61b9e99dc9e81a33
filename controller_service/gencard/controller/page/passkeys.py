"""Ceremonies of WebAuthn: a passkey is enrolled, signs a steward in, or signs a decision of the desk.

Each challenge is made here and is valid for one purpose, once, for two minutes. User verification is
always required: a passkey is a second factor by nature.
"""

import hmac
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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

from gencard.controller.page.security import Form, request_id_of
from gencard.controller.page.views import ChangeResult
from gencard.controller.state.stewards import Passkey, Passkeys
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import InvalidInputError, PermissionDeniedError, UnauthenticatedError
from gencard.wire.canonical import sha256
from gencard.wire.keys import Identity, Role, grouped
from gencard.wire.steward import Action, Kind

# Sessions of the page: kept in memory, by the digest of a secret that only the browser has.
#
# A session is a steward's for a time: it ends by signing out, by idleness, by age, with its passkey, and
# with the steward's enrolment. A restart of the service ends all.

LONGEST = timedelta(hours=12)
MOST_OF_ONE = 5
"""Sessions of one steward; the longest idle one makes room."""


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


@dataclass(slots=True)
class Sessions:
    """Sessions of all signed-in stewards.

    Args:
        idle: Time without a request of a person after which a session ends.
        key_of: Returns a steward's key fingerprints; empty for strangers and disabled people.
    """

    idle: timedelta
    key_of: Callable[[Identity], str]
    is_kept: Callable[[str], bool]
    clock: Callable[[], datetime]
    _sessions: dict[str, Session] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, who: Identity, passkey: str, earlier: str = "") -> str:
        """Return the secret of a new session of a steward; the browser's earlier session ends."""
        key = self._key(who)
        if not key:
            raise UnauthenticatedError
        token, now = secrets.token_urlsafe(32), self.clock()
        name = sha256(token.encode())
        session = Session(name, who, passkey, key, secrets.token_urlsafe(32), now, now)
        with self._lock:
            self._sessions.pop(sha256(earlier.encode()), None)
            self._sessions = {
                key: kept for key, kept in self._sessions.items() if not self._is_over(kept, now)
            }
            own = sorted(
                (kept for kept in self._sessions.values() if kept.who == who), key=lambda kept: kept.seen
            )
            for oldest in own[: max(0, len(own) - MOST_OF_ONE + 1)]:
                del self._sessions[oldest.name]
            self._sessions[name] = session
        return token

    def find(self, token: str, *, by_person: bool = True) -> Session:
        """Return the session of a browser's secret.

        Args:
            by_person: Whether a person caused the request; the page's own requests extend no session.
        """
        now = self.clock()
        with self._lock:
            session = self._sessions.get(sha256(token.encode()))
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
        with self._lock:
            self._sessions.pop(sha256(token.encode()), None)

    def _key(self, who: Identity) -> str:
        return self.key_of(who) if who.role is Role.STEWARD else ""

    def _is_over(self, session: Session, now: datetime) -> bool:
        return now - session.seen >= self.idle or now - session.began >= LONGEST


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

    A caller who requests many challenges therefore cannot displace the challenges of others. The clock
    ``now`` never goes back.
    """

    now: Callable[[], float] = time.monotonic
    seconds: float = CHALLENGE_SECONDS
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _used: OrderedDict[bytes, float] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new(self, purpose: str) -> bytes:
        ends = int(1000 * (self.now() + self.seconds)).to_bytes(8)
        body = ends + secrets.token_bytes(16) + _digest(purpose)
        return body + hmac.digest(self._key, body, "sha256")

    def take(self, challenge: bytes, purpose: str) -> None:
        """Use a challenge up; raises UnauthenticatedError if it is not open for this purpose."""
        body, signature = challenge[:-32], challenge[-32:]
        if not hmac.compare_digest(signature, hmac.digest(self._key, body, "sha256")):
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


def _digest(purpose: str) -> bytes:
    return bytes.fromhex(sha256(purpose.encode()))


@dataclass(frozen=True, slots=True)
class Ceremonies:
    """WebAuthn ceremonies of a browser and its authenticator with this page.

    Args:
        origin: Origin of the page, ``https://host:port``; its host is the relying party.
        includes: Returns whether a person is enrolled and not disabled at this moment.
    """

    passkeys: Passkeys
    origin: str
    includes: Callable[[Identity], bool]
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
            return self.passkeys.named(sha256(credential.raw_id)).holder
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
            user_id=bytes.fromhex(sha256(holder.uri.encode())),
            challenge=self.challenges.new(f"link {sha256(token.encode())}"),
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
        verified = None
        with suppress(*_FOREIGN):
            credential = parse_registration_credential_json(answer)
            challenge = parse_client_data_json(credential.response.client_data_json).challenge
            self.challenges.take(challenge, f"link {sha256(token.encode())}")
            verified = verify_registration_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.party,
                expected_origin=self.origin,
                require_user_verification=True,
            )
        if verified is None:
            raise UnauthenticatedError
        return self.passkeys.add(
            token, verified.credential_id, verified.credential_public_key, verified.sign_count
        )

    def assertion_options(self, purpose: str, session: Session | None = None) -> str:
        """Return the options by which a browser requests a signature of its authenticator, as JSON.

        Args:
            session: Session whose passkey is accepted, or any passkey of its steward if it began without
                a passkey. None accepts passkeys of all stewards.
        """
        allowed = None
        if session is not None:
            own = [one for one in self.passkeys.of(session.who.uri) if session.passkey in ("", one.key)]
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

        The use is logged as ``action``, if that is not empty. Every wrong answer is one error.
        """
        verified = None
        with suppress(*_FOREIGN):
            credential = parse_authentication_credential_json(answer)
            challenge = parse_client_data_json(credential.response.client_data_json).challenge
            self.challenges.take(challenge, purpose)
            passkey = self.passkeys.named(sha256(credential.raw_id))
            verified = verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.party,
                expected_origin=self.origin,
                credential_public_key=passkey.public_key,
                credential_current_sign_count=passkey.uses,
                require_user_verification=True,
            )
        if verified is None:
            raise UnauthenticatedError
        who = self._steward(passkey.holder)
        self.passkeys.note_use(passkey, verified.new_sign_count, action)
        return who, passkey

    def _steward(self, uri: str) -> Identity:
        who = Identity.of(uri)
        if who.role is not Role.STEWARD or not self.includes(who):
            raise UnauthenticatedError
        return who


# Decisions on the page: from the fields of a form to an action of the desk, and back.

_LONGEST_NUMBER = 12


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise InvalidInputError(field=name, problem="is not a whole number")
    return int(text)


def _list(text: str, name: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise InvalidInputError(field=name, problem="is not a list of names")
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """An argument of an action as a field of a form, which may be there more than once if ``many``."""

    read: Callable[[str, str], Any] = lambda text, _name: text
    write: Callable[[Any], str] = str
    many: bool = False


_TEXT = Field()
_FLAG = Field(lambda _text, _name: True, lambda _value: "yes")
ARGUMENTS: Mapping[Kind, Mapping[str, Field]] = {
    Kind.COUNTER: {
        "drop": Field(_list, json.dumps, many=True),
        "without": Field(many=True),
        "rows": Field(_number),
    },
    Kind.REJECT: {"remark": _TEXT},
    Kind.REVOKE: {"remark": _TEXT},
    Kind.RELEASE_ANSWER: {"withhold": Field(many=True), "digits": Field(_number), "red": _FLAG},
    Kind.REFUSE_ANSWER: {"code": _TEXT},
    Kind.CLEAR_AUDITS: {"black_box": _TEXT},
    Kind.ENROL: {
        **dict.fromkeys(("request", "fingerprint", "role", "project", "address"), _TEXT),
        "again": _FLAG,
    },
}
"""Arguments of each kind of action; the other kinds have none."""

_PLACES = {
    **dict.fromkeys((Kind.SETTLE, Kind.VOID), "/budget"),
    **dict.fromkeys((Kind.RELEASE_ANSWER, Kind.REFUSE_ANSWER), "/answers"),
    Kind.DISMISS_REFUSAL: "/",
    Kind.CLEAR_AUDITS: "/releases",
    **dict.fromkeys((Kind.ENROL, Kind.DISABLE, Kind.ENABLE, Kind.ROTATE), "/people"),
}
"""Page that a steward sees after a decision; after a decision on a card it is the card."""

_DONE = {
    Kind.APPROVE: "The card is offered to the analyst.",
    Kind.COUNTER: "The changed terms are offered to the analyst.",
    Kind.REJECT: "The proposal is refused.",
    Kind.REVOKE: "The card is revoked.",
    Kind.RELEASE_ANSWER: "The answer is released.",
    Kind.REFUSE_ANSWER: "The answer is refused.",
    Kind.SETTLE: "The reservation is settled: its price stays spent.",
    Kind.VOID: "The reservation is void: its price is given back.",
    Kind.DISMISS_REFUSAL: "The failure no longer counts against its analyst.",
    Kind.CLEAR_AUDITS: "The audits no longer count.",
    Kind.ENROL: "The person is enrolled.",
    Kind.DISABLE: "The person is disabled.",
    Kind.ENABLE: "The person is enabled.",
    Kind.ROTATE: "The key is replaced.",
}
_FIRST_OF_TWO = (
    "Your decision is in the log. It takes effect when another steward makes the same decision."
)


def action_of(form: Form) -> Action:
    if (kind := form.text("kind")) not in list(Kind):
        raise InvalidInputError(field="kind", problem="is not a kind of decision")
    arguments: dict[str, Any] = {}
    for name, form_field in ARGUMENTS.get(Kind(kind), {}).items():
        texts = [text for text in form.texts(name) if text.strip()]
        if form_field.many and texts:
            arguments[name] = [form_field.read(text, name) for text in texts]
        elif texts:
            arguments[name] = form_field.read(form.text(name), name)
    return Action(Kind(kind), form.text("resource"), arguments, form.text("reason"), form.text("shown"))


def fields_of(kind: str, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Fields of a form that asks for the same again, as a second steward does."""
    fields: list[tuple[str, str]] = []
    for name, value in arguments.items():
        form_field = ARGUMENTS.get(Kind(kind), {}).get(name, _TEXT)
        values = value if form_field.many else [value]
        fields += [(name, form_field.write(one)) for one in values if one is not False]
    return fields


@dataclass(frozen=True, slots=True)
class DecisionPages:
    """Decisions of signed-in stewards; if two have to agree, each signs with the passkey."""

    desk: Desk
    ceremonies: Ceremonies

    def options(self, session: Session, form: Form) -> str:
        """Return the browser's request to its authenticator, as JSON; empty if none is needed."""
        action = action_of(form)
        self.desk.preview(session.who, action.kind, action.resource, action.arguments)
        self.desk.check_offer(session.who, action)
        if not self.desk.needs_two(session.who, action):
            return ""
        return self.ceremonies.assertion_options(_purpose(session, action), session)

    def decide(self, session: Session, form: Form) -> ChangeResult:
        """Decide; raises as ``Desk.decide``, and PermissionDeniedError without the passkey."""
        action, request_id = action_of(form), request_id_of(form)
        passkey = session.passkey
        if self.desk.needs_two(session.who, action):
            passkey = self._signed(session, action, form.text("assertion"))
        keys = {passkey} if passkey else set()
        decision = self.desk.decide(session.who, action, request_id, keys)
        place = _PLACES.get(action.kind, f"/cards/{action.resource}")
        if "answer" in decision.result:
            name = action.resource.rpartition("/")[2]
            context = {"title": f"{name} is enrolled", "name": name, "grouped": grouped}
            return ChangeResult(place, template="enrolled.html", context={**context, **decision.result})
        notice = _DONE[Kind(decision.kind)] if decision.done else _FIRST_OF_TWO
        return ChangeResult(place, notice)

    def _signed(self, session: Session, action: Action, answer: str) -> str:
        with suppress(UnauthenticatedError):
            who, passkey = self.ceremonies.assertion(_purpose(session, action), answer)
            if who == session.who and session.passkey in ("", passkey.key):
                return passkey.key
        raise PermissionDeniedError(
            advice="Two stewards must agree on this: confirm the decision with your passkey."
        )


def _purpose(session: Session, action: Action) -> str:
    return f"decide {session.name} {action.digest}"
