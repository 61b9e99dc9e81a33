"""Integer moves that keep linear statistics too: the circuits of the matrix from table to psi.

A circuit is a change of the table that keeps psi and touches so few cells that it is the only one on
them, up to scale: whole numbers, found exactly. Every change that keeps psi is a sum of circuits.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from gencard.core.audit.pairs.direction import Direction
from gencard.core.audit.pairs.kernel import only_change
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.marginal import count
from gencard.core.types import FloatArray, IntArray

MOST_CELLS = 2_000
"""Cells of the full table up to which circuits are looked for."""

_MOST_CIRCUITS = 500
"""Tried on each side of a pair."""

_NONE = 1e-9
"""Below this part of the largest possible gain, and of the largest entry, is rounding."""


def along_circuits(
    dataset: Dataset, cliques: Sequence[Clique], linear: Sequence[LinearStatistic], beta: Direction
) -> Dataset:
    """Take the circuits that raise ``<beta, table>``, the steepest first, as often as counts allow.

    Returns:
        A dataset with the same psi, in the order of the cells.
    """
    domain = dataset.domain
    cells = np.indices(domain.sizes).reshape(len(domain), -1)
    matrix, gains = psi_matrix(domain, cliques, linear), beta.of(list(cells))
    table = count(dataset, domain.attributes).ravel()
    bare = table == 0
    for _ in range(_MOST_CIRCUITS):
        support, signs = _steepest(matrix, gains, bare)
        change = only_change(matrix[:, support], signs)
        if change is None or gains[support] @ change <= 0:
            break
        losing = change < 0
        times = int((table[support[losing]] // -change[losing]).min())
        table[support] += times * change
        bare[support[table[support] < -change]] = True
    return Dataset(domain, np.repeat(cells.T, table, axis=0))


def psi_matrix(domain: Domain, cliques: Sequence[Clique], linear: Sequence[LinearStatistic]) -> IntArray:
    """From the full table to all of psi: one row for each count and each sum."""
    places = np.arange(domain.cells).reshape(domain.sizes)
    rows = [np.ones((1, domain.cells), dtype=np.int64)]
    for clique in cliques:
        cells = _cells(domain, clique, places)
        rows.append((np.arange(domain.project(clique).cells)[:, None] == cells).astype(np.int64))
    rows += [each.numerators[:, _cells(domain, each.clique, places)] for each in linear]
    return np.vstack(rows)


def _cells(domain: Domain, clique: Clique, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of each cell of the full table in the clique."""
    codes = np.unravel_index(places.ravel(), domain.sizes)
    return np.ravel_multi_index(
        tuple(codes[axis] for axis in domain.axes(clique)), domain.project(clique).sizes
    )


def _steepest(
    matrix: IntArray, gains: FloatArray, bare: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], FloatArray]:
    """The cells of the circuit that gains most for each record it moves, and its signs there.

    A vertex of the changes that keep psi, move one record in all and take none from ``bare`` cells.
    """
    scaled = matrix / np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1)
    rows = sparse.csr_array(np.hstack([scaled, -scaled]))
    found = optimize.milp(
        c=np.concatenate([-gains, gains]),
        constraints=[
            optimize.LinearConstraint(rows, 0, 0),
            optimize.LinearConstraint(np.ones((1, rows.shape[1])), ub=1),
        ],
        bounds=optimize.Bounds(0, np.concatenate([np.ones(len(bare)), np.where(bare, 0.0, 1.0)])),
    )
    if found.x is None or -found.fun <= _NONE * np.abs(gains).max():
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    change = found.x[: len(bare)] - found.x[len(bare) :]
    support = np.flatnonzero(np.abs(change) > _NONE)
    return support, np.sign(change[support])
