r"""Attacks with control and random baseline: singling out, inference, linkability and membership.

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
from gencard.measures.privacy.distances import (
    Column,
    Gower,
    Positions,
    Records,
    check_same_kinds,
    pairs_of,
    present,
)


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
        if self.relation is Relation.MISSING:
            return ~present(column)
        result: NDArray[np.bool_] = {
            Relation.EQUAL: np.equal,
            Relation.AT_MOST: np.less_equal,
            Relation.AT_LEAST: np.greater_equal,
        }[self.relation](column, self.value)
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
    proportions = (
        Proportion(sum(singles_out(one, records) for one in tried), len(tried))
        for tried, records in pairs
    )
    return Attack(*proportions)


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


# Attacks by the nearest synthetic records of a target: inference, linkability and membership.
#
# Of equally near records one is taken at random, for each target anew. Where attributes have few levels,
# many are equally near. Whoever takes the first of them takes the same ones for many targets, and by
# attributes that have nothing to do with each other.
#
# Inference: whether synthetic records tell an attribute of a person whose other attributes are known.
#
# The attack finds the synthetic record nearest to what is known of a target, and guesses that the
# target has its secret. By luck one guesses the secret of any synthetic record. (Giomi et al.)
#
# Linkability: whether synthetic records tell that two halves of a record belong to one person.
#
# Two parties know different attributes of the same people. For a target, the attack looks for the k
# synthetic records nearest by what the one knows and for the k nearest by what the other knows, and
# links the halves if some record is among both. By luck, k of m synthetic records meet another k in a
# number that is hypergeometric. (Giomi et al.)
#
# Membership inference by DCR: whether records of train are nearer to synthetic ones than others.
#
# The attack's score of a record is how near the closest synthetic record lies; members are records of
# train, others records of holdout. Each record is measured to the same synthetic ones, so the numbers of
# members and others need not be equal. The area under its curve is the probability, ties half, that a
# random member is nearer than a random other record (Mann and Whitney). Its interval holds the areas A
# from which the one found is at most z standard errors away, as Wilson's does for a proportion; with m
# members, n others and :math:`N = (m + n) / 2`,
#
# .. math:: SE(A)^2 = \frac{A (1 - A)}{m n}
#    \Big(1 + (N - 1) \Big(\frac{1 - A}{2 - A} + \frac{A}{1 + A}\Big)\Big).
#
# Attacks by distance are weak (Annamalai et al., arXiv 2405.10994): an area of 1/2 shows nothing, and no
# number here bounds epsilon.
#
# References:
#     R. G. Newcombe, "Confidence Intervals for an Effect Size Measure Based on the Mann-Whitney
#     Statistic, Part 2", Statistics in Medicine 25, 2006 (method 5).


_PAIRS = 2**20
"""Pairs of records whose distances are held at once: 8 MiB."""

DIGITS = 12
"""Distances that agree so far are equal: equal sums, added in another order."""


def neighbours(
    targets: Records, synthetic: Records, gower: Gower, count: int, rng: np.random.Generator
) -> Iterator[Positions]:
    """Positions of the synthetic records nearest to each target, by the distance's attributes.

    ``count``, from 1 to the number of synthetic records, in no order; fewer where fewer compare.
    """
    targets, synthetic = (table.project(gower.attributes) for table in (targets, synthetic))
    pairs, step = pairs_of(targets, synthetic, gower), max(1, _PAIRS // len(synthetic))
    for start in range(0, len(targets), step):
        stop = min(start + step, len(targets))
        shape = (stop - start, len(synthetic))
        distances = pairs.distances((slice(start, stop), None), slice(None), shape)
        for row in np.round(distances, DIGITS):
            shuffled = rng.permutation(len(row))
            near = shuffled[np.argpartition(row[shuffled], count - 1)[:count]]
            yield near[~np.isnan(row[near])]  # NaN is no number, and sorted last


def inference(
    tables: Tables,
    gower: Gower,
    secret: str,
    *,
    tolerance: float = 0.05,
    attacks: int,
    controls: int | None = None,
    rng: np.random.Generator,
) -> Attack:
    """Guess the secret of records of train, and of holdout, that have one, by all other attributes.

    Args:
        tolerance: How far a guess may be off, as a share, 0 to 1, of the true number's size; levels
            must be equal.
        attacks: Records of train.
        controls: Records of holdout; None is as many.
    """
    gower.check(tables.synthetic)
    check_known((secret,), gower.attributes)
    known = tuple(name for name in gower.attributes if name != secret)
    check_known(known, gower.attributes)
    if not 0 <= tolerance <= 1:
        raise InvalidNumberError(field="The tolerance", expected="from 0 to 1")
    distance = gower.project(known)
    targets = []
    for table, number in (
        (tables.train, attacks),
        (tables.holdout, attacks if controls is None else controls),
    ):
        has_secret = np.flatnonzero(present(table.column(secret)))
        targets.append(drawn(table.take(has_secret), number, rng))
    secrets = [table.column(secret) for table in targets]
    guesses = [_guessed_secrets(tables.synthetic, table, distance, secret, rng) for table in targets]
    lucky = rng.choice(tables.synthetic.column(secret), attacks)
    proportions = []
    for guess, truth in zip((*guesses, lucky), (*secrets, secrets[0]), strict=True):
        allowed = tolerance * np.abs(truth) if truth.dtype.kind == "f" else 0
        right = np.abs(guess - truth) <= allowed  # a missing guess never is
        proportions.append(Proportion(int(right.sum()), len(truth)))
    return Attack(*proportions)


def _guessed_secrets(
    synthetic: Records, targets: Records, distance: Gower, secret: str, rng: np.random.Generator
) -> Column:
    """The secret of the synthetic record nearest to each target, or of any if none compares."""
    positions = (
        near[0] if len(near) else rng.integers(len(synthetic))
        for near in neighbours(targets, synthetic, distance, 1, rng)
    )
    guesses: Column = synthetic.column(secret)[np.fromiter(positions, np.intp)]
    return guesses


def linkability(
    tables: Tables,
    gower: Gower,
    sides: tuple[Clique, Clique],
    *,
    attacks: int,
    controls: int | None = None,
    count: int,
    rng: np.random.Generator,
) -> Attack:
    """Try to link the halves of records of train, and of records of holdout.

    Args:
        sides: The attributes that each party knows; none is on both.
        attacks: Records of train.
        controls: Records of holdout; None is as many.
        count: k, the synthetic records that each side looks at.
    """
    gower.check(tables.synthetic)
    for side in sides:
        check_known(side, gower.attributes)
    if set(sides[0]) & set(sides[1]):
        raise InvalidCliqueError(
            clique=", ".join(sides[0]), problem="both sides contain the same attribute"
        )
    if not 1 <= count <= len(tables.synthetic):
        expected = "at least 1, and at most the synthetic records"
        raise InvalidNumberError(field="The number of neighbours", expected=expected)
    synthetic, distances = tables.synthetic, (gower.project(sides[0]), gower.project(sides[1]))
    targets = [
        drawn(tables.train, attacks, rng),
        drawn(tables.holdout, attacks if controls is None else controls, rng),
    ]
    hits = []
    for table in targets:
        one, other = (neighbours(table, synthetic, by, count, rng) for by in distances)
        linked = sum(bool(np.isin(*both).any()) for both in zip(one, other, strict=True))
        hits.append(Proportion(linked, len(table)))
    lucky = rng.hypergeometric(count, len(synthetic) - count, count, attacks) > 0
    return Attack(hits[0], hits[1], Proportion(int(lucky.sum()), attacks))


_HALVINGS = 60
"""Until the edge of an interval is exact to rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """Distances of members and others to the closest synthetic record, 0 to 1, ascending, no NaN."""

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
        """Lowest and highest area, 0 to 1."""
        z = quantile(confidence)
        return self._edge(0.0, z), self._edge(1.0, z)

    def _edge(self, outside: float, z: float) -> float:
        """Return the end of the interval between the estimated area and 0 or 1, by bisection."""
        inside, m, n = self.area, len(self.members), len(self.others)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            # Standard error of the area that is measured where the true one is the middle.
            spread = (1 - middle) / (2 - middle) + middle / (1 + middle)
            stderr = sqrt(middle * (1 - middle) / (m * n) * (1 + ((m + n) / 2 - 1) * spread))
            if abs(middle - self.area) <= z * stderr:
                inside = middle
            else:
                outside = middle
        return inside
