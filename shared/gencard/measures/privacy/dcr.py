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
as given. Without copying the expected share is one half on average over all holdouts that might have
been drawn: the few records of a small holdout win or lose many rows, so that an interval beside one half
proves nothing. The tests below do.

**Tests by labels** use all of train. Rows that were made without copying do not know which of the N
records of train and holdout are in the holdout: every choice of so many records is as likely, given the
rows. So whatever number each record has, the m numbers of the holdout are a simple random sample of all
N. ``nearness_test`` takes the distance to the closest row, ``clone_test`` whether some row equals the
record. Both are exact, and state the smallest share of copies among the rows that they detect with
probability 0.8.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import exp, log1p, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.types import FloatArray
from gencard.measures.privacy.attacks import Proportion, quantile
from gencard.measures.privacy.distances import Gower, Records
from gencard.measures.privacy.nearest import nearest

TIE = 1e-12
"""Distances that differ by less are equal: equal sums, added in another order."""


@dataclass(frozen=True, slots=True)
class CloserShare:
    """Counts of records that are closer to train. All shares are of the records compared, 0 to 1.

    Args:
        records: Synthetic records that have a distance to both.
        closer: Those strictly closer to train.
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
    def by_size(self) -> float:
        """Share that the sizes of train and holdout alone would give."""
        return self.sizes[0] / sum(self.sizes)


def scores(to_train: NDArray[np.float64], to_holdout: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 for each record closer to train, 1/2 for a tie, 0 otherwise; NaN without a distance."""
    lead = to_holdout - to_train
    return np.where(np.abs(lead) <= TIE, 0.5, np.where(np.isnan(lead), np.nan, lead > 0))


def closer_share(
    to_train: NDArray[np.float64], to_holdout: NDArray[np.float64], sizes: tuple[int, int]
) -> CloserShare:
    """Compare the distances of each synthetic record to the closest of train and of holdout."""
    if to_train.shape != to_holdout.shape:
        raise InvalidDatasetError(problem="distances to train and to holdout differ in number")
    scored = scores(to_train, to_holdout)
    scored = scored[~np.isnan(scored)]
    if not len(scored):
        raise InvalidDatasetError(problem="no record has a distance to both train and holdout")
    return CloserShare(len(scored), int(np.sum(scored == 1)), int(np.sum(scored == 0.5)), sizes)


@dataclass(frozen=True, slots=True)
class EqualShare:
    """The share closer to train, 0 to 1, ties counting half.

    Args:
        share: Mean over the draws.
        size: Records of train and of holdout in each draw.
        draws: How often was drawn; 1 where the sizes are equal already.
    """

    share: float
    stderr: float
    size: int
    draws: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Normal interval, inside 0 to 1."""
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
    """Compare with equally many records of train and of holdout."""
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
    scored = scored[:, ~np.isnan(scored).any(axis=0)]
    records = scored.shape[1]
    if not records:
        raise InvalidDatasetError(problem="no record has a distance to both train and holdout")
    averages, shares = scored.mean(axis=0), scored.mean(axis=1)
    between = float(shares.var(ddof=1)) / draws if draws > 1 else 0.0
    within = float(averages.var(ddof=1)) / records if records > 1 else 0.25
    return EqualShare(float(shares.mean()), sqrt(within + between), size, draws)


LEVEL = 0.025
"""Level of the tests by labels, one-sided: that of one end of a 95 % interval."""

POWER = 0.8

_PERMUTATIONS = 9_999
_DIGITS = 10
"""Distances that agree so far are equal."""
_SAME = 1e-6
_FEW = 40
"""Distances, or records of a table, up to which the rank sum is not taken to be normal."""


@dataclass(frozen=True, slots=True)
class LabelTest:
    """A test by labels.

    Args:
        p_value: Of the hypothesis that rows do not know which records are in train; one-sided.
        detectable: Smallest share of copies among the rows that the test detects with probability
            ``POWER``, about; None where it would not even detect rows that are all copies.
    """

    p_value: float
    detectable: float | None

    @property
    def rejects(self) -> bool:
        return self.p_value <= LEVEL


def nearness_test(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], rows: int, *, rng: np.random.Generator
) -> LabelTest:
    """Test whether records of holdout are further from the rows: the rank sum test, with ties.

    Args:
        ours: Distance of each record of train to the closest row; ``theirs`` of holdout. NaN is none.
    """
    ours, theirs = (np.round(each[~np.isnan(each)], _DIGITS) for each in (ours, theirs))
    if not (len(ours) and len(theirs)):
        raise InvalidDatasetError(problem="no record of train, or of holdout, has a distance")
    both = np.concatenate([ours, theirs])
    _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    of_records = ranks[place.reshape(-1)]
    mean = float(of_records[len(ours) :].mean())
    error = sqrt(float(of_records.var(ddof=1)) * len(ours) / len(both) / len(theirs))
    if len(counts) > _FEW and min(len(ours), len(theirs)) > _FEW:
        p_value = float(scipy.special.ndtr((of_records.mean() - mean) / error))
    else:
        random = _means(of_records, counts, ranks, len(theirs), rng)
        p_value = (1 + int(np.sum(random >= mean - _SAME))) / (1 + _PERMUTATIONS)
    apart = float(np.mean(theirs > 0)) / 2
    # Standard errors between the hypothesis and what is detected with probability POWER.
    errors = float(scipy.special.ndtri(1 - LEVEL) + scipy.special.ndtri(POWER))
    sizes = len(ours), len(theirs)
    return LabelTest(p_value, _copies(errors * error / len(ours), apart, sizes, rows))


def _means(
    of_records: FloatArray,
    counts: NDArray[np.int64],
    ranks: FloatArray,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Mean ranks of random choices of so many records."""
    if len(counts) <= _FEW:
        return np.asarray(rng.multivariate_hypergeometric(counts, size, _PERMUTATIONS) @ ranks / size)
    # One table is small: choose from the larger, or what is left of it, the smaller one's records.
    few = min(size, len(of_records) - size)
    chosen = np.array(
        [rng.choice(len(of_records), few, replace=False, shuffle=False) for _ in range(_PERMUTATIONS)]
    )
    sums = of_records[chosen].sum(axis=1)
    return np.asarray(sums if few == size else of_records.sum() - sums) / size


def _copies(gap: float, apart: float, sizes: tuple[int, int], rows: int) -> float | None:
    """Share of the rows whose copies move the area under the curve by ``gap``.

    Args:
        apart: How far it moves where every record of train is copied.
        sizes: Records of train and of holdout.
    """
    train, holdout = sizes
    # Copied records of train prove something only if a holdout without any of them is unlikely.
    copied = max(gap / apart if apart else 1.0, 1 - LEVEL ** (1 / holdout))
    if copied >= 1:
        return None
    share = -train / rows * log1p(-copied)
    return share if share <= 1 else None


def clone_test(ours: Proportion, theirs: Proportion, rows: int, alike: float) -> LabelTest:
    """Test whether rows equal too few records of holdout: Fisher's exact test.

    Args:
        ours: Records of train that equal some row, of all; ``theirs`` those of holdout.
        alike: Share of records that equal some row without copying, as far as is known.
    """
    equal = ours.successes + theirs.successes
    records = ours.attempts + theirs.attempts
    p_value = float(scipy.stats.hypergeom.cdf(theirs.successes, records, equal, theirs.attempts))
    low, high = 0.0, 1.0
    if _power(ours.attempts, theirs.attempts, alike, rows) < POWER:
        return LabelTest(min(1.0, p_value), None)
    while high - low > _PRECISION:
        middle = (low + high) / 2
        enough = _power(ours.attempts, theirs.attempts, alike, middle * rows) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return LabelTest(min(1.0, p_value), high)


_PRECISION = 0.002
"""In shares of the rows, to which the smallest share of copies is found."""


_MIDDLES = (np.arange(9) + 0.5) / 9
"""Probabilities at whose quantiles a binomial number stands for its distribution."""


def _power(train: int, holdout: int, alike: float, copies: float) -> float:
    """Probability that ``clone_test`` rejects, given so many copies of random records of train."""
    share = 1 - (1 - alike) * exp(-copies / train)
    numbers = np.unique(scipy.stats.binom.ppf(_MIDDLES, train, share), return_counts=True)
    power = 0.0
    for ours, weight in zip(*numbers, strict=True):

        def keeps(theirs: int, ours: float = ours) -> bool:
            tail = scipy.stats.hypergeom.cdf(theirs, train + holdout, ours + theirs, holdout)
            return bool(tail > LEVEL)

        fewest = bisect_left(range(holdout + 1), True, key=keeps)
        power += weight / len(_MIDDLES) * float(scipy.stats.binom.cdf(fewest - 1, holdout, alike))
    return power
