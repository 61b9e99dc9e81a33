"""The answer to a proposal: its price, the nearest acceptable terms, or why there are none.

Terms that are too rich are brought within bounds: cliques are split into smaller ones, the dearest
are dropped, and so are rows. Every difference is one line of a typed diff with a reason code. All of
it is code, with no record in sight.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gencard.controller.boxes.generator_facts import Facts, facts_of_generators
from gencard.controller.policy.box_policy import generator_choice, why_no_moments
from gencard.controller.policy.clique_policy import FORBIDDEN, acceptable_cliques, objection
from gencard.controller.policy.limits import Limits, check_model, check_size
from gencard.controller.policy.measures_policy import with_measures, with_uniques_kept
from gencard.controller.policy.measuring import (
    TRANSFORM,
    chosen,
    measured_as,
    price_of,
)
from gencard.controller.policy.moment_policy import PRICE, affordable
from gencard.controller.policy.policy import Policy
from gencard.core.card.budget import Mechanism, Privacy
from gencard.core.card.terms import Change, CounterOffer, Proposal, Refusal
from gencard.core.domain import Domain
from gencard.core.generators.registry import Zeros
from gencard.core.transform import AS_COUNTED

ROWS = "TOO_MANY_ROWS"
NOTHING_LEFT = "NOTHING_LEFT"


def judge(
    proposal: Proposal,
    policy: Policy,
    domain: Domain,
    limits: Limits,
    closed: Mapping[Mechanism, str],
    *,
    zeros: Zeros = (),
    facts: Facts = facts_of_generators,
) -> CounterOffer | Refusal:
    """The nearest acceptable terms with their price, or why there are none.

    Args:
        proposal: In the domain's order (``Proposal.in_order_of``).
        closed: Mechanisms that grants made before have closed, and why (``Grants.closed``).
        zeros: The structural zeros of the schema, which the generator must keep.
        facts: Of the generators that the policy names.

    Raises:
        TooLargeError: Over a hard bound of the service; found before anything is expanded.
        InvalidInputError: The generator needs a marginal that is not asked for.
    """
    check_size(proposal, domain, limits)
    choice = generator_choice(proposal, policy, closed, facts)
    if isinstance(choice, Refusal):
        return choice
    privacy = choice.privacy
    terms, rest = _acceptable_rest(choice.terms, choice.changes, policy)
    offered = policy.measures, policy.without_uniques
    terms, fewer = with_measures(terms, privacy, policy.transform, *offered)
    found = _acceptable_statistics(terms, privacy, policy, domain, facts)
    if isinstance(found, Refusal):
        return found
    terms, changes, transform_changes = found
    whole = objection(domain.covered_by(terms.cliques).attributes, policy, domain)
    terms, with_uniques = with_uniques_kept(terms, whole)
    check_model(terms, domain, limits, zeros)
    _check_box(terms, domain, facts)
    price = price_of(terms, domain)
    if not price.fits(policy.most_per_card):
        return Refusal((PRICE,))
    if _looks_at_forbidden(terms, policy, facts):
        return Refusal((FORBIDDEN,))
    steps = (*changes, *rest, *choice.privacy_changes, *transform_changes, *fewer, *with_uniques)
    return CounterOffer(terms, steps, price)


def _check_box(terms: Proposal, domain: Domain, facts: Facts) -> None:
    """Raises TooLargeError or ModelTooLargeError where a built-in black box would, after it was paid."""
    check = facts(terms.generator).check
    if check is not None:
        check(terms.marginals, domain.covered_by(terms.cliques))


def _looks_at_forbidden(terms: Proposal, policy: Policy, facts: Facts) -> bool:
    """Whether a private black box could measure attributes together that the policy keeps apart.

    Most choose their marginals among all attributes of the card, whatever the workload says.
    """
    about = facts(terms.generator)
    if about.privacy is None or about.within_workload:
        return False
    covered = {name for clique in terms.cliques for name in clique}
    return any(covered.issuperset(forbidden) for forbidden in policy.forbidden)


def _acceptable_statistics(
    terms: Proposal, privacy: Privacy, policy: Policy, domain: Domain, facts: Facts
) -> tuple[Proposal, tuple[Change, ...], tuple[Change, ...]] | Refusal:
    """The terms with acceptable statistics, so measured; changes of these, and of the transform."""
    moments, fewer = policy.moments.offered(
        terms.moments,
        lambda clique: objection(clique, policy, domain),
        why_no_moments(terms.generator, facts),
        TRANSFORM if policy.transform != AS_COUNTED and not privacy.noisy else None,
    )
    if not terms.marginals and not moments:
        return _nothing_left(fewer)
    terms = chosen(terms, terms.marginals, moments)
    terms, transform_changes = measured_as(terms, privacy, policy.transform)
    cliques, changes = acceptable_cliques(terms, policy, domain)
    most = policy.most_per_card.statistics
    moments, dropped = affordable(terms, cliques, domain, policy.most_marginals, most)
    changes = (*changes, *fewer, *dropped)
    if not cliques and not moments:
        return _nothing_left(changes)
    return chosen(terms, cliques, moments), changes, transform_changes


def _nothing_left(changes: Iterable[Change]) -> Refusal:
    return Refusal((*dict.fromkeys(change.reason for change in changes), NOTHING_LEFT))


def _acceptable_rest(
    terms: Proposal, changes: tuple[Change, ...], policy: Policy
) -> tuple[Proposal, tuple[Change, ...]]:
    if terms.rows <= policy.most_rows:
        return terms, changes
    fewer = Change("rows", str(terms.rows), str(policy.most_rows), ROWS)
    return replace(terms, rows=policy.most_rows), (fewer, *changes)
