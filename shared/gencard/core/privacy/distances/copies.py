r"""Clones, nearest neighbour distance ratios, and histograms of distances.

**Clones** are synthetic records at distance 0 from a real one. In a domain of few cells nearly every
record meets a real one. If n real records were drawn uniformly from c cells, any record would equal
some of them with probability :math:`1 - (1 - 1/c)^n`, copied or not. Real records crowd in fewer cells,
so clones without copying are as a rule more: the clones among records of a holdout show how many.

**Nearest neighbour distance ratio** is the distance to the closest record by that to the second closest.
Near 0, a record singles one real record out; near 1, it lies no nearer to one than to another.
"""

from dataclasses import dataclass
from math import expm1, log1p

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidNumberError
from gencard.core.privacy.distances.nearest import Nearest


@dataclass(frozen=True, slots=True)
class Clones:
    """How many records are clones.

    Args:
        records: Synthetic records.
        clones: Those at distance 0 from some real record.
        chance: Probability, 0 to 1, of a clone by the domain's size alone; None where numbers make
            cells innumerable.
    """

    records: int
    clones: int
    chance: float | None

    @property
    def share(self) -> float:
        """Clones by synthetic records."""
        return self.clones / self.records if self.records else 0.0

    @property
    def expected(self) -> float | None:
        """How many clones the domain's size alone gives."""
        return None if self.chance is None else self.records * self.chance


def clones(neighbours: Nearest, real: int, cells: int | None) -> Clones:
    """Count clones among the records whose nearest were found.

    Args:
        real: Number of real records that were compared with.
        cells: Of the domain, if it has levels only: ``domain.cells``.

    Raises:
        InvalidNumberError: There is no cell, or a negative number of records.
    """
    if real < 0:
        raise InvalidNumberError(field="The number of real records", expected="at least 0")
    if cells is not None and cells < 1:
        raise InvalidNumberError(field="The number of cells", expected="at least 1")
    chance = None if cells is None else _chance(real, cells)
    return Clones(len(neighbours), int(np.sum(neighbours.distance == 0)), chance)


def _chance(real: int, cells: int) -> float:
    """That some of so many uniform records falls into a given cell."""
    if cells == 1:
        return float(real > 0)
    return -expm1(real * log1p(-1 / cells))


def nndr(neighbours: Nearest) -> NDArray[np.float64]:
    """The ratio of each record, 0 to 1, without a unit, shape ``(n,)``.

    A record that two real ones equal has ratio 1: neither is singled out. NaN where fewer than two
    real records can be compared with.
    """
    equal = neighbours.distance == neighbours.second
    return np.divide(neighbours.distance, neighbours.second, out=np.ones(len(neighbours)), where=~equal)


@dataclass(frozen=True, slots=True, eq=False)
class DistanceHistogram:
    """How many records lie how far from their closest one.

    Args:
        zeros: Records at distance 0, in no bin.
        undefined: Records without a distance, in no bin.
        edges: Of the bins, in distance from 0 to 1; each bin has its lower edge, the last both.
        counts: Records in each bin.
    """

    zeros: int
    undefined: int
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


def distance_histogram(distances: NDArray[np.float64], bins: int = 100) -> DistanceHistogram:
    """Count distances in equal bins from 0 to 1.

    Raises:
        InvalidNumberError: There is no bin.
    """
    if bins < 1:
        raise InvalidNumberError(field="The number of bins", expected="at least 1")
    counts, edges = np.histogram(distances[distances > 0], bins=bins, range=(0.0, 1.0))
    return DistanceHistogram(
        zeros=int(np.sum(distances == 0)),
        undefined=int(np.sum(np.isnan(distances))),
        edges=edges,
        counts=counts.astype(np.int64),
    )
