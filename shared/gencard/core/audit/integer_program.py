"""The farthest dataset of equal psi as an exact integer program, for small tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from gencard.core.audit.direction import Direction
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.marginal import count

MOST_CELLS = 2_000
"""Cells of the full table up to which the program is tried."""
_MOST_SECONDS = 10.0


def farthest(
    dataset: Dataset,
    cliques: Sequence[Clique],
    beta: Direction,
    linear: Sequence[LinearStatistic] = (),
) -> Dataset:
    """A dataset with the psi of ``dataset`` and the largest ``<beta, table>`` of all.

    Returns:
        ``dataset`` itself where the table is too large or the solver finds nothing in time.
    """
    domain = dataset.domain
    if domain.cells > MOST_CELLS:
        return dataset
    cells = np.indices(domain.sizes).reshape(len(domain), -1)
    rows = [_marginalising(domain, cliques, cells), _summing(domain, linear, cells)]
    matrix = sparse.vstack([part for part in rows if part.shape[0]], format="csr")
    here = matrix @ _table(dataset).astype(np.float64)
    found = optimize.milp(
        c=-beta.of(list(cells)),
        constraints=optimize.LinearConstraint(matrix, here, here),
        integrality=np.ones(domain.cells, dtype=np.int64),
        options={"time_limit": _MOST_SECONDS},
    )
    if found.x is None or not np.array_equal(matrix @ np.rint(found.x), here):
        return dataset
    records = np.repeat(cells.T, np.rint(found.x).astype(np.int64), axis=0)
    return Dataset(domain, records)


def _table(dataset: Dataset) -> NDArray[np.int64]:
    """Number of records in each cell of the full table."""
    return count(dataset, dataset.domain.attributes).ravel()


def _summing(domain: Domain, linear: Sequence[LinearStatistic], cells: NDArray[Any]) -> sparse.csr_array:
    """From the full table to the sums of all functions, each in the largest unit that it is whole in."""
    rows = [np.zeros((0, domain.cells))]
    for statistic in linear:
        sizes = domain.project(statistic.clique).sizes
        inside = np.ravel_multi_index(tuple(cells[list(domain.axes(statistic.clique))]), sizes)
        units = np.gcd.reduce(statistic.numerators, axis=1, keepdims=True)
        rows.append((statistic.numerators // units)[:, inside].astype(np.float64))
    return sparse.csr_array(np.vstack(rows))


def _marginalising(domain: Domain, cliques: Sequence[Clique], cells: NDArray[Any]) -> sparse.csr_array:
    """The 0-1 matrix from the full table to all marginals, one after the other."""
    blocks = [sparse.csr_array((0, domain.cells))]
    for clique in cliques:
        sizes = domain.project(clique).sizes
        row = np.ravel_multi_index(tuple(cells[list(domain.axes(clique))]), sizes)
        entries = (np.ones(domain.cells), (row, np.arange(domain.cells)))
        blocks.append(sparse.csr_array(entries, shape=(int(np.prod(sizes)), domain.cells)))
    return sparse.vstack(blocks, format="csr")
