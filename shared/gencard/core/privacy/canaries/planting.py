"""Canaries planted in a made-up dataset: some by the toss of a coin, so that one run serves all audits.

Each canary is a uniform point of the unit cube, one axis for each attribute; its record is the cell that
the point lies in, with attributes cut into equal intervals. Those that were put in are uniform over all
cells and independent of everything else, as ``canaries`` asks; that each was in with probability 1/2 is
what ``one_run`` asks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.privacy.canaries.canaries import draw_cells, draw_points
from gencard.core.types import FloatArray

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
