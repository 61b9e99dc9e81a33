r"""Logistic regression that tells synthetic records from original ones, interactions included.

The columns are an intercept, indicators of all levels but one, numbers, and the products of these for
every set of up to ``order`` attributes. Columns that others determine are left out; what is left has
rank r. Where synthetic records are drawn from the original ones, the expected pMSE is
:math:`(r - 1) c (1 - c)^2 / N` (Snoke et al. 2018, with the original taken as given).
"""

from itertools import chain, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.special import expit

from gencard.core.errors import InvalidNumberError, TooLargeError
from gencard.core.utility.propensity.binomial_fit import binomial_fit
from gencard.core.utility.propensity.predictor_matrix import products
from gencard.core.utility.propensity.propensity_cells import Array, Cells, Column

MOST_ENTRIES = 40_000_000
"""Of the matrix, cells by columns: 320 MB."""

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
        raise TooLargeError(what="The regression", limit=f"{MOST_ENTRIES} entries")
    blocks = [_block(column) for column in varying]
    parts = [
        np.ones((len(cells.totals), 1)),
        *(products([blocks[axis] for axis in axes]) for axes in sets),
    ]
    return _independent(np.hstack(parts))


def regression_scores(basis: Array, totals: Array, synthetic: Array) -> Array:
    """The most likely probability of being synthetic in each cell; see ``binomial_fit``."""
    return np.asarray(expit(binomial_fit(basis, totals, synthetic).predicted))


def _sets(widths: list[int], order: int, most: int) -> tuple[list[tuple[int, ...]], int]:
    """Every set of up to ``order`` attributes, and how many columns they have with the intercept."""
    sets, columns = [], 1
    wide = range(1, min(order, len(widths)) + 1)
    for axes in chain.from_iterable(combinations(range(len(widths)), k) for k in wide):
        sets.append(axes)
        columns += prod(widths[axis] for axis in axes)
        if columns > most:
            raise TooLargeError(what="The number of parameters", limit=most)
    return sets, columns


def _width(column: Column) -> int:
    return 1 if column.numbers is not None else int(column.levels.max())


def _block(column: Column) -> Array:
    """A number, standardised; or an indicator of each level but the first."""
    if column.numbers is None:
        return np.asarray(np.eye(int(column.levels.max()) + 1)[column.levels][:, 1:])
    centred = column.numbers - column.numbers.mean()
    scaled = centred / (np.abs(centred).max() or 1.0)  # squares of the smallest numbers are 0
    return np.asarray((scaled / (scaled.std() or 1.0))[:, None])


def _independent(matrix: Array) -> Array:
    lengths = np.linalg.norm(matrix, axis=0)
    kept = matrix[:, lengths > 0] / lengths[lengths > 0]
    basis, triangle, _ = qr(kept, mode="economic", pivoting=True, overwrite_a=True)
    diagonal = np.abs(np.diag(triangle))
    return np.asarray(basis[:, : int(np.sum(diagonal > _DEPENDENT * diagonal[0]))])
