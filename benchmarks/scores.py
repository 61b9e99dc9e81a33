"""Measures of Raab (2022) for syntheses: replicated uniques, S_pMSE of two- and three-way tables."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks import bench
from gencard.core.dataset import Dataset
from gencard.measures.privacy.disclosure import replicated_uniques
from gencard.measures.utility.table_utility import table_utilities

Array = NDArray[np.float64]


@dataclass(slots=True)
class Scores:
    """Scores of one dataset's syntheses, one after another.

    Args:
        original: What they are compared with.
        unconverged: Number of fits that did not converge.
    """

    original: Dataset
    unconverged: int = 0
    _uniques: list[float] = field(default_factory=list)
    _pairs: list[list[float]] = field(default_factory=list)
    _triples: list[list[float]] = field(default_factory=list)

    def add(self, synthetic: Dataset, *, converged: bool = True) -> None:
        """Count one synthesis."""
        self._uniques.append(100 * bench.defined(replicated_uniques(self.original, synthetic).share))
        for width, scores in ((2, self._pairs), (3, self._triples)):
            tables = table_utilities(self.original, synthetic, width).values()
            scores.append([bench.defined(table.standardised) for table in tables])
        self.unconverged += not converged

    def __len__(self) -> int:
        return len(self._uniques)

    @property
    def uniques(self) -> Array:
        """Replicated uniques of each synthesis, in per cent of the original records."""
        return np.array(self._uniques)

    @property
    def two(self) -> Array:
        """Mean S_pMSE of all two-way tables of each synthesis."""
        return np.asarray(np.mean(self._pairs, axis=1))

    @property
    def three(self) -> Array:
        """Mean S_pMSE of all three-way tables of each synthesis."""
        return np.asarray(np.mean(self._triples, axis=1))

    @property
    def worst(self) -> float:
        """Mean S_pMSE of the three-way table where it is largest."""
        return float(np.mean(self._triples, axis=0).max())
