r"""Comparisons of groups by the levels of a response: means, quantiles, t tests, analysis of variance.

With :math:`n_{gk}` records of group g at level k, whose value is :math:`v_k`, sums over records are
:math:`\sum_k n_{gk} v_k^p`: means, variances and all tests below are those of the coded records.
"""

from collections.abc import Mapping, Sequence
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
from gencard.analysis.answers.design import (
    INTERCEPT,
    CheckedQuestion,
    Column,
    Design,
    Response,
    occurring,
)
from gencard.analysis.answers.levels import (
    Test,
    choice,
    level,
    level_names,
    level_table,
    missing_note,
    number,
    numbers,
    one_term,
    order,
    quantile_shares,
    response_of,
    test_scalar,
)
from gencard.analysis.answers.linear import LinearFit, fitter
from gencard.analysis.answers.margins import Margins, check_size, summed
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, LackingMarginalsError, NoEstimateError
from gencard.core.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class SummedGroups:
    """Records by group, of which sums of the values and of their squares are known.

    Args:
        variances: With one degree of freedom less than records; NaN for a single record, and where
            only ``within`` is known.
        within: Sum of squared differences from the group's mean, over all groups.
    """

    sizes: FloatArray
    means: FloatArray
    variances: FloatArray
    within: float


@dataclass(frozen=True, slots=True)
class Groups:
    """Records by group and value.

    Args:
        counts: Shape ``(groups, levels)``, in records; each group holds some.
        values: Shape ``(levels,)``, ascending where ranks matter.
    """

    counts: FloatArray
    values: FloatArray

    @property
    def sizes(self) -> FloatArray:
        return np.asarray(self.counts.sum(axis=1))

    @property
    def means(self) -> FloatArray:
        """Mean value of each group."""
        with np.errstate(divide="ignore", invalid="ignore"):  # noise leaves some sizes at 0
            means: FloatArray = self.counts @ self.values / self.sizes
        return means

    @property
    def squares(self) -> FloatArray:
        """Sum of squared differences from the group's mean; from differences, as nothing cancels."""
        return np.asarray(np.sum(self.counts * (self.values - self.means[:, None]) ** 2, axis=1))

    @property
    def variances(self) -> FloatArray:
        """Variance of each group, with divisor n - 1; NaN for a single record."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variances: FloatArray = self.squares / (self.sizes - 1)
        return np.where(self.sizes > 1, variances, np.nan)

    @property
    def within(self) -> float:
        """Sum of squared differences from the group's mean, over all groups."""
        return float(self.squares.sum())

    @property
    def ranked(self) -> "Groups":
        """The same records with mid-ranks in the place of values."""
        totals = self.counts.sum(axis=0)
        return Groups(self.counts, np.cumsum(totals) - (totals - 1) / 2)

    def about(self, centres: FloatArray) -> "Groups":
        """Absolute distances from a centre of each group, as further values."""
        distances = np.abs(self.values - centres[:, None])
        values, places = np.unique(distances, return_inverse=True)
        counts = np.zeros((len(self.counts), len(values)))
        rows = np.arange(len(self.counts))[:, None]
        np.add.at(counts, (rows, places.reshape(distances.shape)), self.counts)
        return Groups(counts, values)


AnyGroups = Groups | SummedGroups


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean or a difference of two, its standard error and degrees of freedom."""

    value: float
    standard_error: float
    degrees: float


def pooled(groups: AnyGroups) -> Difference:
    """First mean less second, where both variances are equal (Student's t test)."""
    n, degrees = groups.sizes, float(groups.sizes.sum() - 2)
    variance = groups.within / degrees
    first, second = groups.means.tolist()
    return Difference(first - second, sqrt(variance * (1 / n).sum()), degrees)


def welch(groups: AnyGroups) -> Difference:
    """First mean less second, with Welch's degrees of freedom for unequal variances."""
    parts = groups.variances / groups.sizes
    degrees = parts.sum() ** 2 / np.sum(parts**2 / (groups.sizes - 1))
    first, second = groups.means.tolist()
    return Difference(first - second, sqrt(parts.sum()), float(degrees))


def mann_whitney(groups: Groups) -> tuple[float, float]:
    """U of the first group and its two-sided p value, by the normal approximation with ties.

    With continuity correction, as in R and scipy.
    """
    (one, other), ranked, n = groups.sizes, groups.ranked, groups.sizes.sum()
    u = float(ranked.counts[0] @ ranked.values - one * (one + 1) / 2)
    spread = sqrt(one * other / 12 * ((n + 1) - _ties(groups) / (n * (n - 1))))
    z = (max(u, one * other - u) - one * other / 2 - 0.5) / spread
    return u, min(1.0, 2 * float(special.ndtr(-z)))


def kruskal(groups: Groups) -> Test:
    """The Kruskal-Wallis test, H corrected for ties."""
    ranked, n = groups.ranked, groups.sizes.sum()
    h = 12 / (n * (n + 1)) * np.sum(groups.sizes * (ranked.means - (n + 1) / 2) ** 2)
    return Test.chi2(float(h / (1 - _ties(groups) / (n**3 - n))), len(groups.sizes) - 1)


def _ties(groups: Groups) -> float:
    totals = groups.counts.sum(axis=0)
    return float(np.sum(totals**3 - totals))


def between(groups: AnyGroups) -> float:
    """Sum of squares of the groups' means about the overall one, over all records."""
    mean = groups.sizes @ groups.means / groups.sizes.sum()
    return float(np.sum(groups.sizes * (groups.means - mean) ** 2))


def one_way(groups: AnyGroups) -> tuple[float, tuple[float, float]]:
    """Fisher's F that all means are equal, and its degrees of freedom; some group varies."""
    degrees = (float(len(groups.sizes) - 1), float(groups.sizes.sum() - len(groups.sizes)))
    f = (between(groups) / degrees[0]) / (groups.within / degrees[1])
    return f, degrees


def welch_anova(groups: AnyGroups) -> tuple[float, tuple[float, float], float]:
    """Welch's F for unequal variances, its degrees of freedom and its p value."""
    weights, k = groups.sizes / groups.variances, len(groups.sizes)
    mean = weights @ groups.means / weights.sum()
    spread = np.sum((1 - weights / weights.sum()) ** 2 / (groups.sizes - 1))
    between = np.sum(weights * (groups.means - mean) ** 2) / (k - 1)
    statistic = float(between / (1 + 2 * (k - 2) / (k**2 - 1) * spread))
    degrees = (float(k - 1), float((k**2 - 1) / (3 * spread)))
    return statistic, degrees, float(special.fdtrc(*degrees, statistic))


def bartlett(groups: AnyGroups) -> Test:
    """Bartlett's test that all variances are equal."""
    n, k, degrees = groups.sizes.sum(), len(groups.sizes), groups.sizes - 1
    pooled_variance = groups.within / (n - k)
    statistic = (n - k) * np.log(pooled_variance) - np.sum(degrees * np.log(groups.variances))
    scale = 1 + (np.sum(1 / degrees) - 1 / (n - k)) / (3 * (k - 1))
    return Test.chi2(float(statistic / scale), k - 1)


def medians(groups: Groups) -> FloatArray:
    """Median of each group; between two records, the mean of their values, as numpy's."""
    low, high = (quantile_places(groups.counts, 0.5, upper=upper) for upper in (False, True))
    return np.asarray((groups.values[low] + groups.values[high]) / 2)


def quantile_places(counts: FloatArray, q: float, *, upper: bool = False) -> IntArray:
    """The level in which the ``q`` quantile of each group lies; shape ``(groups,)``.

    It is the first level up to which at least the share ``q`` of the group stands (type 1 of Hyndman
    and Fan, 1996); with ``upper`` the first up to which more than that stands.
    """
    cumulative, sizes = np.cumsum(counts, axis=1), counts.sum(axis=1, keepdims=True)
    slack = 1e-9 * sizes  # a share such as 0.1 of 30 is not a whole number in binary
    enough = cumulative > q * sizes + slack if upper else cumulative >= q * sizes - slack
    enough &= counts > 0
    last = counts.shape[1] - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)
    return np.asarray(np.where(enough.any(axis=1), np.argmax(enough, axis=1), last))


def mean_intervals(groups: AnyGroups, alpha: float = 0.05) -> FloatArray:
    """Student's interval of each group's mean; shape ``(2, groups)``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        half = -special.stdtrit(groups.sizes - 1, alpha / 2) * np.sqrt(groups.variances / groups.sizes)
    return np.array([groups.means - half, groups.means + half])


# Comparisons of groups: means, quantile classes, t tests, one-way analysis of variance.


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The groups of a term, with their names, and the answer that they begin."""

    groups: AnyGroups
    names: tuple[str, ...]
    answer: AnalysisAnswer


def compared(margins: Margins, question: CheckedQuestion, term: Clique) -> Compared:
    """The response in the cells of a term."""
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
    names: tuple[str, ...], groups: AnyGroups, question: CheckedQuestion, name: str = "means"
) -> AnswerTable:
    """Records, mean, variance and Student's interval of each group."""
    alpha = level(question)
    with np.errstate(invalid="ignore", divide="ignore"):  # noise leaves some sizes at 0 or below
        deviations = np.sqrt(groups.variances)
        errors = deviations / np.sqrt(groups.sizes)
    columns = ("nobs", "mean", "var", "std", "std_mean", "lower", "upper")
    values = [groups.sizes, groups.means, groups.variances, deviations, errors]
    return table_of(name, names, columns, np.column_stack([*values, *mean_intervals(groups, alpha)]))


def quantiles_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """The level in which each quantile of each group lies, and the shares up to each level.

    A level without a number is counted by its place, from 1, in the declared order.
    """
    response, term = response_of(question), one_term(question, "a table of quantiles")
    keys = {response: order(question, response)}
    table = level_table(margins, question, term, (response,), keys, signed=True)
    q_shares = quantile_shares(question)
    places = [quantile_places(table.counts, q) for q in q_shares]
    inside = np.column_stack([table.columns.keys[place] for place in places])
    shares = np.cumsum(table.counts, axis=1) / table.counts.sum(axis=1, keepdims=True)
    by_place = "levels are numbered in their declared order, from 1"
    note = () if response in question.values else (by_place,)
    columns = tuple(f"{q:g}" for q in q_shares)
    quantiles = table_of("quantiles", table.rows.names, columns, inside)
    tables, notes = (quantiles, table.table("cumulative shares", shares)), missing_note(margins, keys)
    return AnalysisAnswer(question.kind, question.text, table.n, tables=tables, notes=(*note, *notes))


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
        u, pvalue = mann_whitney(part.groups)
        auc = Scalar("auc", u / float(np.prod(part.groups.sizes)))
        return replace(answer, scalars=(Scalar("u", u, None, (), finite(pvalue)), auc))
    if (part.groups.sizes <= 1).any() or not part.groups.within > 0:
        problem = "each group needs at least two records, and the response must vary"
        raise NoEstimateError(kind=question.kind, problem=problem)
    difference = pooled(part.groups) if test == "pooled" else welch(part.groups)
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
    params, covariance = np.array([difference.value]), np.array([[error**2]])
    estimate = coefficients_of((name,), params, covariance, degrees)
    scalars = (Scalar("tvalue", t, None, (degrees,), pvalue),)
    return replace(answer, coefficients=estimate, scalars=scalars)


# Analysis of variance: sums of squares of terms, each with an effect in every cell of its attributes.
#
# A term's sum of squares is the difference of the residual ones of two least-squares fits, which follow
# from pairs of terms. Only the space that columns span matters, so each cell has a column of its own,
# and those that depend on earlier ones are left out.


_MOST_COLUMNS = 1_000

TESTS = ("pooled", "welch", "kruskal")
_COLUMNS = ("sum_sq", "df", "F", "PR(>F)")


def anova_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Analysis of variance.

    Options: ``typ`` 1 (sequential, the default) or 2 for several terms; of one term, ``test`` is
    "pooled" (Fisher), "welch" for unequal variances or "kruskal" for ranks.
    """
    terms, test = terms_of(question), choice(question, "test", TESTS)
    if not terms:
        raise InvalidInputError(field="formula", problem="needs a term that defines groups")
    if len(terms) == 1:
        term = terms[0]
        part = compared(margins, question, term)
        groups, means = part.groups, means_table(part.names, part.groups, question)
        if len(part.names) < 2 or not groups.within > 0:
            raise _nothing_varies(question)
        if test == "pooled":
            squares, freedom = between(groups), (len(groups.sizes) - 1, len(groups.sizes))
            degrees = (float(freedom[0]), part.answer.n - freedom[1])
            table = _table({":".join(term): (squares, degrees[0])}, groups.within, degrees[1])
            return replace(part.answer, scalars=_test_scalars(groups, squares), tables=(table, means))
        if test == "kruskal" and isinstance(groups, Groups):
            scalar = test_scalar("h", kruskal(groups))
        elif (groups.variances > 0).all():
            statistic, degrees, pvalue = welch_anova(groups)
            scalar = Scalar("fvalue", statistic, None, degrees, pvalue)
        else:
            raise _nothing_varies(question)
        return replace(part.answer, scalars=(scalar,), tables=(means,))
    if test != "pooled":
        raise InvalidInputError(field="test", problem=f"'{test}' supports one term only")
    return _of_terms(margins, question, terms, typ_of(question))


def terms_of(question: CheckedQuestion) -> tuple[Clique, ...]:
    """The terms in the order of the table."""
    return tuple(sorted(question.formula.terms, key=len))


def typ_of(question: CheckedQuestion) -> int:
    """The option ``typ``; raises InvalidInputError unless it is 1 or 2."""
    typ = number(question, "typ", 1)
    if typ not in (1, 2):
        raise InvalidInputError(field="typ", problem="must be 1 or 2")
    return int(typ)


def _nothing_varies(question: CheckedQuestion) -> NoEstimateError:
    problem = "there are fewer than two groups, or the response does not vary inside them"
    return NoEstimateError(kind=question.kind, problem=problem)


def _test_scalars(groups: AnyGroups, between: float) -> tuple[Scalar, ...]:
    """Sizes of the effect, and tests that the groups' variances are equal."""
    within, degrees = groups.within, len(groups.sizes) - 1
    mean_square = within / float(groups.sizes.sum() - len(groups.sizes))
    total = between + within
    tests = []
    if (groups.variances > 0).all():
        tests.append(test_scalar("bartlett", bartlett(groups)))
    # Their one-way F is Levene's test, in the form of Brown and Forsythe.
    distances = groups.about(medians(groups)) if isinstance(groups, Groups) else None
    if distances is not None and distances.within > 0:
        tests.append(_f("levene", *one_way(distances)))
    return (
        _f("fvalue", *one_way(groups)),
        Scalar("eta_squared", between / total),
        Scalar("omega_squared", (between - degrees * mean_square) / (total + mean_square)),
        *tests,
    )


def _f(name: str, statistic: float, degrees: tuple[float, float]) -> Scalar:
    return Scalar(name, statistic, None, degrees, float(special.fdtrc(*degrees, statistic)))


def _table(terms: Mapping[str, tuple[float, float]], residual: float, degrees: float) -> AnswerTable:
    """Sums of squares with degrees of freedom, as statsmodels' ``anova_lm`` writes them."""
    rows = []
    for squares, freedom in terms.values():
        f = squares / freedom / (residual / degrees) if freedom and residual > 0 else nan
        rows.append((squares, freedom, float(f), float(special.fdtrc(freedom, degrees, f))))
    rows.append((residual, degrees, nan, nan))
    return table_of("anova", (*terms, "Residual"), _COLUMNS, np.array(rows))


def _of_terms(
    margins: Margins, question: CheckedQuestion, terms: tuple[Clique, ...], typ: int
) -> AnalysisAnswer:
    design, places = cell_design(margins, question, terms), places_of_terms(margins, terms)
    fit_of = fitter(margins, question, design)

    def fit(kept: Sequence[int]) -> LinearFit:
        return fit_of(np.concatenate([places[0], *(places[1 + i] for i in kept)]))

    full = fit(range(len(terms)))
    if full.degrees <= 0 or not full.rss > 0 or len(full.kept) < 2:
        raise _nothing_varies(question)
    squares = {}
    for place, term in enumerate(terms):
        before = adjusted_for(terms, place, typ)
        without, with_it = fit(before), fit([*before, place])
        freedom = float(len(with_it.kept) - len(without.kept))
        squares[":".join(term)] = (max(without.rss - with_it.rss, 0.0), freedom)
    table = _table(squares, full.rss, full.degrees)
    # Of all terms together.
    degrees = (len(full.kept) - 1.0, full.degrees)
    f = (full.tss - full.rss) / degrees[0] / (full.rss / degrees[1])
    scalars = _f("fvalue", f, degrees), Scalar("rsquared", 1 - full.rss / full.tss)
    return AnalysisAnswer(question.kind, question.text, full.n, scalars=scalars, tables=(table,))


def places_of_terms(margins: Margins, terms: tuple[Clique, ...]) -> list[IntArray]:
    """Columns of ``cell_design``: that of the constant, then those of each term."""
    sizes = [int(np.prod(margins.domain.project(term).sizes)) for term in terms]
    ends = np.cumsum([1, *sizes])
    return list(np.split(np.arange(ends[-1]), ends[:-1]))


def adjusted_for(terms: tuple[Clique, ...], place: int, typ: int) -> list[int]:
    """The other terms that a test adjusts for: the earlier ones, or by type 2 all without this one."""
    if typ == 1:
        return list(range(place))
    own = set(terms[place])
    return [i for i, term in enumerate(terms) if i != place and not own <= set(term)]


def cell_design(margins: Margins, question: CheckedQuestion, terms: tuple[Clique, ...]) -> Design:
    """The constant, and a column for each cell of each term."""
    response = response_of(question)
    values = numbers(question, response)
    columns = [Column(INTERCEPT, (), np.ones(()))]
    for term in terms:
        sizes = margins.domain.project(term).sizes
        cells = int(np.prod(sizes))
        check_size(len(columns) + cells, _MOST_COLUMNS, "The number of cells of all terms")
        unit = np.eye(cells).reshape(cells, *sizes)
        columns += [Column(str(cell), term, one) for cell, one in enumerate(unit)]
    left = Response(response, response, question.levels(response), values)
    return Design(question.text, left, tuple(columns))
