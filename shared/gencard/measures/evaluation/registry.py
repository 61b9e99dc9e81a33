"""Every evaluation by name, in the order of a report."""

from collections.abc import Mapping, Sequence
from typing import Any

from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.typed_json import PLAIN
from gencard.measures.evaluation import risk_findings, utility_findings
from gencard.measures.evaluation.evaluation import Evaluation, Finding, Group, Material, Need, Sight

_HOLDOUT = (Need.RECORDS, Need.HOLDOUT)
_RECORDS = (Need.RECORDS,)
_RISK, _UTILITY = Group.RISK, Group.UTILITY

_EVALUATIONS = (
    Evaluation(
        "fidelity", Group.FIDELITY, (Need.PSI,), utility_findings.fidelity_finding, 0, Sight.NOTHING
    ),
    Evaluation("dcr", _RISK, _HOLDOUT, risk_findings.distance_finding, risk_findings.DISTANCE_NUMBERS),
    Evaluation("clones", _RISK, _HOLDOUT, risk_findings.clone_finding, risk_findings.CLONE_NUMBERS),
    Evaluation("nndr", _RISK, _HOLDOUT, risk_findings.ratio_finding, risk_findings.RATIO_NUMBERS),
    Evaluation(
        "replicated-uniques",
        _RISK,
        _RECORDS,
        risk_findings.uniques_finding,
        risk_findings.UNIQUE_NUMBERS,
    ),
    Evaluation(
        "disclosure",
        _RISK,
        (*_RECORDS, Need.KEYS, Need.TARGET),
        risk_findings.disclosure_finding,
        risk_findings.DISCLOSURE_NUMBERS,
        Sight.KEYS,
    ),
    Evaluation(
        "singling-out", _RISK, _HOLDOUT, risk_findings.singling_out_finding, risk_findings.ATTACK_NUMBERS
    ),
    Evaluation(
        "linkability", _RISK, _HOLDOUT, risk_findings.linkability_finding, risk_findings.ATTACK_NUMBERS
    ),
    Evaluation(
        "inference",
        _RISK,
        (*_HOLDOUT, Need.TARGET),
        risk_findings.inference_finding,
        risk_findings.ATTACK_NUMBERS,
    ),
    Evaluation(
        "membership", _RISK, _HOLDOUT, risk_findings.membership_finding, risk_findings.AREA_NUMBERS
    ),
    Evaluation(
        "marginals",
        _UTILITY,
        _RECORDS,
        utility_findings.marginals_finding,
        lambda attributes, marginals: 2 * (marginals or attributes),
        Sight.PHI,
    ),
    Evaluation(
        "gap",
        _UTILITY,
        (*_RECORDS, Need.GAP),
        utility_findings.gap_finding,
        utility_findings.GAP_NUMBERS,
        Sight.GAP,
    ),
    Evaluation(
        "tables",
        _UTILITY,
        _RECORDS,
        utility_findings.tables_finding,
        lambda attributes, _marginals: utility_findings.table_numbers(attributes),
        Sight.TABLES,
    ),
    Evaluation(
        "propensity",
        _UTILITY,
        _RECORDS,
        utility_findings.propensity_finding,
        utility_findings.PROPENSITY_NUMBERS,
    ),
    Evaluation(
        "predictions",
        _UTILITY,
        (*_HOLDOUT, Need.TARGET),
        utility_findings.predictions_finding,
        lambda attributes, _marginals: utility_findings.prediction_numbers(attributes),
    ),
)

EVALUATIONS = {evaluation.name: evaluation for evaluation in _EVALUATIONS}
"""Fidelity, then risk, then utility."""

_OF_ROWS = (
    Evaluation("row-uniques", _RISK, (), risk_findings.row_uniques_finding, 0, Sight.NOTHING),
    Evaluation(
        "associations", _UTILITY, (Need.PSI,), utility_findings.associations_finding, 0, Sight.NOTHING
    ),
)
_REPORTED = [*_OF_ROWS, *_EVALUATIONS]

REPORTED = {one.name: one for group in Group for one in _REPORTED if one.group is group}
"""All that a report may hold, in its order: EVALUATIONS, and what whoever has rows and psi computes
without the controller, for nothing."""


def evaluation_named(name: str) -> Evaluation:
    """The evaluation of this name; raises InvalidInputError if there is none."""
    return _named(name, EVALUATIONS)


def _named(name: str, evaluations: Mapping[str, Evaluation]) -> Evaluation:
    if name not in evaluations:
        raise InvalidInputError(
            field="measures", problem=f"unknown evaluation '{name[:40]}'; docs/methods.md lists them"
        )
    return evaluations[name]


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
    kind = _named(measure, REPORTED).kind
    try:
        finding: Finding = PLAIN.read(kind, document, field="measures")
    except InvalidInputError:
        raise InvalidInputError(field="measures", problem=f"contains no finding of {measure}") from None
    return finding
