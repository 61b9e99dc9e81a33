"""Logistic regression on a matrix that is given: the likeliest log odds, by iterated least squares."""

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.special import expit, xlogy

Array = NDArray[np.float64]

_CONVERGED = 1e-8
_MOST_STEPS = 200
_MOST_HALVINGS = 30
_LEAST_WEIGHT = 2.0**-52
_FIRST = 0.25 / 0.1875 + log(3)
"""The first response of a record: its probability starts at 3/4 where it is a one, else at 1/4."""


@dataclass(frozen=True, slots=True, eq=False)
class BinomialFit:
    """Where the fit ended.

    Args:
        predicted: Log odds of each cell, shape ``(cells,)``.
        weights: Of the least squares that led there, in records; shape ``(cells,)``.
        step: By how much they changed the log odds of some cell at most.
    """

    predicted: Array
    weights: Array
    step: float


def binomial_fit(matrix: Array, totals: Array, ones: Array) -> BinomialFit:
    """Explain the share of ones in each cell by the columns of a matrix.

    Start and end are those of R's ``glm``, so that figures agree with R's: where a cell can be told
    apart entirely, its probability never arrives at 0 or 1, and the end decides how near it comes. But a
    step that makes the fit worse is halved; R goes on, and may end far from any most likely one.

    Args:
        matrix: Shape ``(cells, p)``.
        totals: Records of each cell, shape ``(cells,)``, none of them 0.
        ones: Those among them whose response is one.
    """
    weights = 0.1875 * totals
    predicted = _least_squares(matrix, weights, _FIRST * (2 * ones / totals - 1))
    deviance, step = _deviance(predicted, totals, ones), np.inf
    for _ in range(_MOST_STEPS):
        weights, target = _newton_step(matrix, predicted, totals, ones)
        old, before = predicted, deviance
        predicted, deviance = _no_worse(predicted, target, totals, ones)
        step = float(np.abs(predicted - old).max())
        if abs(deviance - before) < _CONVERGED * (abs(deviance) + 0.1):
            break
    return BinomialFit(predicted, weights, step)


def _newton_step(matrix: Array, predicted: Array, totals: Array, ones: Array) -> tuple[Array, Array]:
    """Weights of the next least squares, and where these lead to, by cell."""
    scores = expit(predicted)
    weights = totals * np.maximum(scores * (1 - scores), _LEAST_WEIGHT)
    return weights, _least_squares(matrix, weights, predicted + (ones - totals * scores) / weights)


def _no_worse(before: Array, after: Array, totals: Array, ones: Array) -> tuple[Array, float]:
    """The way to ``after``, halved until it raises the deviance no more; and the deviance there."""
    deviance = _deviance(before, totals, ones)
    for _ in range(_MOST_HALVINGS):
        found = _deviance(after, totals, ones)
        if found <= deviance + _CONVERGED * (deviance + 0.1):
            return after, found
        after = (before + after) / 2
    return before, deviance


def _least_squares(matrix: Array, weights: Array, response: Array) -> Array:
    roots = np.sqrt(weights)
    found = lstsq(matrix * roots[:, None], response * roots, lapack_driver="gelsy")
    return np.asarray(matrix @ found[0])


def _deviance(predicted: Array, totals: Array, ones: Array) -> float:
    scores, others = expit(predicted), expit(-predicted)
    return float(-2 * np.sum(xlogy(ones, scores) + xlogy(totals - ones, others)))
