r"""Canaries: records drawn uniformly, planted in the input of a generator and looked for in its rows.

What makes a bound of the distances (``sums``, ``counts``):

* Canaries are drawn after all other records are fixed, and kept secret from whoever runs the generator.
* Every row that was released counts, also those that one would rather leave out.
* Only planted attributes are compared; others may be there and are left out of ``synthetic``.
* Numbers are uniform in the unit cube. Where the input must be rounded or coded, that is done to a
  copy: the audit keeps the canaries as drawn. Levels are uniform over all cells of a domain.

References:
    Betterdata's reconstruction audit; its bound is the published one of ``sums``.

``plant`` puts each canary into a made-up dataset with probability 1/2, so that one run serves all
audits. Each canary is a uniform point of the unit cube, one axis for each attribute; its record is the
cell that the point lies in, with attributes cut into equal intervals. Those that were put in are
uniform over all cells and independent of everything else, as ``canaries`` asks; that each was in with
probability 1/2 is what ``one_run`` asks.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Domain
from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.types import FloatArray
from gencard.measures.privacy.canaries.epsilon_bound import Cube, HammingSpace, Space
from gencard.measures.privacy.distances.gower import Gower
from gencard.measures.privacy.distances.nearest import nearest
from gencard.measures.privacy.records import Records

_SPACING = 2.0**-53
"""``rng.random`` draws whole multiples of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """Distance of a generator's rows to each canary.

    Args:
        space: Where the canaries were drawn.
        rows: Number of rows released.
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
    """Canaries in the unit cube, shape ``(canaries, attributes)``.

    Raises:
        InvalidNumberError: None is asked for, or no attribute.
    """
    if attributes < 1 or canaries < 1:
        raise InvalidNumberError(field="The number of canaries and attributes", expected="at least 1")
    return rng.random((canaries, attributes))


def draw_cells(domain: Domain, canaries: int, *, rng: np.random.Generator) -> Dataset:
    """Canaries among all cells of a domain; structural zeros are cells like any other.

    Raises:
        InvalidNumberError: None is asked for, or the domain has no attribute.
    """
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
    _check_uniform(canaries)
    if synthetic.ndim != 2 or not len(synthetic) or synthetic.shape[1] != canaries.shape[1]:
        raise InvalidDatasetError(problem="rows need one number for each attribute of the canaries")
    if not np.all(np.isfinite(synthetic)):
        raise InvalidDatasetError(problem="a row is not finite")
    radii = scipy.spatial.cKDTree(synthetic).query(canaries)[0] + _SPACING * canaries.shape[1] ** 0.5
    return Reconstruction(Cube(canaries.shape[1]), len(synthetic), radii)


def reconstruct_cells(canaries: Dataset, synthetic: Dataset) -> Reconstruction:
    """Hamming distances from canaries to rows of one domain.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidDatasetError: There is no canary or no row.
    """
    check_same_domain(canaries.domain, synthetic.domain)
    if not len(canaries) or not len(synthetic):
        raise InvalidDatasetError(problem="at least one canary and one row are needed")
    domain = canaries.domain
    equal = (1.0,) * len(domain)
    gower = Gower(domain.attributes, (None,) * len(domain), equal)
    result = nearest(_levels_of(canaries), _levels_of(synthetic), gower, second=False)
    return Reconstruction(HammingSpace(domain), len(synthetic), np.rint(result.distance * len(domain)))


def _levels_of(dataset: Dataset) -> Records:
    """Codes as levels."""
    columns = (dataset.column(name).astype(np.int64) for name in dataset.domain.attributes)
    return Records(dataset.domain.attributes, tuple(columns))


def _check_uniform(canaries: FloatArray) -> None:
    """Refuse what uniform draws of 53 bits next to never are: short decimals, or half as many bits."""
    if canaries.ndim != 2 or not canaries.size:
        raise InvalidDatasetError(problem="canaries need one number for each attribute")
    if not np.all((canaries >= 0) & (canaries < 1)):
        raise InvalidDatasetError(problem="a canary is outside the unit cube")
    repeated = any(len(np.unique(column)) < len(column) for column in canaries.T)
    short = (np.round(canaries, 9) == canaries) | (canaries * 2**32 % 1 == 0)
    if repeated or np.any(np.all(short, axis=0)) or np.any(np.round(canaries, 6) == canaries):
        raise InvalidDatasetError(problem="canaries are rounded or repeated, so they are not uniform")


FEWEST = 20
"""Canaries; with fewer, all or none may be put in."""


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """Canaries, and the dataset that holds some of them. To be kept from whoever runs the generator.

    Args:
        points: Of all canaries in the unit cube, shape ``(m, d)``.
        put_in: Which of them are in the dataset, shape ``(m,)``.
        dataset: What the generator is to be given.
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
