r"""How much parents tell about an attribute, in whole numbers that one record moves little.

The scores of PrivBayes (Zhang et al. 2017, sections 4.2 and 5.3), n records in all, for neighbours that
differ by replacing one.

R, for any sizes, is half the L1 distance of the joint distribution from independence. Times
:math:`2 n^2` it is :math:`\sum_{x, \pi} |n\,c(x, \pi) - c(x)\,c(\pi)|`. Replacing a record moves
:math:`n\,c(x, \pi)` by :math:`2 n` in all, and :math:`c(x)\,c(\pi)` by :math:`2 n + 2 n + 4`: together
:math:`6 n + 4`.

F, where all attributes are binary, is minus half the L1 distance to the nearest distribution in which
the parents leave no doubt about the attribute, and which is uniform there. Times :math:`2 n`:
:math:`-\min_S\, (n - 2 k_0)^+ + (n - 2 k_1)^+`, where S says which cells of the parents stand for 0,
:math:`k_0` are the records with 0 in S, and :math:`k_1` those with 1 outside. A record moves two counts
by 1, and so an L1 distance by 2 and :math:`2 n F` by 2.
"""

import numpy as np
from numpy.typing import NDArray

from gencard.core.blackbox.parent_sets import Pair
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.counting import cell_numbers

Counts = NDArray[np.int64]

_KEPT = 64
"""Sets of parents whose cells are remembered."""


class ParentScores:
    """Scores of pairs over one dataset; each is computed once.

    Attributes:
        sensitivity: The most that replacing a record moves any of them.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._binary = all(size <= 2 for size in dataset.domain.sizes)
        self._found: dict[Pair, int] = {}
        self._cells: dict[Clique, NDArray[np.int64]] = {}
        self.sensitivity = 2 if self._binary else 6 * len(dataset) + 4

    def of(self, pair: Pair) -> int:
        """The score of a pair: F where all attributes are binary, else R."""
        if pair not in self._found:
            joint = self._joint(pair)
            self._found[pair] = certainty(joint) if self._binary else dependence(joint)
        return self._found[pair]

    def _joint(self, pair: Pair) -> Counts:
        """Counts, one row for each cell of the parents, one column for each level of the attribute."""
        domain = self._dataset.domain
        rows, size = domain.project(pair.parents).cells, domain.size(pair.attribute)
        cells = self._parents(pair.parents) * size + self._dataset.column(pair.attribute)
        return np.bincount(cells, minlength=rows * size).reshape(rows, size).astype(np.int64)

    def _parents(self, parents: Clique) -> NDArray[np.int64]:
        if parents not in self._cells:
            if len(self._cells) >= _KEPT:
                del self._cells[next(iter(self._cells))]
            sizes = self._dataset.domain.project(parents).sizes
            columns = [self._dataset.column(name) for name in parents]
            numbers = cell_numbers(columns, sizes) if parents else np.zeros(len(self._dataset))
            self._cells[parents] = numbers.astype(np.int64)
        return self._cells[parents]


def dependence(joint: Counts) -> int:
    r""":math:`2 n^2 R`, from 0 to below :math:`2 n^2`; the work is that of the cells with records.

    An empty cell adds :math:`c(x)\,c(\pi)`, and those products over all cells add up to :math:`n^2`.
    """
    records = joint.sum()
    cells = np.flatnonzero(joint)
    rows, columns = np.divmod(cells, joint.shape[1])
    independent = joint.sum(axis=1)[rows] * joint.sum(axis=0)[columns]
    apart = np.abs(records * joint.ravel()[cells] - independent)
    return int(records**2 + (apart - independent).sum())


def certainty(joint: Counts) -> int:
    r""":math:`2 n F`, from :math:`-n` to 0.

    Cell after cell of the parents stands for 0 or for 1. Of all ways so far, those stay that no other
    one matches in both :math:`k_0` and :math:`k_1` [1]_: few, where ways double with each cell.

    References:
        .. [1] G. Nemhauser, Z. Ullmann, "Discrete Dynamic Programming and Capital Allocation",
           Management Science 15(9), 1969.
    """
    records = int(joint.sum())
    pairs = np.zeros((len(joint), 2), dtype=np.int64)
    pairs[:, : joint.shape[1]] = joint  # an attribute of one level has no 1
    met = np.zeros((1, 2), dtype=np.int64)
    for cell in pairs[pairs.any(axis=1)]:
        met = _unmatched((met[:, None] + np.diag(cell)).reshape(-1, 2))
    return -int(np.maximum(records - 2 * met, 0).sum(axis=1).min())


def _unmatched(sums: Counts) -> Counts:
    """Rows such that no other row is as large or larger in both places; of equal rows one."""
    falling = sums[np.lexsort((-sums[:, 1], -sums[:, 0]))]
    best = np.maximum.accumulate(falling[:, 1])
    kept: Counts = falling[np.concatenate([[True], best[1:] > best[:-1]])]
    return kept
