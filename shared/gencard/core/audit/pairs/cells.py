"""The occupied cells of a table: records that are equal, kept once with their number."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.types import IntArray

_LARGEST_KEY = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A dataset without the order of its records.

    Args:
        codes: Distinct records, shape ``(m, d)``.
        counts: How many records stand in each, shape ``(m,)``, at least 1.
    """

    domain: Domain
    codes: NDArray[Any]
    counts: IntArray

    @classmethod
    def of(cls, dataset: Dataset) -> "Cells":
        return cls.merged(dataset.domain, dataset.codes, np.ones(len(dataset), dtype=np.int64))

    @classmethod
    def merged(cls, domain: Domain, codes: NDArray[Any], counts: IntArray) -> "Cells":
        """Equal records joined, empty cells dropped; in the order of the domain's table."""
        present = counts > 0
        codes, counts = codes[present], counts[present]
        keys = key_of(codes.T, domain.sizes)
        _, first, cell = np.unique(keys, return_index=True, return_inverse=True)
        sums = np.zeros(len(first), dtype=np.int64)
        np.add.at(sums, cell, counts)
        return cls(domain, codes[first], sums)

    def column(self, attribute: str) -> NDArray[Any]:
        """Codes of one attribute, shape ``(m,)``."""
        column: NDArray[Any] = self.codes[:, self.domain.axis(attribute)]
        return column

    def shuffled(self, *, rng: np.random.Generator) -> Dataset:
        """The records again, in random order."""
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        return Dataset(self.domain, self.codes[rng.permutation(rows)])


def key_of(columns: Iterable[NDArray[Any]], sizes: Iterable[int]) -> IntArray:
    """One integer for each row, equal for equal rows and only for those.

    Mixed radix, with the keys replaced by their ranks whenever the next digit would not fit.
    """
    key: IntArray | None = None
    span = 1
    for column, size in zip(columns, sizes, strict=True):
        if key is not None and span > _LARGEST_KEY // size:
            levels, key = np.unique(key, return_inverse=True)
            span = len(levels)
        digit = column.astype(np.int64)
        key = digit if key is None else key * size + digit
        span *= size
    return np.zeros(0, dtype=np.int64) if key is None else key
