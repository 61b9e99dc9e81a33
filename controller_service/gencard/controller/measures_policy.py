"""Which measures a card may name, and whether replicated uniques may go. Depends on no record."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from gencard.controller.box_policy import READS_RECORDS as GENERATOR_READS_RECORDS
from gencard.controller.box_policy import is_black_box
from gencard.controller.holdings import Holding
from gencard.core.budget import Price, Privacy
from gencard.core.card import Change, Proposal
from gencard.core.measures.measure import Measure
from gencard.core.measures.registry import measure_named, price_in_statistics
from gencard.core.transform import AS_COUNTED, Transform

NOT_OFFERED = "MEASURE_NOT_OFFERED"
READS_RECORDS = "READS_RECORDS_ONCE_MORE"


def with_measures(
    terms: Proposal,
    privacy: Privacy,
    transform: Transform,
    measures: Collection[str],
    without_uniques: bool,
) -> tuple[Proposal, tuple[Change, ...]]:
    """The terms with what is on offer of all that reads records once more, and each step to it.

    Measures are exact numbers about records: noise or rounding of psi would protect nothing any more
    beside them. So is what is missing from a release without replicated uniques. Of those of a black box
    nobody takes any out: all that is ever released of it comes from one run.

    Args:
        terms: With the generator that is on offer.
        privacy: How the card will be measured; ``transform`` the policy's, of exact counts.
        measures: Those of the policy.
        without_uniques: Whether the policy lets releases be rid of replicated uniques.

    Raises:
        InvalidInputError: There is no measure of this name.
    """
    for name in terms.measures:
        measure_named(name)
    bound = READS_RECORDS if privacy.noisy or transform != AS_COUNTED else None
    kept = () if bound else tuple(name for name in terms.measures if name in measures)
    gone = [name for name in terms.measures if name not in kept]
    changes = [
        Change("measures", name, "", bound if bound and name in measures else NOT_OFFERED)
        for name in gone
    ]
    why = _why_uniques_stay(without_uniques, bound, terms.generator)
    if terms.without_uniques and why:
        changes.append(Change("without_uniques", "true", "false", why))
    terms = replace(terms, measures=kept, without_uniques=terms.without_uniques and not why)
    return terms, tuple(changes)


def _why_uniques_stay(offered: bool, bound: str | None, generator: str) -> str | None:
    """The reason code; None where replicated uniques may go."""
    if not offered:
        return NOT_OFFERED
    return bound or (GENERATOR_READS_RECORDS if is_black_box(generator) else None)


def fitting(measures: Iterable[Measure], holding: Holding, terms: Proposal) -> tuple[Measure, ...]:
    """Those that have what they need at this dataset under these terms; all of that is public."""
    attributes = holding.domain.covered_by(terms.cliques).attributes
    there = holding.holdout is not None
    return tuple(one for one in measures if not one.lacks(attributes, holding.declared, holdout=there))


def price_of_measures(measures: Iterable[Measure], holding: Holding, terms: Proposal) -> Price:
    """What an analyst pays for these measures of one release."""
    attributes = len(holding.domain.covered_by(terms.cliques).attributes)
    names = [measure.name for measure in measures]
    marginals = len(terms.marginals)
    return Price(statistics=price_in_statistics(names, attributes=attributes, marginals=marginals))


def price_of_named(holding: Holding, terms: Proposal) -> Price:
    """What all measures that the terms name cost of one release."""
    named = fitting(map(measure_named, terms.measures), holding, terms)
    return price_of_measures(named, holding, terms)
