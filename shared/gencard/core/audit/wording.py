"""The report in words, with what it must never say, and as an object of JSON types, without loss."""

from collections.abc import Mapping
from statistics import mean
from typing import Any

from gencard.core.audit.report import AuditReport, Check, CheckResult, EarlierTry, Verdict
from gencard.core.domain import Clique
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
    """The evidence that a report contributes to later attempts."""
    plan = document["plan"]
    checks = PLAIN.read(tuple[CheckResult, ...], document["checks"], field="report.checks")
    return EarlierTry(plan["terms"]["runs"], plan["rows"], same_bytes, checks)


_MISSED = (
    "a smaller leak, one in interactions that were not looked at, or one that its author hides on "
    "purpose would have been missed."
)
_MISSED_EARLIER = (
    "a smaller leak, or one in interactions that were not looked at, would have been missed."
)
_NOT_RUN = {
    Check.PLANTED: "Not tested: whether planted unique records come out ({why}).",
    Check.CANARY: "",
    Check.UNIQUES: "Not tested: whether the dataset's own unique records come out ({why}).",
}
_OF_PLANTED = {Check.PLANTED, Check.CANARY}

QUESTIONS = {
    Check.MEAN: "Does the mean of the outputs differ between the sides?",
    Check.SPREAD: "Does their variance differ?",
    Check.SCATTER: "Does their distance from the centre differ?",
    Check.ORDER: "Does the order of the rows differ?",
    Check.RECOGNITION: "Do the outputs on the dataset itself differ from those on the sides?",
    Check.UNIQUES: "Are unique records of the dataset reproduced more often on the dataset itself?",
    Check.PLANTED: "Are planted unique records reproduced more often where they were planted?",
    Check.CANARY: "Is a single planted record reproduced in every run where it was planted?",
}
"""What each test asks."""


def wording(report: AuditReport) -> str:
    """Public sentence: the verdict and what it does not prove; no number depends on records."""
    plan = report.plan
    pooled = f"evidence of {len(report.earlier) + 1} tries pooled, " if report.earlier else ""
    settings = (
        f"level {plan.level:.3g} at try {plan.attempt}, {pooled}{plan.terms.runs} runs a side, "
        f"interactions of up to {max(len(block.clique) for block in report.blocks)} attributes"
    )
    workers = _workers(report)
    if report.verdict is Verdict.LEAKAGE:
        leakage = "Evidence of leakage: the generator uses more of the records than Phi"
        return f"{leakage} ({settings}).{workers}"
    limits = _MISSED if report.looks_at_uniques else _MISSED_EARLIER
    return f"No evidence of leakage ({settings}). This is no proof that there is none: {limits}{workers}"


def _workers(report: AuditReport) -> str:
    """Checks of the runs of workers; the numbers depend on no record."""
    workers, runs = report.workers, report.plan.terms.runs
    if workers is None:
        return ""
    half = max(1, runs // 2)
    return (
        f" Workers made the runs. On each side the controller repeated {workers.drawn} drawn at random "
        f"and {workers.weighed} that weigh most, with equal rows; the draw finds {half} false runs of "
        f"{runs} with a probability of {workers.probability(half, runs):.2g}."
    )


def summary(report: AuditReport) -> str:
    """For controller and auditor: the wording, with the leaked block or the detectable leak."""
    if report.verdict is Verdict.LEAKAGE:
        return f"{wording(report)} {_evidence(report)}"
    return " ".join([f"{wording(report)} {_p_value(report)}.", *power_by_arm(report)])


def power_by_arm(report: AuditReport) -> tuple[str, ...]:
    """One sentence for each arm: the leak that it would have detected, or why it was not tested.

    There is no single number for all arms: different tests detect a difference spread over the data,
    copies of unique records, and leaks on the dataset itself.
    """
    if not report.looks_at_uniques:
        return (
            f"A generator that reproduces {_percent(report.effect.smallest)} of the difference between "
            "the sides would have been found in about 8 of 10 such audits.",
        )
    not_run = (_NOT_RUN[one.check].format(why=one.not_run) for one in report.not_run)
    return tuple(filter(None, [_spread(report), *_planted(report), *_on_the_dataset(report), *not_run]))


def effect_sentence(report: AuditReport) -> str:
    """How much of the inputs' difference the outputs reproduce, where they do so most."""
    effect = report.effect
    value, low, high = (
        _percent(share).replace("-", "\N{MINUS SIGN}")
        for share in (effect.value, effect.low, effect.high)
    )
    return (
        f"Strongest interaction: {' × '.join(effect.block)}. In fresh runs (step 2) the outputs "
        f"reproduce {value} of the inputs' difference in it "
        f"(95 % confidence interval {low} to {high})."
    )


def limits(report: AuditReport) -> tuple[str, ...]:
    """What the verdict does not prove, a sentence each."""
    if report.verdict is Verdict.LEAKAGE:
        return (
            "The probability of this verdict for a generator that uses only Phi is at most "
            f"{report.plan.level:.2g}, the level of this attempt.",
            "The strongest interaction shows the leak most clearly; there may be others.",
        )
    hidden = ("No test finds what the author of a generator hides on purpose.",)
    order = report.plan.terms.order
    return (
        *power_by_arm(report),
        "Smaller leaks may be missed.",
        *(hidden if report.looks_at_uniques else ()),
        f"Interactions of more than {order} attributes were tested only within marginals of Phi.",
        "Channels other than the rows, such as the time of a run, were not tested.",
        "The verdict is not a proof of safety, and does not cover what Phi itself reveals.",
    )


def _spread(report: AuditReport) -> str:
    smallest = report.effect.smallest
    share = _percent(smallest) if smallest <= 1 else "not even all of it"
    return (
        f"Of a difference spread over the data, {share} would have been found in about 8 of 10 audits."
    )


def _planted(report: AuditReport) -> tuple[str, ...]:
    planted = report.planted
    if planted is None:
        return ()
    return (
        f"Of unique records, copying {_one_in(planted.one_in)} would have been found in about 8 of 10.",
        f"A single one that comes out in every run would have been found if it were one of "
        f"{planted.alone:,} of the {2 * planted.planted:,} planted records.",
    )


def _on_the_dataset(report: AuditReport) -> tuple[str, ...]:
    recognised, uniques = report.recognised, report.uniques
    if recognised is None:
        return ()
    share = _percent(recognised) if recognised <= 1 else "not even all"
    copied = f", or copying {_one_in(uniques.one_in)} of its unique records" if uniques else ""
    return (
        f"Of leaks on the dataset itself alone, {share} of its difference from datasets with the same "
        f"psi{copied} would have been found in about 8 of 10.",
    )


def _one_in(number: int) -> str:
    """How many unique records must be copied."""
    if not number:
        return "not even all"
    return "all" if number == 1 else f"one in {number:,}"


def _evidence(report: AuditReport) -> str:
    effect = report.effect
    checks = ", ".join(result.check.value for result in report.rejecting)
    return (
        f"{_p_value(report)}; found by: {checks}. Clearest in {_named(effect.block)}: "
        f"{_percent(effect.value)} of its difference comes out again "
        f"(95 % interval {_percent(effect.low)} to {_percent(effect.high)})."
        f"{_copied(report)}"
    )


def _copied(report: AuditReport) -> str:
    """Numbers of reproduced planted records, if a planted test rejected."""
    planted = report.planted
    if planted is None or not {result.check for result in report.rejecting} & _OF_PLANTED:
        return ""
    own = mean([*planted.even.own, *planted.odd.own])
    other = mean([*planted.even.other, *planted.odd.other])
    return (
        f" Of {planted.planted:,} planted unique records {own:.3g} came out on average where they "
        f"were planted, {other:.3g} where they were not."
    )


def _p_value(report: AuditReport) -> str:
    alone = f" (this try alone: {report.p_value_alone:.2g})" if report.earlier else ""
    return f"p = {report.p_value:.2g}{alone}"


def _named(clique: Clique) -> str:
    return " x ".join(clique)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
