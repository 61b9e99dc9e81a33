"""Statistics that an analyst holds already: another card over them costs only what it adds.

Counting the same records twice tells nothing new. Noise drawn a second time does: a card with the same
noisy statistics gets the psi that was drawn before, and pays nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from gencard.controller.cards.card_body import negotiation_of, signed_card
from gencard.controller.policy.box_policy import is_black_box
from gencard.controller.policy.measuring import price_of
from gencard.controller.policy.moment_policy import sums_price
from gencard.controller.state.cards import CardStore
from gencard.core.card.budget import FREE, Price
from gencard.core.card.card import CardState
from gencard.core.card.terms import CardTerms, Proposal
from gencard.core.domain import Domain
from gencard.core.errors import TooLargeError
from gencard.core.moment import Moment
from gencard.core.statistics.closure import dimension
from gencard.core.transform import AS_COUNTED


@dataclass(frozen=True, slots=True)
class Charge:
    """What a card costs an analyst.

    Args:
        price: Of the statistics that the analyst does not hold.
        held_by: Names of the analyst's own cards that hold the others; empty where none does.
    """

    price: Price
    held_by: tuple[str, ...] = ()


def held_cards(
    tx: Connection, store: CardStore, *, analyst: str, dataset: str, version: str, coding_digest: str
) -> tuple[CardTerms, ...]:
    """The analyst's own measured cards on the same records under the same schema, oldest first.

    A revoked one gives its analyst nothing more.
    """
    return tuple(
        card
        for card in _measured(tx, store, analyst, dataset)
        if (card.version, card.coding_digest) == (version, coding_digest)
    )


def charge(terms: Proposal, domain: Domain, held: Sequence[CardTerms]) -> Charge:
    """The price of what is new in terms, beside all that the analyst holds.

    A black box reads the records once more, so the rows of its card tell more than psi: its card is
    never cheaper. Nor is one without replicated uniques, which tells of the table of all attributes.
    """
    full = price_of(terms, domain)
    if is_black_box(terms.generator) or terms.without_uniques:
        return Charge(full)
    if terms.privacy.noisy:
        source = same_noisy_psi(terms, held)
        return Charge(full) if source is None else Charge(FREE, (source.name,))
    least, sharing = full.statistics, list[CardTerms]()
    for card in (card for card in reversed(held) if _tells_counts(card.terms, terms)):
        new = _new_statistics(terms, domain, [one.terms for one in (*sharing, card)])
        if new < least:
            least = new
            sharing.append(card)
    return Charge(Price(statistics=least), tuple(card.name for card in sharing))


def same_noisy_psi(terms: Proposal, held: Sequence[CardTerms]) -> CardTerms | None:
    """The newest card of which the noisy psi is just what the terms ask for.

    None for a black box of tier private: its noise falls on its own fit, and there is no psi.
    """
    if not terms.privacy.noisy or is_black_box(terms.generator):
        return None
    return next((card for card in reversed(held) if _measured_alike(card.terms, terms)), None)


def _measured(tx: Connection, store: CardStore, analyst: str, dataset: str) -> Iterator[CardTerms]:
    for row in store.granted(tx, dataset):
        if (
            row.analyst == analyst
            and row.state is not CardState.REVOKED
            and store.measured(tx, row.name)
        ):
            yield signed_card(negotiation_of(row.body))


def _measured_alike(held: Proposal, terms: Proposal) -> bool:
    """Whether both name the same statistics with the same noise on each."""
    fields = ("marginals", "moments", "privacy", "weights")
    return all(getattr(held, field) == getattr(terms, field) for field in fields)


def _tells_counts(held: Proposal, terms: Proposal) -> bool:
    """Whether exact counts of the one determine those of the other, where both name them."""
    return not held.privacy.noisy and held.transform in {AS_COUNTED, terms.transform}


def _new_statistics(terms: Proposal, domain: Domain, held: Sequence[Proposal]) -> int:
    """Independent statistics of the terms outside the span of all that is held."""
    known = [clique for one in held for clique in one.marginals]
    together = [*known, *terms.marginals]
    moments = [moment for moment in terms.moments if not _is_held(moment, held)]
    try:
        added = dimension(domain, together) - dimension(domain, known)
        return added + sums_price(together, moments, domain)
    except TooLargeError:  # too many subsets to list: no discount
        return price_of(terms, domain).statistics


def _is_held(moment: Moment, held: Sequence[Proposal]) -> bool:
    inside = any(set(moment.attributes) <= set(clique) for one in held for clique in one.marginals)
    return inside or any(moment in one.moments for one in held)
