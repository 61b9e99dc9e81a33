"""Checks before the service starts: mistakes in settings that would weaken protection stop the start."""

from collections.abc import Collection, Iterator

from sqlalchemy import Connection

from gencard.controller.boxes import Boxes, BuiltInBox, Facts, ProgramBox, for_persons
from gencard.controller.policy.judgement import relation_of
from gencard.controller.policy.statistics import objection, together_of
from gencard.controller.records.catalogue import Catalogue, DatasetEntry
from gencard.controller.sandbox.analyses import check_libraries
from gencard.controller.sandbox.boxes import check_isolation
from gencard.controller.settings import Settings
from gencard.controller.state.ledger import Ledger
from gencard.core.card.privacy import AS_COUNTED, Mechanism
from gencard.core.card.terms import NO_ANALYSES
from gencard.core.coding import Edges
from gencard.core.errors import InvalidInputError
from gencard.core.policy import Policy
from gencard.measures.evaluation.evaluation import Evaluation, Need, Sight
from gencard.measures.evaluation.registry import evaluation_named
from gencard.measures.utility.fidelity import gap_of


def check_catalogue(catalogue: Catalogue, boxes: Boxes, *, unreviewed: bool = False) -> None:
    check_apart(catalogue)
    check_policies(catalogue, boxes.names, boxes.facts)
    check_evaluations(catalogue)
    if not unreviewed:
        check_reviewed(catalogue)


def check_caps(tx: Connection, ledger: Ledger) -> None:
    """Check that no cap is below the spent budget, which is its smallest useful value."""
    for account, spent, cap in ledger.over_cap(tx):
        holder = f" of {account.holder}" if account.holder else ""
        problem = (
            f"allows {cap}, but {spent} are spent already{holder}, so nothing more can be released; "
            "set the cap to at least what is spent"
        )
        raise InvalidInputError(field=f"{account.dataset}: caps.{account.scope}", problem=problem)


def check_reviewed(catalogue: Catalogue) -> None:
    """Check that drafted schemas, which show labels and edges of records, have been reviewed."""
    for entry in catalogue:
        if not entry.schema.reviewed:
            raise InvalidInputError(
                field=f"{entry.name}: reviewed", problem="is false; read the schema, then set it to true"
            )


def check_apart(catalogue: Catalogue) -> None:
    """Check that no records are on offer twice: with two ledgers, and perhaps two schemas."""
    first: dict[str, str] = {}
    for entry in catalogue:
        other = first.setdefault(entry.digest, entry.name)
        if other != entry.name:
            raise InvalidInputError(field=entry.name, problem=f"contains the same records as {other}")


def check_evaluations(catalogue: Catalogue) -> None:
    """Check the declarations for evaluations: a wrong holdout or key would make results wrong.

    A holdout must not have the records of a dataset, keys and target are declared and differ, the gap
    can be computed, and dataset and policy permit a release for each evaluation on offer.
    """
    digests = {entry.digest for entry in catalogue}
    for entry in catalogue:
        if entry.holdout is not None and entry.holdout.digest in digests:
            problem = "contains the same records as a dataset that releases are made from"
            raise InvalidInputError(field=f"{entry.name}: holdout", problem=problem)
        declarations = entry.declared
        names = [*declarations.keys, *([declarations.target] if declarations.target else [])]
        if len(set(names)) != len(names) or not set(names) <= set(entry.domain.attributes):
            problem = "keys and target must be different attributes of the schema"
            raise InvalidInputError(field=f"{entry.name}: measures", problem=problem)
        if declarations.gap is not None:
            gap_of(declarations.gap, entry.schema.coding)
        for problem in _impossible_evaluations(entry):
            raise InvalidInputError(field=f"{entry.name}: policy.measures", problem=problem)
        for problem in _impossible_runs(entry.policy):
            raise InvalidInputError(field=f"{entry.name}: policy.analyses", problem=problem)


def _impossible_runs(policy: Policy) -> Iterator[str]:
    most = policy.analyses.most
    if most == NO_ANALYSES:
        return
    exact = Mechanism.EXACT in policy.mechanisms
    if most.reviewed_runs and (policy.transform != AS_COUNTED or not exact):
        yield (
            "offers reviewed runs, which need exact counts without rounding or checks: remove "
            "transform, or reviewed_runs"
        )
    if (
        most.checked_runs
        and policy.transform != AS_COUNTED
        and set(policy.mechanisms) == {Mechanism.EXACT}
    ):
        yield (
            "offers checked runs, but only exact counts with rounding or checks, which answers of runs "
            "would undo: remove transform, or add a mechanism with noise"
        )
    if most.checked_runs and not most.kinds:
        yield "offers checked runs, but no kinds"


def _impossible_evaluations(entry: DatasetEntry) -> Iterator[str]:
    policy = entry.policy
    if policy.measures and (policy.transform != AS_COUNTED or Mechanism.EXACT not in policy.mechanisms):
        name = policy.measures[0]
        yield f"names '{name}', but evaluations need exact counts, without rounding or checks"
    allowed = tuple(
        name for name in entry.domain.attributes if objection((name,), policy, entry.domain) is None
    )
    for name in policy.measures:
        measure = evaluation_named(name)
        needs = measure.lacks(allowed, entry.declared, holdout=entry.holdout is not None)
        if needs:
            yield f"names '{name}', which needs {' and '.join(_SETTING[need] for need in needs)}"
        if not _can_look(measure, entry):
            yield f"names '{name}', but does not allow examining {measure.sight} together"


def _can_look(measure: Evaluation, entry: DatasetEntry) -> bool:
    """Whether an evaluation may read the records of some card, as far as the declaration decides."""
    together, declarations = together_of(entry.policy), entry.declared
    match measure.sight:
        case Sight.KEYS:
            return any(together.allows_table((key, declarations.target)) for key in declarations.keys)
        case Sight.GAP:
            return declarations.gap is None or together.allows_table(declarations.gap.attributes)
        case Sight.NOTHING | Sight.PHI | Sight.TABLES | Sight.WHOLE:  # each card decides
            return True


_SETTING = {
    Need.HOLDOUT: "a holdout",
    Need.TARGET: "measures.target, with a marginal that the policy allows",
    Need.GAP: "measures.gap, with marginals that the policy allows",
    Need.KEYS: "measures.keys, with a marginal that the policy allows",
}
"""Setting that is missing, by the need of an evaluation, as the error names it."""


def check_cells(settings: Settings) -> None:
    """Check that this machine can isolate black boxes if the settings name any that need a sandbox."""
    if any(isinstance(box, ProgramBox | BuiltInBox) for box in settings.black_boxes):
        check_isolation(settings.cell.isolation, settings.state.folder)


def check_policies(catalogue: Catalogue, generators: Collection[str], facts: Facts) -> None:
    """Check that policies name existing attributes and generators: others would have no effect."""
    for entry in catalogue:
        for field, problem in _mistakes(entry, generators):
            raise InvalidInputError(field=f"{entry.name}: policy.{field}", problem=problem)
        _check_libraries(entry)
        coding = entry.schema.coding
        numbers = {name for name in coding.stored if isinstance(coding.attribute(name).coding, Edges)}
        unknown = sorted(set(entry.policy.analyses.columns) - numbers)
        if unknown:
            raise InvalidInputError(
                field=f"{entry.name}: policy.analyses.columns",
                problem=f"names '{unknown[0]}', which has no edges, or is derived from other attributes",
            )
        for problem in _private_mistakes(entry.policy, facts):
            raise InvalidInputError(field=f"{entry.name}: policy.generators", problem=problem)


def _check_libraries(entry: DatasetEntry) -> None:
    """Raise InvalidInputError if a policy offers programs a library that no sandbox here has."""
    try:
        check_libraries(entry.policy.analyses.most.libraries)
        return
    except InvalidInputError as error:
        problem = error.fields["problem"]
    raise InvalidInputError(field=f"{entry.name}: policy.analyses.libraries", problem=problem)


def _mistakes(entry: DatasetEntry, generators: Collection[str]) -> list[tuple[str, str]]:
    policy, names = entry.policy, set(entry.domain.attributes)
    wrong = {
        ("forbidden", "names an attribute that the schema does not declare"): any(
            not clique or not names.issuperset(clique) for clique in policy.forbidden
        ),
        ("generators", "must name one or more generators of the catalogue"): not policy.generators
        or not set(generators) >= set(policy.generators),
        ("mechanisms", "must name one or more"): not policy.mechanisms,
        ("noise", "must give mechanism and neighbouring relation for a policy with noise"): (
            policy.noise is None and set(policy.mechanisms) != {Mechanism.EXACT}
        ),
        ("noise", "must be one of the mechanisms, and within most_per_card"): (
            policy.noise is not None
            and not (
                policy.noise.mechanism in policy.mechanisms
                and policy.noise.price.fits(policy.most_per_card)
            )
        ),
    }
    return [mistake for mistake, is_made in wrong.items() if is_made]


def _private_mistakes(policy: Policy, facts: Facts) -> Iterator[str]:
    """Yield the reasons why no card could name a private black box that the policy offers."""
    facts = for_persons(facts, policy.most_records)
    relation = relation_of(policy, facts)
    for name in policy.generators:
        privacy = facts(name).privacy
        if privacy is None:
            continue
        if privacy.neighbouring != relation:
            yield (
                f"names '{name}', which is private for {privacy.neighbouring} neighbours, but noise on "
                f"this dataset uses {relation}"
            )
        if not privacy.price.fits(policy.most_per_card):
            price = privacy.price
            yield f"names '{name}', whose price of {price} for a card exceeds most_per_card"
