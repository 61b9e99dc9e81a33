r"""Ordinal regression with proportional odds, from the joint table of response and features.

.. math:: P(y \le j \mid x) = \frac{1}{1 + \exp(-(\theta_j - x'b))}

No smaller marginal determines it: its likelihood is no exponential family in x and y.

References:
    P. McCullagh, "Regression Models for Ordinal Data", Journal of the Royal Statistical Society B 42,
    1980. The log likelihood is concave: J. W. Pratt, "Concavity of the Log Likelihood", Journal of the
    American Statistical Association 76, 1981.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import log

import numpy as np
from scipy import special, stats

from gencard.analysis.answers.answer import AnalysisAnswer, Scalar, coefficients_of, finite
from gencard.analysis.answers.design import INTERCEPT, CheckedQuestion, occurring
from gencard.analysis.answers.linear import aliased_note
from gencard.analysis.answers.margins import Margins, Occupied
from gencard.analysis.answers.newton import Columns, Maximum, columns_of, diverging_levels, maximum
from gencard.core.coding import MISSING, MISSING_BESIDE
from gencard.core.errors import InvalidInputError, NoEstimateError
from gencard.core.types import FloatArray, IntArray


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
    fit = fit.linear(_back(columns, len(thresholds)))
    return AnalysisAnswer(
        question.kind.value,
        question.text,
        float(cells.counts.sum()),
        coefficients_of(labels, fit.params, fit.covariance),
        _scalars(fit.llf, of_levels[observed], len(labels)),
        notes=aliased_note(columns.names, columns.kept),
    )


def _back(columns: Columns, thresholds: int) -> FloatArray:
    """From parameters of centred columns to those of the columns as they were.

    The constant that centring takes from the columns goes to each threshold.
    """
    slopes = len(columns.kept)
    back = np.eye(slopes + thresholds)
    back[:slopes, :slopes] = columns.back
    back[slopes:, :slopes] = columns.centres @ columns.back
    return back


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
