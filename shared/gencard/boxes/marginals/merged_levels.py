"""Levels that noise drowns, taken together before pairs are measured, and taken apart again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.statistics.reconcile import reconcile
from gencard.core.statistics.table import total

_DROWNED = 3.0
"""A level is rare where its noisy count is below so many standard deviations."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """What became of the levels of one attribute.

    Args:
        merged: For each level its number after merging: frequent ones first, then all rare ones as one.
        shares: For each level its share of that number: 1 for frequent ones.
    """

    merged: NDArray[np.int64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, measured: Measurement) -> "Levels":
        """From a noisy marginal on one attribute; a single rare level has nothing to be merged with."""
        rare = np.flatnonzero(measured.values < _DROWNED * measured.stddev)
        shares = np.ones(measured.values.size)
        if rare.size < 2:
            return cls(np.arange(measured.values.size), shares)
        frequent = np.setdiff1d(np.arange(measured.values.size), rare)
        merged = np.full(measured.values.size, frequent.size)
        merged[frequent] = np.arange(frequent.size)
        shares[rare] = _within(measured.values[rare], measured.stddev)
        return cls(merged, shares)

    @property
    def size(self) -> int:
        """Number of levels after merging."""
        return int(self.merged.max()) + 1

    def summed(self, measured: Measurement) -> Measurement:
        """The marginal after merging; its stddev is the root of the mean variance of its counts."""
        values = np.bincount(self.merged, weights=measured.values, minlength=self.size)
        spread = (measured.values.size / self.size) ** 0.5
        return Measurement(measured.clique, np.rint(values).astype(np.int64), measured.stddev * spread)


@dataclass(frozen=True, slots=True, eq=False)
class MergedLevels:
    """A domain before and after merging; all of it follows from noisy marginals."""

    domain: Domain
    levels: tuple[Levels, ...]

    @classmethod
    def of(cls, domain: Domain, measured: Sequence[Measurement]) -> "MergedLevels":
        """From the noisy marginals of all attributes, in the domain's order."""
        return cls(domain, tuple(Levels.of(marginal) for marginal in measured))

    @property
    def small(self) -> Domain:
        """The domain after merging."""
        return Domain(self.domain.attributes, tuple(levels.size for levels in self.levels))

    def merged(self, dataset: Dataset) -> Dataset:
        """The records after merging."""
        columns = [
            levels.merged[dataset.codes[:, axis]].astype(np.uint16)
            for axis, levels in enumerate(self.levels)
        ]
        return Dataset.of_columns(self.small, columns)

    def apart(self, model: TreeModel) -> TreeModel:
        """The model before merging: a rare level has its share, whatever other attributes are."""
        tables = [
            self._apart(table, self.domain.axes(clique))
            for clique, table in zip(model.tree.cliques, model.tables, strict=True)
        ]
        return TreeModel(self.domain, model.tree, tuple(tables))

    def _apart(self, table: NDArray[Any], attributes: Sequence[int]) -> NDArray[np.float64]:
        for axis, attribute in enumerate(attributes):
            levels = self.levels[attribute]
            shape = [1] * table.ndim
            shape[axis] = -1
            table = np.take(table, levels.merged, axis=axis) * levels.shares.reshape(shape)
        return table


def _within(counts: NDArray[Any], stddev: float) -> NDArray[np.float64]:
    """Shares of rare levels among each other, from what noise left of them."""
    domain = Domain.of({"level": counts.size})
    found = reconcile(Psi(domain, (Measurement(("level",), counts, stddev),))).measurements[0].values
    shares: NDArray[np.float64] = found / total(found)
    return shares
