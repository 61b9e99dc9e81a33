"""Earlier grants on a dataset, and their consequences for the next card.

Among grants to all analysts, grants whose difference would show single records close a mechanism. Among
grants to one analyst, counting the same records twice reveals nothing new, so a card costs only the
statistics that it adds. Noise drawn a second time would reveal more, so a card with the same noisy
statistics receives the psi drawn before, and costs nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter

from sqlalchemy import Connection

from gencard.controller.boxes import is_black_box
from gencard.controller.policy.statistics import NEIGHBOURING, price_of, required, sums_price
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.state.cards import (
    STANDING,
    granted_cards,
    names_of_measured,
    offer_of,
    signed_card,
)
from gencard.core.card.budget import FREE, Neighbouring, Price
from gencard.core.card.card import CardState
from gencard.core.card.privacy import AS_COUNTED, Mechanism, Privacy
from gencard.core.card.terms import CardTerms, Proposal
from gencard.core.coding import Coding
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ProposalRefusedError, TooLargeError
from gencard.core.statistics.marginals import Grant, dimension, rank, shows_a_difference
from gencard.wire.codec import card_of_bytes

DIFFERENCING = "DIFFERENCING"
_NOISY = set(Mechanism) - {Mechanism.EXACT}

Unit = tuple[Neighbouring, bool]
"""Unit that noise protects: neighbouring relation, and records or persons."""


@dataclass(frozen=True, slots=True)
class Grants:
    """Cards of all analysts that are in force, have a measured psi, or had runs."""

    clock: Callable[[], datetime]

    def closed(
        self, tx: Connection, dataset_entry: DatasetEntry, relation: Neighbouring | None
    ) -> Mapping[Mechanism, str]:
        """Return the mechanisms that are not on offer for a new card, each with its reason code.

        ``relation`` is that of all noise on the dataset; None if the policy offers no noise.
        """
        policy = dataset_entry.policy
        unit = None if relation is None else (relation, bool(policy.most_records))
        exact = Grant(dataset_entry.version, dataset_entry.coding_digest, policy.transform.rounding)
        return self._closed(tx, dataset_entry.name, exact, unit)

    def check_joins(self, tx: Connection, card: CardTerms) -> None:
        """Refuse an offered card that conflicts with a grant since the offer."""
        privacy = card.terms.privacy
        closed_mechanisms = self._closed(tx, card.terms.dataset, _grant_of(card), _unit_of(privacy))
        if privacy.mechanism in closed_mechanisms:
            raise ProposalRefusedError(reasons=closed_mechanisms[privacy.mechanism])

    def tables(self, tx: Connection, dataset_entry: DatasetEntry) -> Mapping[str, tuple[Clique, ...]]:
        """Return the granted tables of the present records, by card; for numbers, the attributes."""
        granted = self._of_present(tx, dataset_entry)
        return {name: (*terms.cliques, *terms.number_cliques) for name, terms in granted}

    def exact(self, tx: Connection, dataset_entry: DatasetEntry) -> Mapping[str, Proposal]:
        """Return the granted terms of exact counts of the present records, by card."""
        granted = self._of_present(tx, dataset_entry)
        return {name: terms for name, terms in granted if not terms.privacy.noisy}

    def _of_present(self, tx: Connection, dataset_entry: DatasetEntry) -> Iterator[tuple[str, Proposal]]:
        now, measured_cards = self.clock(), names_of_measured(tx, dataset_entry.name)
        present = (dataset_entry.version, dataset_entry.coding_digest)
        for row in granted_cards(tx, dataset_entry.name):
            card, expires = _granted_card(row.body)
            may_be_measured = row.state in STANDING and now < expires
            if (card.version, card.coding_digest) == present and (
                may_be_measured or card.name in measured_cards
            ):
                yield card.name, card.terms

    def _closed(
        self, tx: Connection, dataset: str, exact: Grant, relation: Unit | None
    ) -> Mapping[Mechanism, str]:
        """Return the mechanisms that other grants close; see also ``differencing``.

        Budgets under two neighbouring relations cannot be added. Nor can budgets that protect records
        and budgets that protect persons; budgets of persons can, whatever number of their records
        counted.
        """
        granted = set(self._granted(tx, dataset))
        counts = [granted_by_card for granted_by_card in granted if isinstance(granted_by_card, Grant)]
        relations = granted - set(counts)
        reasons: dict[Mechanism, str] = {}
        if shows_a_difference(exact, counts):
            reasons[Mechanism.EXACT] = DIFFERENCING
        if relation is not None and relations - {relation}:
            reasons |= dict.fromkeys(_NOISY, NEIGHBOURING)
        return reasons

    def _granted(self, tx: Connection, dataset: str) -> Iterator[Grant | Unit | None]:
        """Yield the disclosure of each card, except cards that expired before a measurement or a run.

        The answer of a run discloses facts about the version that it read, as counts do.
        """
        now = self.clock()
        measured_cards = names_of_measured(tx, dataset, runs=True)
        for row in granted_cards(tx, dataset):
            signed, expires = _granted_card(row.body)
            if now < expires or row.name in measured_cards:
                privacy = signed.terms.privacy
                yield _unit_of(privacy) if privacy.noisy else _grant_of(signed)


# Every proposal and every release looks at all cards granted before, and reading one takes 1.5 ms.
@lru_cache(maxsize=2_000)
def _granted_card(body: bytes) -> tuple[CardTerms, datetime]:
    card = card_of_bytes(body)
    return signed_card(card), offer_of(card).expire_time


def _unit_of(privacy: Privacy) -> Unit | None:
    relation = privacy.neighbouring
    return None if relation is None else (relation, privacy.most_records is not None)


def _grant_of(card: CardTerms) -> Grant:
    return Grant(card.version, card.coding_digest, card.terms.transform.rounding)


@dataclass(frozen=True, slots=True)
class Charge:
    """Price of the statistics that an analyst does not hold, and the own cards that hold the others."""

    price: Price
    held_by: tuple[str, ...] = ()


def held_cards(tx: Connection, analyst: str, dataset_entry: DatasetEntry) -> tuple[CardTerms, ...]:
    """Return the analyst's own measured cards on the records as they are now, oldest first.

    Revoked cards are left out: they give their analyst nothing more.
    """
    measured_cards = names_of_measured(tx, dataset_entry.name)
    cards = [
        _granted_card(row.body)[0]
        for row in granted_cards(tx, dataset_entry.name, analyst)
        if row.state is not CardState.REVOKED and row.name in measured_cards
    ]
    present = (dataset_entry.version, dataset_entry.coding_digest)
    return tuple(card for card in cards if (card.version, card.coding_digest) == present)


def charge(
    terms: Proposal, domain: Domain, held: Sequence[CardTerms], coding: Coding | None = None
) -> Charge:
    """Return the price of the statistics in terms that the analyst does not hold.

    A black box reads the records once more, so the rows of its card disclose more than psi: its card is
    never cheaper. Nor is a card without replicated uniques, which depends on the table of all
    attributes.
    """
    full = price_of(terms, domain, coding)
    if is_black_box(terms.generator) or terms.without_uniques:
        return Charge(full)
    if terms.privacy.noisy:
        source = same_noisy_psi(terms, held)
        return Charge(full) if source is None else Charge(FREE, (source.name,))
    least, sharing = full.statistics, list[CardTerms]()
    # exact counts that determine those of the terms, if both have counts
    telling = [
        card
        for card in reversed(held)
        if not card.terms.privacy.noisy and card.terms.transform in {AS_COUNTED, terms.transform}
    ]
    for card in telling:
        if not least:  # nothing is new beside the cards that share already
            break
        new = _new_statistics(terms, domain, [one.terms for one in (*sharing, card)], coding)
        if new < least:
            least = new
            sharing.append(card)
    return Charge(Price(statistics=least), tuple(card.name for card in sharing))


def same_noisy_psi(terms: Proposal, held: Sequence[CardTerms]) -> CardTerms | None:
    """Return the newest card whose noisy psi consists of exactly the statistics of the terms.

    None for a black box of tier private: its noise is added to its own fit, and there is no psi.
    """
    if not terms.privacy.noisy or is_black_box(terms.generator):
        return None
    measured = attrgetter("marginals", "moments", "histograms", "sums", "privacy", "weights")
    return next((card for card in reversed(held) if measured(card.terms) == measured(terms)), None)


def _new_statistics(
    terms: Proposal, domain: Domain, held: Sequence[Proposal], coding: Coding | None
) -> int:
    known = [clique for one in held for clique in one.marginals]
    together = [*known, *terms.marginals]
    wholes, held_moments = list(map(set, known)), [moment for one in held for moment in one.moments]
    moments = [
        moment
        for moment in terms.moments
        if moment not in held_moments and not any(set(moment.attributes) <= whole for whole in wholes)
    ]
    histograms = [name for one in held for name in one.histograms]
    sums = [total for one in held for total in one.sums]
    try:
        if terms.numbers or histograms or sums:
            schema = required(coding)
            number = rank(
                schema, together, [*histograms, *terms.histograms], [*sums, *terms.sums]
            ) - rank(schema, known, histograms, sums)
        else:
            number = dimension(domain, together) - dimension(domain, known)
        return number + sums_price(together, moments, domain)
    except TooLargeError:  # too many subsets to list: no discount
        return price_of(terms, domain, coding).statistics
