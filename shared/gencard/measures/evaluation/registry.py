"""Every evaluation by name, in the order of a report."""

from collections.abc import Mapping, Sequence
from typing import Any

from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.typed_json import PLAIN
from gencard.measures.evaluation import risk_findings as risk
from gencard.measures.evaluation import utility_findings as utility
from gencard.measures.evaluation.evaluation import Evaluation, Finding, Group, Material, Need, Sight

_HOLDOUT = (Need.RECORDS, Need.HOLDOUT)
_RECORDS = (Need.RECORDS,)
_RISK, _UTILITY = Group.RISK, Group.UTILITY

_EVALUATIONS = (
    Evaluation("fidelity", Group.FIDELITY, (Need.PSI,), utility.fidelity_finding, 0, Sight.NOTHING),
    Evaluation("dcr", _RISK, _HOLDOUT, risk.distance_finding, risk.DISTANCE_NUMBERS),
    Evaluation("clones", _RISK, _HOLDOUT, risk.clone_finding, risk.CLONE_NUMBERS),
    Evaluation("nndr", _RISK, _HOLDOUT, risk.ratio_finding, risk.RATIO_NUMBERS),
    Evaluation("replicated-uniques", _RISK, _RECORDS, risk.uniques_finding, risk.UNIQUE_NUMBERS),
    Evaluation(
        "disclosure",
        _RISK,
        (*_RECORDS, Need.KEYS, Need.TARGET),
        risk.disclosure_finding,
        risk.DISCLOSURE_NUMBERS,
        Sight.KEYS,
    ),
    Evaluation("singling-out", _RISK, _HOLDOUT, risk.singling_out_finding, risk.ATTACK_NUMBERS),
    Evaluation("linkability", _RISK, _HOLDOUT, risk.linkability_finding, risk.ATTACK_NUMBERS),
    Evaluation(
        "inference", _RISK, (*_HOLDOUT, Need.TARGET), risk.inference_finding, risk.ATTACK_NUMBERS
    ),
    Evaluation("membership", _RISK, _HOLDOUT, risk.membership_finding, risk.AREA_NUMBERS),
    Evaluation(
        "marginals",
        _UTILITY,
        _RECORDS,
        utility.marginals_finding,
        lambda attributes, marginals: 2 * (marginals or attributes),
        Sight.PHI,
    ),
    Evaluation(
        "gap", _UTILITY, (*_RECORDS, Need.GAP), utility.gap_finding, utility.GAP_NUMBERS, Sight.GAP
    ),
    Evaluation(
        "tables",
        _UTILITY,
        _RECORDS,
        utility.tables_finding,
        lambda attributes, _: (
            3 * (utility.MEASURES_OF_A_TABLE * (utility.WORST + 1) + 1) + attributes * (attributes - 1)
        ),
        Sight.TABLES,
    ),
    Evaluation("propensity", _UTILITY, _RECORDS, utility.propensity_finding, utility.PROPENSITY_NUMBERS),
    Evaluation(
        "predictions",
        _UTILITY,
        (*_HOLDOUT, Need.TARGET),
        utility.predictions_finding,
        lambda attributes, _: 7 + 2 * (attributes - 1),
    ),
)

EVALUATIONS = {evaluation.name: evaluation for evaluation in _EVALUATIONS}
"""Fidelity, then risk, then utility."""

_OF_ROWS = (
    Evaluation("row-uniques", _RISK, (), risk.row_uniques_finding, 0, Sight.NOTHING),
    Evaluation("associations", _UTILITY, (Need.PSI,), utility.associations_finding, 0, Sight.NOTHING),
)
_REPORTED = [*_OF_ROWS, *_EVALUATIONS]

REPORTED = {one.name: one for group in Group for one in _REPORTED if one.group is group}
"""All that a report may hold, in its order: EVALUATIONS, and what whoever has rows and psi computes
without the controller, for nothing."""


def evaluation_named(name: str, among: Mapping[str, Evaluation] = EVALUATIONS) -> Evaluation:
    """The evaluation of this name; raises InvalidInputError if there is none."""
    if name not in among:
        raise InvalidInputError(
            field="measures", problem=f"unknown evaluation '{name[:40]}'; docs/methods.md lists them"
        )
    return among[name]


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
    kind = evaluation_named(measure, REPORTED).kind
    try:
        finding: Finding = PLAIN.read(kind, document, field="measures")
    except InvalidInputError:
        raise InvalidInputError(field="measures", problem=f"contains no finding of {measure}") from None
    return finding
