"""What a tree is to predict, and where the levels of its predictors stand for that."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_CLASSES = 64
"""Classes told apart when a split is chosen; rarer levels count as one. Leaves know all levels."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One attribute of the records that a tree is grown on.

    Args:
        codes: What is drawn: shape ``(n,)``.
        response: What splits are chosen by: numbers from 0 to 1, or classes from 0.
        is_number: Which of the two.
    """

    codes: NDArray[Any]
    response: NDArray[Any]
    is_number: bool

    @property
    def is_constant(self) -> bool:
        return bool(np.all(self.response == self.response[0]))

    @property
    def impurity(self) -> float:
        """Of all records: the variance of numbers, the Gini index of classes."""
        if self.is_number:
            return float(self.response.var())
        shares = np.bincount(self.response) / len(self.response)
        return float(1 - shares @ shares)

    def places(self, codes: NDArray[Any], size: int) -> NDArray[np.int64]:
        """An order of a nominal predictor's levels in which few cuts tell its records apart.

        By the mean of the target's numbers; by the first principal component of the shares of its
        classes [1]_, which for two classes is the order of their shares. Levels without a record stand
        where the mean of all records does.

        Args:
            codes: Of the predictor: shape ``(n,)``.
            size: Its number of levels.

        References:
            .. [1] D. Coppersmith, S. J. Hong, J. R. M. Hosking, "Partitioning Nominal Attributes in
               Decision Trees", Data Mining and Knowledge Discovery 3, 1999.
        """
        counts = np.bincount(codes, minlength=size)
        means = self._sums(codes, size) / np.maximum(counts, 1)[:, None]
        off = means - self._sums(np.zeros_like(codes), 1) / len(codes)
        off[counts == 0] = 0
        axis = np.linalg.eigh((off * counts[:, None]).T @ off)[1][:, -1]
        scores = off @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))
        return np.argsort(np.argsort(scores, kind="stable"), kind="stable")

    def _sums(self, codes: NDArray[Any], size: int) -> NDArray[np.float64]:
        """Sum of the numbers, or records of each class, over each level: shape ``(size, columns)``."""
        if self.is_number:
            sums: NDArray[np.float64] = np.bincount(codes, self.response, size).astype(np.float64)
            return sums[:, None]
        classes = int(self.response.max()) + 1
        cells = codes.astype(np.int64) * classes + self.response
        return np.bincount(cells, minlength=size * classes).reshape(size, classes).astype(np.float64)


def nominal(codes: NDArray[Any]) -> Target:
    """Codes that are names."""
    levels, classes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    rank = np.empty(len(levels), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(levels))
    return Target(codes, np.minimum(rank, _MOST_CLASSES - 1)[classes], is_number=False)


def numeric(codes: NDArray[Any], numbers: NDArray[np.float64]) -> Target:
    """Codes that stand for numbers, which are put on a scale from 0 to 1."""
    values = numbers[codes]
    low, width = values.min(), np.ptp(values)
    return Target(codes, (values - low) / (width or 1.0), is_number=True)
