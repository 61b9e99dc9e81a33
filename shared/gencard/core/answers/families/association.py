r"""Correlations of two attributes from their table: Pearson's, Spearman's, Kendall's tau-b.

Each is that of the coded records: a level counts as often as there are records, and equal levels are
ties.
"""

from math import atanh, sqrt, tanh

import numpy as np
from scipy import special, stats

from gencard.core.types import FloatArray


def pearson_correlation(table: FloatArray, rows: FloatArray, columns: FloatArray) -> float:
    """Pearson's correlation of the numbers that rows and columns stand for; NaN without variation."""
    x, y = _centred(rows, table.sum(axis=1)), _centred(columns, table.sum(axis=0))
    spread = (table.sum(axis=1) @ x**2) * (table.sum(axis=0) @ y**2)
    return min(1.0, max(-1.0, float(x @ table @ y) / sqrt(spread))) if spread > 0 else float("nan")


def spearman_correlation(table: FloatArray) -> float:
    """Pearson's correlation of mid-ranks."""
    return pearson_correlation(table, *(_ranks(table.sum(axis=axis)) for axis in (1, 0)))


def kendall_tau(table: FloatArray) -> float:
    """Kendall's tau-b; NaN without variation."""
    all_pairs, rows, columns = (_pairs(x) for x in (table.sum(), table.sum(axis=1), table.sum(axis=0)))
    spread = (all_pairs - rows) * (all_pairs - columns)
    return concordance(table) / sqrt(spread) if spread > 0 else float("nan")


def concordance(table: FloatArray) -> float:
    """Concordant less discordant pairs of records."""
    after = _sums_after(table)
    before = _sums_after(table[:, ::-1])[:, ::-1]
    return float(np.sum(table * (after - before)))


def correlation_pvalue(correlation: float, n: float) -> float:
    """Two-sided, by Student's t with n - 2 degrees of freedom: exact for normal variables."""
    if not (n > 2 and abs(correlation) < 1):
        return 0.0 if abs(correlation) == 1 else float("nan")
    t = correlation * sqrt((n - 2) / ((1 - correlation) * (1 + correlation)))
    return float(2 * special.stdtr(n - 2, -abs(t)))


def correlation_interval(correlation: float, n: float, alpha: float = 0.05) -> tuple[float, float]:
    """By Fisher's transformation."""
    if not (n > 3 and abs(correlation) < 1):
        return float("nan"), float("nan")
    half = float(stats.norm.isf(alpha / 2)) / sqrt(n - 3)
    return tanh(atanh(correlation) - half), tanh(atanh(correlation) + half)


def kendall_pvalue(table: FloatArray) -> float:
    """Two-sided, by the normal approximation with ties (Kendall 1970)."""
    n, rows, columns = table.sum(), table.sum(axis=1), table.sum(axis=0)
    pairs = n * (n - 1)
    variance = (pairs * (2 * n + 5) - _fives(rows) - _fives(columns)) / 18
    variance += 2 * _pairs(rows) * _pairs(columns) / pairs
    variance += _triples(rows) * _triples(columns) / (9 * pairs * (n - 2))
    return float(2 * special.ndtr(-abs(concordance(table)) / sqrt(variance))) if variance > 0 else 1.0


def _centred(values: FloatArray, counts: FloatArray) -> FloatArray:
    centred: FloatArray = values - counts @ values / counts.sum()
    return centred


def _ranks(counts: FloatArray) -> FloatArray:
    ranks: FloatArray = np.cumsum(counts) - (counts - 1) / 2
    return ranks


def _pairs(counts: FloatArray) -> float:
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
