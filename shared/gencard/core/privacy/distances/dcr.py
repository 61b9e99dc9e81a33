r"""Distance to the closest record (DCR): synthetic records to train and to holdout, beside real ones.

DCR is no proof of privacy. Records can be reconstructed from generators that pass such tests, since
the tests themselves tell about the records (Ganev, De Cristofaro, "The Inadequacy of Similarity-based
Privacy Metrics", arXiv 2312.05114); what an attack by distances finds is a weak lower bound on what
leaks (Annamalai et al., arXiv 2405.10994). A large share of near copies shows a leak; a small one shows
nothing.

The share of synthetic records that are closer to train than to holdout.

It should be one half only where train and holdout are equally large. If synthetic, train and holdout
records are independent draws from one population, the closest record is in train with probability
:math:`|T| / (|T| + |H|)`, however near it is; see ``equal_share`` for the remedy.

The share closer to train, with train and holdout made equally large.

The larger of the two is drawn from without replacement, again and again, to the size of the smaller.
A record's score (1, 1/2 for a tie, 0) is averaged over the draws. With n synthetic records, :math:`s^2`
the variance of these averages, R draws and :math:`v` the variance of the draws' shares,

.. math:: SE^2 = \frac{s^2}{n} + \frac{v}{R}

The interval takes synthetic records as independent draws from the generator; train and holdout are
as given. Without copying, the expected share is one half.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.privacy.attacks.attack import quantile
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.nearest import Nearest, nearest
from gencard.core.privacy.records import Records

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
    scored = scores(to_train, to_holdout)
    scored = scored[~np.isnan(scored)]
    if not len(scored):
        raise InvalidDatasetError(problem="no record has a distance to both train and holdout")
    return CloserShare(len(scored), int(np.sum(scored == 1)), int(np.sum(scored == 0.5)), sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Dcr:
    """Nearest records of three tables, all by one distance.

    Args:
        to_train: Of each synthetic record in train.
        to_holdout: Of each synthetic record in holdout.
        baseline: Of each train record in holdout: how near real records are that nobody copied.
        share: How many synthetic records are closer to train.
    """

    to_train: Nearest
    to_holdout: Nearest
    baseline: Nearest
    share: CloserShare


def dcr(synthetic: Records, train: Records, holdout: Records, gower: Gower) -> Dcr:
    """Distances to the closest records; ``gower_of(train, holdout)`` fixes the ranges.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
        InvalidDatasetError: A table is empty.
    """
    for table in (synthetic, train, holdout):
        gower.check(table)
        if not len(table):
            raise InvalidDatasetError(problem="a table to compare has no records")
    to_train, to_holdout = (nearest(synthetic, table, gower) for table in (train, holdout))
    return Dcr(
        to_train,
        to_holdout,
        nearest(train, holdout, gower),
        closer_share(to_train.distance, to_holdout.distance, (len(train), len(holdout))),
    )


@dataclass(frozen=True, slots=True)
class EqualShare:
    """The share closer to train, 0 to 1, ties counting half.

    Args:
        share: Mean over the draws.
        stderr: Its standard error.
        size: Records of train and of holdout in each draw.
        draws: How often was drawn; 1 where the sizes are equal already.
    """

    share: float
    stderr: float
    size: int
    draws: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Normal interval, inside 0 to 1.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        reach = quantile(confidence) * self.stderr
        return max(0.0, self.share - reach), min(1.0, self.share + reach)


def equal_share(
    synthetic: Records,
    train: Records,
    holdout: Records,
    gower: Gower,
    *,
    draws: int,
    rng: np.random.Generator,
) -> EqualShare:
    """Compare with equally many records of train and of holdout.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
        InvalidDatasetError: A table is empty, or no record has a distance to both.
        InvalidNumberError: Fewer than 2 draws.
    """
    if draws < 2:
        raise InvalidNumberError(field="The number of draws", expected="at least 2")
    size = min(len(train), len(holdout))
    if not size or not len(synthetic):
        raise InvalidDatasetError(problem="a table to compare has no records")
    if len(train) == len(holdout):
        draws = 1
    to_smaller = nearest(synthetic, min(train, holdout, key=len), gower, second=False).distance
    larger = train if len(train) > size else holdout
    scored = np.empty((draws, len(synthetic)))
    for draw in range(draws):
        sample = larger.take(rng.choice(len(larger), size, replace=False))
        to_larger = nearest(synthetic, sample, gower, second=False).distance
        both = (to_larger, to_smaller) if larger is train else (to_smaller, to_larger)
        scored[draw] = scores(*both)
    return _summary(scored, size)


def _summary(scored: NDArray[np.float64], size: int) -> EqualShare:
    """Mean and standard error of scores, shape ``(draws, records)``."""
    scored = scored[:, ~np.isnan(scored).any(axis=0)]
    draws, records = scored.shape
    if not records:
        raise InvalidDatasetError(problem="no record has a distance to both train and holdout")
    averages, shares = scored.mean(axis=0), scored.mean(axis=1)
    between = float(shares.var(ddof=1)) / draws if draws > 1 else 0.0
    within = float(averages.var(ddof=1)) / records if records > 1 else 0.25
    return EqualShare(float(shares.mean()), sqrt(within + between), size, draws)
