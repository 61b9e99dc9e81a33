"""Correlations of all pairs of attributes: Pearson's, Spearman's, Kendall's tau-b and polychoric.

Each is that of the coded records: a level counts as often as there are records, and equal levels are
ties.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import atanh, copysign, pi, sqrt, tanh

import numpy as np
from scipy import optimize, special

from gencard.analysis.answers.answer import (
    AnalysisAnswer,
    AnswerTable,
    Scalar,
    coefficients_of,
    finite,
    table_of,
)
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.levels import (
    LevelTable,
    Test,
    attributes_of,
    choice,
    level,
    level_table,
    missing_note,
    number_gram,
    numbers,
    order,
    test_scalar,
)
from gencard.analysis.answers.linear import centred_products
from gencard.analysis.answers.margins import Margins, records_of
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, NoEstimateError
from gencard.core.types import FloatArray

# Polychoric correlation: that of two normal variables whose classes two ordered attributes are.
#
# In two steps (Olsson 1979): thresholds :math:`\tau` from the margins, then the :math:`\rho` of largest
# likelihood :math:`\sum n_c \log \pi_c(\rho, \tau)`. Its standard error includes that of the thresholds:
# with :math:`g_c = d\rho / d n_c` along the equations of both steps, the delta method for a multinomial
# table gives :math:`\sum_c n_c g_c^2`, for :math:`\sum_c n_c g_c = 0`.
#
# References:
#     U. Olsson, "Maximum likelihood estimation of the polychoric correlation coefficient",
#     Psychometrika 44(4), 1979.

_BRACKETS = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
"""Largest correlations that are tried; beyond the last one there is no finite estimate."""

_SMALLEST_SHARE = 1e-300


@dataclass(frozen=True, slots=True)
class Polychoric:
    """The correlation of the two variables behind a table, and its gradient by cell.

    Args:
        gradient: Change of ``rho`` with each count, of the table's shape.
        standard_error: That of sampling.
        fit: Likelihood-ratio test that the variables are normal; None without degrees of freedom.
    """

    rho: float
    gradient: FloatArray
    standard_error: float
    fit: Test | None


def polychoric(table: FloatArray) -> Polychoric:
    """Return the polychoric correlation of a table of counts.

    Each row and each column holds records, and there are at least two of each.

    Raises:
        InvalidInputError: The order of one attribute follows from the other: rho is 1 or -1.
    """
    margins = [table.sum(axis=axis) for axis in (1, 0)]
    # Between the classes, as normal deviates.
    thresholds = [special.ndtri(np.cumsum(counts)[:-1] / counts.sum()) for counts in margins]
    rho = _largest_likelihood(table, *thresholds)
    cells = _Cells(rho, *thresholds)
    shares, by_rho = cells.shares, cells.by_rho
    # The change of rho with each count is by implicit differentiation of the score.
    own = by_rho / shares
    curvature = float(np.sum(table * (cells.by_rho_twice / shares - own**2)))
    rows = _through_thresholds(table, cells)
    columns = _through_thresholds(table.T, _Cells(rho, *thresholds[::-1]))
    gradient = -(own + rows[:, None] + columns[None, :]) / curvature
    freedom = table.size - sum(table.shape)
    distance = 2 * float(special.rel_entr(table / table.sum(), shares).sum() * table.sum())
    return Polychoric(
        rho,
        gradient,
        sqrt(float(np.sum(table * gradient**2))),
        Test.chi2(distance, freedom) if freedom else None,
    )


def _largest_likelihood(table: FloatArray, rows: FloatArray, columns: FloatArray) -> float:
    def score(rho: float) -> float:
        cells = _Cells(rho, rows, columns)
        return float(np.sum(table / cells.shares * cells.by_rho))

    for largest in _BRACKETS:
        if score(-largest) > 0 > score(largest):
            return float(optimize.brentq(score, -largest, largest, xtol=1e-14, rtol=1e-14))
    problem = "have no finite estimate: empty cells make the correlation 1 or -1"
    raise InvalidInputError(field="classes", problem=problem)


class _Cells:
    """Probabilities of the cells and their derivatives, at one rho and given thresholds."""

    def __init__(self, rho: float, rows: FloatArray, columns: FloatArray) -> None:
        self.rho, self.rows, self.columns = rho, rows, columns
        self._h, self._k = np.meshgrid(rows, columns, indexing="ij")
        self._s2 = (1 - rho) * (1 + rho)

    @property
    def shares(self) -> FloatArray:
        """Shape ``(rows, columns)``."""
        inside = bivariate_normal(self._h, self._k, self.rho)
        corners = np.zeros((len(self.rows) + 2, len(self.columns) + 2))
        corners[1:-1, 1:-1] = inside
        corners[-1, 1:-1], corners[1:-1, -1] = special.ndtr(self.columns), special.ndtr(self.rows)
        corners[-1, -1] = 1
        return np.asarray(np.maximum(np.diff(np.diff(corners, axis=0), axis=1), _SMALLEST_SHARE))

    @property
    def density(self) -> FloatArray:
        """Density at each pair of thresholds: the derivative of a corner by rho."""
        h, k = self._h, self._k
        exponent = -(h**2 - 2 * self.rho * h * k + k**2) / (2 * self._s2)
        return np.asarray(np.exp(exponent) / (2 * pi * sqrt(self._s2)))

    @property
    def by_rho(self) -> FloatArray:
        """Derivative of the shares by rho."""
        return _differences(self.density)

    @property
    def by_rho_twice(self) -> FloatArray:
        h, k, rho, s2 = self._h, self._k, self.rho, self._s2
        slope = rho / s2 + (h * k * (1 + rho**2) - rho * (h**2 + k**2)) / s2**2
        return _differences(self.density * slope)

    def by_row(self, place: int) -> tuple[FloatArray, FloatArray]:
        """Derivatives by one threshold of the rows: of the shares, and of ``by_rho``."""
        h = self.rows[place]
        below = special.ndtr((self.columns - self.rho * h) / sqrt(self._s2))
        corner = np.concatenate([[0.0], np.exp(-(h**2) / 2) / sqrt(2 * pi) * below, [0.0]])
        corner[-1] = np.exp(-(h**2) / 2) / sqrt(2 * pi)
        first, second = (np.zeros((len(self.rows) + 1, len(self.columns) + 1)) for _ in range(2))
        first[place], first[place + 1] = np.diff(corner), -np.diff(corner)
        change = -self.density[place] * (h - self.rho * self.columns) / self._s2
        mixed = np.diff(np.concatenate([[0.0], change, [0.0]]))
        second[place], second[place + 1] = mixed, -mixed
        return first, second


def _differences(corners: FloatArray) -> FloatArray:
    """Return the share of each cell for a function of the inner corners that is 0 on the border."""
    return np.diff(np.diff(np.pad(corners, 1), axis=0), axis=1)


def _through_thresholds(table: FloatArray, cells: _Cells) -> FloatArray:
    """Change of the score with one more record in each row, because thresholds move."""
    shares, by_rho, n = cells.shares, cells.by_rho, table.sum()
    cumulative = np.cumsum(table.sum(axis=1))[:-1] / n
    change = np.zeros(len(table))
    for place, (share, threshold) in enumerate(zip(cumulative, cells.rows, strict=True)):
        first, second = cells.by_row(place)
        slope = float(np.sum(table * (second / shares - by_rho * first / shares**2)))
        up = (np.arange(len(table)) <= place) - share
        change += slope * up / n * sqrt(2 * pi) * np.exp(threshold**2 / 2)
    return change


def bivariate_normal(h: FloatArray, k: FloatArray, rho: float) -> FloatArray:
    """P(X <= h, Y <= k) of standard normal variables with correlation rho, by Owen's T function.

    References:
        D. B. Owen, "Tables for computing bivariate normal probabilities", Ann. Math. Stat. 27(4), 1956.

    >>> bivariate_normal(np.zeros(1), np.zeros(1), 0.5).round(6).tolist()
    [0.333333]
    """
    # T needs a ratio by h and by k: what is next to 0 stands for 0.
    h, k = (np.where(x == 0, _SMALLEST_SHARE, x) for x in (h, k))
    scale = sqrt((1 - rho) * (1 + rho))
    with np.errstate(over="ignore"):
        parts = special.owens_t(h, (k / h - rho) / scale) + special.owens_t(k, (h / k - rho) / scale)
    apart = np.where((h < 0) != (k < 0), 0.5, 0.0)
    return np.asarray((special.ndtr(h) + special.ndtr(k)) / 2 - parts - apart)


_NAMES = {"pearson": "pearsonr", "spearman": "spearmanr", "kendall": "kendalltau"}


def correlation_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Correlations of all pairs; ``method`` is "pearson", "spearman" or "kendall" (tau-b).

    Each pair is of the records that have both values, as in pandas. Pearson's needs numbers, the others
    an order of the levels. Pearson's interval is Fisher's.
    """
    attributes = attributes_of(question, 2)
    method = choice(question, "method", tuple(_NAMES))
    if question.columns:
        centred = centred_products(number_gram(margins, question, attributes))
        correlations = []
        for i, j in combinations(range(len(attributes)), 2):
            square = float(centred[i, j] ** 2 / (centred[i, i] * centred[j, j]))
            correlations.append(copysign(min(1.0, sqrt(square)), centred[i, j]))
        answer = AnalysisAnswer(question.kind, question.text, records_of(margins))
        sizes = [answer.n] * len(correlations)
        pvalues = [correlation_pvalue(r, answer.n) for r in correlations]
    else:
        tables, answer = _pairs(margins, question, attributes, numbers if method == "pearson" else order)
        correlations = [_correlation(method, table) for table in tables]
        sizes = [table.n for table in tables]
        pvalues = [
            kendall_pvalue(table.counts) if method == "kendall" else correlation_pvalue(r, table.n)
            for table, r in zip(tables, correlations, strict=True)
        ]
    parts = {"correlation": correlations, "pvalues": pvalues, "nobs": sizes}
    if method == "pearson":
        pairs = zip(correlations, sizes, strict=True)
        ends = [correlation_interval(r, n, level(question)) for r, n in pairs]
        parts |= {"lower": [low for low, _ in ends], "upper": [high for _, high in ends]}
    answer = replace(answer, tables=_squares(attributes, parts))
    if len(attributes) > 2:
        return answer
    scalar = Scalar(_NAMES[method], finite(correlations[0]), None, (), finite(pvalues[0]))
    return replace(answer, scalars=(scalar,))


def polychoric_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Polychoric correlations of all pairs of ordered attributes, with standard errors."""
    attributes = attributes_of(question, 2)
    tables, answer = _pairs(margins, question, attributes, order)
    estimates = [polychoric(table.counts) for table in tables]
    parts = {
        "correlation": [one.rho for one in estimates],
        "standard errors": [one.standard_error for one in estimates],
        "nobs": [table.n for table in tables],
    }
    answer = replace(answer, tables=_squares(attributes, parts))
    if len(attributes) > 2:
        return answer
    estimate = estimates[0]
    rho = Scalar("rho", estimate.rho, estimate.standard_error)
    fit = () if estimate.fit is None else (test_scalar("normality", estimate.fit),)
    covariance = np.array([[estimate.standard_error**2]])
    coefficients = coefficients_of(("rho",), np.array([estimate.rho]), covariance)
    return replace(answer, coefficients=coefficients, scalars=(rho, *fit))


def _pairs(
    margins: Margins,
    question: CheckedQuestion,
    attributes: Clique,
    key: Callable[[CheckedQuestion, str], FloatArray],
) -> tuple[list[LevelTable], AnalysisAnswer]:
    """The table of each pair, by ascending keys, and the answer that they begin."""
    keys = {name: key(question, name) for name in attributes}
    tables = []
    for one, other in combinations(attributes, 2):
        table = level_table(margins, question, (one,), (other,), keys, signed=True)
        if min(table.counts.shape) < 2:
            problem = f"'{one}' or '{other}' does not vary"
            raise NoEstimateError(kind=question.kind, problem=problem)
        tables.append(table)
    n = max(table.n for table in tables)
    return tables, AnalysisAnswer(question.kind, question.text, n, notes=missing_note(margins, keys))


def _correlation(method: str, table: LevelTable) -> float:
    if method == "kendall":
        return kendall_tau(table.counts)
    if method == "spearman":
        return spearman_correlation(table.counts)
    return pearson_correlation(table.counts, table.rows.keys, table.columns.keys)


def _squares(attributes: Clique, parts: Mapping[str, Sequence[float]]) -> tuple[AnswerTable, ...]:
    """Numbers of pairs as symmetric tables; on the diagonal, what an attribute has with itself."""
    tables = []
    for name, pairs in parts.items():
        of_itself = 1.0 if name == "correlation" else np.nan
        square = np.full((len(attributes), len(attributes)), of_itself)
        square[np.triu_indices(len(attributes), 1)] = pairs
        square = np.where(np.tri(len(attributes), k=-1, dtype=bool), square.T, square)
        tables.append(table_of(name, attributes, attributes, square))
    return tuple(tables)


def pearson_correlation(table: FloatArray, rows: FloatArray, columns: FloatArray) -> float:
    """Pearson's correlation of the numbers that rows and columns stand for; NaN without variation."""
    of_rows, of_columns = table.sum(axis=1), table.sum(axis=0)
    x = rows - of_rows @ rows / of_rows.sum()
    y = columns - of_columns @ columns / of_columns.sum()
    spread = (of_rows @ x**2) * (of_columns @ y**2)
    return min(1.0, max(-1.0, float(x @ table @ y) / sqrt(spread))) if spread > 0 else float("nan")


def spearman_correlation(table: FloatArray) -> float:
    """Pearson's correlation of mid-ranks."""
    margins = [table.sum(axis=axis) for axis in (1, 0)]
    rows, columns = (np.cumsum(counts) - (counts - 1) / 2 for counts in margins)
    return pearson_correlation(table, rows, columns)


def kendall_tau(table: FloatArray) -> float:
    """Kendall's tau-b; NaN without variation."""
    sums = table.sum(), table.sum(axis=1), table.sum(axis=0)
    all_pairs, rows, columns = map(_pair_count, sums)
    spread = (all_pairs - rows) * (all_pairs - columns)
    return concordance(table) / sqrt(spread) if spread > 0 else float("nan")


def concordance(table: FloatArray) -> float:
    """Concordant less discordant pairs of records."""
    after = _sums_after(table)
    before = _sums_after(table[:, ::-1])[:, ::-1]
    return float(np.sum(table * (after - before)))


def correlation_pvalue(correlation: float, n: float) -> float:
    """Two-sided, by Student's t with n - 2 degrees of freedom: exact for normal variables.

    NaN without a degree of freedom: any two records are on a line.
    """
    if not (n > 2 and abs(correlation) < 1):
        return 0.0 if n > 2 and abs(correlation) == 1 else float("nan")
    t = correlation * sqrt((n - 2) / ((1 - correlation) * (1 + correlation)))
    return float(2 * special.stdtr(n - 2, -abs(t)))


def correlation_interval(correlation: float, n: float, alpha: float = 0.05) -> tuple[float, float]:
    """By Fisher's transformation."""
    if not (n > 3 and abs(correlation) < 1):
        return float("nan"), float("nan")
    half = -float(special.ndtri(alpha / 2)) / sqrt(n - 3)
    return tanh(atanh(correlation) - half), tanh(atanh(correlation) + half)


def kendall_pvalue(table: FloatArray) -> float:
    """Two-sided, by the normal approximation with ties (Kendall 1970); NaN without variation."""
    n, rows, columns = table.sum(), table.sum(axis=1), table.sum(axis=0)
    pairs = n * (n - 1)
    variance = (pairs * (2 * n + 5) - _fives(rows) - _fives(columns)) / 18
    variance += 2 * _pair_count(rows) * _pair_count(columns) / pairs
    variance += _triples(rows) * _triples(columns) / (9 * pairs * (n - 2))
    if not variance > 0:
        return float("nan")
    return float(2 * special.ndtr(-abs(concordance(table)) / sqrt(variance)))


def _pair_count(counts: FloatArray) -> float:
    return float(np.sum(counts * (counts - 1) / 2))


def _triples(counts: FloatArray) -> float:
    return float(np.sum(counts * (counts - 1) * (counts - 2)))


def _fives(counts: FloatArray) -> float:
    return float(np.sum(counts * (counts - 1) * (2 * counts + 5)))


def _sums_after(table: FloatArray) -> FloatArray:
    """For each cell, the sum of all in later rows and later columns."""
    sums = np.zeros_like(table)
    sums[:-1, :-1] = np.cumsum(np.cumsum(table[::-1, ::-1], axis=0), axis=1)[::-1, ::-1][1:, 1:]
    return sums
