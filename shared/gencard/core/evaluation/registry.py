"""Every evaluation by name, in the order of a report."""

from collections.abc import Sequence
from typing import Any

from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.evaluation import attacks, distances, models, tables
from gencard.core.evaluation.evaluation import Evaluation, Finding, Group, Need, Sight
from gencard.core.evaluation.material import Material
from gencard.core.typed_json import PLAIN

_HOLDOUT = (Need.RECORDS, Need.HOLDOUT)

_EVALUATIONS = (
    Evaluation(
        name="fidelity",
        group=Group.FIDELITY,
        needs=(Need.PSI,),
        find=tables.fidelity_finding,
        kind=tables.FidelityFinding,
        numbers=lambda _attributes, _marginals: 0,
        sight=Sight.NOTHING,
    ),
    Evaluation(
        name="dcr",
        group=Group.RISK,
        needs=_HOLDOUT,
        find=distances.distance_finding,
        kind=distances.DistanceFinding,
        numbers=lambda _attributes, _marginals: distances.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="clones",
        group=Group.RISK,
        needs=_HOLDOUT,
        find=distances.clone_finding,
        kind=distances.CloneFinding,
        numbers=lambda _attributes, _marginals: distances.CLONE_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="nndr",
        group=Group.RISK,
        needs=_HOLDOUT,
        find=distances.ratio_finding,
        kind=distances.RatioFinding,
        numbers=lambda _attributes, _marginals: distances.RATIO_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="replicated-uniques",
        group=Group.RISK,
        needs=(Need.RECORDS,),
        find=attacks.uniques_finding,
        kind=attacks.UniquesFinding,
        numbers=lambda _attributes, _marginals: attacks.UNIQUE_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="disclosure",
        group=Group.RISK,
        needs=(Need.RECORDS, Need.KEYS, Need.TARGET),
        find=attacks.disclosure_finding,
        kind=attacks.DisclosureFinding,
        numbers=lambda _attributes, _marginals: attacks.DISCLOSURE_NUMBERS,
        sight=Sight.KEYS,
    ),
    Evaluation(
        name="singling-out",
        group=Group.RISK,
        needs=_HOLDOUT,
        find=attacks.singling_out_finding,
        kind=attacks.AttackFinding,
        numbers=lambda _attributes, _marginals: attacks.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="linkability",
        group=Group.RISK,
        needs=_HOLDOUT,
        find=attacks.linkability_finding,
        kind=attacks.AttackFinding,
        numbers=lambda _attributes, _marginals: attacks.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="inference",
        group=Group.RISK,
        needs=(*_HOLDOUT, Need.TARGET),
        find=attacks.inference_finding,
        kind=attacks.AttackFinding,
        numbers=lambda _attributes, _marginals: attacks.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="membership",
        group=Group.RISK,
        needs=_HOLDOUT,
        find=attacks.membership_finding,
        kind=attacks.MembershipFinding,
        numbers=lambda _attributes, _marginals: attacks.AREA_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="marginals",
        group=Group.UTILITY,
        needs=(Need.RECORDS,),
        find=tables.marginals_finding,
        kind=tables.MarginalsFinding,
        numbers=lambda attributes, marginals: 2 * (marginals or attributes),
        sight=Sight.PHI,
    ),
    Evaluation(
        name="gap",
        group=Group.UTILITY,
        needs=(Need.RECORDS, Need.GAP),
        find=models.gap_finding,
        kind=models.GapFinding,
        numbers=lambda _attributes, _marginals: models.GAP_NUMBERS,
        sight=Sight.GAP,
    ),
    Evaluation(
        name="tables",
        group=Group.UTILITY,
        needs=(Need.RECORDS,),
        find=tables.tables_finding,
        kind=tables.TablesFinding,
        numbers=lambda attributes, _marginals: tables.table_numbers(attributes),
        sight=Sight.TABLES,
    ),
    Evaluation(
        name="propensity",
        group=Group.UTILITY,
        needs=(Need.RECORDS,),
        find=models.propensity_finding,
        kind=models.PropensityFinding,
        numbers=lambda _attributes, _marginals: models.PROPENSITY_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Evaluation(
        name="predictions",
        group=Group.UTILITY,
        needs=(Need.RECORDS, Need.HOLDOUT, Need.TARGET),
        find=models.predictions_finding,
        kind=models.PredictionsFinding,
        numbers=lambda attributes, _marginals: models.prediction_numbers(attributes),
        sight=Sight.WHOLE,
    ),
)

EVALUATIONS = {evaluation.name: evaluation for evaluation in _EVALUATIONS}
"""Fidelity, then risk, then utility."""


def evaluation_named(name: str) -> Evaluation:
    """The evaluation of this name; raises InvalidInputError if there is none."""
    if name not in EVALUATIONS:
        raise InvalidInputError(
            field="measures",
            problem=f"'{name[:40]}' is not the name of an evaluation; see docs/methods.md",
        )
    return EVALUATIONS[name]


def evaluate(measure: Evaluation, material: Material) -> Finding | None:
    """The finding; None if the records do not allow it, without a reason that could reveal records."""
    try:
        return measure.find(material)
    except GencardError:
        return None


def price_in_statistics(names: Sequence[str], *, attributes: int, marginals: int) -> int:
    """Price of evaluations: one statistic for each released number."""
    return sum(evaluation_named(name).numbers(attributes, marginals) for name in names)


def finding_of_json_object(measure: str, document: Any) -> Finding:
    """The finding of an evaluation.

    Raises:
        InvalidInputError: The evaluation is unknown, or this is no finding of it.
    """
    kind = evaluation_named(measure).kind
    try:
        finding: Finding = PLAIN.read(kind, document, field="measures")
    except InvalidInputError:
        raise InvalidInputError(field="measures", problem=f"holds no finding of {measure}") from None
    return finding
