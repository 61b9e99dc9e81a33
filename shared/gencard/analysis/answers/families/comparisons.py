"""Comparisons of groups: means, quantile classes, t tests, one-way analysis of variance."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import nan, sqrt

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import (
    AnalysisAnswer,
    AnswerTable,
    Scalar,
    coefficients_of,
    finite,
    table_of,
)
from gencard.analysis.answers.design import CheckedQuestion, Column, occurring
from gencard.analysis.answers.families import groups as by_group
from gencard.analysis.answers.families.groups import (
    Difference,
    GroupMeans,
    Groups,
    SummedGroups,
)
from gencard.analysis.answers.families.levels import (
    choice,
    level,
    level_names,
    level_table,
    missing_note,
    number,
    numbers,
    order,
    response_of,
)
from gencard.analysis.answers.margins import Margins, summed
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, LackingMarginalsError, NoEstimateError

_PLACES = "levels are numbered in their declared order, from 1"


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The groups of a term, with their names, and the answer that they begin."""

    groups: Groups | SummedGroups
    names: tuple[str, ...]
    answer: AnalysisAnswer


def compared(margins: Margins, question: CheckedQuestion, term: Clique) -> Compared:
    """The response in the cells of a term.

    Raises:
        InvalidInputError: The response is no number.
        NoEstimateError: No record has one.
    """
    if question.summed_response is not None:
        return _compared_sums(margins, question, question.summed_response, term)
    response = response_of(question)
    keys = {response: numbers(question, response)}
    table = level_table(margins, question, term, (response,), keys, signed=True)
    notes = missing_note(margins, keys)
    answer = AnalysisAnswer(question.kind, question.text, table.n, notes=notes)
    return Compared(Groups(table.counts, table.columns.keys), table.rows.names, answer)


def _compared_sums(
    margins: Margins, question: CheckedQuestion, response: Column, term: Clique
) -> Compared:
    """The same of numbers as the records have them."""
    counts = margins.counts(term).reshape(-1)
    some = np.flatnonzero(occurring(margins, term))
    if not counts.sum() > 0:
        raise NoEstimateError(kind=question.kind, problem="there are no records")
    (slope,) = response.slopes
    scale, sums = question.scales[slope.number], summed(margins)
    factor = Fraction(float(slope.values)) * Fraction(scale.step)
    constant = Fraction(float(response.values)) + factor * scale.centre
    sizes = [Fraction(one) for one in counts[some]]
    totals = [Fraction(one) for one in sums.sums((slope.number,), term).reshape(-1)[some]]
    ratios = [total / n if n else None for total, n in zip(totals, sizes, strict=True)]
    means = [nan if ratio is None else float(factor * ratio + constant) for ratio in ratios]
    centred = [-total * (ratio or 0) for total, ratio in zip(totals, ratios, strict=True)]
    names, of = level_names(question, term), (slope.number, slope.number)
    try:
        whole = [Fraction(one) for one in sums.sums(of, term).reshape(-1)[some]]
        squares = [more + less for more, less in zip(whole, centred, strict=True)]
        parts = zip(squares, sizes, strict=True)
        variances = [float(factor**2 * one / (n - 1)) if n > 1 else nan for one, n in parts]
        within = float(factor**2 * sum(squares))
    except LackingMarginalsError:
        within = float(factor**2 * (Fraction(sums.sums(of, ()).item()) + sum(centred)))
        variances = [nan] * len(sizes)
    groups = SummedGroups(
        np.array(list(map(float, sizes))), np.array(means), np.array(variances), within
    )
    answer = AnalysisAnswer(question.kind, question.text, float(sum(sizes)), notes=())
    return Compared(groups, tuple(names[place] for place in some), answer)


def one_term(question: CheckedQuestion, what: str) -> Clique:
    """The term of a formula, () where it has none; raises InvalidInputError where it has several."""
    terms = question.formula.terms
    if len(terms) > 1:
        raise InvalidInputError(
            field="formula", problem=f"{what} takes one term; combine several as a:b"
        )
    return terms[0] if terms else ()


def means_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Records, mean, standard deviation and Student's interval in each group of each term."""
    terms = question.formula.terms or ((),)
    parts = [compared(margins, question, term) for term in terms]
    tables = tuple(
        means_table(
            part.names,
            part.groups,
            question,
            "means" if len(parts) == 1 else f"means[{' × '.join(term)}]",
        )
        for part, term in zip(parts, terms, strict=True)
    )
    return replace(parts[0].answer, tables=tables)


def means_table(
    names: tuple[str, ...], groups: GroupMeans, question: CheckedQuestion, name: str = "means"
) -> AnswerTable:
    """Records, mean, variance and Student's interval of each group."""
    alpha = level(question)
    with np.errstate(invalid="ignore", divide="ignore"):  # noise leaves some sizes at 0 or below
        deviations = np.sqrt(groups.variances)
        errors = deviations / np.sqrt(groups.sizes)
    columns = ("nobs", "mean", "var", "std", "std_mean", "lower", "upper")
    values = [groups.sizes, groups.means, groups.variances, deviations, errors]
    return table_of(
        name, names, columns, np.column_stack([*values, *by_group.mean_intervals(groups, alpha)])
    )


def quantiles_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """The level in which each quantile of each group lies, and the shares up to each level.

    A level without a number is counted by its place, from 1, in the declared order.
    """
    response, term = response_of(question), one_term(question, "a table of quantiles")
    keys = {response: order(question, response)}
    table = level_table(margins, question, term, (response,), keys, signed=True)
    q_shares = quantile_shares(question)
    places = [by_group.quantile_places(table.counts, q) for q in q_shares]
    inside = np.column_stack([table.columns.keys[place] for place in places])
    shares = np.cumsum(table.counts, axis=1) / table.counts.sum(axis=1, keepdims=True)
    note = () if response in question.values else (_PLACES,)
    columns = tuple(f"{q:g}" for q in q_shares)
    return AnalysisAnswer(
        question.kind,
        question.text,
        table.n,
        tables=(
            table_of("quantiles", table.rows.names, columns, inside),
            table.table("cumulative shares", shares),
        ),
        notes=(*note, *missing_note(margins, keys)),
    )


def quantile_shares(question: CheckedQuestion) -> tuple[float, ...]:
    """The option ``q``: one share or several, default the quartiles."""
    option = question.options.get("q", (0.25, 0.5, 0.75))
    shares = (option,) if isinstance(option, str | int | float) else tuple(option)
    if not all(isinstance(q, int | float) and 0 < q < 1 for q in shares):
        raise InvalidInputError(field="q", problem="must lie between 0 and 1")
    return tuple(map(float, shares))


def ttest_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Two means: ``test`` is "pooled" (Student), "welch" or "mann-whitney".

    Without a term, one mean against the number ``value``, default 0.
    """
    term = one_term(question, "a t test")
    part = compared(margins, question, term)
    test = choice(question, "test", ("pooled", "welch", "mann-whitney"))
    answer = replace(part.answer, tables=(means_table(part.names, part.groups, question),))
    if not term:
        groups, value = part.groups, number(question, "value", 0.0)
        if answer.n <= 1 or not groups.within > 0:
            raise NoEstimateError(kind=answer.kind, problem="the response does not vary")
        mean, error = float(groups.means[0]), sqrt(float(groups.variances[0]) / answer.n)
        return _with_t(answer, "mean", Difference(mean, error, answer.n - 1), value)
    if len(part.names) != 2:
        problem = "a t test compares two groups; use kind 'anova' for more"
        raise InvalidInputError(field="formula", problem=problem)
    if test == "mann-whitney" and isinstance(part.groups, Groups):
        u, pvalue = by_group.mann_whitney(part.groups)
        auc = Scalar("auc", u / float(np.prod(part.groups.sizes)))
        return replace(answer, scalars=(Scalar("u", u, None, (), finite(pvalue)), auc))
    if (part.groups.sizes <= 1).any() or not part.groups.within > 0:
        problem = "each group needs at least two records, and the response must vary"
        raise NoEstimateError(kind=question.kind, problem=problem)
    difference = by_group.pooled(part.groups) if test == "pooled" else by_group.welch(part.groups)
    name = " - ".join(part.names)
    deviation = sqrt(part.groups.within / (part.answer.n - 2))
    effect = Scalar("cohens_d", finite(difference.value / deviation)) if deviation else None
    answer = _with_t(answer, name, difference, number(question, "value", 0.0))
    return replace(answer, scalars=(*answer.scalars, *((effect,) if effect else ())))


def _with_t(answer: AnalysisAnswer, name: str, difference: Difference, value: float) -> AnalysisAnswer:
    """The estimate, and the test that it is ``value``."""
    error, degrees = difference.standard_error, difference.degrees
    t = (difference.value - value) / error
    pvalue = float(2 * special.stdtr(degrees, -abs(t)))
    estimate = coefficients_of(
        (name,), np.array([difference.value]), np.array([[error**2]]), difference.degrees
    )
    return replace(
        answer, coefficients=estimate, scalars=(Scalar("tvalue", t, None, (degrees,), pvalue),)
    )
