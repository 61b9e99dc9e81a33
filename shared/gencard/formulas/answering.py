"""From a formula to its answer: for the analyst from psi, for the controller from records.

An analysis without a model matrix knows attributes and the numbers of their levels. A function in its
formula is other numbers to it (``log(income)``), or the attribute itself (``C(age)``), or something that
it cannot have: that is refused, for an answer as if the function were not there would be wrong.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gencard.core.answers.answer import Answer
from gencard.core.answers.design import Option, Question, observed_levels
from gencard.core.answers.families.histograms import histogram_quantiles, level_means
from gencard.core.answers.kinds import AnalysisKind, answered, kind_of, plain_answer
from gencard.core.answers.margins import (
    Margins,
    Mask,
    Present,
    check_determined,
    records_of,
    summed,
    within,
)
from gencard.core.answers.noise.bootstrap import Bootstrap, bootstrapped
from gencard.core.answers.noise.reconciled import measured_of, noisy_whole, reconciled, wider_clique
from gencard.core.answers.stored import check_coded
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import (
    InvalidFormulaError,
    InvalidInputError,
    LackingMarginalsError,
    LevelsTooWideError,
)
from gencard.core.statistics.formula import (
    Analysis,
    Formula,
    Written,
    sufficient_cliques,
    written_name,
)
from gencard.core.statistics.marginals import maximal
from gencard.formulas.conditions import read_condition
from gencard.formulas.design import Values, numbers_of, read_design, summed_columns
from gencard.formulas.evaluation import Levels, evaluated
from gencard.formulas.formulas import read_factors, read_formula
from gencard.formulas.functions import NotUsableError
from gencard.formulas.numbers import (
    SUMMED_KINDS,
    Needs,
    NumbersUsed,
    is_categorical,
    is_coded,
    is_wide,
    needs_of,
    numbers_used,
    population_of,
)

MISSING_CHOICES = ("level", "drop")
"""What is done with missing values: a level of its own, or their records are left out."""


def answer_of(  # noqa: PLR0913 - what a person may want to say of one question
    text: str,
    kind: Analysis,
    margins: Margins,
    coding: Coding,
    *,
    values: Values | None = None,
    where: str = "",
    missing: str = "level",
    options: Mapping[str, Option] | None = None,
    bootstrap: Bootstrap | None = None,
    levels: bool = False,
) -> Answer:
    """The answer to a formula.

    Args:
        text: The formula.
        kind: The analysis.
        margins: The counts.
        coding: The schema.
        values: Numbers of levels; see ``numbers_of``.
        where: Which records, such as ``region == 'North' and age < 40``; "" for all.
        missing: "level", or "drop" to leave out records with a missing value in the formula.
        options: What else the kind of analysis takes.
        bootstrap: Gives each number an interval by bootstrap; where the margins have noise, only.
        levels: Levels count as one number each, though the schema declares steps.

    Raises:
        LackingMarginalsError: The margins do not determine the answer; names all that are lacking.
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
            with the question.
        NoEstimateError, NotConvergedError: The model has no estimate.
        NoiseDrownsError: The margins have noise, and too much of it.
    """
    written = read_factors(text, coding)
    formula = written.formula
    sufficient_cliques(formula, kind, coding.domain)
    kind_of(kind, options or ())
    check_coded(options or {})
    margins = reconciled(margins)
    used, placed = NumbersUsed(), None
    if not levels:
        placed = _histogram_answer(margins, written, text, kind, coding, values, where, options or {})
    if placed is not None:
        return placed
    if not levels:
        used = _numbers_used(written, kind, coding, values, where, options or {})
        _check_response(written, kind, coding, used, values, options or {})
    if used.summed:
        pooled = (options or {}).get("test", "pooled") == "pooled"
        used, part, needs = _of_numbers(
            margins, written, kind, coding, used, where, missing, pooled=pooled
        )
    else:
        part = _part(margins, formula, coding, values, where, missing)
        needs = Needs(sufficient_cliques(formula, kind, coding.domain))
    cliques = needs.cliques
    check_determined(part, cliques)
    attributes = coding.domain.covered_by((*cliques, *(one.by for one in needs.sums))).attributes
    question = read_question(
        text,
        kind,
        coding,
        values={**_histogram_means(margins, coding, used.grouped), **(values or {})},
        observed=observed_levels(part, attributes),
        options=options,
        used=used,
    )
    if used.summed:
        question = replace(question, needs=cliques, sums=needs.sums)
    notes = (*_grouped_note(used), *_values_note(formula, where, coding, values))
    if bootstrap is None:
        answer = answered(question, part)
        return replace(answer, notes=(*answer.notes, *notes))
    whole = noisy_whole(margins)
    if whole is None:
        raise InvalidInputError(
            field="bootstrap", problem="applies to noisy counts only; these are exact"
        )

    def analysis(drawn: Margins) -> Answer:
        return plain_answer(question, _part(drawn, formula, coding, values, where, missing))

    wider = tuple(coding.domain.canonical(wider_clique(part, clique)) for clique in cliques)
    answer = bootstrapped(analysis, whole, wider, bootstrap)
    return replace(answer, notes=(*answer.notes, *notes))


def _histogram_answer(
    margins: Margins,
    written: Written,
    text: str,
    kind: Analysis,
    coding: Coding,
    values: Values | None,
    where: str,
    options: Mapping[str, Option],
) -> Answer | None:
    """Quantiles of a whole column whose histogram psi has; None for any other question."""
    name, measured = written.formula.response, measured_of(margins)
    alone = kind is Analysis.QUANTILES and not written.formula.terms and not where
    if not alone or name is None or written.response != written_name(name) or name in (values or {}):
        return None
    one = coding.attribute(name).coding
    histogram = measured.histogram(name) if measured else None
    if histogram is None or not isinstance(one, Edges) or one.scale is None:
        return None
    question = read_question(text, kind, coding, options=options)
    answer = histogram_quantiles(question, one, histogram)
    noise = f"noise of standard deviation {histogram.stddev:.3g} on each count"
    return replace(answer, rests_on=((name,),), noise=noise if histogram.stddev else answer.noise)


def _histogram_means(margins: Margins, coding: Coding, names: Clique) -> dict[str, list[float]]:
    """For grouped numbers whose histogram psi has, the mean inside each level."""
    measured, means = measured_of(margins), {}
    for name in names:
        one, histogram = coding.attribute(name).coding, measured.histogram(name) if measured else None
        if histogram is not None and isinstance(one, Edges) and one.scale is not None:
            means[name] = level_means(one, histogram)
    return means


_RANKED = {
    *(("test", "mann-whitney"), ("test", "kruskal")),
    *(("method", "spearman"), ("method", "kendall")),
}
"""Options of tests of ranks: those of the levels in their order."""


def _numbers_used(
    written: Written,
    kind: Analysis,
    coding: Coding,
    values: Values | None,
    where: str,
    options: Mapping[str, Option],
) -> NumbersUsed:
    """The wide numbers of a formula; those with numbers of their own, or in a condition, are grouped."""
    fixed = {*(values or {}), *(read_condition(where, coding, values)[0] if where else ())}
    cut = _cut(written, coding, values)
    if _is_ranked(options):
        kind = Analysis.QUANTILES
    used = numbers_used(written, kind, coding, fixed=fixed | cut)
    grouped = tuple(name for name in coding.domain.attributes if name in {*used.grouped, *cut})
    return replace(used, grouped=grouped)


_OF_RESPONSES = {*SUMMED_KINDS, Analysis.POISSON}
"""Kinds of which the response is a number, never an order of levels."""


def _check_response(
    written: Written,
    kind: Analysis,
    coding: Coding,
    used: NumbersUsed,
    values: Values | None,
    options: Mapping[str, Option],
) -> None:
    """Refuse a response whose levels hold several values, and that no sums give.

    Raises:
        LevelsTooWideError: It is one.
    """
    factor = written.response
    if factor is None or used.response or kind not in _OF_RESPONSES or _is_ranked(options):
        return
    wide = [name for name in written.attributes[factor] if is_wide(coding, name)]
    own = [name for name in wide if name not in (values or {})]
    if not own or (is_categorical(factor) and not _cuts(factor, coding, values)):
        return
    raise LevelsTooWideError(attribute=own[0], cliques=factor, advice=_OF_LEVELS)


_OF_LEVELS = (
    "Write the response as a linear function of one attribute, with no condition on its levels; or "
    "give its levels numbers with values={...}, which the answer says."
)


def _is_ranked(options: Mapping[str, Option]) -> bool:
    return bool(_RANKED.intersection((name, str(value)) for name, value in options.items()))


def _cuts(factor: str, coding: Coding, values: Values | None) -> bool:
    """Whether a comparison is true of one value and false of another one of the same level."""
    try:
        read_condition(factor, coding, values)
    except InvalidInputError:
        return True
    return False


def _cut(written: Written, coding: Coding, values: Values | None) -> set[str]:
    """Wide numbers that a comparison in a term cuts inside a level: the levels count in its place."""
    cut: set[str] = set()
    for factor in {factor for term in written.terms for factor in term}:
        wide = {name for name in written.attributes[factor] if is_wide(coding, name)} - {*(values or {})}
        if wide and is_categorical(factor) and not is_coded(factor):
            cut |= wide if _cuts(factor, coding, values) else set()
    return cut


def _of_numbers(
    margins: Margins,
    written: Written,
    kind: Analysis,
    coding: Coding,
    used: NumbersUsed,
    where: str,
    missing: str,
    *,
    pooled: bool,
) -> tuple[NumbersUsed, Margins, Needs]:
    """The numbers that can be summed, the margins of the records that are asked for, and what they need.

    A number of the terms whose sums are lacking is grouped.

    Raises:
        LevelsTooWideError: Sums of the response are lacking.
        LackingMarginalsError: Marginals are lacking.
        InvalidInputError: A record lacks a number and is not to be left out.
    """
    _dropped(written.formula, coding, missing)
    if kind is Analysis.CORRELATION:
        missing = "drop"  # all pairs of the same records
    about = read_condition(where, coding) if where else None
    part = within(margins, *about) if about else margins
    drop = missing == "drop"
    while True:
        names = population_of(written, coding, used, drop=drop)
        own = Present(part, names) if names else part
        needs = needs_of(written, kind, coding, used, drop=drop)
        lacking = _lacking(own, needs)
        if lacking and pooled:
            less = needs_of(written, kind, coding, used, drop=drop, pooled=True)
            needs, lacking = (less, ()) if not _lacking(own, less) else (needs, lacking)
        numbers = {name for one in lacking for name in one.of if name in used.terms}
        if not numbers:
            break
        used = used.without(max(numbers, key=lambda name: sum(name in one.of for one in lacking)))
    wanted = needs_of(written, kind, coding, used, about=about[0] if about else (), drop=drop)
    if used.response and any(used.response in one.of for one in lacking):
        raise LevelsTooWideError.of(wanted.cliques, wanted.sums, attribute=used.response)
    if lacking:
        raise LackingMarginalsError.of([], lacking)
    if names and not drop and records_of(own) != records_of(part):
        problem = f"a record that counts has no number ({', '.join(names)}); use missing='drop'"
        raise InvalidInputError(field="formula", problem=problem)
    return used, own, needs


def _lacking(margins: Margins, needs: Needs) -> tuple[Sum, ...]:
    """The sums that margins do not determine."""
    lacking = []
    for one in needs.sums:
        try:
            summed(margins).sums(one.of, one.by, one.present)
        except LackingMarginalsError:
            lacking.append(one)
    return tuple(lacking)


def _grouped_note(used: NumbersUsed) -> tuple[str, ...]:
    """A note on numbers whose levels count."""
    names = ", ".join(used.grouped)
    note = (
        f"{names}: each level counts as one number, so that effects inside levels are not in the answer"
    )
    return (note,) if names else ()


def _values_note(formula: Formula, where: str, coding: Coding, values: Values | None) -> tuple[str, ...]:
    """A note that names the attributes whose levels have other numbers than the schema declares."""
    used = {*formula.attributes, *(read_condition(where, coding, values)[0] if where else ())}
    declared, given = numbers_of(coding), numbers_of(coding, values)
    names = [
        name
        for name in values or ()
        if name in used and not np.array_equal(declared.get(name, ()), given[name], equal_nan=True)
    ]
    text = f"the analyst gave the levels of {', '.join(names)} numbers that the schema does not declare"
    return (text,) if names else ()


def read_question(
    text: str,
    kind: Analysis,
    coding: Coding,
    *,
    values: Values | None = None,
    observed: Mapping[str, Mask] | None = None,
    options: Mapping[str, Option] | None = None,
    used: NumbersUsed = NumbersUsed(),  # noqa: B008 - frozen
) -> Question:
    """A question, checked against the schema alone unless ``observed`` says which levels there are.

    Raises:
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong.
    """
    formula, how, own_options = (
        read_formula(text, coding),
        kind_of(kind, options or ()),
        dict(options or {}),
    )
    columns = summed_columns(text, coding, used)
    if not how.has_design:
        numbers = transformed_numbers(text, how, coding, values)
        return Question(kind, text, formula, coding, numbers, options=own_options, columns=columns)
    design = read_design(text, coding, values=values, observed=observed, used=used)
    numbers = numbers_of(coding, values)
    columns = {name: one for name, one in columns.items() if name == formula.response}
    return Question(kind, text, formula, coding, numbers, design, own_options, columns=columns)


def _part(
    margins: Margins, formula: Formula, coding: Coding, values: Values | None, where: str, missing: str
) -> Margins:
    """The margins of the records that are asked for."""
    dropped = _dropped(formula, coding, missing)
    part = margins
    if where:
        part = within(part, *read_condition(where, coding, values))
    for name in dropped:
        size = coding.domain.size(name)
        part = within(part, (name,), np.arange(size) != size - 1)
    return part


def _dropped(formula: Formula, coding: Coding, missing: str) -> Clique:
    """The attributes without which a record is left out."""
    if missing not in MISSING_CHOICES:
        problem = f"must be one of {', '.join(MISSING_CHOICES)}"
        raise InvalidInputError(field="missing", problem=problem)
    response = () if formula.response is None else (formula.response,)
    names = dict.fromkeys((*response, *(name for term in formula.terms for name in term)))
    return tuple(name for name in names if missing == "drop" and coding.attribute(name).coding.missing)


def question_needs(
    text: str,
    kind: Analysis,
    coding: Coding,
    *,
    where: str = "",
    missing: str = "level",
    options: Mapping[str, Option] | None = None,
) -> Needs:
    """The statistics that determine an analysis of a part of the records, and that its rows rest on.

    Numbers that are summed have their marginals by levels, too: rows are made of these.

    Args:
        where, missing, options: As in ``answer_of``.

    Raises:
        LevelsTooWideError: No card determines it.
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong.
    """
    written, options = read_factors(text, coding), options or {}
    about = read_condition(where, coding)[0] if where else ()
    dropped = _dropped(written.formula, coding, missing)
    used = _numbers_used(written, kind, coding, None, where, options)
    _check_response(written, kind, coding, used, None, options)
    drop = missing == "drop" or kind is Analysis.CORRELATION
    needs = needs_of(written, kind, coding, used, about=about, drop=drop) if used.summed else Needs(())
    chosen_by = about if used.summed else (*about, *dropped)
    cliques = sufficient_cliques(written.formula, kind, coding.domain)
    wider = [coding.domain.canonical({*clique, *chosen_by}) for clique in cliques]
    histograms = [name for name in coding.domain.attributes if name in {*used.summed, *used.grouped}]
    return Needs(maximal([*wider, *needs.cliques]), needs.sums, tuple(histograms))


_SEVERAL = "this analysis does not support functions of several attributes"
_COMPARED = "this analysis uses the levels themselves; write the attribute without a function"
_INFINITE = (
    "this is not a finite number at every level; answers from psi take other numbers with values={...}"
)
_TWICE = "the attribute appears in two forms; use one of them"

_Numbers = Mapping[str, tuple[float, ...]]


def transformed_numbers(
    text: str, kind: AnalysisKind, coding: Coding, values: Values | None = None
) -> dict[str, tuple[float, ...]]:
    """``numbers_of``, where an attribute in a function has the function's values, NaN where it has none.

    Raises:
        InvalidFormulaError: A function that this kind of analysis cannot have.
        InvalidInputError, UnknownAttributeError: As ``numbers_of``.
    """
    formula, numbers = read_factors(text, coding), numbers_of(coding, values)
    sides = {"response": [formula.response] if formula.response else []}
    sides["terms"] = [factor for term in formula.terms for factor in term]
    transformed: dict[str, tuple[float, ...]] = {}
    first: dict[str, str] = {}
    for side, factors in sides.items():
        for factor in factors:
            name, way = _way(text, factor, formula, coding, numbers)
            if way is not None and side not in kind.numbers:
                raise _wrong(text, factor, _COMPARED)
            if first.setdefault(name, factor) != factor and (way or name in transformed):
                raise _wrong(text, factor, _TWICE)
            if way is not None:
                transformed[name] = way
    return numbers | transformed


def _way(
    text: str, factor: str, written: Written, coding: Coding, numbers: _Numbers
) -> tuple[str, tuple[float, ...] | None]:
    """The attribute of a factor, and its numbers under a function; None for the attribute itself."""
    own = written.attributes[factor]
    if len(own) != 1:
        raise _wrong(text, factor, _SEVERAL)
    name = own[0]
    levels = Levels(np.arange(coding.domain.size(name)), coding.attribute(name).coding.level_names)
    level_numbers = np.array(numbers.get(name, (np.nan,) * len(levels.names)))
    try:
        value = evaluated(factor, {name: level_numbers} if name in numbers else {}, {name: levels})
    except NotUsableError as error:
        raise _wrong(text, factor, error.problem) from None
    if isinstance(value, Levels):
        if value.names != levels.names:
            raise _wrong(text, factor, _COMPARED)
        return name, None
    if np.array_equal(value.values, level_numbers, equal_nan=True):
        return name, None
    if not np.isfinite(value.values[np.isfinite(level_numbers)]).all():
        raise _wrong(text, factor, _INFINITE)
    return name, tuple(value.values.tolist())


def _wrong(text: str, factor: str, problem: str) -> InvalidFormulaError:
    return InvalidFormulaError(position=max(text.find(factor), 0) + 1, problem=problem)
