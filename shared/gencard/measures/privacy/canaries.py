r"""Canaries: records drawn uniformly, planted in the input of a generator and looked for in its rows.

What makes a bound of the distances (``canary_findings``):

* Canaries are drawn after all other records are fixed, and kept secret from whoever runs the generator.
* Every row that was released counts, also those that one would rather leave out.
* Only planted attributes are compared; others may be there and are left out of ``synthetic``.
* Numbers are uniform in the unit cube. Where the input must be rounded or coded, that is done to a
  copy: the audit keeps the canaries as drawn. Levels are uniform over all cells of a domain.

References:
    Betterdata's reconstruction audit; its bound is the published one of ``canary_findings``.

``plant`` puts each canary into a made-up dataset with probability 1/2, so that one run serves all
audits. Each canary is a uniform point of the unit cube, one axis for each attribute; its record is the
cell that the point lies in, with attributes cut into equal intervals. Those that were put in are
uniform over all cells and independent of everything else, as ``canaries`` asks; that each was in with
probability 1/2 is what ``one_run`` asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Domain
from gencard.core.errors import ComputationError, InvalidDatasetError, InvalidNumberError
from gencard.core.types import FloatArray
from gencard.measures.privacy.distances import Gower, Records
from gencard.measures.privacy.nearest import nearest

# Lower bounds on epsilon that an audit of one run proves, and the spaces that canaries are drawn from.
#
# The rows that come within r of a canary are at most those in n balls of radius r, so that
#
# .. math:: q(r) = \min(1, n\, |B_r|)
#
# bounds the probability that some row lies within r, with :math:`|B_r|` the share of the space in a
# ball: :math:`\pi^{d/2} r^d / \Gamma(d/2 + 1)` in the unit cube, and among records the number of cells
# in a Hamming ball by the number of all cells. Taking codes for points of a cube would promise far too
# little chance: an honest generator was refuted in every run on eight binary attributes.


@dataclass(frozen=True, slots=True)
class Cube:
    """The unit cube with Euclidean distance; each numeric attribute is scaled to 0..1."""

    attributes: int

    def __post_init__(self) -> None:
        if self.attributes < 1:
            raise InvalidNumberError(field="The number of attributes", expected="at least 1")

    def log_ball(self, radii: FloatArray) -> FloatArray:
        """Natural log of a ball's share of the space, by its radius; above 0 where a ball is larger.

        A radius of 0 has no volume.
        """
        half = self.attributes / 2
        with np.errstate(divide="ignore"):
            logs: FloatArray = (
                half * log(pi) - scipy.special.gammaln(half + 1) + self.attributes * np.log(radii)
            )
        return logs

    def edges(self, total: float, terms: int) -> FloatArray:
        """Upper ends of the steps that distances are rounded down in, so that a sum of ``terms``
        distances is at most ``total`` only if their steps add up to at most ``len(edges) - 1``.

        Rounding costs at most 1/100 of epsilon or so up to 4,000 terms x d.
        """
        steps = int(np.clip(64 * terms * self.attributes, 2**12, 2**18))
        return np.arange(1.0, steps + 2.0) * (total / steps)


@dataclass(frozen=True, slots=True)
class HammingSpace:
    """The cells of a domain with Hamming distance: the number of attributes that differ."""

    domain: Domain

    @property
    def balls(self) -> tuple[int, ...]:
        """Cells within each distance 0, 1, ..., d of a cell; the same for all."""
        shells = [1]
        for size in self.domain.sizes:
            farther = [0, *((size - 1) * count for count in shells)]
            shells = [a + b for a, b in zip([*shells, 0], farther, strict=True)]
        return tuple(sum(shells[: radius + 1]) for radius in range(len(shells)))

    def log_ball(self, radii: FloatArray) -> FloatArray:
        """Return the logarithms, as in the cube."""
        logs = np.array([log(ball) for ball in self.balls]) - log(self.domain.cells)
        whole = np.minimum(np.floor(radii), len(self.domain)).astype(np.int64)
        return logs[whole]

    def edges(self, total: float, terms: int) -> FloatArray:
        """Return the edges, as in the cube; Hamming distances are whole, nothing is rounded."""
        return np.arange(0.0, min(int(total), terms * len(self.domain)) + 1.0)


Space = Cube | HammingSpace
"""A space with a distance and a uniform distribution."""


def log_chance(space: Space, radii: FloatArray, rows: int) -> FloatArray:
    """Natural log of q: the probability that one of ``rows`` blind rows lies within each radius."""
    return np.minimum(0.0, log(rows) + space.log_ball(radii))


def tilted_chance(log_q: FloatArray, epsilon: float) -> FloatArray:
    r"""Natural log of G: what ``log_q`` becomes at most under replace-one epsilon-differential privacy.

    .. math:: G = \frac{q}{q + e^{-\varepsilon} (1 - q)}
    """
    with np.errstate(divide="ignore"):
        log_odds = epsilon + log_q - np.log(-np.expm1(log_q))
    grown: FloatArray = -np.logaddexp(0.0, -log_odds)
    return grown


LogPValue = Callable[[float], float]
"""ln p of an observation, by the epsilon that is claimed; increasing."""


@dataclass(frozen=True, slots=True)
class EpsilonBound:
    """With probability at least 1 - beta a generator's epsilon is not below this one.

    It holds for one statistic, chosen before the run. Of several, each needs its share of beta.

    Args:
        epsilon: In nats, at least 0; 0 says nothing, infinity refutes every epsilon.
        delta: Generators of this delta, or a smaller one, are bounded; 0 is pure differential privacy.
        beta: Probability, 0 to 1/2, that the bound is too high.
    """

    epsilon: float
    delta: float
    beta: float
    neighbouring: Neighbouring

    def refutes(self, epsilon: float, delta: float, neighbouring: Neighbouring) -> bool:
        """Whether a claim of (epsilon, delta) is contradicted at level beta.

        Raises:
            ComputationError: The bound says nothing of such claims: their delta is larger than its
                own, or their neighbouring relation is another.
        """
        if delta > self.delta:
            raise ComputationError(problem="the bound is for a smaller delta than the claim's")
        if neighbouring is not self.neighbouring:
            raise ComputationError(problem="bound and claim have different neighbouring relations")
        return epsilon < self.epsilon


def check_beta(beta: float) -> None:
    """Refuse a level outside 0 to 1/2."""
    if not 0 < beta <= 0.5:
        raise InvalidNumberError(field="beta", expected="above 0 and at most 1/2")


def check_epsilon(epsilon: float) -> None:
    """Refuse what is no epsilon."""
    if not 0 <= epsilon < float("inf"):
        raise InvalidNumberError(field="epsilon", expected="finite and at least 0")


def steps_of(neighbouring: Neighbouring) -> int:
    """Number of neighbouring steps that replace one record: one, or a removal and an addition."""
    return 1 if neighbouring is Neighbouring.REPLACE_ONE else 2


def smallest_epsilon(log_p: LogPValue, beta: float, *, guess: float = 0.0) -> float:
    """The epsilon at which p reaches beta, to 1e-11; all smaller ones are refuted. 0 where none is.

    Args:
        guess: Saves calls of ``log_p`` where it is near, and changes nothing else.
    """
    target = log(beta)
    low, high = 0.0, 1.0
    if guess:  # some epsilon that is refuted, or 0, and one above it, both near the guess
        low, step = guess, 1 / 32
        while low > 0 and log_p(low) >= target:
            low, step = max(0.0, low - step), 2 * step
        high = low + step
    if not low and log_p(0.0) >= target:
        return 0.0
    while log_p(high) < target:
        low, high = high, 2 * high
    return float(scipy.optimize.brentq(lambda epsilon: log_p(epsilon) - target, low, high, xtol=1e-11))


_SPACING = 2.0**-53
"""``rng.random`` draws whole multiples of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """Distance of a generator's rows to each canary.

    Args:
        radii: Distance of each canary to the closest row, in the space's unit, shape ``(m,)``.

    Raises:
        InvalidDatasetError: There is no canary or no row, a distance is negative or not finite, or 0
            among numbers, where no bound would be left.
    """

    space: Space
    rows: int
    radii: FloatArray

    def __post_init__(self) -> None:
        if self.rows < 1 or not len(self.radii):
            raise InvalidDatasetError(problem="at least one canary and one row are needed")
        if not np.all(np.isfinite(self.radii) & (self.radii >= 0)):
            raise InvalidDatasetError(problem="a distance is negative or not finite")
        if isinstance(self.space, Cube) and not np.all(self.radii):
            raise InvalidDatasetError(problem="uniform numbers are never at distance 0")

    @property
    def nu(self) -> float:
        """Sum of the distances."""
        return float(np.sum(self.radii))


def draw_points(attributes: int, canaries: int, *, rng: np.random.Generator) -> FloatArray:
    """Canaries in the unit cube, shape ``(canaries, attributes)``."""
    if attributes < 1 or canaries < 1:
        raise InvalidNumberError(field="The number of canaries and attributes", expected="at least 1")
    return rng.random((canaries, attributes))


def draw_cells(domain: Domain, canaries: int, *, rng: np.random.Generator) -> Dataset:
    """Canaries among all cells of a domain; structural zeros are cells like any other."""
    if not len(domain) or canaries < 1:
        raise InvalidNumberError(field="The number of canaries and attributes", expected="at least 1")
    return Dataset(domain, rng.integers(0, domain.sizes, (canaries, len(domain))))


def reconstruct_points(canaries: FloatArray, synthetic: FloatArray) -> Reconstruction:
    """Euclidean distances from canaries in the unit cube to rows, which may lie outside.

    Canaries are floats for points of a grid cell each, so that a distance is lengthened by the cell's
    diagonal: a copy to the last bit is near, not at 0, and refutes no more than it can.

    Raises:
        InvalidDatasetError: The canaries are no uniform draws (outside the cube, rounded, repeated),
            or the rows differ in attributes, are none or are not finite.
    """
    canaries, synthetic = np.asarray(canaries, float), np.asarray(synthetic, float)
    # Refuse what uniform draws of 53 bits next to never are: short decimals, or half as many bits.
    if canaries.ndim != 2 or not canaries.size:
        raise InvalidDatasetError(problem="canaries need one number for each attribute")
    if not np.all((canaries >= 0) & (canaries < 1)):
        raise InvalidDatasetError(problem="a canary is outside the unit cube")
    repeated = any(len(np.unique(column)) < len(column) for column in canaries.T)
    short = (np.round(canaries, 9) == canaries) | (canaries * 2**32 % 1 == 0)
    if repeated or np.any(np.all(short, axis=0)) or np.any(np.round(canaries, 6) == canaries):
        raise InvalidDatasetError(problem="canaries are rounded or repeated, so they are not uniform")
    if synthetic.ndim != 2 or not len(synthetic) or synthetic.shape[1] != canaries.shape[1]:
        raise InvalidDatasetError(problem="rows need one number for each attribute of the canaries")
    if not np.all(np.isfinite(synthetic)):
        raise InvalidDatasetError(problem="a row is not finite")
    radii = scipy.spatial.cKDTree(synthetic).query(canaries)[0] + _SPACING * canaries.shape[1] ** 0.5
    return Reconstruction(Cube(canaries.shape[1]), len(synthetic), radii)


def reconstruct_cells(canaries: Dataset, synthetic: Dataset) -> Reconstruction:
    """Hamming distances from canaries to rows of one domain."""
    check_same_domain(canaries.domain, synthetic.domain)
    if not len(canaries) or not len(synthetic):
        raise InvalidDatasetError(problem="at least one canary and one row are needed")
    domain = canaries.domain
    equal = (1.0,) * len(domain)
    gower = Gower(domain.attributes, (None,) * len(domain), equal)
    result = nearest(_levels_of(canaries), _levels_of(synthetic), gower, second=False)
    return Reconstruction(HammingSpace(domain), len(synthetic), np.rint(result.distance * len(domain)))


def _levels_of(dataset: Dataset) -> Records:
    columns = (dataset.column(name).astype(np.int64) for name in dataset.domain.attributes)
    return Records(dataset.domain.attributes, tuple(columns))


FEWEST = 20
"""Canaries; with fewer, all or none may be put in."""


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """Canaries, and the dataset that holds some of them. To be kept from whoever runs the generator.

    Args:
        points: Of all canaries in the unit cube, shape ``(m, d)``.
        put_in: Which of them are in the dataset, shape ``(m,)``.
        neighbouring: In what way canaries were left out.
    """

    points: FloatArray
    put_in: NDArray[np.bool_]
    dataset: Dataset
    neighbouring: Neighbouring

    @property
    def cells(self) -> Dataset:
        """The records of all canaries."""
        return cells_of(self.points, self.dataset.domain)


def plant(
    others: Dataset, canaries: int, *, neighbouring: Neighbouring, rng: np.random.Generator
) -> Planted:
    """Draw canaries and put each in with probability 1/2, after records that are fixed before.

    Under replace-one, a blind record comes in the place of each canary that is left out.

    Args:
        others: Made-up records; may be none.
        canaries: How many are drawn, at least 20.

    Raises:
        InvalidNumberError: Too few canaries, or no attribute.
    """
    if canaries < FEWEST:
        raise InvalidNumberError(field="The number of canaries", expected=f"at least {FEWEST}")
    points = draw_points(len(others.domain), canaries, rng=rng)
    put_in = rng.random(canaries) < 0.5
    slots = cells_of(points, others.domain).codes
    if neighbouring is Neighbouring.REPLACE_ONE:
        blind = draw_cells(others.domain, canaries, rng=rng).codes
        slots = np.where(put_in[:, None], slots, blind)
    else:
        slots = slots[put_in]
    codes = rng.permutation(np.vstack([others.codes, slots]))
    return Planted(points, put_in, Dataset(others.domain, codes), neighbouring)


def cells_of(points: FloatArray, domain: Domain) -> Dataset:
    """The cell that each point of the unit cube lies in."""
    sizes = np.array(domain.sizes)
    return Dataset(domain, np.minimum((points * sizes).astype(np.int64), sizes - 1))


def points_of(dataset: Dataset, *, rng: np.random.Generator) -> FloatArray:
    """A uniform point of the cube inside each record's cell, which undoes the rounding of numbers."""
    inside = rng.random(dataset.codes.shape)
    points: FloatArray = (dataset.codes + inside) / np.array(dataset.domain.sizes)
    return points
