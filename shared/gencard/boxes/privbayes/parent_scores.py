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

from collections.abc import Iterable, Sequence

import numpy as np

from gencard.boxes.privbayes.bit_planes import BitPlanes
from gencard.boxes.privbayes.certainty import certainties
from gencard.boxes.privbayes.parent_sets import Pair
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.counting import cell_numbers
from gencard.core.types import IntArray

_FEW = 128
"""Cells of a table up to which it is counted by bits, quicker than record by record."""


class ParentScores:
    """Scores of pairs over one dataset; each is computed once.

    Attributes:
        sensitivity: The most that replacing a record moves any of them.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._binary = all(size <= 2 for size in dataset.domain.sizes)
        self._planes = BitPlanes(dataset)
        self._found: dict[Pair, int] = {}
        self.sensitivity = 2 if self._binary else 6 * len(dataset) + 4

    def of(self, pairs: Sequence[Pair]) -> IntArray:
        """The scores of pairs, in their order: F where all attributes are binary, else R."""
        lacking: dict[tuple[Clique, int], list[str]] = {}
        for pair in pairs:
            if pair not in self._found:
                alike = (pair.parents, self._dataset.domain.size(pair.attribute))
                lacking.setdefault(alike, []).append(pair.attribute)
        for (parents, _), attributes in lacking.items():
            joints = self._joints(parents, tuple(attributes))
            scores = certainties(np.stack([*joints])) if self._binary else map(dependence, joints)
            for attribute, score in zip(attributes, scores, strict=True):
                self._found[Pair(attribute, parents)] = int(score)
        return np.array([self._found[pair] for pair in pairs], dtype=np.int64)

    def _joints(self, parents: Clique, attributes: Clique) -> Iterable[IntArray]:
        """For each attribute counts, one row for each cell of the parents, one column for each level."""
        domain = self._dataset.domain
        rows, size = domain.project(parents).cells, domain.size(attributes[0])
        if rows * size <= _FEW:
            return self._planes.joints(parents, attributes)
        begins = self._cells(parents) * size
        columns = map(self._dataset.column, attributes)
        counts = (np.bincount(begins + column, minlength=rows * size) for column in columns)
        return (count.reshape(rows, size).astype(np.int64) for count in counts)

    def _cells(self, parents: Clique) -> IntArray:
        """The number of each record's cell."""
        if not parents:
            return np.zeros(len(self._dataset), dtype=np.int64)
        columns = [self._dataset.column(name) for name in parents]
        return cell_numbers(columns, self._dataset.domain.project(parents).sizes).astype(np.int64)


def dependence(joint: IntArray) -> int:
    r""":math:`2 n^2 R`, from 0 to below :math:`2 n^2`; the work is that of the cells with records.

    An empty cell adds :math:`c(x)\,c(\pi)`, and those products over all cells add up to :math:`n^2`.
    """
    records = joint.sum()
    cells = np.flatnonzero(joint)
    rows, columns = np.divmod(cells, joint.shape[1])
    independent = joint.sum(axis=1)[rows] * joint.sum(axis=0)[columns]
    apart = np.abs(records * joint.ravel()[cells] - independent)
    return int(records**2 + (apart - independent).sum())
