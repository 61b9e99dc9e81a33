"""The desk: every look and every decision of a steward, whatever way the steward came.

There is no gRPC and no HTTP in here. The caller has authenticated ``who``: the guard of the
service, the page's session, or the operating system of a local shell.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from gencard.controller.state import stewards
from gencard.controller.state.cards import cards_named
from gencard.controller.state.database import Page
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.log import Event
from gencard.controller.state.results import RunRow
from gencard.controller.stewards.archive import Archive
from gencard.controller.stewards.budget import LineView, accounts
from gencard.controller.stewards.deciding import Deciding, check_steward
from gencard.controller.stewards.log_reading import LogReader
from gencard.controller.stewards.people import PERSON, RequestView
from gencard.controller.stewards.registers import LINE
from gencard.controller.stewards.risk import Risks
from gencard.controller.stewards.waiting import CertificateEnd, WaitingList
from gencard.core.errors import GencardError, InvalidInputError, UnauthenticatedError
from gencard.wire.canonical import digest_of
from gencard.wire.codec import card_of_bytes
from gencard.wire.keys import Identity
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
    Waiting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk(Deciding):
    """Views and decisions of stewards.

    Args:
        risks: Disclosure risks of psi, card by card.
        service_certificates: Returns name and end of each certificate that the service uses.
    """

    ledger: Ledger
    reader: LogReader
    risks: Risks
    service_certificates: Callable[[], Iterable[tuple[str, datetime]]]

    def queue(self, who: Identity, limit: int = 50, token: str = "") -> Page[Waiting]:
        """Return the entries that wait, oldest first, and for whom each waits."""
        check_steward(who)
        with self.database.reading() as tx:
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
        """Yield the certificates of the service and of enrolled people who are not disabled."""
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
        """Return a card, and what approving it would offer.

        Raises:
            NotFoundError: No such card.
        """
        check_steward(who)
        effect = self.effects.cards
        with self.database.reading() as tx:
            card = effect.cards.card(tx, name)
            preview = self._preview(tx, Kind.APPROVE, name, {})
            offer, refusal = effect.offer(tx, card)
            together = effect.together(tx, card, offer)
        return CardReview(
            card,
            None if offer is None else offer.terms,
            () if offer is None else offer.changes,
            None if offer is None else offer.price,
            "" if refusal is None else refusal.message,
            "" if refusal is None else refusal.advice,
            preview.two,
            preview.shown,
            together,
            preview.firsts,
        )

    def decide(
        self, who: Identity, action: Action, request_id: str, keys: Collection[str] = ()
    ) -> Decision:
        """Decide as ``Deciding`` does, but offer no table that is known to fail the card's checks.

        Raises:
            InvalidInputError: The measurement of the offer would be refused.
            GencardError: As ``Deciding.decide``.
        """
        self.check_offer(who, action)
        return super(Desk, self).decide(who, action, request_id, keys)

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
        """Return the purposes of the cards among some resources, by name."""
        check_steward(who)
        with self.database.reading() as tx:
            rows = cards_named(tx, names)
        return {row.name: card_of_bytes(row.body).proposed.purpose for row in rows}

    def answers(self, who: Identity) -> tuple[RunRow, ...]:
        """Answers that wait for a steward, oldest first."""
        check_steward(who)
        with self.database.reading() as tx:
            return tuple(self.waiting.answers(tx))

    def answer(self, who: Identity, name: str) -> AnswerReview:
        """Return an answer that waits, number by number.

        Raises:
            NotFoundError: No such run.
            InvalidInputError: The answer does not wait.
        """
        check_steward(who)
        with self.database.reading() as tx:
            preview = self._preview(tx, Kind.RELEASE_ANSWER, name, {})
            return self.effects.answers.view(tx, name, preview.shown, preview.firsts, two=preview.two)

    def accounts(self, who: Identity, dataset: str | None = None) -> tuple[BudgetAccount, ...]:
        """Budgets with cap, spent and reserved; raises NotFoundError for a dataset without caps."""
        check_steward(who)
        with self.database.reading() as tx:
            return accounts(tx, self.ledger, dataset)

    def lines(
        self, who: Identity, dataset: str | None = None, limit: int = 50, token: str = ""
    ) -> Page[LineView]:
        """Lines of the ledger, newest first."""
        check_steward(who)
        effect = self.effects.lines
        with self.database.reading() as tx:
            page = self.ledger.lines(tx, dataset=dataset, before=token, limit=limit)
            digests = [digest_of(effect.shown(tx, f"{LINE}{line.line}", {})) for line in page.rows]
        return Page(tuple(map(LineView, page.rows, digests)), page.next_token)

    def people(self, who: Identity) -> tuple[Person, ...]:
        """Return all enrolled people."""
        check_steward(who)
        with self.database.reading() as tx:
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
        check_steward(who)
        with self.database.reading() as tx:
            return self.reader.search(tx, query, limit, token)

    def refusals(self, who: Identity) -> tuple[Failure, ...]:
        """Return the failures on the records that count, oldest first."""
        check_steward(who)
        with self.database.reading() as tx:
            return self.effects.refusals.views(tx)

    def archive(self, who: Identity) -> Archive:
        """Return the archive: spending by day, releases, audits, the log's proofs."""
        check_steward(who)
        effects = self.effects
        return Archive(effects.cards.cards, effects.keys.rotation.keys)

    def first_decisions(self, who: Identity) -> tuple[FirstDecision, ...]:
        """Return all decisions that wait for a second steward, oldest first."""
        check_steward(who)
        with self.database.reading() as tx:
            return stewards.waiting_first_decisions(tx, self.clock())
