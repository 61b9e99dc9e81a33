r"""Membership inference by DCR: whether records of train are nearer to synthetic ones than others.

The attack's score of a record is how near the closest synthetic record lies; members are records of
train, others records of holdout. Each record is measured to the same synthetic ones, so the numbers of
members and others need not be equal. The area under its curve is the probability, ties half, that a
random member is nearer than a random other record (Mann and Whitney). Its interval holds the areas A
from which the one found is at most z standard errors away, as Wilson's does for a proportion; with m
members, n others and :math:`N = (m + n) / 2`,

.. math:: SE(A)^2 = \frac{A (1 - A)}{m n}
   \Big(1 + (N - 1) \Big(\frac{1 - A}{2 - A} + \frac{A}{1 + A}\Big)\Big).

Attacks by distance are weak (Annamalai et al., arXiv 2405.10994): an area of 1/2 shows nothing, and no
number here bounds epsilon.

References:
    R. G. Newcombe, "Confidence Intervals for an Effect Size Measure Based on the Mann-Whitney Statistic,
    Part 2", Statistics in Medicine 25, 2006 (method 5).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.privacy.attacks.attack import Tables
from gencard.core.privacy.attacks.neighbours import DIGITS
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.nearest import nearest
from gencard.core.privacy.proportion import Proportion, quantile

_HALVINGS = 60
"""Until the edge of an interval is exact to rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """How far members and others lie from the closest synthetic record: 0 to 1, ascending, without NaN.

    Raises:
        InvalidDatasetError: There is no member, or no other record.
    """

    members: NDArray[np.float64]
    others: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("members", "others"):
            distances = np.asarray(getattr(self, name), np.float64)
            ordered = np.sort(np.round(distances[~np.isnan(distances)], DIGITS))
            ordered.flags.writeable = False
            object.__setattr__(self, name, ordered)
        if not (len(self.members) and len(self.others)):
            raise InvalidDatasetError(
                problem="distances of members and of other records are both needed"
            )

    @property
    def area(self) -> float:
        """Area under the curve, 0 to 1; 1/2 is what luck gives."""
        nearer, not_farther = (
            np.searchsorted(self.members, self.others, side) for side in ("left", "right")
        )
        return float(np.mean(nearer + not_farther)) / (2 * len(self.members))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Lowest and highest area, 0 to 1.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        z = quantile(confidence)
        return self._edge(0.0, z), self._edge(1.0, z)

    def caught(self, others: float) -> tuple[Proportion, Proportion]:
        """Members and others nearer than a distance, the largest that catches few others.

        It is chosen by the same records that are counted, and never parts ties: where many others are
        at distance 0, nobody is caught.

        Args:
            others: The largest share, 0 to 1, of others that may be caught.

        Raises:
            InvalidNumberError: The share is not from 0 to 1.
        """
        if not 0 <= others <= 1:
            raise InvalidNumberError(field="The share of others", expected="from 0 to 1")
        allowed = int(others * len(self.others))
        limit = np.append(self.others, np.inf)[allowed]
        hits, alarms = (int(np.searchsorted(side, limit)) for side in (self.members, self.others))
        return Proportion(hits, len(self.members)), Proportion(alarms, len(self.others))

    def _edge(self, outside: float, z: float) -> float:
        """Where the interval ends on the way from the area found to 0 or 1, by bisection."""
        inside = self.area
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if abs(middle - self.area) <= z * self._stderr(middle):
                inside = middle
            else:
                outside = middle
        return inside

    def _stderr(self, area: float) -> float:
        """Standard error of the area that is found where the true one is this."""
        m, n = len(self.members), len(self.others)
        spread = (1 - area) / (2 - area) + area / (1 + area)
        return sqrt(area * (1 - area) / (m * n) * (1 + ((m + n) / 2 - 1) * spread))


def membership(tables: Tables, gower: Gower) -> Membership:
    """Measure records of train and of holdout to the closest synthetic ones.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
        InvalidDatasetError: No record of train, or none of holdout, can be compared.
    """
    results = (
        nearest(table, tables.synthetic, gower, second=False) for table in (tables.train, tables.holdout)
    )
    return Membership(*(each.distance for each in results))
