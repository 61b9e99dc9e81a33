"""Cards at the desk: what is asked and what would be offered; decisions; the risk of psi."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, compress, islice
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from gencard.controller.cards.book import CardBook, released_before
from gencard.controller.failures import error_of_document
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.tasks import NOTHING_BEFORE, Before, RiskJob
from gencard.controller.operations import Operations, Run
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.state import requests
from gencard.controller.state.cards import ENDED, offer_of
from gencard.controller.state.database import Database
from gencard.controller.state.requests import UNFINISHED, OperationRow, Request
from gencard.controller.state.tables import risks
from gencard.controller.stewards.effects import (
    Applied,
    Demands,
    argument,
    check_steward,
    refuse_others,
    texts,
)
from gencard.core.card.card import STEWARD, CardRecord, CardState, CounterOffer, changes_between
from gencard.core.card.terms import Proposal
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.errors import (
    CardStateError,
    GencardError,
    InvalidInputError,
    NotFittableError,
    NotFoundError,
    OperationCancelledError,
    ProposalRefusedError,
    ServiceUnavailableError,
    TooLargeError,
)
from gencard.core.policy import TwoStewards
from gencard.core.typed_json import PLAIN
from gencard.measures.privacy.psi_risk import PsiRisk
from gencard.wire.canonical import Document, digest_of, sha256, time_text
from gencard.wire.documents import price_document, terms_document, terms_of_document, transform_document
from gencard.wire.dsse import REVOCATION, sign, statement
from gencard.wire.keys import Identity
from gencard.wire.steward import Action, CertainKey, Kind, RiskReview, RiskState, Together

_REFUSALS = (ProposalRefusedError, TooLargeError, NotFittableError, InvalidInputError, NotFoundError)

_ARGUMENTS = {Kind.APPROVE: (), Kind.COUNTER: ("drop", "without", "rows", "terms")}


@dataclass(frozen=True, slots=True)
class CardEffect:
    cards: CardBook

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        """Etag, what ``approve`` would offer, and the policy."""
        card = self.cards.card(tx, resource)
        offer, refusal = self.offer(tx, card)
        policy = ""  # of a dataset that is not on offer any more
        with suppress(NotFoundError):
            policy = sha256(repr(self.cards.catalogue.named(dataset_of(resource)).policy).encode())
        document: Document = {
            "etag": card.etag,
            "state": str(card.state),
            "offer": None,
            "refusal": "" if refusal is None else refusal.message,
            "policy": policy,
        }
        if offer is not None:
            changes = [[one.field, one.old, one.new, one.reason] for one in offer.changes]
            terms, price = terms_document(offer.terms), price_document(offer.price)
            document["offer"] = {"terms": terms, "changes": changes, "price": price}
        return document

    def offer(self, tx: Connection, card: CardRecord) -> tuple[CounterOffer | None, GencardError | None]:
        """Return the offer of an approval, or why there is none; neither if the card does not wait."""
        if card.state is not CardState.REQUESTED:
            return None, None
        try:
            dataset_entry = self.cards.catalogue.named(dataset_of(card.name))
            outcome = self.cards.judged(tx, dataset_entry, card.proposed)
            changes = changes_between(card.proposed, outcome.terms, outcome.changes, STEWARD)
            price = self.cards.charge(tx, card.analyst, dataset_entry, outcome.terms).price
            return CounterOffer(outcome.terms, changes, price), None
        except _REFUSALS as error:
            return None, error

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Exact counts and revocations may need two by themselves."""
        card = self.cards.card(tx, action.resource)
        under: set[str] = set()
        if action.kind is Kind.REVOKE:
            under.add(TwoStewards.REVOCATION)
        elif action.kind is not Kind.REJECT and not self._terms(card, action).privacy.noisy:
            under.add(TwoStewards.EXACT_COUNTS)
        gives = action.kind is not Kind.REJECT
        return Demands(dataset_of(action.resource), gives, frozenset(under), card.analyst)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises CardStateError if the card's state does not allow it; what the policy refuses."""
        refuse_others(action.arguments, *_ARGUMENTS.get(action.kind, ("remark",)))
        card = self.cards.card(tx, action.resource)
        if action.kind is Kind.REVOKE:
            moved_card = self._revoked(tx, card, by, argument(action.arguments, "remark", str, ""))
        elif action.kind is Kind.REJECT:
            remark = argument(action.arguments, "remark", str, "")
            card = self._waiting(card)
            moved_card = self.cards.end(tx, card, CardState.TERMINATED, by, "reject", remark=remark)
        else:
            terms = self._terms(card, action)
            dataset_entry = self.cards.catalogue.named(dataset_of(card.name))
            outcome = self.cards.judged(tx, dataset_entry, terms)
            offered = self.cards.offered(tx, self._waiting(card), dataset_entry, outcome, by)
            moved_card = self.cards.move(tx, card, offered)
        return Applied({"state": str(moved_card.state), "etag": moved_card.etag})

    def together(self, tx: Connection, card: CardRecord, offer: CounterOffer | None) -> Together:
        """Attributes beside attributes: in one table of this card, of one granted before.

        Nothing of a dataset that is no longer on offer.
        """
        try:
            dataset_entry = self.cards.catalogue.named(dataset_of(card.name))
        except NotFoundError:
            return Together((), (), (), ())
        attributes = dataset_entry.domain.attributes
        granted = {
            name: cliques
            for name, cliques in self.cards.grants.tables(tx, dataset_entry).items()
            if name != card.name
        }
        before = [clique for cliques in granted.values() for clique in cliques]
        agreed_terms = card.proposed if card.offer is None else card.offer.terms
        terms = agreed_terms if offer is None else offer.terms
        return Together(
            attributes,
            _matrix(attributes, (*terms.cliques, *terms.number_cliques)),
            _matrix(attributes, before),
            tuple(sorted(granted)),
        )

    def _terms(self, card: CardRecord, action: Action) -> Proposal:
        if action.kind is Kind.APPROVE:
            return card.proposed
        terms = card.proposed
        if whole := argument(action.arguments, "terms", dict, {}):
            try:
                terms = terms_of_document(whole)
            except (KeyError, AttributeError, TypeError, ValueError):
                problem = "are not terms of a card"
                raise InvalidInputError(field="arguments.terms", problem=problem) from None
        if terms.dataset != card.proposed.dataset:
            raise InvalidInputError(field="terms.dataset", problem="cannot change on a card")
        dropped = [frozenset(clique) for clique in _cliques(action.arguments)]
        rows = argument(action.arguments, "rows", int, terms.rows)
        left_out = frozenset(texts(action.arguments, "without"))
        return replace(without_attributes(without(terms, dropped), left_out), rows=rows)

    def _revoked(self, tx: Connection, card: CardRecord, by: str, remark: str) -> CardRecord:
        """Return the card ended for good, with a signed revocation.

        One that was given back or has expired too: its analyst could still fetch what was made under it.
        """
        if not card.envelope or card.state is CardState.REVOKED:
            raise CardStateError(state=card.state)
        facts = {"card": card.name, "remark": remark, "time": time_text(self.cards.clock())}
        payload = statement(REVOCATION, card.name, facts, offer_of(card).digest)
        fact = sign(payload, [self.cards.signing_key(tx)])
        revoked = replace(card, attestations=(*card.attestations, fact))
        return self.cards.end(tx, revoked, CardState.REVOKED, by, "revoke", remark=remark)

    @staticmethod
    def _waiting(card: CardRecord) -> CardRecord:
        if card.state is not CardState.REQUESTED:
            raise CardStateError(state=card.state)
        return card


def without(proposed: Proposal, left_out: Sequence[frozenset[str]]) -> Proposal:
    """Return the terms without these marginals, which were asked for, and their weights."""
    if not {frozenset(clique) for clique in proposed.marginals}.issuperset(left_out):
        raise InvalidInputError(field="drop", problem="names a marginal that was not proposed")
    others = proposed.statistics - len(proposed.marginals)
    kept = [frozenset(clique) not in left_out for clique in proposed.marginals]
    return _only(proposed, [*kept, *[True] * others])


def without_attributes(proposed: Proposal, left_out: frozenset[str]) -> Proposal:
    """Return the terms without statistics and program columns of these attributes."""
    cliques = (*proposed.cliques, *proposed.number_cliques)
    if not left_out <= {name for clique in cliques for name in clique}:
        raise InvalidInputError(field="without", problem="names an attribute of no proposed statistic")
    columns = tuple(name for name in proposed.analyses.columns if name not in left_out)
    analyses = replace(proposed.analyses, columns=columns)
    return _only(
        replace(proposed, analyses=analyses), [left_out.isdisjoint(clique) for clique in cliques]
    )


def _only(proposed: Proposal, kept: Sequence[bool]) -> Proposal:
    """Return the terms with some of their statistics, and the weights of these."""
    flags = iter(kept)
    parts: dict[str, Any] = {}
    for name in ("marginals", "moments", "histograms", "sums"):
        statistics = getattr(proposed, name)
        parts[name] = tuple(compress(statistics, islice(flags, len(statistics))))
    return replace(proposed, **parts, weights=tuple(compress(proposed.weights, kept)))


def _cliques(arguments: Mapping[str, Any]) -> list[Clique]:
    cliques = argument(arguments, "drop", list, [])
    for clique in cliques:
        if not (isinstance(clique, list) and all(isinstance(name, str) for name in clique)):
            problem = "is not a list of lists of attributes"
            raise InvalidInputError(field="arguments.drop", problem=problem)
    return [tuple(clique) for clique in cliques]


def _matrix(attributes: tuple[str, ...], cliques: Sequence[Clique]) -> tuple[tuple[bool, ...], ...]:
    place = {name: number for number, name in enumerate(attributes)}
    matrix = [[False] * len(attributes) for _ in attributes]
    for clique in cliques:
        known = [place[name] for name in clique if name in place]
        for one, other in combinations(known, 2):
            matrix[one][other] = matrix[other][one] = True
        for one in known:
            matrix[one][one] = True
    return tuple(map(tuple, matrix))


# The risk of psi at the desk: evaluated in a job, kept for stewards alone, dropped with its card.
#
# The kept results are numbers about records. No analyst and no auditor receives any of them, and the log
# says who viewed the risk of which card, without a number. Only people decide by them.
# If a person has several records, each record counts.

KIND, LOOK = "risk", "look-at-risk"
NO_COUNTS = "neither this card nor one granted before releases exact counts"
BOUNDED = "There is nothing to examine: the budget of statistics with noise bounds what they reveal."


@dataclass(frozen=True, slots=True)
class ExactTables:
    """All exact counts that would be released together: of a card, and of earlier cards.

    Args:
        cards: Names of the other cards.
        own: Terms of the card itself, if they are exact.
        before: Earlier disclosures, with which the card's sums are judged.
        with_step: Attributes with a step that any of the terms names.
        influence: Largest influence of a record that the policy permits; None for any.
    """

    cliques: tuple[Clique, ...]
    cards: tuple[str, ...]
    version: str
    own: Proposal | None = None
    histograms: Clique = ()
    before: Before = NOTHING_BEFORE
    with_step: Clique = ()
    influence: float | None = None

    @property
    def digest(self) -> str:
        """Two looks at the same tables of the same records have the same."""
        cliques = sorted({tuple(sorted(clique)) for clique in self.cliques})
        tables: Document = {"cliques": [list(clique) for clique in cliques], "version": self.version}
        own = self.own
        if own is not None and own.transform.checks and own.marginals:
            tables["own"] = sorted(sorted(clique) for clique in own.marginals)
            tables["transform"] = transform_document(own.transform)
        if self.histograms:
            tables["histograms"] = list(self.histograms)
        if own is not None and own.numbers:
            tables["numbers"] = [*map(str, own.numbers)]
            tables["before"] = sha256(repr(self.before).encode())
        if self.with_step and self.influence is not None:
            tables["influence"] = [*self.with_step, repr(self.influence)]
        return digest_of(tables)

    def job(self, jobs: Descriptions, dataset_entry: DatasetEntry) -> RiskJob:
        return jobs.look(
            dataset_entry,
            self.cliques,
            self.own,
            histograms=self.histograms,
            before=self.before,
            with_step=self.with_step,
        )


def worst_of(report: PsiRisk, coding: Coding) -> tuple[CertainKey, ...]:
    """Keys that make most records certain, by the names of levels."""

    def level(name: str, code: int) -> str:
        return f"{name} = {coding.attribute(name).coding.level_names[code]}"

    return tuple(
        CertainKey(
            ", ".join(map(level, one.keys, one.levels)), level(one.target, one.level), one.records
        )
        for one in report.worst
    )


@dataclass(frozen=True, slots=True)
class Risks:
    """Looks at the risk of cards; a local shell has no operations."""

    database: Database
    cards: CardBook
    operations: Operations | None = None

    def start(self, who: Identity, name: str, request_id: str) -> OperationRow:
        """Begin to look at a card, or join a look that is under way; the log says who.

        Raises:
            CardStateError: The card has ended.
            InvalidInputError: There are no exact counts to look at.
            ServiceUnavailableError: No service runs here.
        """
        check_steward(who)
        if self.operations is None:
            raise ServiceUnavailableError
        operations = self.operations
        request = Request("RunRisk", request_id, sha256(name.encode()))

        def make(tx: Connection) -> bytes:
            card = self.cards.card(tx, name)
            if card.state in ENDED:
                raise CardStateError(state=card.state)
            self.tables(tx, card)
            self.log(tx, who.uri, name)
            for row in requests.operations_of_kind(tx, KIND, name):
                if row.state in UNFINISHED:
                    return row.name.encode()
            return operations.create(tx, who, KIND, name, {}).encode()

        with self.database.transaction() as tx:
            operation = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return operations.begin(operation.decode())

    def view(self, who: Identity, name: str) -> RiskReview:
        """Return progress or result of an evaluation; the first look of each person is logged."""
        check_steward(who)
        with self.database.transaction() as tx:
            card = self.cards.card(tx, name)
            if card.state in ENDED:
                forget(tx, name)
            row = tx.execute(select(risks).where(risks.c.card == name)).mappings().one_or_none()
            newest = requests.operations_of_kind(tx, KIND, name)[-1:] if self.operations else ()
            if row is not None and who.uri not in (known_readers := json.loads(row["seen"])):
                self.log(tx, who.uri, name)
                readers = json.dumps([*known_readers, who.uri])
                tx.execute(update(risks).where(risks.c.card == name).values(seen=readers))
            digest = ""
            with suppress(InvalidInputError):
                digest = self.tables(tx, card).digest
        return self._view(name, row, newest[0] if newest else None, digest)

    def tables(self, tx: Connection, card: CardRecord) -> ExactTables:
        """Raises InvalidInputError if there are no exact counts."""
        dataset_entry = self.cards.catalogue.named(dataset_of(card.name))
        granted = self.cards.grants.exact(tx, dataset_entry)
        others = {other: terms for other, terms in granted.items() if other != card.name}
        # Approving would offer these terms; the policy may grant less than is proposed.
        would_be, _ = CardEffect(self.cards).offer(tx, card)
        offer = card.offer if would_be is None else would_be
        terms = card.proposed if offer is None else offer.terms
        own = None if terms.privacy.noisy else terms
        exact, coding = [*others.values(), *([own] if own else [])], dataset_entry.schema.coding
        cliques = tuple(clique for one in exact for clique in one.counted(coding))
        if not cliques:
            raise InvalidInputError(field="card", problem=NO_COUNTS, advice=BOUNDED)
        version, names = dataset_entry.version, tuple(sorted(others))
        histograms = tuple(sorted({name for one in exact for name in one.histograms}))
        before = NOTHING_BEFORE
        if own is not None and own.sums:
            dataset = dataset_entry.name
            before = released_before(tx, self.cards, dataset=dataset, version=version, but=card.name)
        named = {
            name for one in exact for clique in (*one.cliques, *one.number_cliques) for name in clique
        }
        with_step = tuple(name for name in coding.with_step if name in named)
        limit = dataset_entry.run_rules.influence
        return ExactTables(cliques, names, version, own, histograms, before, with_step, limit)

    def examined(self, who: Identity, name: str) -> PsiRisk | None:
        """Return the report on a card, if its tables are still those that were examined."""
        view = self.view(who, name)
        return view.report if view.state is RiskState.READY else None

    def log(self, tx: Connection, actor: str, name: str) -> None:
        now = self.cards.clock()
        self.cards.log.append(tx, action=LOOK, actor=actor, resource=name, details={}, now=now)

    def keep(self, tx: Connection, card: CardRecord, seen: ExactTables, report: PsiRisk) -> None:
        """Keep what a look gave, in place of what was kept."""
        if self.cards.card(tx, card.name).state in ENDED:
            raise OperationCancelledError
        forget(tx, card.name)
        tx.execute(
            insert(risks).values(
                card=card.name,
                tables=seen.digest,
                report=json.dumps(report.json()).encode(),
                cards=json.dumps(seen.cards),
                seen="[]",
                created=self.cards.clock(),
            )
        )

    def tidy(self) -> None:
        """Drop what is kept of cards whose time has run out meanwhile."""
        with self.database.transaction() as tx:
            for name in tx.execute(select(risks.c.card)).scalars().all():
                if self.cards.card(tx, name).state in ENDED:
                    forget(tx, name)

    def _view(
        self, name: str, row: Mapping[Any, Any] | None, newest: OperationRow | None, digest: str
    ) -> RiskReview:
        coding = self.cards.catalogue.named(dataset_of(name)).schema.coding
        state, problem = RiskState.NONE, ""
        if row is not None:
            state = RiskState.READY if row["tables"] == digest else RiskState.OUTDATED
        if newest is not None and newest.state in UNFINISHED:
            state = RiskState.RUNNING
        elif newest is not None and newest.error is not None and row is None:
            state, problem = RiskState.FAILED, error_of_document(newest.error).message
        how_far = ("", "", 0) if newest is None else (newest.name, newest.stage, newest.permille)
        if row is None:
            return RiskReview(name, state, *how_far, problem)
        report = PLAIN.read(PsiRisk, json.loads(row["report"]), field="risk")
        others, worst = tuple(json.loads(row["cards"])), worst_of(report, coding)
        return RiskReview(name, state, *how_far, problem, report, worst, others, row["created"])


@dataclass(frozen=True, slots=True)
class RiskRun:
    risks: Risks
    operations: Operations
    jobs: Descriptions

    def __call__(self, run: Run) -> None:
        name = run.row.resource
        with self.risks.database.reading() as tx:
            card = self.risks.cards.card(tx, name)
            tables = self.risks.tables(tx, card)
        dataset_entry = self.risks.cards.catalogue.named(dataset_of(name))
        report = run.job(tasks.LOOK, tables.job(self.jobs, dataset_entry)).risk
        with self.risks.database.transaction() as tx:
            self.risks.keep(tx, card, tables, report)
            self.operations.finish(tx, run.row.name, b"")

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Do nothing: no budget was held."""


def forget(tx: Connection, card: str) -> None:
    tx.execute(delete(risks).where(risks.c.card == card))
