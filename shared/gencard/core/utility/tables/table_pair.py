"""Two tables of counts on the same cells, as every measure of table utility takes them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import DomainMismatchError, InvalidInputError
from gencard.core.types import Counts

Cells = NDArray[np.float64]
"""One number for each cell that holds any record; shape ``(k,)``."""


@dataclass(frozen=True, slots=True, eq=False)
class TablePair:
    """Counts of the original and of the synthetic records, in the k cells where either is above 0."""

    original: Cells
    synthetic: Cells

    @classmethod
    def of(cls, original: Counts, synthetic: Counts) -> "TablePair":
        """Two tables of one shape; their totals may differ.

        Raises:
            DomainMismatchError: The shapes differ.
            InvalidInputError: A table holds no record.
        """
        if original.shape != synthetic.shape:
            raise DomainMismatchError(problem="the tables have different shapes")
        if not (original.any() and synthetic.any()):
            raise InvalidInputError(field="table", problem="contains no records")
        held = (original + synthetic) > 0
        return cls(original[held].astype(np.float64), synthetic[held].astype(np.float64))

    @property
    def freedom(self) -> int:
        """Degrees of freedom: the cells, less one."""
        return len(self.original) - 1

    @property
    def records(self) -> int:
        """Original and synthetic records together, N."""
        return int(self.original.sum() + self.synthetic.sum())

    @property
    def ratio(self) -> float:
        """Synthetic records by original ones, r."""
        return float(self.synthetic.sum() / self.original.sum())

    @property
    def synthetic_share(self) -> float:
        """Synthetic records by all, c."""
        return float(self.synthetic.sum() / self.records)

    @property
    def shares(self) -> tuple[Cells, Cells]:
        """Of the original records, p, and of the synthetic ones, q; each sums to 1."""
        return self.original / self.original.sum(), self.synthetic / self.synthetic.sum()
