r"""Logistic regression that tells synthetic records from original ones, interactions included.

The columns are an intercept, indicators of all levels but one, numbers, and the products of these for
every set of up to ``order`` attributes. Columns that others determine are left out; what is left has
rank r. Where synthetic records are drawn from the original ones, the expected pMSE is
:math:`(r - 1) c (1 - c)^2 / N` (Snoke et al. 2018, with the original taken as given).

The maximum-likelihood log odds are found by iterated least squares (``binomial_fit``).
"""

from dataclasses import dataclass
from itertools import chain, combinations
from math import log, prod

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.errors import InvalidNumberError, TooLargeError
from gencard.core.types import FloatArray
from gencard.measures.utility.predictors import Cells, Column, products

MOST_ENTRIES = 40_000_000
"""Most entries of the matrix, cells by columns: 320 MB."""

_DEPENDENT = 1e-9


def regression_basis(cells: Cells, order: int, most_parameters: int) -> NDArray[np.float64]:
    """An orthonormal basis of the columns, one row for each cell; its width is the rank.

    Raises:
        InvalidNumberError: The order is below 1.
        TooLargeError: Too many columns, or too many cells for them.
    """
    if order < 1:
        raise InvalidNumberError(field="order", expected="at least 1")
    varying = [column for column in cells.columns if column.levels.any()]
    sets, columns = _sets([_width(column) for column in varying], order, most_parameters)
    if columns * len(cells.totals) > MOST_ENTRIES:
        raise TooLargeError(
            what="The regression",
            limit=f"{MOST_ENTRIES} entries",
            advice="Compare fewer rows or attributes.",
        )
    blocks = [_block(column) for column in varying]
    parts = [
        np.ones((len(cells.totals), 1)),
        *(products([blocks[axis] for axis in axes]) for axes in sets),
    ]
    return _independent(np.hstack(parts))


def regression_scores(basis: FloatArray, totals: FloatArray, synthetic: FloatArray) -> FloatArray:
    """The most likely probability of being synthetic in each cell; see ``binomial_fit``."""
    return np.asarray(scipy.special.expit(binomial_fit(basis, totals, synthetic).predicted))


def _sets(widths: list[int], order: int, most: int) -> tuple[list[tuple[int, ...]], int]:
    """Every set of up to ``order`` attributes, and how many columns they have with the intercept."""
    sets, columns = [], 1
    wide = range(1, min(order, len(widths)) + 1)
    for axes in chain.from_iterable(combinations(range(len(widths)), k) for k in wide):
        sets.append(axes)
        columns += prod(widths[axis] for axis in axes)
        if columns > most:
            raise TooLargeError(
                what="The number of parameters",
                limit=most,
                advice="Compare fewer attributes, or attributes with fewer levels.",
            )
    return sets, columns


def _width(column: Column) -> int:
    return 1 if column.numbers is not None else int(column.levels.max())


def _block(column: Column) -> FloatArray:
    """A number, standardised; or an indicator of each level but the first."""
    if column.numbers is None:
        return np.asarray(np.eye(int(column.levels.max()) + 1)[column.levels][:, 1:])
    centred = column.numbers - column.numbers.mean()
    scaled = centred / (np.abs(centred).max() or 1.0)  # squares of the smallest numbers are 0
    return np.asarray((scaled / (scaled.std() or 1.0))[:, None])


def _independent(matrix: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(matrix, axis=0)
    scaled = matrix[:, lengths > 0] / lengths[lengths > 0]
    basis, triangle, _ = scipy.linalg.qr(scaled, mode="economic", pivoting=True, overwrite_a=True)
    diagonal = np.abs(np.diag(triangle))
    return np.asarray(basis[:, : int(np.sum(diagonal > _DEPENDENT * diagonal[0]))])


_CONVERGED = 1e-8
_MOST_STEPS = 200
_MOST_HALVINGS = 30
_LEAST_WEIGHT = 2.0**-52
_FIRST = 0.25 / 0.1875 + log(3)
"""The first response of a record: its probability starts at 3/4 where it is a one, else at 1/4."""


@dataclass(frozen=True, slots=True, eq=False)
class BinomialFit:
    """Last step of a fit.

    Args:
        predicted: Log odds of each cell, shape ``(cells,)``.
        weights: Of the least squares that led there, in records; shape ``(cells,)``.
        step: By how much they changed the log odds of some cell at most.
    """

    predicted: FloatArray
    weights: FloatArray
    step: float


def binomial_fit(matrix: FloatArray, totals: FloatArray, ones: FloatArray) -> BinomialFit:
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


def _newton_step(
    matrix: FloatArray, predicted: FloatArray, totals: FloatArray, ones: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Weights of the next least squares, and where these lead to, by cell."""
    scores = scipy.special.expit(predicted)
    weights = totals * np.maximum(scores * (1 - scores), _LEAST_WEIGHT)
    return weights, _least_squares(matrix, weights, predicted + (ones - totals * scores) / weights)


def _no_worse(
    before: FloatArray, after: FloatArray, totals: FloatArray, ones: FloatArray
) -> tuple[FloatArray, float]:
    """The way to ``after``, halved until it raises the deviance no more; and the deviance there."""
    deviance = _deviance(before, totals, ones)
    for _ in range(_MOST_HALVINGS):
        deviance_after = _deviance(after, totals, ones)
        if deviance_after <= deviance + _CONVERGED * (deviance + 0.1):
            return after, deviance_after
        after = (before + after) / 2
    return before, deviance


def _least_squares(matrix: FloatArray, weights: FloatArray, response: FloatArray) -> FloatArray:
    roots = np.sqrt(weights)
    result = scipy.linalg.lstsq(matrix * roots[:, None], response * roots, lapack_driver="gelsy")
    return np.asarray(matrix @ result[0])


def _deviance(predicted: FloatArray, totals: FloatArray, ones: FloatArray) -> float:
    scores, others = scipy.special.expit(predicted), scipy.special.expit(-predicted)
    return float(
        -2 * np.sum(scipy.special.xlogy(ones, scores) + scipy.special.xlogy(totals - ones, others))
    )
