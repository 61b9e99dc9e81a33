"""The kinds of analysis: what answers each one, and what it needs; one file a family."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log

import numpy as np
from scipy import special, stats

from gencard.analysis.answers.answer import EXACT, AnalysisAnswer, Scalar, coefficients_of, finite
from gencard.analysis.answers.design import INTERCEPT, CheckedQuestion, occurring
from gencard.analysis.answers.families.anova import anova_answer
from gencard.analysis.answers.families.bayes import chow_liu_answer, naive_bayes_answer
from gencard.analysis.answers.families.comparisons import means_answer, quantiles_answer, ttest_answer
from gencard.analysis.answers.families.correlations import correlation_answer, polychoric_answer
from gencard.analysis.answers.families.crosstab import crosstab_answer
from gencard.analysis.answers.families.discriminant import (
    components_answer,
    correspondence_answer,
    discriminant_answer,
)
from gencard.analysis.answers.likelihood import logistic_answer, multinomial_answer, poisson_answer
from gencard.analysis.answers.linear import aliased_note, linear_answer
from gencard.analysis.answers.loglinear import (
    Maximum,
    columns_of,
    diverging_levels,
    loglinear_answer,
    maximum,
)
from gencard.analysis.answers.margins import Margins, Occupied, check_determined, summed
from gencard.analysis.answers.noise.intervals import Equations, Tests, with_noise
from gencard.analysis.answers.noise.models import (
    f_with_noise,
    linear_noise,
    logistic_noise,
    loglinear_noise,
    multinomial_noise,
    poisson_noise,
    t_with_noise,
)
from gencard.analysis.answers.noise.reconciled import is_noisy
from gencard.analysis.answers.survival import cox_answer, kaplan_meier_answer
from gencard.core.coding import MISSING, MISSING_BESIDE
from gencard.core.errors import InvalidInputError, NoEstimateError
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

# Ordinal regression with proportional odds, from the joint table of response and features.
#
# .. math:: P(y \le j \mid x) = \frac{1}{1 + \exp(-(\theta_j - x'b))}
#
# No smaller marginal determines it: its likelihood is no exponential family in x and y.
#
# References:
#     P. McCullagh, "Regression Models for Ordinal Data", Journal of the Royal Statistical Society B 42,
#     1980. The log likelihood is concave: J. W. Pratt, "Concavity of the Log Likelihood", Journal of the
#     American Statistical Association 76, 1981.


@dataclass(frozen=True, slots=True, eq=False)
class _JointTable:
    """The joint table, one row for each cell that holds somebody.

    Args:
        ranks: Of the response's level among those that somebody has.
        matrix: The columns.
        counts: In records.
        levels: How many levels of the response somebody has.
    """

    ranks: IntArray
    matrix: FloatArray
    counts: FloatArray
    levels: int


def ordinal_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Proportional odds: slopes, then thresholds between levels of the response, in their order.

    Thresholds are as they are, not as logarithms of differences; so R's ``polr`` has them.

    Raises:
        InvalidInputError: The response has a single level, or somebody lacks it.
        NoEstimateError: Features separate the levels of the response.
    """
    design = question.model()
    response = design.required_response()
    of_levels = margins.counts((response.attribute,))
    observed = np.flatnonzero(occurring(margins, (response.attribute,)))
    if np.any(of_levels[observed] <= 0):
        problem = "the noisy count of a level of the response is 0 or below"
        raise NoEstimateError(kind="ordinal", problem=problem)
    names = tuple(response.levels[level] for level in observed)
    if len(observed) < 2:
        raise InvalidInputError(field="formula", problem="the response has a single level")
    if names[-1] in (MISSING, MISSING_BESIDE):
        problem = "a missing response has no place in the order; use missing='drop'"
        raise InvalidInputError(field="formula", problem=problem)
    cells = margins.occupied((*design.attributes, response.attribute))
    features = Occupied(cells.codes[:, :-1], cells.counts)
    columns = columns_of(design, features, without=(INTERCEPT,))
    ranks = np.searchsorted(observed, cells.codes[:, -1])
    table = _JointTable(ranks, columns.matrix, cells.counts, len(observed))
    thresholds = tuple(f"{low}/{high}" for low, high in pairwise(names))
    labels = (*columns.kept_names, *thresholds)

    def where(params: FloatArray) -> str:
        fitted = columns.matrix @ params[: len(columns.kept)]
        return diverging_levels(fitted[:, None], features.codes, design.attributes, question.levels)

    fit = _fitted(table, of_levels[observed], labels, where)
    # From parameters of centred columns to those of the columns as they were: the constant that
    # centring takes from the columns goes to each threshold.
    slopes = len(columns.kept)
    back = np.eye(len(labels))
    back[:slopes, :slopes] = columns.back
    back[slopes:, :slopes] = columns.centres @ columns.back
    fit = fit.linear(back)
    return AnalysisAnswer(
        question.kind.value,
        question.text,
        float(cells.counts.sum()),
        coefficients_of(labels, fit.params, fit.covariance),
        _scalars(fit.llf, of_levels[observed], len(labels)),
        notes=aliased_note(columns.names, columns.kept),
    )


def _fitted(
    table: _JointTable,
    of_levels: FloatArray,
    names: tuple[str, ...],
    where: Callable[[FloatArray], str],
) -> Maximum:
    slopes = table.matrix.shape[1]
    upper = _bound(table, table.ranks)
    lower = _bound(table, table.ranks - 1)

    def objective(params: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        theta = np.concatenate([[-np.inf], params[slopes:], [np.inf]])
        if np.any(np.diff(theta) <= 0):
            return -np.inf, params, np.eye(len(params))
        eta = table.matrix @ params[:slopes]
        return _likelihood(table, theta[table.ranks + 1] - eta, theta[table.ranks] - eta, upper, lower)

    shares = np.cumsum(of_levels)[:-1] / of_levels.sum()
    start = np.concatenate([np.zeros(slopes), special.logit(shares)])
    return maximum(objective, start, names, "ordinal", where)


def _bound(table: _JointTable, thresholds: IntArray) -> FloatArray:
    """Derivatives of a threshold less the linear predictor, for each cell."""
    inside = np.arange(table.levels - 1) == thresholds[:, None]
    return np.hstack([-table.matrix, inside])


def _likelihood(
    table: _JointTable, a: FloatArray, c: FloatArray, upper: FloatArray, lower: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Value, gradient and information, where cells have probability F(a) - F(c)."""
    n = table.counts
    # F(a) - F(c) by the nearer tails, which keeps its digits where both are near 1.
    p = np.where(c > 0, special.expit(-c) - special.expit(-a), special.expit(a) - special.expit(c))
    f_a, f_c = (special.expit(x) * special.expit(-x) for x in (a, c))
    slope_a, slope_c = (f * (special.expit(-x) - special.expit(x)) for f, x in ((f_a, a), (f_c, c)))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(n @ np.log(p))
        u, v = f_a / p, -f_c / p
        gradient = (n * u) @ upper + (n * v) @ lower
        aa, cc, ac = u**2 - slope_a / p, v**2 + slope_c / p, u * v
    cross = (upper.T * (n * ac)) @ lower
    information = (upper.T * (n * aa)) @ upper + (lower.T * (n * cc)) @ lower + cross + cross.T
    return value, gradient, information


def _scalars(llf: float, of_levels: FloatArray, params: int) -> tuple[Scalar, ...]:
    n = float(of_levels.sum())
    null = float(special.xlogy(of_levels, of_levels / n).sum())
    degrees, ratio = params - (len(of_levels) - 1), 2 * (llf - null)
    return (
        Scalar("llf", finite(llf)),
        Scalar("llnull", finite(null)),
        Scalar("prsquared", finite(1 - llf / null)),
        Scalar(
            "llr",
            finite(ratio),
            degrees=(float(degrees),),
            pvalue=finite(float(stats.chi2.sf(ratio, degrees))) if degrees else None,
        ),
        Scalar("aic", finite(2 * params - 2 * llf)),
        Scalar("bic", finite(log(n) * params - 2 * llf)),
    )


@dataclass(frozen=True, slots=True)
class AnalysisKind:
    """Functions and needs of one kind of analysis.

    Args:
        family: Name of the group of analyses that this kind belongs to, for people.
        answer: From margins that determine the question's cliques.
        has_design: Whether it needs a model matrix.
        options: Names of the options that the analysis takes beside the formula.
        numbers: Sides of the formula, "response" and "terms", whose levels it takes as numbers, where it
            has no model matrix.
        equations: What the coefficients solve, so that their intervals know the noise; None where the
            answer is a smooth function of a few tables.
        tests: Makes tests again that are not functions of the coefficients alone, with the noise.
    """

    family: str
    answer: Callable[[Margins, CheckedQuestion], AnalysisAnswer]
    has_design: bool = True
    options: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    equations: Callable[[Margins, CheckedQuestion, AnalysisAnswer], Equations] | None = None
    tests: Tests | None = None


_RESPONSE = ("response",)
_BOTH = ("response", "terms")

KINDS: Mapping[Analysis, AnalysisKind] = {
    Analysis.LINEAR: AnalysisKind(
        "regression", linear_answer, options=("response",), equations=linear_noise
    ),
    Analysis.LOGISTIC: AnalysisKind("regression", logistic_answer, equations=logistic_noise),
    Analysis.MULTINOMIAL: AnalysisKind("regression", multinomial_answer, equations=multinomial_noise),
    Analysis.ORDINAL: AnalysisKind("regression", ordinal_answer),
    Analysis.POISSON: AnalysisKind("regression", poisson_answer, equations=poisson_noise),
    Analysis.LOGLINEAR: AnalysisKind("log-linear model", loglinear_answer, equations=loglinear_noise),
    Analysis.CROSSTAB: AnalysisKind("tables", crosstab_answer, False, ("alpha",)),
    Analysis.MEANS: AnalysisKind("groups", means_answer, False, ("alpha", "response"), _RESPONSE),
    Analysis.QUANTILES: AnalysisKind("groups", quantiles_answer, False, ("q", "response"), _RESPONSE),
    Analysis.TTEST: AnalysisKind(
        "groups",
        ttest_answer,
        False,
        ("test", "value", "alpha", "response"),
        _RESPONSE,
        tests=t_with_noise,
    ),
    Analysis.ANOVA: AnalysisKind(
        "groups",
        anova_answer,
        False,
        ("test", "typ", "alpha", "response"),
        _RESPONSE,
        tests=f_with_noise,
    ),
    Analysis.CORRELATION: AnalysisKind(
        "association", correlation_answer, False, ("method", "alpha", "response"), _BOTH
    ),
    Analysis.POLYCHORIC: AnalysisKind("association", polychoric_answer, False, (), _BOTH),
    Analysis.COMPONENTS: AnalysisKind(
        "components", components_answer, False, ("matrix", "components"), _BOTH
    ),
    Analysis.CORRESPONDENCE: AnalysisKind("components", correspondence_answer, False, ("components",)),
    Analysis.NAIVE_BAYES: AnalysisKind("classifiers", naive_bayes_answer, False, ("smoothing",)),
    Analysis.CHOW_LIU: AnalysisKind("classifiers", chow_liu_answer, False),
    Analysis.DISCRIMINANT: AnalysisKind("classifiers", discriminant_answer, False, (), ("terms",)),
    Analysis.KAPLAN_MEIER: AnalysisKind("survival", kaplan_meier_answer, False, (), _RESPONSE),
    Analysis.COX: AnalysisKind("survival", cox_answer),
}


def kind_of(analysis: Analysis, options: Iterable[str] = ()) -> AnalysisKind:
    """Return how an analysis is answered.

    Args:
        options: Names of what it is told beside the formula.

    Raises:
        InvalidInputError: Nothing answers such an analysis, or it has no such option.
    """
    if analysis not in KINDS:
        raise InvalidInputError(field="kind", problem=f"must be one of {', '.join(sorted(KINDS))}")
    kind = KINDS[analysis]
    if unknown := sorted(set(options) - set(kind.options)):
        choices = f"its options are {', '.join(kind.options)}" if kind.options else "it has no options"
        raise InvalidInputError(
            field="options", problem=f"'{analysis}' has no option '{unknown[0]}'; {choices}"
        )
    return kind


def plain_answer(question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    """The answer where counts are taken as they are, noise or not; raises as ``answered``."""
    return _resting(kind_of(question.kind).answer(margins, question), question, margins)


def answered(question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    """The answer to a question.

    Raises:
        LackingMarginalsError: The margins do not determine it; names all that are lacking.
        NoEstimateError: The model has no estimate.
        NotConvergedError: The fit did not converge.
        NoiseDrownsError: The margins have noise, and too much of it.
        InvalidInputError: The question does not fit the kind of analysis.
        TooLargeError: A table would have too many cells.
    """
    check_determined(margins, question.cliques)
    if not is_noisy(margins):
        return plain_answer(question, margins)
    kind = kind_of(question.kind)
    answer = with_noise(kind.answer, kind.equations, kind.tests, question, margins)
    return _resting(answer, question, margins)


def _resting(answer: AnalysisAnswer, question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    sources = tuple(dict.fromkeys(margins.source(clique) for clique in question.cliques))
    sums = tuple(str(one) for one in question.sums)
    notes = (*question.notes, *answer.notes)
    variances = [margins.variances(clique) for clique in question.cliques]
    stddevs = [float(one.max(initial=0.0)) ** 0.5 for one in variances]
    noise = _spread(stddevs) if any(stddevs) else EXACT
    if question.sums:
        by_sum = summed(margins).sum_variances
        if any(by_sum(one.of, one.by, one.present).any() for one in question.sums):
            counts = [by_sum((), one.by, one.present) for one in question.sums]
            stddevs += [float(one.max(initial=0.0)) ** 0.5 for one in counts]
            noise = f"{_spread(stddevs)}, and noise on each sum"
    return replace(answer, rests_on=sources, sums=sums, noise=noise, notes=notes)


def _spread(stddevs: list[float]) -> str:
    low, high = min(stddevs), max(stddevs)
    spread = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return f"noise of standard deviation {spread} on each count"
