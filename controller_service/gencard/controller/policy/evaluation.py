"""Evaluations that a card may have, and cards that may have none. No record is read."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from gencard.controller.boxes import is_black_box
from gencard.controller.records.catalogue import DatasetEntry
from gencard.core.card.budget import FREE, Price
from gencard.core.card.card import Change, parts_changed
from gencard.core.card.privacy import AS_COUNTED, InsideGenerator, Mechanism, Privacy, Transform
from gencard.core.card.terms import NO_ANALYSES, Analyses, CardTerms, Proposal, Tier
from gencard.core.errors import RecordsProtectedError
from gencard.core.policy import Policy
from gencard.measures.evaluation.evaluation import AllowedTogether, Evaluation
from gencard.measures.evaluation.registry import EVALUATIONS, evaluation_named, price_in_statistics

NOISE = "the card has noise, which other numbers about the records would undo"
TRANSFORM = "the card has rounding or checks, which other numbers about the records would undo"
POLICY = "the policy does not offer exact counts without rounding or checks"
TIER = "the card is of tier private, and other numbers about the records would exceed its epsilon"


def check_unprotected(card: CardTerms, policy: Policy, what: str) -> None:
    """Raise RecordsProtectedError for work that would disclose exact numbers besides a protected psi."""
    why = why_protected(card, policy)
    if why is not None:
        raise RecordsProtectedError(what=what, why=why)


def why_protected(card: CardTerms, policy: Policy) -> str | None:
    """Return the reason of the protection; None if exact numbers may be disclosed besides psi."""
    if card.tier is Tier.PRIVATE:
        return TIER
    if card.terms.privacy.noisy:
        return NOISE
    if card.terms.transform != AS_COUNTED:
        return TRANSFORM
    exact = Mechanism.EXACT in policy.mechanisms and policy.transform == AS_COUNTED
    return None if exact else POLICY


NOT_OFFERED = "MEASURE_NOT_OFFERED"
NOT_OFFERED_RUNS = "RUNS_NOT_OFFERED"
READS_RECORDS = "READS_RECORDS_ONCE_MORE"
GENERATOR_READS_RECORDS = "GENERATOR_READS_RECORDS"


def with_measures(
    terms: Proposal,
    privacy: Privacy,
    transform: Transform,
    measures: Collection[str],
    without_uniques: bool,
) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms with the offered evaluations and removal of uniques, and each change made.

    Evaluations are exact numbers about records, which would undo noise or rounding of psi. The rows
    that are missing from a release without replicated uniques are exact facts, too. Releases of a
    black box keep their uniques: all of them are made from one run. Raises InvalidInputError for an
    unknown measure.
    """
    for name in terms.measures:
        evaluation_named(name)
    bound = READS_RECORDS if privacy.noisy or transform != AS_COUNTED else None
    measures_kept = () if bound else tuple(name for name in terms.measures if name in measures)
    dropped_names = [name for name in terms.measures if name not in measures_kept]
    changes = [
        Change("measures", name, "", bound if bound and name in measures else NOT_OFFERED)
        for name in dropped_names
    ]
    why = bound or (GENERATOR_READS_RECORDS if is_black_box(terms.generator) else None)
    if not without_uniques:
        why = NOT_OFFERED
    if terms.without_uniques and why:
        changes.append(Change("without_uniques", "true", "false", why))
    terms = replace(terms, measures=measures_kept, without_uniques=terms.without_uniques and not why)
    return terms, tuple(changes)


def with_uniques_kept(terms: Proposal, whole: str | None) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms; releases keep replicated uniques if the table of all attributes is not allowed.

    If a person is unique by all attributes but one, a released row with these levels says that the
    person's last attribute differs: missing rows disclose cells of the table of all attributes.

    Args:
        whole: Why the policy does not allow that table; None if it does.
    """
    if not terms.without_uniques or whole is None:
        return terms, ()
    change = Change("without_uniques", "true", "false", whole)
    return replace(terms, without_uniques=False), (change,)


RUNS, NUMBERS = "TOO_MANY_RUNS", "TOO_MANY_NUMBERS"
AS_THE_CARD = "MEASURED_AS_THE_CARD"
_WHY = {
    "kinds": "KIND_NOT_OFFERED",
    "checked_runs": RUNS,
    "numbers": NUMBERS,
    "privacy": AS_THE_CARD,
    "reviewed_runs": RUNS,
    "libraries": "LIBRARY_NOT_OFFERED",
    "program_numbers": NUMBERS,
    "columns": "COLUMN_NOT_OFFERED",
}


def with_analyses(
    requested: Analyses, terms: Proposal, policy: Policy
) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms with the offered part of the requested runs on the records, and each change.

    Exact numbers about records would undo rounding, checks or noise of psi. Checked runs therefore
    have the privacy of the card, and reviewed runs need a card with unprotected exact counts. Other
    terms are as offered.
    """
    bound = READS_RECORDS if terms.transform != AS_COUNTED else None
    private = READS_RECORDS if isinstance(terms.privacy, InsideGenerator) else bound
    exact = READS_RECORDS if terms.privacy.noisy else bound
    most = policy.analyses.most
    checked, why_checked = _checked(requested, most, private)
    covered = {name for clique in terms.cliques for name in clique}
    reviewed, why_reviewed = _reviewed(requested, most, exact, covered)
    offered = replace(NO_ANALYSES, **checked, **reviewed).measured_as(terms.privacy)
    why = why_checked | why_reviewed
    changes = tuple(
        Change(field, old, new, why[field.rpartition(".")[2]])
        for field, old, new in parts_changed("analyses", requested, offered)
    )
    return replace(terms, analyses=offered), changes


_Parts = tuple[dict[str, Any], dict[str, str]]
"""Fields of ``Analyses``, and the reason of a change of each."""


def _checked(requested: Analyses, most: Analyses, bound: str | None) -> _Parts:
    kinds = tuple(kind for kind in requested.kinds if kind in most.kinds)
    names = ("kinds", "checked_runs", "numbers", "privacy")
    reason = bound or (NOT_OFFERED_RUNS if not most.checked_runs else None)
    if reason or not kinds:
        return {}, dict.fromkeys(names, reason or _WHY["kinds"])
    runs = min(requested.checked_runs, most.checked_runs)
    numbers = min(requested.numbers, most.numbers)
    values = (kinds, runs, numbers, requested.privacy)
    return dict(zip(names, values, strict=True)), {name: _WHY[name] for name in names}


def _reviewed(
    requested: Analyses, most: Analyses, bound: str | None, covered: Collection[str]
) -> _Parts:
    """Stored numbers are of attributes that the statistics of the card cover, as all records are."""
    names = ("reviewed_runs", "programs", "libraries", "program_numbers", "columns")
    reason = bound or (NOT_OFFERED_RUNS if not most.reviewed_runs else None)
    if reason is None and not set(requested.libraries) <= set(most.libraries):
        reason = _WHY["libraries"]
    if reason or not requested.reviewed_runs:
        return {}, dict.fromkeys(names, reason or RUNS)
    runs = min(requested.reviewed_runs, most.reviewed_runs)
    numbers = min(requested.program_numbers, most.program_numbers)
    columns = tuple(name for name in requested.columns if name in most.columns and name in covered)
    values = (runs, requested.programs, requested.libraries, numbers, columns)
    return dict(zip(names, values, strict=True)), {name: _WHY.get(name, RUNS) for name in names}


def together_of(policy: Policy) -> AllowedTogether:
    """Return the attributes that evaluations may use together."""
    return AllowedTogether(policy.forbidden, policy.measuring(noisy=False).largest_order)


def why_unavailable(measure: Evaluation, dataset_entry: DatasetEntry, terms: Proposal) -> str | None:
    """Return why no card with these terms could have an evaluation; None if it could."""
    attributes = dataset_entry.domain.covered_by(terms.cliques).attributes
    together = together_of(dataset_entry.policy)
    reason = measure.why_not(together, attributes, dataset_entry.declared, terms.marginals)
    if reason is not None:
        return reason
    needs = measure.lacks(attributes, dataset_entry.declared, holdout=dataset_entry.holdout is not None)
    return f"needs {' and '.join(needs)}" if needs else None


def why_withheld(measure: Evaluation, card: CardTerms, dataset_entry: DatasetEntry) -> str | None:
    """Return why an evaluation may be neither made nor shown, even an earlier one; None if it may."""
    protected = why_protected(card, dataset_entry.policy)
    if protected is not None and (measure.reads_records or protected == TIER):
        return protected
    attributes = dataset_entry.domain.covered_by(card.terms.cliques).attributes
    together = together_of(dataset_entry.policy)
    return measure.why_not(together, attributes, dataset_entry.declared, card.terms.marginals)


def unavailable(card: CardTerms, dataset_entry: DatasetEntry) -> dict[str, str]:
    """Return every measure that a card cannot have, and why; depends on no record."""
    reasons = {
        name: why_withheld(measure, card, dataset_entry)
        or why_unavailable(measure, dataset_entry, card.terms)
        for name, measure in EVALUATIONS.items()
    }
    return {name: reason for name, reason in reasons.items() if reason}


def fitting(
    measures: Iterable[Evaluation], dataset_entry: DatasetEntry, terms: Proposal
) -> tuple[Evaluation, ...]:
    """Return the evaluations that a card with these terms could have; depends on public facts alone."""
    return tuple(one for one in measures if why_unavailable(one, dataset_entry, terms) is None)


def price_of_measures(
    measures: Iterable[Evaluation], dataset_entry: DatasetEntry, terms: Proposal
) -> Price:
    """Return the price of these evaluations of one card, which the first request pays."""
    attributes = len(dataset_entry.domain.covered_by(terms.cliques).attributes)
    names = [measure.name for measure in measures]
    marginals = len(terms.marginals)
    return Price(statistics=price_in_statistics(names, attributes=attributes, marginals=marginals))


def price_of_named(dataset_entry: DatasetEntry, terms: Proposal) -> Price:
    """Return the price of all evaluations that the terms name, paid once for the card."""
    if not terms.measures:
        return FREE
    evaluations = fitting(map(evaluation_named, terms.measures), dataset_entry, terms)
    return price_of_measures(evaluations, dataset_entry, terms)
