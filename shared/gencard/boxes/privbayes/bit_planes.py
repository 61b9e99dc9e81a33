"""Records as bits: small tables of many attributes with the same parents, 64 records at a time."""

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.types import IntArray

Planes = NDArray[np.uint64]
"""One row of bits for each of several levels or cells; a bit says whether a record lies there."""

_WORD = 64
"""Bits, and records."""


class BitPlanes:
    """The records of one dataset, attribute by attribute, as they are asked for."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._found: dict[str, Planes] = {}

    def joints(self, parents: Clique, attributes: Clique) -> IntArray:
        """Counts of each attribute's levels in each cell of the parents.

        Args:
            attributes: Of one size.

        Returns:
            Shape ``(attributes, cells of the parents, levels)``, in records.
        """
        size = self._dataset.domain.size(attributes[0])
        levels = np.concatenate([self._levels(name)[:-1] for name in attributes])
        cells = self._cells(parents)
        joints = np.empty((len(attributes), len(cells), size), dtype=np.int64)
        held = np.empty_like(levels)
        for number, cell in enumerate(cells):
            np.bitwise_and(levels, cell, out=held)
            joints[:, number, :-1] = _bits(held).reshape(len(attributes), size - 1)
        joints[:, :, -1] = _bits(cells) - joints[:, :, :-1].sum(axis=2)  # the level left out above
        return joints

    def _cells(self, parents: Clique) -> Planes:
        """One row for each cell, the last parent running fastest."""
        cells = _packed(np.ones((1, len(self._dataset)), dtype=bool))
        for name in parents:
            joined = cells[:, None] & self._levels(name)
            cells = joined.reshape(-1, joined.shape[2])
        return cells

    def _levels(self, name: str) -> Planes:
        if name not in self._found:
            levels = np.arange(self._dataset.domain.size(name))
            self._found[name] = _packed(self._dataset.column(name) == levels[:, None])
        return self._found[name]


def _packed(rows: NDArray[np.bool_]) -> Planes:
    """Rows of truths as rows of bits, with zeros up to whole words; one at least."""
    words = max(1, -(-rows.shape[1] // _WORD))
    packed = np.zeros((len(rows), words * _WORD // 8), dtype=np.uint8)
    found = np.packbits(rows, axis=1)
    packed[:, : found.shape[1]] = found
    return packed.view(np.uint64)


def _bits(planes: Planes) -> IntArray:
    """The bits that are set in each row."""
    found: IntArray = np.bitwise_count(planes).sum(axis=1, dtype=np.uint32).astype(np.int64)
    return found
