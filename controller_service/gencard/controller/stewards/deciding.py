"""Decisions: reviewed data must be unchanged, two stewards agree if required, the log comes first."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from gencard.controller.people.enrolment import Enrolled
from gencard.controller.state import stewards
from gencard.controller.state.database import Database
from gencard.controller.state.log import EventLog
from gencard.controller.state.requests import Request
from gencard.controller.state.stewards import StoredDecision
from gencard.controller.stewards.actions import ActionEffect, Demands
from gencard.controller.stewards.answers import AnswerEffect
from gencard.controller.stewards.cards import CardEffect
from gencard.controller.stewards.people import PersonEffect
from gencard.controller.stewards.registers import AuditEffect, KeyEffect, LineEffect, RefusalEffect
from gencard.core.errors import (
    PermissionDeniedError,
    SecondStewardError,
    StaleEtagError,
    UnauthenticatedError,
)
from gencard.wire.canonical import (
    Document,
    digest_of,
    document_of,
    json_bytes,
    sha256,
)
from gencard.wire.dsse import DOCUMENT
from gencard.wire.keys import Identity, Role, short_name
from gencard.wire.steward import Action, Decision, FirstDecision, Kind, Preview

LOCAL = "local"
EMERGENCY = "decide-emergency"
ACCOUNT = "account:"
"""Before the name of an account of the operating system, in place of a key's fingerprint."""

_OTHER_DIGEST = (
    "The digest (--shown) is not that of what would be decided on now: it is mistyped, or something "
    "changed. Look again (`gencard steward show NAME`), and repeat with the digest that is shown."
)


@dataclass(frozen=True, slots=True)
class Way:
    """Way in which stewards come to a desk.

    Args:
        name: service, page or local.
        account: In a local shell, the account of the operating system, whatever name was given.
        emergency: In a local shell, whether one steward decides alone although two are required.
    """

    name: str = "service"
    account: str = ""
    emergency: bool = False


@dataclass(frozen=True, slots=True)
class Effects:
    """Effect of each kind of action."""

    cards: CardEffect
    answers: AnswerEffect
    lines: LineEffect
    refusals: RefusalEffect
    audits: AuditEffect
    people: PersonEffect
    keys: KeyEffect

    def of(self, kind: Kind) -> ActionEffect:
        """Return the effect of a kind."""
        by_kind: Mapping[Kind, ActionEffect] = {
            **dict.fromkeys((Kind.APPROVE, Kind.COUNTER, Kind.REJECT, Kind.REVOKE), self.cards),
            **dict.fromkeys((Kind.RELEASE_ANSWER, Kind.REFUSE_ANSWER), self.answers),
            **dict.fromkeys((Kind.SETTLE, Kind.VOID), self.lines),
            Kind.DISMISS_REFUSAL: self.refusals,
            Kind.CLEAR_AUDITS: self.audits,
            **dict.fromkeys((Kind.ENROL, Kind.DISABLE, Kind.ENABLE), self.people),
            Kind.ROTATE: self.keys,
        }
        return by_kind[kind]


@dataclass(frozen=True, slots=True)
class Deciding:
    """Decisions of stewards.

    Args:
        person: Returns a person as enrolled at this moment; None for strangers and disabled people.
        two: Kinds of decisions on the whole controller that two stewards take.
        way: Interface by which stewards decide.
    """

    database: Database
    log: EventLog
    effects: Effects
    person: Callable[[Identity], Enrolled | None]
    clock: Callable[[], datetime]
    two: frozenset[str] = frozenset()
    way: Way = field(default_factory=Way)

    def preview(self, who: Identity, kind: Kind, resource: str, arguments: Mapping[str, Any]) -> Preview:
        """Return the document that has to be seen before a decision, as it is now.

        Raises:
            NotFoundError, InvalidInputError: There is nothing to decide on.
        """
        check_steward(who)
        with self.database.reading() as tx:
            return self._preview(tx, kind, resource, arguments)

    def _preview(
        self, tx: Connection, kind: Kind, resource: str, arguments: Mapping[str, Any]
    ) -> Preview:
        effect = self.effects.of(kind)
        document = effect.shown(tx, resource, arguments)
        action = Action(kind, resource, arguments, "a look", digest_of(document))
        two = self._needs_two(effect.demands(tx, action))
        firsts = stewards.waiting_first_decisions(tx, self.clock(), {resource})
        return Preview(str(kind), resource, arguments, document, two, action.shown, firsts)

    def needs_two(self, who: Identity, action: Action) -> bool:
        """Whether two stewards have to agree on this, in either order."""
        check_steward(who)
        with self.database.reading() as tx:
            return self._needs_two(self.effects.of(action.kind).demands(tx, action))

    def decide(
        self, who: Identity, action: Action, request_id: str, keys: Collection[str] = ()
    ) -> Decision:
        """Decide; the log holds who, what, why and what was shown before anything changes.

        Where two stewards have to decide, the first decision waits; the second has its effect.

        Args:
            request_id: Random UUID: a repeat gets the same answer.
            keys: Fingerprints of other keys that ``who`` came with.

        Raises:
            StaleEtagError: The reviewed data have changed.
            SecondStewardError: Another steward has to decide.
            GencardError: The error of the action itself.
        """
        check_steward(who)
        request = Request("Decide", request_id, sha256(f"{action.digest} {action.reason}".encode()))
        afterwards: list[Callable[[], None]] = []
        with self.effects.of(action.kind).turn():
            with self.database.transaction() as tx:
                stored_decision = request.once(
                    tx,
                    who,
                    self.clock(),
                    lambda: _stored(self._decided(tx, who, action, keys, afterwards)),
                )
            for change in afterwards:
                change()
        return _decision_of(action, document_of(stored_decision, "decision"))

    def note_alone(self, who: Identity, action: Action) -> None:
        """Log changes of people by the owner of the files without a decision, if two are required."""
        if self._needs_two(Demands(changes_people=True)):
            with self.database.transaction() as tx:
                self._append(tx, EMERGENCY, who, action, self.clock().replace(microsecond=0), None)

    def _decided(
        self,
        tx: Connection,
        who: Identity,
        action: Action,
        keys: Collection[str],
        afterwards: list[Callable[[], None]],
    ) -> Decision:
        effect = self.effects.of(action.kind)
        if action.shown != digest_of(effect.shown(tx, action.resource, action.arguments)):
            raise StaleEtagError(what="subject of your decision", advice=_OTHER_DIGEST)
        demands, now = effect.demands(tx, action), self.clock().replace(microsecond=0)
        own_keys = self._keys(who, keys)
        self._check_not_own(who, own_keys, demands.subject)
        needs_two, first = self._needs_two(demands), None
        alone = self.way.emergency or (needs_two and self._is_setup(demands))
        if needs_two and not alone:
            first = self._counting(tx, action, now)
            if first is None:
                _rehearse(tx, who, action, effect)
                return self._first(tx, who, action, own_keys, now)
            _check_other(first, who, own_keys)
        by = (who.uri,) if first is None else (first.by, who.uri)
        self._append(tx, EMERGENCY if alone else "decide", who, action, now, first)
        applied = effect.apply(tx, who.uri, action)
        stewards.forget_first_decisions(tx, action.resource, now)
        if action.kind is Kind.DISABLE:  # else they would count again once the person is enabled
            stewards.forget_first_decisions_of(tx, applied.result["uri"])
        if applied.afterwards is not None:
            afterwards.append(applied.afterwards)
        return _decision(action, by, done=True, time=now, result=applied.result)

    def _needs_two(self, demands: Demands) -> bool:
        policies = {entry.name: entry.policy for entry in self.effects.cards.cards.catalogue}
        if demands.changes_people and any(policy.decided_by_two for policy in policies.values()):
            return True
        if demands.changes_people and self.two:
            return True
        policy = policies.get(demands.dataset)
        if demands.under & self.two or policy is None:
            return bool(demands.under & self.two)
        return (policy.stewards > 1 and demands.gives) or bool(demands.under & {*policy.two_stewards})

    def _is_setup(self, demands: Demands) -> bool:
        """Whether the owner of the files changes people while no two stewards could agree."""
        is_local = self.way.name == LOCAL
        return is_local and demands.changes_people and not self.effects.people.has_two_stewards()

    def _keys(self, who: Identity, others: Collection[str]) -> frozenset[str]:
        if self.way.account:
            return frozenset({f"{ACCOUNT}{self.way.account}"})
        person = self.person(who)
        return frozenset(others) | (frozenset() if person is None else person.keys)

    def _check_not_own(self, who: Identity, held: frozenset[str], subject: str) -> None:
        """Refuse a decision of a person on themselves, by name or by key."""
        try:
            person = self.person(Identity.of(subject))
        except UnauthenticatedError:  # no person, or budget that a restoration holds
            return
        if subject == who.uri or (person is not None and person.keys & held):
            raise SecondStewardError(why="the decision concerns you")

    def _counting(self, tx: Connection, action: Action, now: datetime) -> StoredDecision | None:
        """Return the first decision on the same action, while its steward may still decide."""
        first = stewards.find_first_decision(tx, action.digest, now)
        if first is None or any(key.startswith(ACCOUNT) for key in first.keys):
            return first
        person = self.person(Identity.of(first.by))
        return first if person is not None and self._are_in_force(tx, first.keys, person) else None

    def _are_in_force(self, tx: Connection, keys: Collection[str], person: Enrolled) -> bool:
        """Whether keys still are a person's; keys that were replaced since may have been stolen."""
        if not person.keys_in_force <= {*keys}:
            return False
        passkeys = {*keys} - person.keys
        return not person.tls_keys or self.effects.people.passkeys.are_kept(tx, passkeys)

    def _first(
        self, tx: Connection, who: Identity, action: Action, held: frozenset[str], now: datetime
    ) -> Decision:
        self._append(tx, "decide-first", who, action, now, None)
        first = StoredDecision(
            action.digest,
            str(action.kind),
            action.resource,
            action.arguments,
            action.shown,
            action.reason,
            by=who.uri,
            time=now,
            expires=now + stewards.LIFE,
            keys=tuple(sorted(held)),
        )
        stewards.add_first_decision(tx, first)
        return _decision(action, (who.uri,), done=False, time=now, expires=first.expires)

    def _append(
        self,
        tx: Connection,
        step: str,
        who: Identity,
        action: Action,
        now: datetime,
        first: FirstDecision | None,
    ) -> None:
        details = DOCUMENT.write(action) | {"digest": action.digest, "way": self.way.name}
        del details["arguments"]  # texts alone are logged; the digest is of the arguments too
        names = {"action": step, "actor": who.uri, "resource": details.pop("resource")}
        if first is not None:
            details["first"] = short_name(first.by)
        if self.way.account:
            details["account"] = self.way.account
        if step == EMERGENCY:
            details["emergency"] = "one steward decided alone"
        self.log.append(tx, **names, details=details, now=now)


def _decision(action: Action, by: tuple[str, ...], **others: Any) -> Decision:
    return Decision(str(action.kind), action.resource, action.arguments, action.shown, by, **others)


def _stored(decision: Decision) -> bytes:
    """Return the decision without its action, as the state keeps it for a repeated request."""
    document = DOCUMENT.write(decision)
    document["expires"] = document["expires"] or ""
    return json_bytes({name: value for name, value in document.items() if name not in _OF_ACTION})


def _decision_of(action: Action, stored: Document) -> Decision:
    document = {name: value for name, value in DOCUMENT.write(action).items() if name in _OF_ACTION}
    document |= stored | {"expires": stored["expires"] or None}
    return DOCUMENT.read(Decision, document, field="decision")


_OF_ACTION = {one.name for one in fields(Action)} & {one.name for one in fields(Decision)}
"""Fields that a decision shares with its action."""


def _rehearse(tx: Connection, who: Identity, action: Action, effect: ActionEffect) -> None:
    """Raise the error of a trial: a second steward must not agree to an impossible action."""
    if action.kind is not Kind.ROTATE:  # which writes a file before the transaction is true
        trial = tx.begin_nested()
        try:
            effect.apply(tx, who.uri, action)
        finally:
            trial.rollback()


def check_steward(who: Identity) -> None:
    """Raise PermissionDeniedError for a person who is no steward."""
    if who.role is not Role.STEWARD:
        raise PermissionDeniedError


def _check_other(first: StoredDecision, who: Identity, held: frozenset[str]) -> None:
    """Raise SecondStewardError unless it is another person, with other keys, as far as is known."""
    earlier = _names(Identity.of(first.by), first.keys)
    if first.by == who.uri or earlier & _names(who, held):
        raise SecondStewardError
    if not held or held & {*first.keys}:
        raise SecondStewardError(why="the first decision was taken with the same key")


def _names(who: Identity, keys: Collection[str]) -> set[str]:
    """Return the names under which a person acts: their own, and that of an account."""
    accounts = (key.removeprefix(ACCOUNT) for key in keys if key.startswith(ACCOUNT))
    return {who.name, *accounts}
