r"""The share of synthetic records that are closer to train than to holdout.

It should be one half only where train and holdout are equally large. If synthetic, train and holdout
records are independent draws from one population, the closest record is in train with probability
:math:`|T| / (|T| + |H|)`, however near it is; see ``equal_share`` for the remedy.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidDatasetError

TIE = 1e-12
"""Distances that differ by less are equal: equal sums, added in another order."""


@dataclass(frozen=True, slots=True)
class CloserShare:
    """How many records are closer to train. All shares are of the records compared, 0 to 1.

    Args:
        records: Synthetic records that have a distance to both.
        closer: Those strictly closer to train.
        tied: Those equally near.
        sizes: Records of train and of holdout.
    """

    records: int
    closer: int
    tied: int
    sizes: tuple[int, int]

    @property
    def strict(self) -> float:
        return self.closer / self.records

    @property
    def ties(self) -> float:
        return self.tied / self.records

    @property
    def half_ties(self) -> float:
        """Strictly closer ones, and half of the ties."""
        return (self.closer + self.tied / 2) / self.records

    @property
    def protection(self) -> float:
        """Twice the share not strictly closer, at most 1: SDMetrics' DCROverfittingProtection."""
        return min(2 * (1 - self.strict), 1.0)

    @property
    def by_size(self) -> float:
        """What the sizes of train and holdout alone make of it."""
        return self.sizes[0] / sum(self.sizes)


def scores(to_train: NDArray[np.float64], to_holdout: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 for each record closer to train, 1/2 for a tie, 0 otherwise; NaN without a distance."""
    lead = to_holdout - to_train
    return np.where(np.abs(lead) <= TIE, 0.5, np.where(np.isnan(lead), np.nan, lead > 0))


def closer_share(
    to_train: NDArray[np.float64], to_holdout: NDArray[np.float64], sizes: tuple[int, int]
) -> CloserShare:
    """Compare the distances of each synthetic record to the closest of train and of holdout.

    Raises:
        InvalidDatasetError: Not one distance of each kind for each record, or none is defined.
    """
    if to_train.shape != to_holdout.shape:
        raise InvalidDatasetError(problem="distances to train and to holdout differ in number")
    found = scores(to_train, to_holdout)
    found = found[~np.isnan(found)]
    if not len(found):
        raise InvalidDatasetError(problem="no record has a distance to both train and holdout")
    return CloserShare(len(found), int(np.sum(found == 1)), int(np.sum(found == 0.5)), sizes)
