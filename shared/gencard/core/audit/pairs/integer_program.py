"""The farthest dataset of equal psi as an exact integer program, for small tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from gencard.core.audit.pairs.direction import Direction
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.marginal import count_all

MOST_CELLS = 2_000
"""Cells of the full table up to which the program is tried."""
_MOST_SECONDS = 10.0


def farthest(dataset: Dataset, cliques: Sequence[Clique], beta: Direction) -> Dataset:
    """A dataset with the psi of ``dataset`` and the largest ``<beta, table>`` of all.

    Returns:
        ``dataset`` itself where the table is too large or the solver finds nothing in time.
    """
    domain = dataset.domain
    if domain.cells > MOST_CELLS:
        return dataset
    cells = np.indices(domain.sizes).reshape(len(domain), -1)
    counts = np.concatenate([table.ravel() for table in count_all(dataset, cliques)])
    found = optimize.milp(
        c=-beta.of(list(cells)),
        constraints=optimize.LinearConstraint(_marginalising(domain, cliques, cells), counts, counts),
        integrality=np.ones(domain.cells, dtype=np.int64),
        options={"time_limit": _MOST_SECONDS},
    )
    if found.x is None:
        return dataset
    records = np.repeat(cells.T, np.rint(found.x).astype(np.int64), axis=0)
    return Dataset(domain, records)


def _marginalising(domain: Domain, cliques: Sequence[Clique], cells: NDArray[Any]) -> sparse.csr_array:
    """The 0-1 matrix from the full table to all marginals, one after the other."""
    blocks = []
    for clique in cliques:
        sizes = domain.project(clique).sizes
        row = np.ravel_multi_index(tuple(cells[list(domain.axes(clique))]), sizes)
        entries = (np.ones(domain.cells), (row, np.arange(domain.cells)))
        blocks.append(sparse.csr_array(entries, shape=(int(np.prod(sizes)), domain.cells)))
    return sparse.vstack(blocks, format="csr")
