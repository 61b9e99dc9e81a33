r"""Attacks by the nearest synthetic records of a target: inference, linkability and membership.

Of equally near records one is taken at random.

Where attributes have few levels, many records are equally near. Whoever takes the first of them takes
the same ones for many targets, and by attributes that have nothing to do with each other.

Inference: whether synthetic records tell an attribute of a person whose other attributes are known.

The attack finds the synthetic record nearest to what is known of a target, and guesses that the target
has its secret; of several equally near it takes one at random, for each target anew. By luck one guesses
the secret of any synthetic record. (Giomi et al.; see ``attacks``.)

Linkability: whether synthetic records tell that two halves of a record belong to one person.

Two parties know different attributes of the same people. For a target, the attack looks for the k
synthetic records nearest by what the one knows and for the k nearest by what the other knows, and links
the halves if some record is among both. By luck, k of m synthetic records meet another k in a number
that is hypergeometric. (Giomi et al.; see ``attacks``.)

Membership inference by DCR: whether records of train are nearer to synthetic ones than others.

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

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.errors import InvalidCliqueError, InvalidDatasetError, InvalidNumberError
from gencard.measures.privacy.attacks import Attack, Proportion, Tables, check_known, drawn, quantile
from gencard.measures.privacy.distances import Gower, Positions, pairs_of
from gencard.measures.privacy.records import Column, Records, present

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
    known: Clique | None = None,
    tolerance: float = 0.05,
    attacks: int,
    controls: int | None = None,
    rng: np.random.Generator,
) -> Attack:
    """Guess the secret of records of train, and of records of holdout, among those that have one.

    Args:
        known: The attributes that are known of a target; None is all but the secret.
        tolerance: How far a guess may be off, as a share, 0 to 1, of the true number's size; levels
            must be equal.
        attacks: Records of train.
        controls: Records of holdout; None is as many.
    """
    gower.check(tables.synthetic)
    check_known((secret,), gower.attributes)
    others = tuple(name for name in gower.attributes if name != secret)
    known = others if known is None else known
    if secret in known:
        raise InvalidCliqueError(clique=", ".join(known), problem="it contains the sensitive attribute")
    check_known(known, others)
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
    pairs = zip((*guesses, lucky), (*secrets, secrets[0]), strict=True)
    return Attack(*(_right(guess, truth, tolerance) for guess, truth in pairs))


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


def _right(guesses: Column, truths: Column, tolerance: float) -> Proportion:
    """Count the guesses that are right; a missing one never is."""
    numeric = truths.dtype.kind == "f"
    right = np.abs(guesses - truths) <= (tolerance * np.abs(truths) if numeric else 0)
    return Proportion(int(right.sum()), len(truths))


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
