r"""The share closer to train, with train and holdout made equally large.

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
from gencard.core.privacy.distances.closer_share import scores
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.nearest import nearest
from gencard.core.privacy.proportion import quantile
from gencard.core.privacy.records import Records


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
    found = np.empty((draws, len(synthetic)))
    for draw in range(draws):
        sample = larger.take(rng.choice(len(larger), size, replace=False))
        to_larger = nearest(synthetic, sample, gower, second=False).distance
        both = (to_larger, to_smaller) if larger is train else (to_smaller, to_larger)
        found[draw] = scores(*both)
    return _summary(found, size)


def _summary(found: NDArray[np.float64], size: int) -> EqualShare:
    """Mean and standard error of scores, shape ``(draws, records)``."""
    found = found[:, ~np.isnan(found).any(axis=0)]
    draws, records = found.shape
    if not records:
        raise InvalidDatasetError(problem="no record has a distance to both train and holdout")
    averages, shares = found.mean(axis=0), found.mean(axis=1)
    between = float(shares.var(ddof=1)) / draws if draws > 1 else 0.0
    within = float(averages.var(ddof=1)) / records if records > 1 else 0.25
    return EqualShare(float(shares.mean()), sqrt(within + between), size, draws)
