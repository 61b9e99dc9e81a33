"""The report as an object of JSON types, and back, without loss."""

from collections.abc import Mapping
from typing import Any

from gencard.core.audit.report import AuditReport, CheckResult, EarlierTry
from gencard.core.audit.wording import summary, wording
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.json_codecs import Json
from gencard.core.typed_json import PLAIN

FORMAT = "gencard.audit.v1"

_DERIVED = ("format", "verdict", "wording", "summary", "p_value", "level", "power", "p_value_alone")
"""What follows from the other fields, or from nothing: ``power`` had numbers in old reports."""


def report_to_json_object(report: AuditReport) -> Json:
    """Dictionaries, lists, strings, finite numbers and None; seeds as decimal strings."""
    return {
        "format": FORMAT,
        "verdict": report.verdict.value,
        "wording": wording(report),
        "summary": summary(report),
        "p_value": report.p_value,
        "level": report.plan.level,
        **PLAIN.write(report),
        "power": None,
        **({"p_value_alone": report.p_value_alone} if report.earlier else {}),
    }


def report_of_json_object(document: Mapping[str, Any]) -> AuditReport:
    """The report that a JSON object stands for; ``power``, which old reports had, is not read.

    Raises:
        InvalidInputError: A field is missing, of the wrong kind, or unknown; or a field that follows
            from others (verdict, wording, p-value, level) does not.
    """
    content = {name: value for name, value in document.items() if name not in _DERIVED}
    field = "report"
    try:
        report = PLAIN.read(AuditReport, content, field="report")
        if report_to_json_object(report) == {**document, "power": None}:
            return report
    except GencardError as error:
        if type(error) is InvalidInputError:  # others may quote what stands in the document
            field = error.fields["field"]
    except (ArithmeticError, ValueError, IndexError):
        pass
    raise InvalidInputError(field=field, problem=f"is not a document of format {FORMAT}")


def try_of_object(document: Mapping[str, Any], *, same_bytes: bool) -> EarlierTry:
    """What the audit of a report adds to the evidence of later tries."""
    plan = document["plan"]
    checks = PLAIN.read(tuple[CheckResult, ...], document["checks"], field="report.checks")
    return EarlierTry(plan["terms"]["runs"], plan["rows"], same_bytes, checks)
