"""Cards at the desk: what is asked and what would be offered; approve, counter, reject, revoke."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, compress, islice
from typing import Any

from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state.cards import offer_of
from gencard.controller.stewards.actions import (
    Applied,
    Demands,
    InTheState,
    argument,
    refuse_others,
    texts,
)
from gencard.core.card.card import STEWARD, CardRecord, CardState, CounterOffer, changes_between
from gencard.core.card.terms import Proposal
from gencard.core.domain import Clique
from gencard.core.errors import (
    CardStateError,
    GencardError,
    InvalidInputError,
    NotFittableError,
    NotFoundError,
    ProposalRefusedError,
    TooLargeError,
)
from gencard.core.policy import TwoStewards
from gencard.wire.canonical import Document, sha256, time_text
from gencard.wire.documents import price_document, terms_document, terms_of_document
from gencard.wire.dsse import REVOCATION, sign, statement
from gencard.wire.steward import Action, Kind, Together

_REFUSALS = (ProposalRefusedError, TooLargeError, NotFittableError, InvalidInputError, NotFoundError)


_ARGUMENTS = {Kind.APPROVE: (), Kind.COUNTER: ("drop", "without", "rows", "terms")}


@dataclass(frozen=True, slots=True)
class CardEffect(InTheState):
    """Decisions on cards."""

    cards: CardBook

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        """Etag, what ``approve`` would offer, and the policy."""
        card = self.cards.card(tx, resource)
        offer, refusal = self.offer(tx, card)
        document: Document = {
            "etag": card.etag,
            "state": str(card.state),
            "offer": None,
            "refusal": "" if refusal is None else refusal.message,
            "policy": self._policy_digest(resource),
        }
        if offer is not None:
            changes = [[one.field, one.old, one.new, one.reason] for one in offer.changes]
            price = price_document(offer.price)
            document["offer"] = {
                "terms": terms_document(offer.terms),
                "changes": changes,
                "price": price,
            }
        return document

    def offer(self, tx: Connection, card: CardRecord) -> tuple[CounterOffer | None, GencardError | None]:
        """Return the offer of an approval, or why there is none; neither if the card does not wait."""
        if card.state is not CardState.REQUESTED:
            return None, None
        try:
            terms = card.proposed
            dataset_entry = self.cards.catalogue.named(dataset_of(card.name))
            outcome = self.cards.judged(tx, dataset_entry, terms)
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
            end = CardState.TERMINATED
            moved_card = self.cards.end(tx, self._waiting(card), end, by, "reject", remark=remark)
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

    def _policy_digest(self, name: str) -> str:
        try:
            return sha256(repr(self.cards.catalogue.named(dataset_of(name)).policy).encode())
        except NotFoundError:
            return ""

    def _terms(self, card: CardRecord, action: Action) -> Proposal:
        """Return the terms that an action offers; raise InvalidInputError if it names none."""
        if action.kind is Kind.APPROVE:
            return card.proposed
        whole = argument(action.arguments, "terms", dict, {})
        terms = _terms_of(whole) if whole else card.proposed
        if terms.dataset != card.proposed.dataset:
            raise InvalidInputError(field="terms.dataset", problem="cannot change on a card")
        dropped = [frozenset(clique) for clique in _cliques(action.arguments)]
        rows = argument(action.arguments, "rows", int, terms.rows)
        left_out = frozenset(texts(action.arguments, "without"))
        return replace(without_attributes(without(terms, dropped), left_out), rows=rows)

    def _revoked(self, tx: Connection, card: CardRecord, by: str, remark: str) -> CardRecord:
        """Return the card ended for good, with a signed revocation.

        One that was given back or has expired too: its analyst could still fetch what was made under it.

        Raises:
            CardStateError: The card was never agreed, or was revoked before.
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
    """Return the terms without these marginals and their weights.

    Raises:
        InvalidInputError: One of them was not asked for.
    """
    if not {frozenset(clique) for clique in proposed.marginals}.issuperset(left_out):
        raise InvalidInputError(field="drop", problem="names a marginal that was not proposed")
    others = proposed.statistics - len(proposed.marginals)
    kept = [frozenset(clique) not in left_out for clique in proposed.marginals]
    return _only(proposed, [*kept, *[True] * others])


def without_attributes(proposed: Proposal, left_out: frozenset[str]) -> Proposal:
    """Return the terms without statistics and program columns of these attributes.

    Raises:
        InvalidInputError: No statistic is about one of them, or no marginal or moment is left.
    """
    cliques = (*proposed.cliques, *proposed.number_cliques)
    if not left_out <= {name for clique in cliques for name in clique}:
        raise InvalidInputError(field="without", problem="names an attribute of no proposed statistic")
    columns = tuple(name for name in proposed.analyses.columns if name not in left_out)
    analyses = replace(proposed.analyses, columns=columns)
    return _only(
        replace(proposed, analyses=analyses), [left_out.isdisjoint(clique) for clique in cliques]
    )


def _only(proposed: Proposal, kept: Sequence[bool]) -> Proposal:
    """Return the terms with some of their statistics, and the weights of these.

    Args:
        kept: Whether each statistic is kept, in the order of the weights.
    """
    flags = iter(kept)
    parts: dict[str, Any] = {}
    for name in ("marginals", "moments", "histograms", "sums"):
        statistics = getattr(proposed, name)
        parts[name] = tuple(compress(statistics, islice(flags, len(statistics))))
    return replace(proposed, **parts, weights=tuple(compress(proposed.weights, kept)))


def _terms_of(document: Document) -> Proposal:
    try:
        return terms_of_document(document)
    except (KeyError, AttributeError, TypeError, ValueError):
        pass
    raise InvalidInputError(field="arguments.terms", problem="are not terms of a card")


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
