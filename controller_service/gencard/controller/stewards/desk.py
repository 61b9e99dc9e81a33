"""The desk: every look and every decision of a steward, whatever way the steward came.

There is no gRPC and no HTTP in here. The caller has authenticated ``who``: the guard of the
service, the page's session, or the operating system of a local shell.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from gencard.controller.people.enrolment import Enrolled, read_identities
from gencard.controller.state import stewards
from gencard.controller.state.cards import cards_named
from gencard.controller.state.database import Database, Page
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.log import Event, EventLog
from gencard.controller.state.requests import Request
from gencard.controller.state.results import RunRow
from gencard.controller.state.stewards import StoredDecision
from gencard.controller.stewards.archive import Archive, LineView, LogQuery, LogReader, accounts, search
from gencard.controller.stewards.cards import CardEffect, Risks
from gencard.controller.stewards.effects import (
    LINE,
    PERSON,
    ActionEffect,
    AnswerEffect,
    AuditEffect,
    Demands,
    KeyEffect,
    LineEffect,
    PersonEffect,
    RefusalEffect,
    RequestView,
    check_steward,
)
from gencard.controller.stewards.waiting import CertificateEnd, WaitingList
from gencard.core.errors import (
    GencardError,
    InvalidInputError,
    SecondStewardError,
    StaleEtagError,
    UnauthenticatedError,
)
from gencard.wire.canonical import digest_of, document_of, json_bytes, sha256
from gencard.wire.codec import card_of_bytes
from gencard.wire.dsse import DOCUMENT
from gencard.wire.keys import Identity, Role, short_name
from gencard.wire.steward import (
    Action,
    AnswerReview,
    BudgetAccount,
    CardReview,
    Decision,
    Failure,
    FirstDecision,
    Kind,
    Person,
    Preview,
    Waiting,
)

# Decisions: reviewed data must be unchanged, two stewards agree if required, the log comes first.

LOCAL = "local"
EMERGENCY = "decide-emergency"
ACCOUNT = "account:"
"""Before the name of an account of the operating system, in place of a key's fingerprint."""

_OTHER_DIGEST = (
    "The digest (--shown) is not that of what would be decided on now: it is mistyped, or something "
    "changed. Look again (`gencard steward show NAME`), and repeat with the digest that is shown."
)


@dataclass(frozen=True, slots=True)
class DecisionChannel:
    """DecisionChannel in which stewards come to a desk: service, page or local.

    Args:
        account: In a local shell, the account of the operating system, whatever name was given.
        emergency: In a local shell, whether one steward decides alone although two are required.
    """

    name: str = "service"
    account: str = ""
    emergency: bool = False


@dataclass(frozen=True, slots=True)
class Effects:
    cards: CardEffect
    answers: AnswerEffect
    lines: LineEffect
    refusals: RefusalEffect
    audits: AuditEffect
    people: PersonEffect
    keys: KeyEffect

    def of(self, kind: Kind) -> ActionEffect:
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
class Desk:
    """Views and decisions of stewards.

    Args:
        person: Returns a person as enrolled at this moment; None for strangers and disabled people.
        service_certificates: Returns name and end of each certificate that the service uses.
        two: Kinds of decisions on the whole controller that two stewards take.
    """

    database: Database
    log: EventLog
    effects: Effects
    person: Callable[[Identity], Enrolled | None]
    clock: Callable[[], datetime]
    ledger: Ledger
    reader: LogReader
    risks: Risks
    service_certificates: Callable[[], Iterable[tuple[str, datetime]]]
    two: frozenset[str] = frozenset()
    channel: DecisionChannel = field(default_factory=DecisionChannel)

    @contextmanager
    def _reading(self, who: Identity) -> Iterator[Connection]:
        """Read the state for a steward; raises PermissionDeniedError for other people."""
        check_steward(who)
        with self.database.reading() as tx:
            yield tx

    def preview(self, who: Identity, kind: Kind, resource: str, arguments: Mapping[str, Any]) -> Preview:
        """Return the document that has to be seen before a decision, as it is now.

        Raises:
            NotFoundError, InvalidInputError: There is nothing to decide on.
        """
        with self._reading(who) as tx:
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
        with self._reading(who) as tx:
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
            InvalidInputError: As ``check_offer``.
            StaleEtagError: The reviewed data have changed.
            SecondStewardError: Another steward has to decide.
            GencardError: The error of the action itself.
        """
        self.check_offer(who, action)
        check_steward(who)
        request = Request("Decide", request_id, sha256(f"{action.digest} {action.reason}".encode()))
        afterwards: list[Callable[[], None]] = []
        effect = self.effects.of(action.kind)
        # other effects change the state alone, whose writers follow one another
        with effect.turn() if isinstance(effect, PersonEffect) else nullcontext():
            with self.database.transaction() as tx:
                once = partial(self._decided, tx, who, action, keys, afterwards)
                stored_decision = request.once(tx, who, self.clock(), lambda: _stored(once()))
            for change in afterwards:
                change()
        stored = document_of(stored_decision, "decision")
        document = {name: text for name, text in DOCUMENT.write(action).items() if name in _OF_ACTION}
        document |= stored | {"expires": stored["expires"] or None}
        return DOCUMENT.read(Decision, document, field="decision")

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
        alone = self.channel.emergency or (needs_two and self._is_setup(demands))
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
        if self.channel.name != LOCAL or not demands.changes_people:
            return False
        people = read_identities(self.effects.people.folder / "identities").values()
        return sum(one.identity.role is Role.STEWARD and not one.disabled for one in people) < 2

    def _keys(self, who: Identity, others: Collection[str]) -> frozenset[str]:
        if self.channel.account:
            return frozenset({f"{ACCOUNT}{self.channel.account}"})
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
        # keys that were replaced since may have been stolen
        if person is None or not person.keys_in_force <= {*first.keys}:
            return None
        passkeys = {*first.keys} - person.keys
        is_kept = not person.tls_keys or self.effects.people.passkeys.are_kept(tx, passkeys)
        return first if is_kept else None

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
        details = DOCUMENT.write(action) | {"digest": action.digest, "way": self.channel.name}
        del details["arguments"]  # texts alone are logged; the digest is of the arguments too
        names = {"action": step, "actor": who.uri, "resource": details.pop("resource")}
        if first is not None:
            details["first"] = short_name(first.by)
        if self.channel.account:
            details["account"] = self.channel.account
        if step == EMERGENCY:
            details["emergency"] = "one steward decided alone"
        self.log.append(tx, **names, details=details, now=now)

    def queue(self, who: Identity, limit: int = 50, token: str = "") -> Page[Waiting]:
        """Return the entries that wait, oldest first, and for whom each waits."""
        with self._reading(who) as tx:
            return self.waiting.items(tx, limit=limit, token=token)

    @property
    def waiting(self) -> WaitingList:
        """List of all items that wait; the caller has checked who may read it."""
        return WaitingList(
            self.effects.cards.cards,
            self.effects.refusals.refusals,
            self.effects.answers.decisions,
            self._certificates,
            lambda tx, first: self.reader.known(tx, first.digest, lambda: self._stands(tx, first)),
        )

    def _certificates(self, tx: Connection) -> Iterator[CertificateEnd]:
        for name, end in self.service_certificates():
            yield CertificateEnd(name, "", end)
        times = self.reader.times(tx)
        # the view of people says what is wrong with a file; here it must not hide all that waits
        with suppress(GencardError):
            for one in self.effects.people.views(*times):
                if one.certificate_until is not None and not one.disabled:
                    name = f"{PERSON}{one.identity.name}"
                    yield CertificateEnd(name, one.uri, one.certificate_until)

    def _stands(self, tx: Connection, first: FirstDecision) -> bool:
        """Whether a second steward could still agree: the reviewed data have not changed."""
        effect = self.effects.of(Kind(first.kind))
        try:
            return digest_of(effect.shown(tx, first.resource, first.arguments)) == first.shown
        except GencardError:
            return False

    def card(self, who: Identity, name: str) -> CardReview:
        """Return a card, and what approving it would offer."""
        effect = self.effects.cards
        with self._reading(who) as tx:
            card = effect.cards.card(tx, name)
            preview = self._preview(tx, Kind.APPROVE, name, {})
            offer, refusal = effect.offer(tx, card)
            together = effect.together(tx, card, offer)
        terms, changes, price = (
            (None, (), None) if offer is None else (offer.terms, offer.changes, offer.price)
        )
        message, advice = ("", "") if refusal is None else (refusal.message, refusal.advice)
        seen = (preview.two, preview.shown, together, preview.firsts)
        return CardReview(card, terms, changes, price, message, advice, *seen)

    def check_offer(self, who: Identity, action: Action) -> None:
        """Raise InvalidInputError if an offer holds a table that is known to fail the card's checks."""
        if action.kind not in (Kind.APPROVE, Kind.COUNTER):
            return
        dropped = {frozenset(clique) for clique in action.arguments.get("drop", ())}
        without = frozenset(action.arguments.get("without", ()))
        report = self.risks.examined(who, action.resource)
        left = [
            one
            for one in (() if report is None else report.failing)
            if without.isdisjoint(one.clique) and (one.statistic or frozenset(one.clique) not in dropped)
        ]
        if left:
            names = "; ".join(one.statistic or ", ".join(one.clique) for one in left)
            drop = " ".join(f"--drop {','.join(one.clique)}" for one in left if not one.statistic)
            what, advice = "tables", f"Offer the card without them (counter {drop}), or reject it."
            if any(one.statistic for one in left):
                what = "statistics"
                advice = (
                    "Offer the card without an attribute of each of them (counter --without "
                    f"{left[0].clique[0]}), or reject it: the analyst can propose it without them."
                )
            problem = f"cannot be measured: {what} fail the checks of the policy: {names}"
            raise InvalidInputError(field="card", problem=problem, advice=advice)

    def purposes(self, who: Identity, names: Collection[str]) -> Mapping[str, str]:
        with self._reading(who) as tx:
            rows = cards_named(tx, names)
        return {row.name: card_of_bytes(row.body).proposed.purpose for row in rows}

    def answers(self, who: Identity) -> tuple[RunRow, ...]:
        """Answers that wait for a steward, oldest first."""
        with self._reading(who) as tx:
            return tuple(self.waiting.answers(tx))

    def answer(self, who: Identity, name: str) -> AnswerReview:
        """Return an answer that waits, number by number.

        Raises:
            InvalidInputError: The answer does not wait.
        """
        with self._reading(who) as tx:
            preview = self._preview(tx, Kind.RELEASE_ANSWER, name, {})
            return self.effects.answers.view(tx, name, preview.shown, preview.firsts, two=preview.two)

    def accounts(self, who: Identity, dataset: str | None = None) -> tuple[BudgetAccount, ...]:
        """Budgets with cap, spent and reserved; raises NotFoundError for a dataset without caps."""
        with self._reading(who) as tx:
            return accounts(tx, self.ledger, dataset)

    def lines(
        self, who: Identity, dataset: str | None = None, limit: int = 50, token: str = ""
    ) -> Page[LineView]:
        effect = self.effects.lines
        with self._reading(who) as tx:
            page = self.ledger.lines(tx, dataset=dataset, before=token, limit=limit)
            digests = [digest_of(effect.shown(tx, f"{LINE}{line.line}", {})) for line in page.rows]
        return Page(tuple(map(LineView, page.rows, digests)), page.next_token)

    def people(self, who: Identity) -> tuple[Person, ...]:
        with self._reading(who) as tx:
            last_seen, certified = self.reader.times(tx)
        return self.effects.people.views(last_seen, certified)

    def enter(self, name: str, details: Mapping[str, str]) -> Identity:
        """Return the steward of a name, who was authenticated elsewhere; the log says how.

        Raises:
            UnauthenticatedError: No steward of the name is enrolled, or they are disabled.
        """
        who = self.effects.people.steward(name)
        if who is None or self.person(who) is None:
            raise UnauthenticatedError
        entry = {"action": "sign-in", "actor": who.uri, "resource": f"{PERSON}{name}"}
        with self.database.transaction() as tx:
            self.log.append(tx, **entry, details=details, now=self.clock())
        return who

    def request(self, who: Identity, arguments: Mapping[str, Any]) -> RequestView:
        """Preview an enrolment from a request; raise InvalidInputError as enrolling does."""
        check_steward(who)
        return self.effects.people.request_view(arguments)

    def search_log(
        self, who: Identity, query: str = "", limit: int = 50, token: str = ""
    ) -> Page[Event]:
        """Entries that fit a query, such as ``action:approve who:sam``, newest first.

        Raises:
            InvalidInputError: The query is longer than 200 characters, or the token of another list.
        """
        with self._reading(who) as tx:
            return search(tx, LogQuery.of(query), token, limit)

    def refusals(self, who: Identity) -> tuple[Failure, ...]:
        """Return the failures on the records that count, oldest first."""
        with self._reading(who) as tx:
            return self.effects.refusals.views(tx)

    def archive(self, who: Identity) -> Archive:
        """Return the archive: spending by day, releases, audits, the log's proofs."""
        check_steward(who)
        effects = self.effects
        return Archive(effects.cards.cards, effects.keys.rotation.keys)

    def first_decisions(self, who: Identity) -> tuple[FirstDecision, ...]:
        with self._reading(who) as tx:
            return stewards.waiting_first_decisions(tx, self.clock())


def _decision(action: Action, by: tuple[str, ...], **others: Any) -> Decision:
    return Decision(str(action.kind), action.resource, action.arguments, action.shown, by, **others)


def _stored(decision: Decision) -> bytes:
    document = DOCUMENT.write(decision)
    document["expires"] = document["expires"] or ""
    return json_bytes({name: value for name, value in document.items() if name not in _OF_ACTION})


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


def _check_other(first: StoredDecision, who: Identity, held: frozenset[str]) -> None:
    """Raise SecondStewardError unless it is another person, with other keys, as far as is known."""
    earlier = _names(Identity.of(first.by), first.keys)
    if first.by == who.uri or earlier & _names(who, held):
        raise SecondStewardError
    if not held or held & {*first.keys}:
        raise SecondStewardError(why="the first decision was taken with the same key")


def _names(who: Identity, keys: Collection[str]) -> set[str]:
    accounts = (key.removeprefix(ACCOUNT) for key in keys if key.startswith(ACCOUNT))
    return {who.name, *accounts}
