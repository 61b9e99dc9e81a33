"""The report as an object of JSON types, and back, without loss."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gencard.core.audit.arms.exploration import BlockEvidence
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import (
    AuditReport,
    Check,
    CheckResult,
    EarlierTry,
    Effect,
    PairProof,
    PlantedEvidence,
    PlantedRuns,
    UniquesEvidence,
)
from gencard.core.audit.wording import summary, wording
from gencard.core.card.terms import AuditTerms
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.statistics.linear import json_of_statistic, statistic_of_json

FORMAT = "gencard.audit.v1"

Json = dict[str, Any]

_OPTIONAL = ("direction", "not_run")


def report_to_json_object(report: AuditReport) -> Json:
    """Dictionaries, lists, strings, finite numbers and None; seeds as decimal strings."""
    return {
        "format": FORMAT,
        "verdict": report.verdict.value,
        "wording": wording(report),
        "summary": summary(report),
        "p_value": report.p_value,
        "level": report.plan.level,
        "plan": _plan_object(report.plan),
        "domain": [
            list(pair) for pair in zip(report.domain.attributes, report.domain.sizes, strict=True)
        ],
        "records": report.records,
        "checks": [check_object(check) for check in report.checks],
        "effect": asdict(report.effect) | {"block": list(report.effect.block)},
        "blocks": [asdict(block) | {"clique": list(block.clique)} for block in report.blocks],
        "tested": [list(clique) for clique in report.tested],
        "g": _g_object(report),
        "pairs": [asdict(pair) for pair in report.pairs],
        "versions": [list(version) for version in report.versions],
        "seconds": report.seconds,
        "power": None,
        **_earlier_object(report),
        **unique_objects(report),
    }


def report_of_json_object(document: Mapping[str, Any]) -> AuditReport:
    """The report that a JSON object stands for.

    Raises:
        InvalidInputError: A field is missing, of the wrong kind, or unknown; or a field that follows
            from others (verdict, wording, p-value, level) does not.
    """
    problem = InvalidInputError(field="report", problem=f"is not a document of format {FORMAT}")
    try:
        report = _report(document)
        again = report_to_json_object(report)
    except (GencardError, KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise problem from None
    if again != document:
        raise problem
    return report


def _report(document: Mapping[str, Any]) -> AuditReport:
    attributes, sizes = zip(*document["domain"], strict=True)
    g = document["g"]
    return AuditReport(
        plan=_plan(document["plan"]),
        domain=Domain(tuple(attributes), tuple(sizes)),
        records=document["records"],
        checks=tuple(map(check_of_object, document["checks"])),
        effect=Effect(**document["effect"] | {"block": tuple(document["effect"]["block"])}),
        blocks=tuple(
            BlockEvidence(**block | {"clique": tuple(block["clique"])}) for block in document["blocks"]
        ),
        tested=_cliques(document["tested"]),
        g_low=tuple(g["low"]),
        g_high=tuple(g["high"]),
        g_original=tuple(g["original"]),
        pairs=tuple(PairProof(**pair) for pair in document["pairs"]),
        versions=tuple((name, version) for name, version in document["versions"]),
        seconds=document["seconds"],
        earlier=tuple(map(_earlier_try, document.get("earlier", ()))),
        planted=planted_of(document["planted"]) if "planted" in document else None,
        uniques=uniques_of(document["uniques"]) if "uniques" in document else None,
        recognised=document.get("recognised"),
    )


def try_of_object(document: Mapping[str, Any], *, same_bytes: bool) -> EarlierTry:
    """What the audit of a report adds to the evidence of later tries."""
    plan = document["plan"]
    checks = tuple(map(check_of_object, document["checks"]))
    return EarlierTry(plan["terms"]["runs"], plan["rows"], same_bytes, checks)


def check_object(result: CheckResult) -> Json:
    """One test; ``direction`` and ``not_run`` only where the test has one."""
    document = asdict(result)
    return {name: value for name, value in document.items() if name not in _OPTIONAL or value}


def check_of_object(entry: Mapping[str, Any]) -> CheckResult:
    """The test that an object of ``check_object`` stands for.

    Raises:
        ValueError: The direction is neither 1 nor -1, or the reason is empty.
    """
    if entry.get("direction", 1) not in (1, -1) or not entry.get("not_run", "reason"):
        raise ValueError("direction or not_run")
    return CheckResult(**{**entry, "check": Check(entry["check"])})


def _g_object(report: AuditReport) -> Json:
    return {
        "low": list(report.g_low),
        "high": list(report.g_high),
        "original": list(report.g_original),
    }


def _earlier_object(report: AuditReport) -> Json:
    """Fields that a report has only where evidence of earlier tries is pooled with its own."""
    if not report.earlier:
        return {}
    tries = [
        {
            "runs": one.runs,
            "rows": one.rows,
            "same_bytes": one.same_bytes,
            "checks": [check_object(check) for check in one.checks],
        }
        for one in report.earlier
    ]
    return {"p_value_alone": report.p_value_alone, "earlier": tries}


def _earlier_try(document: Mapping[str, Any]) -> EarlierTry:
    checks = tuple(map(check_of_object, document["checks"]))
    return EarlierTry(document["runs"], document["rows"], document["same_bytes"], checks)


def _plan_object(plan: AuditPlan) -> Json:
    linear = [json_of_statistic(statistic) for statistic in plan.linear]
    return {
        "cliques": [list(clique) for clique in plan.cliques],
        "rows": plan.rows,
        "seed": str(plan.seed),
        "terms": asdict(plan.terms),
        "attempt": plan.attempt,
        **({"linear": linear} if linear else {}),
    }


def _plan(document: Mapping[str, Any]) -> AuditPlan:
    return AuditPlan(
        cliques=_cliques(document["cliques"]),
        rows=document["rows"],
        seed=int(document["seed"]),
        terms=AuditTerms(**document["terms"]),
        attempt=document["attempt"],
        linear=tuple(map(statistic_of_json, document.get("linear", ()))),
    )


def _cliques(lists: list[list[str]]) -> tuple[Clique, ...]:
    return tuple(tuple(names) for names in lists)


_RUNS = ("even", "odd")
_LISTS = ("original", "twins")


def unique_objects(report: AuditReport) -> Json:
    """The fields of a report that its earlier form does not have, each only where there is one."""
    fields: Json = {}
    if report.planted is not None:
        runs = {side: _runs_object(getattr(report.planted, side)) for side in _RUNS}
        fields["planted"] = asdict(report.planted) | runs
    if report.uniques is not None:
        lists = {name: list(getattr(report.uniques, name)) for name in _LISTS}
        fields["uniques"] = asdict(report.uniques) | lists
    if report.recognised is not None:
        fields["recognised"] = report.recognised
    return fields


def planted_of(document: Mapping[str, Any]) -> PlantedEvidence:
    """Raises KeyError, TypeError or ValueError where the object is not of this form."""
    runs = {side: PlantedRuns(**_tuples(document[side], ("own", "other"))) for side in _RUNS}
    return PlantedEvidence(**{**document, **runs})


def uniques_of(document: Mapping[str, Any]) -> UniquesEvidence:
    """Raises KeyError, TypeError or ValueError where the object is not of this form."""
    return UniquesEvidence(**_tuples(document, _LISTS))


def _runs_object(runs: PlantedRuns) -> Json:
    return {"own": list(runs.own), "other": list(runs.other)}


def _tuples(document: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    return {**document, **{name: tuple(document[name]) for name in names}}
