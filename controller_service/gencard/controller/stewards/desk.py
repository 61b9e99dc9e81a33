"""The desk: every look and every decision of a steward, whatever way the steward came.

There is no gRPC and no HTTP in here. ``who`` was authenticated by whoever calls: the guard of the
service, the page's session, or the operating system of a local shell.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from gencard.controller.people.identities import Enrolled
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state.audits import AuditRow, AuditStore
from gencard.controller.state.database import Database, Page
from gencard.controller.state.event_log import EventLog
from gencard.controller.state.events import Event
from gencard.controller.state.first_decisions import FirstDecision, FirstDecisions
from gencard.controller.state.idempotency import Request
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.releases import ReleaseRow, ReleaseStore
from gencard.controller.state.runs import RunRow
from gencard.controller.stewards.actions import Action, Decision, Kind
from gencard.controller.stewards.answers import AnswerEffect, AnswerView
from gencard.controller.stewards.archive import Archive
from gencard.controller.stewards.cards import CardEffect, CardView
from gencard.controller.stewards.effects import Demands, Effect
from gencard.controller.stewards.people import PersonEffect, PersonView, RequestView
from gencard.controller.stewards.reading import (
    SOON,
    STEWARD,
    AccountView,
    LineView,
    LogReader,
    Queue,
    Waiting,
    accounts,
)
from gencard.controller.stewards.registers import (
    LINE,
    AuditEffect,
    KeyEffect,
    LineEffect,
    RefusalEffect,
    RefusalView,
    refusal_views,
)
from gencard.core.errors import PermissionDeniedError, SecondStewardError, StaleEtagError
from gencard.wire.signatures.canonical import digest_of, document_of, sha256
from gencard.wire.signatures.dsse import key_id
from gencard.wire.signatures.identity import Identity, Role

RIGHTS = {Role.STEWARD}
ACCOUNT = "account:"
"""Before the name of an account of the operating system, in place of a key's fingerprint."""


@dataclass(frozen=True, slots=True)
class Way:
    """How stewards come to a desk.

    Args:
        name: service, page or local.
        account: Of a local shell: the account of the operating system, whatever name was given.
        emergency: Of a local shell: one steward decides alone where two are asked for.
    """

    name: str = "service"
    account: str = ""
    emergency: bool = False


@dataclass(frozen=True, slots=True)
class Effects:
    """What each kind of action does."""

    cards: CardEffect
    answers: AnswerEffect
    lines: LineEffect
    refusals: RefusalEffect
    audits: AuditEffect
    people: PersonEffect
    keys: KeyEffect

    def of(self, kind: Kind) -> Effect:
        """The effect of a kind."""
        by_kind: Mapping[Kind, Effect] = {
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
    """What stewards see and decide.

    Args:
        person: Somebody as enrolled at this moment; None for strangers and the disabled.
        two: Kinds of decisions on the whole controller that two stewards take.
    """

    database: Database
    log: EventLog
    ledger: Ledger
    effects: Effects
    firsts: FirstDecisions
    reader: LogReader
    person: Callable[[Identity], Enrolled | None]
    clock: Callable[[], datetime]
    two: frozenset[str] = frozenset()
    way: Way = field(default_factory=Way)

    def by_way(self, way: Way) -> "Desk":
        """The same desk for those who come another way."""
        return replace(self, way=way)

    def queue(self, who: Identity, limit: int = 50, token: str = "") -> Page[Waiting]:
        """What waits, oldest first, and for whom."""
        _check(who)
        effects = self.effects
        queue = Queue(
            effects.cards.cards, effects.answers.decisions.store, effects.refusals.refusals, self.firsts
        )
        ending = [
            Waiting(
                one.certificate_until,
                f"people/{one.name}",
                "certificate",
                STEWARD,
                f"certificate of {one.project}/{one.role}/{one.name} ends",
                one.uri,
            )
            for one in self.people(who)
            if one.certificate_until is not None
            and not one.disabled
            and one.certificate_until < self.clock() + SOON
        ]
        with self.database.reading() as tx:
            return queue.page(tx, limit, token, ending)

    def card(self, who: Identity, name: str) -> CardView:
        """A card, and what approving it would offer.

        Raises:
            NotFoundError: No such card.
        """
        _check(who)
        effect = self.effects.cards
        with self.database.reading() as tx:
            card = effect.cards.card(tx, name)
            shown = digest_of(effect.shown(tx, name, {}))
            offer, refusal = effect.offer(tx, card)
            entry = effect.cards.catalogue.named(dataset_of(name))
            approve = Action(Kind.APPROVE, name, reason="look", shown=shown)
            two = self._needs_two(effect.demands(tx, approve))
            firsts = self.firsts.waiting(tx, self.clock(), {name})
            together = effect.together(tx, card, entry)
        return CardView(card, offer, refusal, two, shown, together, firsts)

    def answers(self, who: Identity) -> tuple[RunRow, ...]:
        """Answers that wait for a steward, oldest first."""
        _check(who)
        with self.database.reading() as tx:
            return self.effects.answers.decisions.store.waiting(tx)

    def answer(self, who: Identity, name: str) -> AnswerView:
        """An answer that waits, number by number.

        Raises:
            NotFoundError: No such run.
            InvalidInputError: It does not wait.
        """
        _check(who)
        effect = self.effects.answers
        with self.database.reading() as tx:
            shown = digest_of(effect.shown(tx, name, {}))
            release = Action(Kind.RELEASE_ANSWER, name, reason="look", shown=shown)
            two = self._needs_two(effect.demands(tx, release))
            firsts = self.firsts.waiting(tx, self.clock(), {name})
            return effect.view(tx, name, shown, firsts, two=two)

    def accounts(self, who: Identity, dataset: str | None = None) -> tuple[AccountView, ...]:
        """Budgets with cap, spent and reserved; raises NotFoundError for a dataset without caps."""
        _check(who)
        with self.database.reading() as tx:
            return accounts(tx, self.ledger, dataset)

    def lines(
        self, who: Identity, dataset: str | None = None, limit: int = 50, token: str = ""
    ) -> Page[LineView]:
        """Lines of the ledger, newest first."""
        _check(who)
        effect = self.effects.lines
        with self.database.reading() as tx:
            page = self.ledger.lines(tx, dataset=dataset, before=token, limit=limit)
            shown = [digest_of(effect.shown(tx, f"{LINE}{line.line}", {})) for line in page.rows]
        return Page(tuple(map(LineView, page.rows, shown)), page.next_token)

    def people(self, who: Identity) -> tuple[PersonView, ...]:
        """Everybody enrolled."""
        _check(who)
        with self.database.reading() as tx:
            seen, certified = self.reader.times(tx)
        return self.effects.people.views(seen, certified, digest_of)

    def request(self, who: Identity, arguments: Mapping[str, Any]) -> RequestView:
        """What enrolling from a request would do; raises InvalidInputError as enrolling does."""
        _check(who)
        return self.effects.people.request_view(arguments, digest_of)

    def search_log(
        self, who: Identity, query: str = "", limit: int = 50, token: str = ""
    ) -> Page[Event]:
        """Entries that fit a query, such as ``action:approve who:sam``, newest first."""
        _check(who)
        with self.database.reading() as tx:
            return self.reader.search(tx, query, limit, token)

    def entry(self, who: Identity, index: int) -> tuple[Event, bytes, list[bytes], bytes]:
        """An entry, its leaf hash, the path to the root, and the checkpoint that it leads to.

        Raises:
            InvalidNumberError: The log has no such entry.
        """
        _check(who)
        with self.database.transaction() as tx:
            event = self.reader.entry(tx, index)
            leaf, path = self.log.inclusion(tx, index, self.log.size(tx))
            return event, leaf, path, self.log.checkpoint(tx, self.clock())

    def refusals(self, who: Identity) -> tuple[RefusalView, ...]:
        """Failures at the records that count, oldest first."""
        _check(who)
        with self.database.reading() as tx:
            return refusal_views(tx, self.effects.refusals, digest_of)

    def releases(self, who: Identity, limit: int = 50, token: str = "") -> Page[ReleaseRow]:
        """Releases of all cards, newest first."""
        _check(who)
        with self.database.reading() as tx:
            return ReleaseStore().list(tx, before=token, limit=limit)

    def audits(self, who: Identity, limit: int = 50, token: str = "") -> Page[AuditRow]:
        """Audits that have ended, newest first."""
        _check(who)
        with self.database.reading() as tx:
            return AuditStore().list(tx, before=token, limit=limit)

    def archive(self, who: Identity) -> Archive:
        """What is written down for good: spending by day, releases, audits, the log's proofs."""
        _check(who)
        effects = self.effects
        return Archive(self.database, effects.cards.cards, effects.keys.rotation.keys, self.clock)

    def firsts_on(self, who: Identity, resources: Collection[str]) -> tuple[FirstDecision, ...]:
        """Decisions on some resources that wait for a second steward."""
        _check(who)
        with self.database.reading() as tx:
            return self.firsts.waiting(tx, self.clock(), resources)

    def shown(self, who: Identity, kind: Kind, resource: str, arguments: Mapping[str, Any]) -> str:
        """The digest of what somebody is shown now who wants to do this."""
        _check(who)
        with self.database.reading() as tx:
            return digest_of(self.effects.of(kind).shown(tx, resource, arguments))

    def needs_two(self, who: Identity, action: Action) -> bool:
        """Whether two stewards have to agree on this, whoever was first."""
        _check(who)
        with self.database.reading() as tx:
            return self._needs_two(self.effects.of(action.kind).demands(tx, action))

    def decide(
        self, who: Identity, action: Action, request_id: str, keys: Collection[str] = ()
    ) -> Decision:
        """Decide; the log holds who, what, why and what was shown before anything changes.

        Where two stewards have to decide, the first decision waits; the second has its effect.

        Args:
            request_id: Random UUID: who repeats it gets the same answer.
            keys: Fingerprints of other keys that ``who`` came with.

        Raises:
            StaleEtagError: What was shown is no longer what would be shown.
            SecondStewardError: Another steward has to decide.
            GencardError: What the action itself may end in.
        """
        _check(who)
        request = Request("Decide", request_id, sha256(f"{action.digest} {action.reason}".encode()))
        afterwards: list[Callable[[], None]] = []
        with self.database.transaction() as tx:
            stored = request.once(
                tx, who, self.clock(), lambda: self._decided(tx, who, action, keys, afterwards).stored()
            )
        for change in afterwards:
            change()
        return Decision.read(action, document_of(stored, "decision"))

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
            raise StaleEtagError(what="subject of your decision")
        demands, now = effect.demands(tx, action), self.clock().replace(microsecond=0)
        held = self._keys(who, keys)
        self._check_not_own(who, held, demands.subject)
        first = None
        if self._needs_two(demands) and not self.way.emergency:
            first = self._counting(tx, action, now)
            if first is None:
                return self._first(tx, who, action, held, now)
            _check_other(first, who, held)
        by = (who.uri,) if first is None else (first.actor, who.uri)
        self._append(tx, "decide", who, action, now, first)
        applied = effect.apply(tx, who.uri, action)
        self.firsts.forget(tx, action.resource, now)
        if applied.afterwards is not None:
            afterwards.append(applied.afterwards)
        return Decision(action, by, done=True, time=now, result=applied.result)

    def _needs_two(self, demands: Demands) -> bool:
        if demands.under & self.two:
            return True
        for entry in self.effects.cards.cards.catalogue:
            if entry.name == demands.dataset:
                policy = entry.policy
                return (policy.stewards > 1 and demands.gives) or bool(
                    demands.under & {*policy.two_stewards}
                )
        return False

    def _keys(self, who: Identity, others: Collection[str]) -> frozenset[str]:
        if self.way.account:
            return frozenset({f"{ACCOUNT}{self.way.account}"})
        person = self.person(who)
        return frozenset(others) | (frozenset() if person is None else person.keys)

    def _check_not_own(self, who: Identity, held: frozenset[str], subject: str) -> None:
        """Nobody decides on themselves, by name or by key."""
        if not subject:
            return
        person = self.person(Identity.of(subject))
        if subject == who.uri or (person is not None and person.keys & held):
            raise SecondStewardError(why="the decision is about yourself")

    def _counting(self, tx: Connection, action: Action, now: datetime) -> FirstDecision | None:
        """The first decision on the same action, while whoever took it may still decide."""
        first = self.firsts.of_digest(tx, action.digest, now)
        if first is None or any(key.startswith(ACCOUNT) for key in first.keys):
            return first
        person = self.person(Identity.of(first.actor))
        # a key that was replaced since may have been stolen
        counts = person is not None and key_id(person.signing_key) in first.keys
        return first if counts else None

    def _first(
        self, tx: Connection, who: Identity, action: Action, held: frozenset[str], now: datetime
    ) -> Decision:
        self._append(tx, "decide-first", who, action, now, None)
        first = FirstDecision(
            action.digest,
            str(action.kind),
            action.resource,
            action.arguments,
            action.shown,
            action.reason,
            who.uri,
            tuple(sorted(held)),
            now,
        )
        self.firsts.add(tx, first)
        return Decision(action, (who.uri,), done=False, time=now, expires=first.expires)

    def _append(
        self,
        tx: Connection,
        step: str,
        who: Identity,
        action: Action,
        now: datetime,
        first: FirstDecision | None,
    ) -> None:
        details = {
            "kind": str(action.kind),
            "shown": action.shown,
            "digest": action.digest,
            "reason": action.reason,
            "way": self.way.name,
        }
        if first is not None:
            details["first"] = first.actor.removeprefix("spiffe://").partition("/")[2]
        if self.way.account:
            details["account"] = self.way.account
        if self.way.emergency:
            details["emergency"] = "one steward decided alone"
        self.log.append(
            tx, action=step, actor=who.uri, resource=action.resource, details=details, now=now
        )


def _check(who: Identity) -> None:
    """Raises PermissionDeniedError for whoever is no steward."""
    if who.role not in RIGHTS:
        raise PermissionDeniedError


def _check_other(first: FirstDecision, who: Identity, held: frozenset[str]) -> None:
    """Raises SecondStewardError unless it is another person, with other keys, as far as is known."""
    if first.actor == who.uri or Identity.of(first.actor).name == who.name:
        raise SecondStewardError
    if not held or held & {*first.keys}:
        raise SecondStewardError(why="the first decision was taken with the same key or account")
