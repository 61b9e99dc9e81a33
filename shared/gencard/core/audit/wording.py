"""What a report says in words, and what it must never say."""

from gencard.core.audit.report import AuditReport
from gencard.core.audit.verdict import Verdict
from gencard.core.domain import Clique


def wording(report: AuditReport) -> str:
    """For everybody: the verdict and what it does not prove. No number in it depends on records."""
    plan = report.plan
    pooled = f"evidence of {len(report.earlier) + 1} tries pooled, " if report.earlier else ""
    settings = (
        f"level {plan.level:.3g} at try {plan.attempt}, {pooled}{plan.terms.runs} runs a side, "
        f"interactions of up to {max(len(block.clique) for block in report.blocks)} attributes"
    )
    if report.verdict is Verdict.LEAKAGE:
        return f"Evidence of leakage: the generator uses more of the records than Phi ({settings})."
    return (
        f"No evidence of leakage ({settings}). This is no proof that there is none: a smaller leak, or "
        "one in interactions that were not looked at, would have been missed."
    )


def summary(report: AuditReport) -> str:
    """For controller and auditor: the wording, and the leaked block or what would have been missed."""
    if report.verdict is Verdict.LEAKAGE:
        return f"{wording(report)} {_found(report)}"
    return (
        f"{wording(report)} {_p_value(report)}. A generator that reproduces "
        f"{_percent(report.effect.smallest)} of the difference between the sides would have been found "
        "in about 8 of 10 such audits."
    )


def _found(report: AuditReport) -> str:
    effect = report.effect
    checks = ", ".join(result.check.value for result in report.rejecting)
    return (
        f"{_p_value(report)}; found by: {checks}. Clearest in {_named(effect.block)}: "
        f"{_percent(effect.value)} of its difference comes out again "
        f"(95 % interval {_percent(effect.low)} to {_percent(effect.high)})."
    )


def _p_value(report: AuditReport) -> str:
    alone = f" (this try alone: {report.p_value_alone:.2g})" if report.earlier else ""
    return f"p = {report.p_value:.2g}{alone}"


def _named(clique: Clique) -> str:
    return " x ".join(clique)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
