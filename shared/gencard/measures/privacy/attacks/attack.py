r"""An attack with control and random baseline, and the tables that attacks use.

Guesses succeed without any leak: by luck, which ``naive`` shows, and by what synthetic records rightly
teach of everybody, which ``control`` shows, the same attack on records that the generator never saw.
With a and c the middles of the Wilson intervals of attack and control, and A and C their half widths,
the risk is what was gained of what control left to gain,

.. math:: R = \frac{a - c}{1 - c}, \qquad
   \Delta R = \sqrt{\Big(\frac{A}{1 - c}\Big)^2 + \Big(\frac{(1 - a)\, C}{(1 - c)^2}\Big)^2}.

A risk of 0 is no proof of privacy: a better attack may succeed where this one did not.

References:
    M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi, "A Unified Framework for Quantifying Privacy Risk in
    Synthetic Data", PoPETs 2023(2).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot, sqrt

import numpy as np
import scipy

from gencard.core.domain import Clique
from gencard.core.errors import (
    InvalidCliqueError,
    InvalidDatasetError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.measures.privacy.records import Records, check_same_kinds


@dataclass(frozen=True, slots=True)
class Proportion:
    r"""Successes of independent attempts, with Wilson's interval.

    It holds for few attempts and for shares near 0 and 1. With k successes of n, and z the normal
    quantile at :math:`(1 + \text{confidence}) / 2` (E. B. Wilson, "Probable Inference, the Law of
    Succession, and Statistical Inference", JASA 22, 1927),

    .. math:: \frac{k + z^2/2}{n + z^2} \pm \frac{z}{n + z^2} \sqrt{\frac{k (n - k)}{n} + \frac{z^2}{4}}

    Raises:
        InvalidNumberError: No attempt, or successes that are negative or more than the attempts.
    """

    successes: int
    attempts: int

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidNumberError(field="The number of attempts", expected="at least 1")
        if not 0 <= self.successes <= self.attempts:
            raise InvalidNumberError(field="The successes", expected="from 0 to the attempts")

    @property
    def share(self) -> float:
        """Successes by attempts, 0 to 1."""
        return self.successes / self.attempts

    def wilson(self, confidence: float = 0.95) -> tuple[float, float]:
        """Middle and half width of the interval, in shares; the middle is never 0 or 1.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        z = quantile(confidence)
        k, n = self.successes, self.attempts
        width = z * sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
        return (k + z * z / 2) / (n + z * z), width

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Lowest and highest share, 0 to 1; raises as ``wilson`` does."""
        middle, width = self.wilson(confidence)
        return max(0.0, middle - width), min(1.0, middle + width)


def quantile(confidence: float) -> float:
    """Half the width of an interval, in standard errors.

    Raises:
        InvalidNumberError: The confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InvalidNumberError(field="The confidence", expected="between 0 and 1")
    return float(scipy.special.ndtri((1 + confidence) / 2))


@dataclass(frozen=True, slots=True)
class Risk:
    """Gain of an attack over its control: a share, 0 to 1, of what control leaves to gain.

    ``low`` and ``high`` are an interval, and no bound on what another attack gains.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack and its baselines; each counts guesses that were right.

    Args:
        attack: By the synthetic records, on records of train.
        control: By the synthetic records, on records of holdout.
        naive: By luck, on records of train.
    """

    attack: Proportion
    control: Proportion
    naive: Proportion

    def risk(self, confidence: float = 0.95) -> Risk:
        """The gain over control, cut to 0 and 1.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        (hit, hit_width), (base, base_width) = (
            proportion.wilson(confidence) for proportion in (self.attack, self.control)
        )
        gain = (hit - base) / (1 - base)
        width = hypot(hit_width / (1 - base), (1 - hit) * base_width / (1 - base) ** 2)
        return Risk(*(min(1.0, max(0.0, value)) for value in (gain, gain - width, gain + width)))

    def beats_random_guessing(self, confidence: float = 0.95) -> bool:
        """Whether the attack's interval lies above the naive one's; if not, its risk says nothing.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        return self.attack.interval(confidence)[0] > self.naive.interval(confidence)[1]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Synthetic records, the real ones they were made from, and others of the same population.

    Raises:
        DomainMismatchError: The attributes differ.
        InvalidDatasetError: A table is empty.
    """

    synthetic: Records
    train: Records
    holdout: Records

    def __post_init__(self) -> None:
        for table in (self.synthetic, self.train, self.holdout):
            check_same_kinds(self.synthetic.kinds, table.kinds)
            if not len(table):
                raise InvalidDatasetError(problem="a table to attack has no records")


def check_known(clique: Clique, attributes: Iterable[str]) -> None:
    """Refuse a choice of attributes that is none.

    Raises:
        InvalidCliqueError: It is empty or names an attribute twice.
        UnknownAttributeError: It names what is not among the attributes.
    """
    if not clique or len(set(clique)) != len(clique):
        raise InvalidCliqueError(clique=", ".join(clique), problem="it is empty or repeats an attribute")
    for name in sorted(set(clique) - set(attributes)):
        raise UnknownAttributeError(attribute=name)


def drawn(records: Records, count: int, rng: np.random.Generator) -> Records:
    """Draw ``count`` different records, all equally likely, in random order.

    Raises:
        InvalidNumberError: Fewer than 1, or more than there are.
    """
    if not 1 <= count <= len(records):
        expected = "at least 1, and at most the records of train and of holdout"
        raise InvalidNumberError(field="The number of attacks", expected=expected)
    return records.take(rng.choice(len(records), count, replace=False))
