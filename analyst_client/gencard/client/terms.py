"""Terms from the caller's arguments: requested statistics, a new proposal, a counter-proposal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import combinations
from typing import Any, NamedTuple, TypedDict

from gencard.client.common.arguments import checked, names_only, whole
from gencard.core.card.budget import Neighbouring, decimal_of, neighbouring_of
from gencard.core.card.privacy import (
    CURRENCIES,
    EXACT,
    AddedNoise,
    Exact,
    InsideGenerator,
    Mechanism,
    Privacy,
    privacy_with,
    usual_noise,
)
from gencard.core.card.sums import (
    HIGHEST_ORDER,
    Histogram,
    Moment,
    MomentKind,
    Sum,
    check_numbers,
    product_ends,
)
from gencard.core.card.terms import LARGEST_WEIGHT, NO_ANALYSES, Analyses, AuditTerms, Proposal
from gencard.core.catalogue import CatalogueEntry
from gencard.core.coding import Coding
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError, advice_on
from gencard.core.policy import NumbersOffer, Policy
from gencard.core.statistics.linear import LinearStatistic, fine_cells
from gencard.core.statistics.noise import scales, sum_noise, sum_scales
from gencard.core.statistics.psi import rounding_stddev


@dataclass(frozen=True, slots=True)
class AllMarginals:
    """Every set of ``order`` attributes, among those named or among all."""

    order: int
    attributes: Clique | None = None

    def cliques(self, domain: Domain) -> tuple[Clique, ...]:
        """Raises UnknownAttributeError, InvalidCliqueError or InvalidNumberError."""
        names = domain.attributes if self.attributes is None else domain.canonical(self.attributes)
        if not 1 <= self.order <= len(names):
            raise InvalidNumberError(field="order", expected=f"from 1 to {len(names)}")
        return tuple(combinations(names, self.order))


Statistic = Sequence[str] | Moment | Histogram | Sum | AllMarginals

Marginals = AllMarginals | Iterable[Statistic]
"""Cliques, moments, histograms and sums, as ``propose`` takes them."""


class Phi(NamedTuple):
    """The statistics of a proposal by their kinds, each in the order given."""

    marginals: tuple[Clique, ...]
    moments: tuple[Moment, ...] = ()
    histograms: Clique = ()
    sums: tuple[Sum, ...] = ()


@checked()
def all_marginals(order: int = 2, attributes: Iterable[str] | None = None) -> AllMarginals:
    """Every marginal of an order.

    >>> all_marginals(order=2, attributes=["a", "b", "c"]).cliques(Domain.of({"a": 2, "b": 2, "c": 3}))
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    return AllMarginals(order, None if attributes is None else tuple(attributes))


def phi_of(marginals: Marginals, domain: Domain) -> Phi:
    cliques: list[Clique] = []
    moments: list[Moment] = []
    histograms: list[str] = []
    sums: list[Sum] = []
    for statistic in [marginals] if isinstance(marginals, AllMarginals) else marginals:
        match statistic:
            case Moment():
                moments.append(statistic)
            case Histogram():
                histograms.append(statistic.attribute)
            case Sum():
                sums.append(statistic)
            case AllMarginals():
                cliques.extend(statistic.cliques(domain))
            case _:
                cliques.append((statistic,) if isinstance(statistic, str) else tuple(statistic))
    return Phi(tuple(cliques), tuple(moments), tuple(histograms), tuple(sums))


@checked()
def histogram(attribute: str) -> Histogram:
    """The counts of an attribute's numbers by the cells of its scale, finer than its levels."""
    return Histogram(attribute)


@checked(by=names_only)
def total(
    attribute: str, other: str | None = None, *, by: Iterable[str] = (), present: Iterable[str] = ()
) -> Sum:
    """The sum of a number, or of the product of two, over the records of each group.

    >>> str(total("spent", "spent", by=["sex"]))
    'sum of spent * spent by sex'

    Args:
        attribute: An attribute with a step.
        other: A second one, for the sum of products; the same for squares.
        by: Attributes of the groups.
        present: Further attributes that must not be missing.
    """
    return Sum((attribute,) if other is None else (attribute, other), tuple(by), tuple(present))


@checked()
def mean(attribute: str) -> Moment:
    """The sum of an attribute's declared numbers."""
    return Moment(MomentKind.MEAN, (attribute,))


@checked()
def variance(attribute: str) -> Moment:
    """The sums of its numbers and of their squares."""
    return Moment(MomentKind.VARIANCE, (attribute,))


@checked(order=whole(1, HIGHEST_ORDER))
def moment(attribute: str, order: int) -> Moment:
    """The sum of its numbers to the power of the order, from 1 to 8."""
    return Moment(MomentKind.MOMENT, (attribute,), order)


@checked()
def covariance(one: str, other: str) -> Moment:
    """The sums of two attributes' numbers, and of their products."""
    return Moment(MomentKind.COVARIANCE, (one, other))


@checked()
def group_sums(attribute: str, *, by: str) -> Moment:
    """The sum of an attribute's numbers for each level of a group."""
    return Moment(MomentKind.GROUP_SUMS, (by, attribute))


@checked()
def group_means(attribute: str, *, by: str) -> Moment:
    """The same, with the number of records of each level."""
    return Moment(MomentKind.GROUP_MEANS, (by, attribute))


Amount = Decimal | int | float | str
"""A budget; a float means the decimal that it prints as."""


class Measured(TypedDict, total=False):
    """Arguments for how statistics are measured: exactly by default; noise requires ``neighbouring``.

    Args:
        epsilon: Total privacy budget of Laplace noise over all marginals.
        rho: Total privacy budget (zCDP) of Gaussian noise over all marginals.
        delta: For Gaussian noise: the delta at which the card also states an epsilon.
        neighbouring: Neighbouring relation, "add-remove" or "replace-one".
        weights: Weights of statistics in the budget, such as ``{("sex", "health"): 3}``; default 1.
        privacy: All of the above except the weights, as one value.
        where: A condition, such as ``"sex == 'F'"``: the card is about these records. Each statistic
            gets the attributes of the condition, and is priced and judged with them.
        measures: Evaluations that read records, to be run for the card, such as ``["dcr"]``.
        without_uniques: Remove replicated uniques; the card then allows one release.
        analyses: Runs on the records: ``Analyses`` or its fields, such as ``{"kinds": ["linear"],
            "checked_runs": 2}``; with noise, ``"epsilon"`` or ``"rho"`` is what each run spends. Fields
            without ``"columns"`` ask for the recorded numbers of all attributes with a step that the
            policy offers to programs.
    """

    epsilon: Amount | None
    rho: Amount | None
    delta: Amount | None
    neighbouring: Neighbouring | str | None
    weights: Mapping[str | Sequence[str] | Moment, int] | None
    privacy: Privacy | None
    where: str | None
    measures: Sequence[str] | None
    without_uniques: bool | None
    analyses: Analyses | Mapping[str, Any] | None


_ALIKE = {field.name for field in fields(Proposal)} - {"privacy", "weights", "analyses"}
_WORDS = ("epsilon", "rho", "delta", "neighbouring")


def privacy_of(options: Measured, policy: Policy) -> Privacy | None:
    """The measurement that the options state; None if they state none.

    Args:
        policy: Decides which noise a budget means if several spend its currency.

    Raises:
        InvalidInputError: They contradict each other, or one is missing.
        InvalidNumberError: A budget is not a number in its range.
    """
    unknown = options.keys() - Measured.__annotations__.keys()
    if unknown:
        raise InvalidInputError(
            field=", ".join(sorted(unknown)),
            problem="is an unknown option; use epsilon=, rho=, delta=, neighbouring= or weights=",
        )
    words = [word for word in _WORDS if options.get(word) is not None]
    privacy = options.get("privacy")
    if privacy is not None and words:
        problem = f"cannot be combined with {' and '.join(words)}"
        raise InvalidInputError(field="privacy", problem=problem)
    if not words:
        return privacy
    budgets = [word for word in CURRENCIES if options.get(word) is not None]
    if len(budgets) > 1:
        raise InvalidInputError(field=budgets[0], problem=f"cannot be combined with {budgets[1]}")
    for word in budgets:
        decimal_of(str(options.get(word)), word)
        neighbouring_of(options.get("neighbouring") or "")
    texts = {word: str(options.get(word)) for word in words}
    noises = [usual_noise(word, policy.mechanisms) for word in budgets]
    return privacy_with(noises[0] if noises else Mechanism.EXACT, texts)


def alike(options: Measured) -> dict[str, Any]:
    """The options that are fields of the terms; None is the same as absent."""
    return {
        name: tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for name, value in options.items()
        if name in _ALIKE and value is not None
    }


def analyses_of(given: "Analyses | Mapping[str, Any] | None", privacy: Privacy) -> Analyses:
    """The runs on the records that the options ask for, measured as the card is."""
    if given is None or isinstance(given, Analyses):
        return (given or NO_ANALYSES).measured_as(privacy)
    names = [*(field.name for field in fields(Analyses) if field.name != "privacy"), *CURRENCIES]
    for unknown in given.keys() - set(names):
        raise InvalidInputError(
            field=unknown, problem="is not part of analyses", advice=advice_on(unknown, names)
        )
    budget = {name: str(given[name]) for name in CURRENCIES if name in given}
    parts: dict[str, Any] = {
        name: value if isinstance(value, int | str) else tuple(sorted(value))
        for name, value in given.items()
        if name not in budget
    }
    return Analyses(**parts).measured_as(privacy_with(privacy.mechanism, privacy.parameters | budget))


def weights_of(options: Measured, phi: Phi) -> tuple[int, ...]:
    """One weight for each statistic, in the order of a card; empty if no weights are given."""
    weights = {_key(statistic): weight for statistic, weight in (options.get("weights") or {}).items()}
    requested = [*map(_key, phi.marginals), *phi.moments, *map(Histogram, phi.histograms), *phi.sums]
    if weights.keys() - set(requested):
        raise InvalidInputError(field="weights", problem="name a statistic that is not requested")
    if not all(type(weight) is int for weight in weights.values()):
        raise InvalidNumberError(field="weights", expected=f"whole numbers from 1 to {LARGEST_WEIGHT}")
    return tuple(weights.get(statistic, 1) for statistic in requested if weights)


def stddevs(terms: Proposal) -> tuple[float, ...]:
    """Standard deviation of each marginal's counts, in records; known before measuring.

    Empty on a card of tier private, which has no counts.
    """
    if isinstance(terms.privacy, InsideGenerator):
        return ()
    if isinstance(terms.privacy, Exact):
        rounding = terms.transform.rounding
        return (rounding_stddev(rounding) if rounding > 1 else 0.0,) * len(terms.marginals)
    weights = terms.weights or [1] * terms.statistics
    return tuple(map(terms.privacy.stddev, scales(terms.privacy, weights)[: len(terms.marginals)]))


def sum_stddevs(terms: Proposal, statistics: Sequence[LinearStatistic]) -> tuple[float, ...]:
    """Standard deviation of each sum of the moments' functions, in numerators, in their order."""
    if not isinstance(terms.privacy, AddedNoise):
        return tuple(0.0 for statistic in statistics for _ in statistic.functions)
    budgets = terms.privacy.parts(terms.weights or [1] * terms.statistics)
    budgets = budgets[len(terms.marginals) : len(terms.cliques)]
    return tuple(
        terms.privacy.stddev(scale)
        for statistic, budget in zip(statistics, budgets, strict=True)
        for scale in sum_scales(statistic, terms.privacy, budget)
    )


def number_stddevs(terms: Proposal, coding: Coding) -> tuple[float, ...]:
    """Standard deviation of each histogram's counts; then of each sum's values, and of its counts.

    Counts that a sum does not have count as exact.
    """
    if not isinstance(terms.privacy, AddedNoise):
        rounding = terms.transform.rounding
        of_counts = rounding_stddev(rounding) if rounding > 1 else 0.0
        return (of_counts,) * len(terms.histograms) + (0.0,) * (2 * len(terms.sums))
    privacy = terms.privacy
    budgets = privacy.parts(terms.weights or [1] * terms.statistics)[len(terms.cliques) :]
    places = len(terms.histograms)
    deviations = [privacy.stddev(privacy.scale(privacy.moved, budget)) for budget in budgets[:places]]
    for one, budget in zip(terms.sums, budgets[places:], strict=True):
        counted = one.counts_beside(terms.marginals, coding)
        ends, cells = product_ends(coding, one.of), coding.domain.project(one.by).cells
        how = sum_noise(ends, cells, privacy, budget, counted=counted)
        deviations += [how.stddev(privacy), privacy.stddev(how.counts_scale) if counted else 0.0]
    return tuple(deviations)


def measured_with(
    terms: Proposal, coding: Coding
) -> tuple[dict[Clique, float], dict[str, float], dict[Sum, tuple[float, float]]]:
    """The marginals, histograms and sums of some terms, each with the noise that it would have."""
    deviations = number_stddevs(terms, coding)
    places = len(terms.histograms)
    sums = iter(deviations[places:])
    return (
        dict(zip(terms.marginals, stddevs(terms), strict=True)),
        dict(zip(terms.histograms, deviations[:places], strict=True)),
        dict(zip(terms.sums, zip(sums, sums, strict=True), strict=True)),
    )


def _for_persons(privacy: Privacy, most_records: int) -> Privacy:
    """Noise that protects the persons of a dataset; it protects one record where nobody says so."""
    if not isinstance(privacy, AddedNoise) or privacy.most_records or not most_records:
        return privacy
    return replace(privacy, most_records=most_records)


def _key(
    statistic: str | Sequence[str] | Moment | Histogram | Sum,
) -> frozenset[str] | Moment | Histogram | Sum:
    if isinstance(statistic, Moment | Histogram | Sum):
        return statistic
    return frozenset([statistic] if isinstance(statistic, str) else statistic)


def proposed(
    entry: CatalogueEntry,
    marginals: Marginals,
    measured: Measured,
    *,
    purpose: str,
    generator: str,
    rows: int | None,
    audit: AuditTerms,
) -> Proposal:
    """A proposal for a dataset; ``rows`` defaults to the policy's limit."""
    domain = entry.coding.domain
    phi = phi_of(marginals, domain)
    phi = phi._replace(marginals=_within(measured.get("where"), phi.marginals, entry.coding))
    check_numbers(entry.coding, phi.histograms, phi.sums)
    privacy = _for_persons(privacy_of(measured, entry.policy) or EXACT, entry.most_records)
    proposal = Proposal(
        dataset=entry.name,
        purpose=purpose,
        marginals=phi.marginals,
        generator=generator,
        rows=entry.policy.most_rows if rows is None else rows,
        privacy=privacy,
        audit=audit,
        weights=weights_of(measured, phi),
        moments=phi.moments,
        histograms=phi.histograms,
        sums=phi.sums,
        analyses=analyses_of(measured.get("analyses"), privacy),
        **alike(measured),
    )
    return _with_columns(proposal, measured, entry).in_order_of(domain)


def _with_columns(proposal: Proposal, measured: Measured, entry: CatalogueEntry) -> Proposal:
    """Ask for recorded numbers of all attributes with a step, where programs run without columns."""
    given = measured.get("analyses")
    if not proposal.analyses.reviewed_runs or not isinstance(given, Mapping) or "columns" in given:
        return proposal
    covered = {name for clique in proposal.cliques for name in clique}
    columns = covered & {*entry.policy.analyses.most.columns} & {*entry.coding.with_step}
    return replace(proposal, analyses=replace(proposal.analyses, columns=tuple(sorted(columns))))


def _within(where: str | None, cliques: tuple[Clique, ...], coding: Coding) -> tuple[Clique, ...]:
    """Each clique with the attributes of a condition, each set once."""
    if not where:
        return cliques
    from gencard.analysis.formulas.model_matrix import read_condition  # noqa: PLC0415 - loads pandas

    attributes, _ = read_condition(where, coding)
    return tuple(dict.fromkeys(coding.domain.canonical({*clique, *attributes}) for clique in cliques))


def all_columns(entry: CatalogueEntry, measured: Measured) -> tuple[Statistic, ...]:
    """Return the pairs of all columns, and of each number with a step a histogram and a noisy total.

    These are bounded by what the policy permits: order, cells, forbidden sets, number and price. An
    attribute of which no pair is left keeps its single marginal. Where not all pairs fit in number,
    those of neighbouring columns come first; where not all fit in price, those with few cells, and then
    histograms. With a condition there are no numbers: histograms and totals are of all records.
    """
    domain, where, offered = entry.coding.domain, measured.get("where"), entry.policy
    noisy = (privacy_of(measured, offered) or EXACT).noisy or Mechanism.EXACT not in offered.mechanisms
    policy = offered.measuring(noisy=noisy)
    (condition,) = _within(where, ((),), entry.coding)  # its attributes are in each marginal anyway

    def permits(clique: Clique) -> bool:
        whole = domain.canonical({*clique, *condition})
        cells = domain.project(whole).cells
        bounded = len(whole) <= policy.largest_order and cells <= policy.largest_marginal_cells
        return bounded and policy.kept_apart(whole) is None

    others = [name for name in domain.attributes if name not in condition]
    names = [name for name in others or condition if permits((name,))]
    pairs = [pair for pair in combinations(names, 2) if permits(pair)]
    if len(pairs) > policy.most_marginals:
        place = {name: index for index, name in enumerate(names)}
        pairs.sort(key=lambda pair: place[pair[1]] - place[pair[0]])
    else:
        pairs.sort(key=lambda pair: domain.project(pair).cells)
    price = 1 + sum(domain.size(name) - 1 for name in names)
    chosen: list[Clique] = []
    alone = dict.fromkeys(names)
    for pair in pairs:
        both_new = {*pair} <= alone.keys()
        marginals = len(chosen) + 1 + len(alone.keys() - {*pair})
        dearer = price + (domain.size(pair[0]) - 1) * (domain.size(pair[1]) - 1)
        if not noisy and dearer > policy.most_per_card.statistics:
            continue
        if both_new or marginals <= policy.most_marginals:
            chosen.append(pair)
            price = dearer
            for name in pair:
                alone.pop(name, None)
    left = None if noisy else policy.most_per_card.statistics - price
    numbers = () if where else _all_numbers(entry, policy, names, left)
    return (*sorted(chosen, key=domain.axes), *((name,) for name in alone), *numbers)


def _all_numbers(
    entry: CatalogueEntry, policy: Policy, names: Sequence[str], left: int | None
) -> tuple[Histogram | Sum, ...]:
    """Histograms, and with noise totals, of the numbers with a step that the policy offers.

    Args:
        left: Statistics that exact histograms may cost beside the marginals; None under noise.
    """
    noisy = left is None

    def offers(offer: NumbersOffer) -> bool:
        return offer is NumbersOffer.EXACT or (noisy and offer is NumbersOffer.NOISE)

    coding, fine = entry.coding, []
    numbers = [name for name in names if name in coding.with_step][: policy.most_marginals]
    for name in numbers:
        cells = fine_cells(coding, name)
        own = cells - coding.domain.size(name)
        if cells <= policy.largest_marginal_cells and (left is None or own <= left):
            fine.append(name)
            left = None if left is None else left - own
    # Exact totals are judged at the records, and one with a dominant record would refuse the whole card.
    has_sums = noisy and offers(policy.sums)
    return (
        *map(Histogram, fine if offers(policy.histograms) else ()),
        *(Sum((name,)) for name in numbers if has_sums),
    )


def countered(
    now: Proposal, entry: CatalogueEntry, marginals: Marginals | None, measured: Measured, **others: Any
) -> Proposal:
    """Terms that replace the offered ones; arguments that are None keep the offered value.

    Evaluations, and the removal of replicated uniques, are kept only with exact counts.
    """
    domain = entry.coding.domain
    own = Phi(now.marginals, now.moments, now.histograms, now.sums)
    phi = own if marginals is None else phi_of(marginals, domain)
    stated = privacy_of(measured, entry.policy) or now.privacy
    privacy = _for_persons(stated, now.privacy.most_records or 0)
    before = now.measured_as(privacy)
    old_weights = before.weights if marginals is None else ()
    analyses = measured.get("analyses")
    proposal = replace(
        before,
        **phi._asdict(),
        weights=weights_of(measured, phi) or old_weights,
        analyses=before.analyses if analyses is None else analyses_of(analyses, privacy),
        **alike(measured),
        **{field: value for field, value in others.items() if value is not None},
    )
    return _with_columns(proposal, measured, entry).in_order_of(domain)
