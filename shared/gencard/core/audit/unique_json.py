"""What a report holds of unique records, as objects of JSON types, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gencard.core.audit.arms.unique_evidence import PlantedEvidence, PlantedRuns, UniquesEvidence
from gencard.core.audit.report import AuditReport

Json = dict[str, Any]

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
