r"""Analysis of variance: sums of squares of terms, each with an effect in every cell of its attributes.

A term's sum of squares is the difference of the residual ones of two least-squares fits, which follow
from pairs of terms. Only the space that columns span matters, so each cell has a column of its own, and
those that depend on earlier ones are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Scalar, table_of
from gencard.analysis.answers.design import INTERCEPT, CheckedQuestion, Column, Design, Response
from gencard.analysis.answers.exact import LinearFit
from gencard.analysis.answers.families import groups as by_group
from gencard.analysis.answers.families.comparisons import compared, means_table
from gencard.analysis.answers.families.groups import Groups, SummedGroups
from gencard.analysis.answers.families.levels import choice, number, numbers, response_of, test_scalar
from gencard.analysis.answers.linear import fitter
from gencard.analysis.answers.margins import Margins
from gencard.core.domain import Clique
from gencard.core.errors import FEWER_TERMS, InvalidInputError, NoEstimateError, TooLargeError
from gencard.core.types import IntArray

_MOST_COLUMNS = 1_000

TESTS = ("pooled", "welch", "kruskal")
_COLUMNS = ("sum_sq", "df", "F", "PR(>F)")


def anova_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Analysis of variance.

    Options: ``typ`` 1 (sequential, the default) or 2 for several terms; of one term, ``test`` is
    "pooled" (Fisher), "welch" for unequal variances or "kruskal" for ranks.

    Raises:
        InvalidInputError: There is no term, or an option is unknown.
        NoEstimateError: Nothing is left to vary inside the groups.
    """
    terms, test = terms_of(question), choice(question, "test", TESTS)
    if not terms:
        raise InvalidInputError(field="formula", problem="needs a term that defines groups")
    if len(terms) == 1:
        return _one_way(margins, question, terms[0], test)
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


def _one_way(margins: Margins, question: CheckedQuestion, term: Clique, test: str) -> AnalysisAnswer:
    part = compared(margins, question, term)
    groups, means = part.groups, means_table(part.names, part.groups, question)
    if len(part.names) < 2 or not groups.within > 0:
        raise _nothing_varies(question)
    if test == "pooled":
        between, freedom = by_group.between(groups), (len(groups.sizes) - 1, len(groups.sizes))
        degrees = (float(freedom[0]), part.answer.n - freedom[1])
        table = _table({":".join(term): (between, degrees[0])}, groups.within, degrees[1])
        return replace(part.answer, scalars=_scalars(groups, between), tables=(table, means))
    if test == "kruskal" and isinstance(groups, Groups):
        scalar = test_scalar("h", by_group.kruskal(groups))
    elif (groups.variances > 0).all():
        statistic, degrees, pvalue = by_group.welch_anova(groups)
        scalar = Scalar("fvalue", statistic, None, degrees, pvalue)
    else:
        raise _nothing_varies(question)
    return replace(part.answer, scalars=(scalar,), tables=(means,))


def _nothing_varies(question: CheckedQuestion) -> NoEstimateError:
    problem = "there are fewer than two groups, or the response does not vary inside them"
    return NoEstimateError(kind=question.kind, problem=problem)


def _scalars(groups: Groups | SummedGroups, between: float) -> tuple[Scalar, ...]:
    """Sizes of the effect, and tests that the groups' variances are equal."""
    within, degrees = groups.within, len(groups.sizes) - 1
    mean_square = within / float(groups.sizes.sum() - len(groups.sizes))
    total = between + within
    tests = []
    if (groups.variances > 0).all():
        tests.append(test_scalar("bartlett", by_group.bartlett(groups)))
    distances = by_group.distances_from_medians(groups) if isinstance(groups, Groups) else None
    if distances is not None and distances.within > 0:
        tests.append(_f("levene", *by_group.one_way(distances)))
    return (
        _f("fvalue", *by_group.one_way(groups)),
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
        if len(columns) + cells > _MOST_COLUMNS:
            raise TooLargeError(
                what="The number of cells of all terms", limit=_MOST_COLUMNS, advice=FEWER_TERMS
            )
        columns += [
            Column(str(cell), term, one) for cell, one in enumerate(np.eye(cells).reshape(cells, *sizes))
        ]
    return Design(
        question.text, Response(response, response, question.levels(response), values), tuple(columns)
    )
