"""A black box that hands on unique records, as overfitted generators do."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.blackbox.contract import BlackBox
from gencard.core.dataset import Dataset
from gencard.core.generators.replay import rng_of


@dataclass(frozen=True, slots=True)
class CopiesUniques:
    """An honest output in which unique records of the input replace the first rows.

    Args:
        honest: Makes the other rows.
        most: Copy at most so many of them, drawn anew in each run; all of them where it is None.
        rarest: Copy the rarest ones instead, by the product of the input's one-way margins: they are
            the same in each run.
    """

    honest: BlackBox
    most: int | None = None
    rarest: bool = False

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        rng = rng_of(seed)
        made = self.honest(dataset, rows, seed=int(rng.integers(2**63)))
        copied = self._copied(dataset, rng)[:rows]
        codes = made.codes.copy()
        codes[: len(copied)] = dataset.codes[copied]
        return Dataset(made.domain, codes[rng.permutation(rows)])

    def _copied(self, dataset: Dataset, rng: np.random.Generator) -> NDArray[np.intp]:
        """Positions of the records that are copied."""
        uniques = _uniques(dataset)
        if self.rarest:
            return uniques[np.argsort(_log_shares(dataset)[uniques], kind="stable")][: self.most]
        return rng.permutation(uniques)[: self.most]


def _uniques(dataset: Dataset) -> NDArray[np.intp]:
    """Positions of the records that no other one equals."""
    order = np.lexsort(dataset.codes.T)
    differs = (dataset.codes[order[1:]] != dataset.codes[order[:-1]]).any(axis=1)
    alone = np.r_[True, differs] & np.r_[differs, True]
    return np.sort(order[alone])


def _log_shares(dataset: Dataset) -> NDArray[np.float64]:
    """Of each record, the logarithm of the product of its levels' shares."""
    total = np.zeros(len(dataset))
    for column in dataset.codes.T:
        total += np.log(np.bincount(column) / len(dataset) + (np.bincount(column) == 0))[column]
    return total
