"""Sentences of an audit report, and the report as a JSON object, without loss.

Stored reports contain ``wording`` and ``summary``: a changed sentence makes them unreadable.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

from gencard.core.audit.exploration import SMALLEST_P
from gencard.core.audit.report import AuditReport, Check, CheckResult, EarlierTry, Effect, Verdict
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.json_codecs import Json
from gencard.core.typed_json import PLAIN

FORMAT = "gencard.audit.v1"

_DERIVED = ("format", "verdict", "wording", "summary", "p_value", "level", "power", "p_value_alone")
"""Fields that reading skips: they follow from others, or only old reports have them (``power``)."""


def report_to_json_object(report: AuditReport) -> Json:
    """Dictionaries, lists, strings, finite numbers and None; seeds as decimal strings."""
    content = PLAIN.write(report)
    first = content.pop("first_edition", False)
    return {
        "format": FORMAT,
        "verdict": report.verdict.value,
        "wording": wording(report),
        "summary": summary_of_first_edition(report) if first else summary(report),
        "p_value": report.p_value,
        "level": report.plan.level,
        **content,
        "power": None,
        **({"p_value_alone": report.p_value_alone} if report.earlier else {}),
    }


def report_of_json_object(document: Mapping[str, Any]) -> AuditReport:
    """The report that a JSON object stands for; ``power``, which old reports had, is not read.

    The summary is that of this version or of the first edition, which is written as it was read.

    Raises:
        InvalidInputError: A field is missing, of the wrong kind, or unknown; or a field that follows
            from others (verdict, wording, p-value, level) does not.
    """
    content = {name: value for name, value in document.items() if name not in _DERIVED}
    field = "report"
    try:
        report = PLAIN.read(AuditReport, content, field="report")
        for one in (report, replace(report, first_edition=True)):
            if report_to_json_object(one) == {**document, "power": None}:
                return one
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
"""Question that each test answers."""


def wording(report: AuditReport) -> str:
    """Public sentence: the verdict and what it does not prove; no number depends on records."""
    plan = report.plan
    pooled = f"evidence of {len(report.earlier) + 1} tries pooled, " if report.earlier else ""
    settings = (
        f"level {plan.level:.3g} at try {plan.attempt}, {pooled}{plan.terms.runs} runs a side, "
        f"interactions of up to {max(len(block.clique) for block in report.blocks)} attributes"
    )
    workers, runs, made = "", plan.terms.runs, report.workers
    if made is not None:  # checks of the runs of workers; the numbers depend on no record
        half = max(1, runs // 2)
        workers = (
            f" Workers made the runs. On each side the controller repeated {made.drawn} drawn at random "
            f"and {made.weighed} that weigh most, with equal rows; the draw finds {half} false runs of "
            f"{runs} with a probability of {made.probability(half, runs):.2g}."
        )
    if report.verdict is Verdict.LEAKAGE:
        leakage = "Evidence of leakage: the generator uses more of the records than Phi"
        return f"{leakage} ({settings}).{workers}"
    limits = _MISSED if report.looks_at_uniques else _MISSED_EARLIER
    return f"No evidence of leakage ({settings}). This is no proof that there is none: {limits}{workers}"


def summary(report: AuditReport) -> str:
    """Text for controller and auditor: the wording, then what decided, or the detectable leak."""
    if report.verdict is Verdict.LEAKAGE:
        deciding = [result.check for result in _by_weight(report)]
        evidence = filter(None, (evidence_of(check, report) for check in deciding))
        names = ", ".join(check.value for check in deciding)
        return " ".join([f"{wording(report)} {_p_value(report)}; found by: {names}.", *evidence])
    return " ".join([f"{wording(report)} {_p_value(report)}.", *power_by_arm(report)])


def opening(report: AuditReport) -> str:
    """First sentence of a page: about the test that decided."""
    if report.verdict is Verdict.NO_EVIDENCE:
        made = len(report.checks) - len(report.not_run)
        return (
            f"None of the {made} tests that were made found a difference: combined {_p_value(report)}, "
            f"level {report.plan.level:.2g}."
        )
    decided = _by_weight(report)[0]
    tries = " in all tries together" if report.earlier else ""
    return (
        f"The test that decided{tries} is {decided.check.value} "
        f"({p_value_text(decided.p_value)}). {evidence_of(decided.check, report)}"
    )


def _by_weight(report: AuditReport) -> list[CheckResult]:
    return sorted(report.rejecting, key=lambda result: result.p_value / result.share)


_EVIDENCE = {
    Check.MEAN: "The mean of the outputs differs between the sides.",
    Check.SPREAD: "The variance of the outputs differs between the sides.",
    Check.SCATTER: "The distance of the outputs from their centre differs between the sides.",
    Check.ORDER: "The order of the rows differs between the sides.",
    Check.RECOGNITION: (
        "The outputs on the dataset itself differ from those on datasets with the same psi."
    ),
    Check.UNIQUES: (
        "Unique records of the dataset come out at another rate than on datasets with the same psi."
    ),
    Check.PLANTED: "Planted unique records come out more or less often where they were planted.",
    Check.CANARY: "At least one planted record comes out more often where it was planted.",
}


def evidence_of(check: Check, report: AuditReport) -> str:
    """One to three sentences about what a test that rejected compares, in the runs of this try."""
    text, uniques, planted = _EVIDENCE[check], report.uniques, report.planted
    if check is Check.MEAN and report.effect.low > 0:
        return f"{text} {effect_sentence(report)}"
    if check is Check.UNIQUES and uniques:
        return (
            f"{text} Of {uniques.uniques:,}, {_average(uniques.original)} came out on average on the "
            f"dataset, {_average(uniques.twins)} on the others."
        )
    if check is Check.PLANTED and planted:
        own, other = (*planted.even.own, *planted.odd.own), (*planted.even.other, *planted.odd.other)
        return (
            f"Of {planted.planted:,} planted unique records, {_average(own)} came out on average where "
            f"they were planted, {_average(other)} where they were not."
        )
    return text


def _average(numbers: tuple[int, ...]) -> str:
    return f"{mean(numbers):.3g}" if any(numbers) else "none"


def power_by_arm(report: AuditReport) -> tuple[str, ...]:
    """One sentence for each arm: the leak that it would have detected, or why it was not tested.

    There is no single number for all arms: different tests detect a difference spread over the data,
    copies of unique records, and leaks on the dataset itself.
    """
    smallest = report.effect.smallest
    if not report.looks_at_uniques:  # reports of earlier versions
        share, outcome = ("all", _MISSED_ALL) if smallest > 1 else (_part(smallest), _FOUND)
        reproduced = f"A generator that reproduces {share} of the difference between the sides"
        return (f"{reproduced} {outcome} such audits.",)
    not_run = (_NOT_RUN[one.check].format(why=one.not_run) for one in report.not_run)
    spread = f"{_part(smallest)} {_FOUND}" if smallest <= 1 else f"even all of it {_MISSED_ALL}"
    spread = f"Of a difference spread over the data, {spread} audits."
    return tuple(filter(None, [spread, *_planted(report), *_on_the_dataset(report), *not_run]))


_FOUND = "would have been found in about 8 of 10"
_MISSED_ALL = "would not have been found in 8 of 10"


def effect_sentence(report: AuditReport) -> str:
    """Share of the inputs' difference that the outputs reproduce in the strongest interaction.

    A share is stated as far as its interval says something: it is 0 to 1 for most generators, but its
    estimate has no bounds.
    """
    effect = report.effect
    strongest = f"Strongest interaction: {' × '.join(effect.block)}."
    fresh = "In fresh runs (step 2) the outputs"
    if effect.low > 0:
        return f"{strongest} {fresh} reproduce {_positive(effect)} of the inputs' difference in it."
    if effect.high < 0:
        return f"{strongest} {fresh} differ against the inputs' difference in it."
    most = max(-effect.low, effect.high)
    if most == 0:
        return f"{strongest} {fresh} reproduce none of the inputs' difference in it."
    if most < 1:
        return (
            f"{strongest} {fresh} follow at most {_percent(most)} of the inputs' difference in it, "
            "with or against it (95 % confidence)."
        )
    return f"{strongest} These runs do not show how much of the inputs' difference in it they reproduce."


def _positive(effect: Effect) -> str:
    """A share above 0 with its interval, cut at 1."""
    if effect.low >= 1:
        return "all"
    if effect.high > 1:
        return f"at least {_percent(effect.low)} (95 % confidence)"
    low, high = _percent(effect.low), _percent(effect.high)
    return f"{_percent(effect.value)} (95 % confidence interval {low} to {high})"


def limits(report: AuditReport) -> tuple[str, ...]:
    """Return the limits of the verdict, a sentence each."""
    if report.verdict is Verdict.LEAKAGE:
        return (
            "The probability of this verdict for a generator that uses only Phi is at most "
            f"{report.plan.level:.2g}, the level of this attempt.",
            "The test that decided shows one leak; there may be others.",
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


def _part(share: float) -> str:
    # Outputs without randomness show the smallest part.
    return _percent(share) if share > 0 else "any part"


def _planted(report: AuditReport) -> tuple[str, ...]:
    planted = report.planted
    if planted is None:
        return ()
    # Planted records of which a single one that always comes out is found.
    single = "A single planted record that comes out in every run would not have been found."
    if planted.alone:
        both = 2 * planted.planted
        which = "any" if planted.alone >= both else f"one of {planted.alone:,}"
        single = (
            "A single one that comes out in every run would have been found if it were "
            f"{which} of the {both:,} planted records."
        )
    return f"{_copying('unique records', planted.one_in)}.", single


def _copying(what: str, one_in: int) -> str:
    if not one_in:
        return f"Copying of {what} {_MISSED_ALL}, even if all were copied"
    return f"Of {what}, copying {_copies(one_in)} {_FOUND}"


def _copies(one_in: int) -> str:
    return "all" if one_in == 1 else f"one in {one_in:,}"


def _on_the_dataset(report: AuditReport) -> tuple[str, ...]:
    recognised, uniques = report.recognised, report.uniques
    if recognised is None:
        return ()
    leaks = "Of leaks on the dataset itself alone,"
    difference = "its difference from datasets with the same psi"
    part = f"{leaks} {_part(recognised)} of {difference}"
    first = f"{part} {_FOUND}."
    if recognised > 1:
        first = f"{leaks} even one that reproduces all of {difference} {_MISSED_ALL}."
    elif uniques and uniques.one_in:
        return (f"{part}, or copying {_copies(uniques.one_in)} of its unique records {_FOUND}.",)
    return (first, f"{_copying('its own unique records', uniques.one_in)}.") if uniques else (first,)


def _p_value(report: AuditReport) -> str:
    alone = f" (this try alone: {_p_number(report.p_value_alone)})" if report.earlier else ""
    return f"{p_value_text(report.p_value)}{alone}"


def p_value_text(p_value: float) -> str:
    """A p-value with its sign; one that floating point cannot hold is no 0.

    >>> p_value_text(0.0312), p_value_text(0.0)
    ('p = 0.031', 'p < 1e-300')
    """
    number = _p_number(p_value)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def _p_number(p_value: float) -> str:
    return f"{p_value:.2g}" if p_value >= SMALLEST_P else f"< {SMALLEST_P:g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


# First edition ----------------------------------------------------------------------------------
# Stored reports state their summary in these sentences, and are verified by them, byte for byte.


def summary_of_first_edition(report: AuditReport) -> str:
    """The summary as reports of version 1 state it."""
    alone = f" (this try alone: {report.p_value_alone:.2g})" if report.earlier else ""
    p_value = f"p = {report.p_value:.2g}{alone}"
    if report.verdict is Verdict.LEAKAGE:
        return f"{wording(report)} {p_value}; {_first_evidence(report)}"
    return " ".join([f"{wording(report)} {p_value}.", *_first_power(report)])


def _first_power(report: AuditReport) -> Iterator[str]:
    smallest = report.effect.smallest
    if not report.looks_at_uniques:
        yield (
            f"A generator that reproduces {_percent(smallest)} of the difference between "
            "the sides would have been found in about 8 of 10 such audits."
        )
        return
    share = _percent(smallest) if smallest <= 1 else "not even all of it"
    yield f"Of a difference spread over the data, {share} {_FOUND} audits."
    if planted := report.planted:
        copies = _copies(planted.one_in) if planted.one_in else "not even all"
        yield f"Of unique records, copying {copies} {_FOUND}."
        yield (
            f"A single one that comes out in every run would have been found if it were one of "
            f"{planted.alone:,} of the {2 * planted.planted:,} planted records."
        )
    if report.recognised is not None:
        followed = _percent(report.recognised) if report.recognised <= 1 else "not even all"
        copied = ""
        if uniques := report.uniques:
            copies = _copies(uniques.one_in) if uniques.one_in else "not even all"
            copied = f", or copying {copies} of its unique records"
        yield (
            f"Of leaks on the dataset itself alone, {followed} of its difference from datasets with the "
            f"same psi{copied} {_FOUND}."
        )
    yield from filter(None, (_NOT_RUN[one.check].format(why=one.not_run) for one in report.not_run))


def _first_evidence(report: AuditReport) -> str:
    effect, planted = report.effect, report.planted
    checks = ", ".join(result.check.value for result in report.rejecting)
    text = (
        f"found by: {checks}. Clearest in {' x '.join(effect.block)}: "
        f"{_percent(effect.value)} of its difference comes out again "
        f"(95 % interval {_percent(effect.low)} to {_percent(effect.high)})."
    )
    if planted is None or not {result.check for result in report.rejecting} & _OF_PLANTED:
        return text
    own = mean([*planted.even.own, *planted.odd.own])
    other = mean([*planted.even.other, *planted.odd.other])
    return (
        f"{text} Of {planted.planted:,} planted unique records {own:.3g} came out on average where they "
        f"were planted, {other:.3g} where they were not."
    )
