r"""Attacks with control and random baseline, the tables that they use, and singling out.

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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import hypot, sqrt
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.errors import (
    ComputationError,
    InvalidCliqueError,
    InvalidDatasetError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.measures.privacy.distances import Positions
from gencard.measures.privacy.records import Records, check_same_kinds, present


@dataclass(frozen=True, slots=True)
class Proportion:
    r"""Successes of independent attempts, with Wilson's interval.

    It holds for few attempts and for shares near 0 and 1. With k successes of n, and z the normal
    quantile at :math:`(1 + \text{confidence}) / 2` (E. B. Wilson, "Probable Inference, the Law of
    Succession, and Statistical Inference", JASA 22, 1927),

    .. math:: \frac{k + z^2/2}{n + z^2} \pm \frac{z}{n + z^2} \sqrt{\frac{k (n - k)}{n} + \frac{z^2}{4}}
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
        """Middle and half width of the interval, in shares; the middle is never 0 or 1."""
        z = quantile(confidence)
        k, n = self.successes, self.attempts
        width = z * sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
        return (k + z * z / 2) / (n + z * z), width

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Lowest and highest share, 0 to 1."""
        middle, width = self.wilson(confidence)
        return max(0.0, middle - width), min(1.0, middle + width)


def quantile(confidence: float) -> float:
    """Half the width of an interval, in standard errors."""
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
        """The gain over control, cut to 0 and 1."""
        (hit, hit_width), (base, base_width) = (
            proportion.wilson(confidence) for proportion in (self.attack, self.control)
        )
        gain = (hit - base) / (1 - base)
        width = hypot(hit_width / (1 - base), (1 - hit) * base_width / (1 - base) ** 2)
        return Risk(*(min(1.0, max(0.0, value)) for value in (gain, gain - width, gain + width)))

    def beats_random_guessing(self, confidence: float = 0.95) -> bool:
        """Whether the attack's interval lies above the naive one's; if not, its risk says nothing."""
        return self.attack.interval(confidence)[0] > self.naive.interval(confidence)[1]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Synthetic records, the real ones they were made from, and others of the same population."""

    synthetic: Records
    train: Records
    holdout: Records

    def __post_init__(self) -> None:
        for table in (self.synthetic, self.train, self.holdout):
            check_same_kinds(self.synthetic.kinds, table.kinds)
            if not len(table):
                raise InvalidDatasetError(problem="a table to attack has no records")


def check_known(clique: Clique, attributes: Iterable[str]) -> None:
    """Refuse a choice of attributes that is none."""
    if not clique or len(set(clique)) != len(clique):
        raise InvalidCliqueError(clique=", ".join(clique), problem="it is empty or repeats an attribute")
    for name in sorted(set(clique) - set(attributes)):
        raise UnknownAttributeError(attribute=name)


def drawn(records: Records, count: int, rng: np.random.Generator) -> Records:
    """Draw ``count`` different records, all equally likely, in random order."""
    if not 1 <= count <= len(records):
        expected = "at least 1, and at most the records of train and of holdout"
        raise InvalidNumberError(field="The number of attacks", expected=expected)
    return records.take(rng.choice(len(records), count, replace=False))


# Singling out: whether synthetic records tell conditions that exactly one real record meets.
#
# The attack takes conditions that exactly one synthetic record meets, and guesses that they hold for
# exactly one record of train. By luck one takes conditions with any values that occur in holdout.
#
# How likely conditions single a record out depends on how many records there are, so the larger of train
# and holdout is drawn from to the size of the smaller; numbers of successes are counted, never fitted,
# and speak of tables of that size. (Giomi et al.)
#
# A guess is a predicate: conditions on attributes that are to hold together for exactly one record.


class Relation(StrEnum):
    """Relation of a record's value to a condition's value; only numbers have an order."""

    EQUAL = "equal"
    AT_MOST = "at most"
    AT_LEAST = "at least"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class AttributeCondition:
    """A condition on one attribute, in its own unit; ``value`` is 0 where it is to be missing."""

    axis: int
    relation: Relation
    value: float

    def holds(self, records: Records) -> NDArray[np.bool_]:
        """Return which records meet the condition, shape ``(n,)``; "missing" meets ``MISSING`` alone."""
        column = records.columns[self.axis]
        result: NDArray[np.bool_]
        match self.relation:
            case Relation.EQUAL:
                result = column == self.value
            case Relation.AT_MOST:
                result = column <= self.value
            case Relation.AT_LEAST:
                result = column >= self.value
            case Relation.MISSING:
                result = ~present(column)
        return result


Predicate = frozenset[AttributeCondition]
"""Conditions that all hold."""


def singles_out(predicate: Predicate, records: Records) -> bool:
    """Whether all conditions hold for exactly one record."""
    holds = [condition.holds(records) for condition in predicate]
    return int(np.logical_and.reduce(holds).sum()) == 1


def outliers(records: Records) -> Iterator[Predicate]:
    """Conditions on one attribute: a value that is there once, the least, the largest, a missing one."""
    for axis, column in enumerate(records.columns):
        values, counts = np.unique(column[present(column)], return_counts=True)
        for value in values[counts == 1]:
            yield frozenset([AttributeCondition(axis, Relation.EQUAL, float(value))])
        if column.dtype.kind == "f" and len(values):
            yield frozenset([AttributeCondition(axis, Relation.AT_MOST, float(values[0]))])
            yield frozenset([AttributeCondition(axis, Relation.AT_LEAST, float(values[-1]))])
        yield frozenset([AttributeCondition(axis, Relation.MISSING, 0.0)])


def middles(records: Records) -> list[float]:
    """The median of each attribute's numbers; NaN for levels and where all are missing."""
    return [
        float(np.median(column[known]))
        if column.dtype.kind == "f" and (known := present(column)).any()
        else np.nan
        for column in records.columns
    ]


def portrait(records: Records, row: int, axes: Positions, medians: list[float]) -> Predicate:
    """Return a predicate of one record: its levels, and its numbers or any farther from the median."""
    conditions = []
    for axis in map(int, axes):
        column = records.columns[axis]
        value = float(column[row])
        if not present(column[row : row + 1])[0]:
            relation, value = Relation.MISSING, 0.0
        elif column.dtype.kind != "f":
            relation = Relation.EQUAL
        else:
            relation = Relation.AT_LEAST if value >= medians[axis] else Relation.AT_MOST
        conditions.append(AttributeCondition(axis, relation, value))
    return frozenset(conditions)


def by_luck(values: list[NDArray[Any]], axes: Positions, rng: np.random.Generator) -> Predicate:
    """Conditions with any of each attribute's ``values``, each as likely, in any relation."""
    conditions = []
    for axis in map(int, axes):
        place = int(rng.integers(len(values[axis])))
        value, relation = float(values[axis][place]), Relation.EQUAL
        if not present(values[axis][place : place + 1])[0]:
            relation, value = Relation.MISSING, 0.0
        elif values[axis].dtype.kind == "f":
            relation = (Relation.EQUAL, Relation.AT_MOST, Relation.AT_LEAST)[rng.integers(3)]
        conditions.append(AttributeCondition(axis, relation, value))
    return frozenset(conditions)


_TRIES = 50
"""Records that are tried for each guess."""


def singling_out(tables: Tables, *, width: int = 1, attacks: int, rng: np.random.Generator) -> Attack:
    """Guess conditions that single out a record of train, and try the same ones on holdout.

    Args:
        width: Attributes in each guess: 1 takes outliers, more describe synthetic records.
        attacks: Different guesses; fewer are made where synthetic records yield fewer.
    """
    synthetic, train, holdout = tables.synthetic, tables.train, tables.holdout
    if not 1 <= width <= len(synthetic.attributes):
        raise InvalidNumberError(field="The width", expected="from 1 to the number of attributes")
    if attacks < 1:
        raise InvalidNumberError(field="The number of attacks", expected="at least 1")
    guesses = _guesses(synthetic, width, attacks, rng)
    if not guesses:
        raise ComputationError(problem="no synthetic record is singled out by this number of attributes")
    values = [np.unique(column) for column in holdout.columns]
    lucky = [by_luck(values, rng.choice(len(values), width, replace=False), rng) for _ in guesses]
    size = min(len(train), len(holdout))
    ours, theirs = (drawn(table, size, rng) for table in (train, holdout))
    pairs = ((guesses, ours), (guesses, theirs), (lucky, ours))
    return Attack(
        *(
            Proportion(sum(singles_out(one, records) for one in tried), len(tried))
            for tried, records in pairs
        )
    )


def _guesses(synthetic: Records, width: int, attacks: int, rng: np.random.Generator) -> list[Predicate]:
    """Some outliers, in random order; or different descriptions, each of one synthetic record alone."""
    if width == 1:
        candidates = list(outliers(synthetic))
        shuffled = (candidates[place] for place in rng.permutation(len(candidates)))
        return list(islice((each for each in shuffled if singles_out(each, synthetic)), attacks))
    guesses: dict[Predicate, None] = {}
    medians = middles(synthetic)
    for _ in range(_TRIES * attacks):
        row = int(rng.integers(len(synthetic)))
        axes = rng.choice(len(medians), width, replace=False)
        guess = portrait(synthetic, row, axes, medians)
        if guess not in guesses and singles_out(guess, synthetic):
            guesses[guess] = None
        if len(guesses) == attacks:
            break
    return list(guesses)
