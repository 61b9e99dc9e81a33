"""Whether the order of the rows says anything: what neighbouring rows look like together."""

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.types import FloatArray

MOST_LEVELS = 64
"""Finer attributes are looked at in so many classes."""


def neighbour_shares(dataset: Dataset) -> FloatArray:
    """For each attribute, how often each level follows each other one from row to row.

    Returns:
        The tables one after the other, each in shares of the pairs of neighbouring rows.
    """
    pairs = max(len(dataset) - 1, 1)
    return np.concatenate([_pairs(dataset, axis) / pairs for axis in range(len(dataset.domain))])


def _pairs(dataset: Dataset, axis: int) -> FloatArray:
    size = dataset.domain.sizes[axis]
    levels = min(size, MOST_LEVELS)
    codes = dataset.codes[:, axis].astype(np.int64) * levels // size
    return np.bincount(codes[:-1] * levels + codes[1:], minlength=levels**2).astype(np.float64)
