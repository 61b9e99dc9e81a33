"""The nearest few synthetic records of a target, ties in random order.

Where attributes have few levels, many records are equally near. Whoever takes the first of them takes
the same ones for many targets, and by attributes that have nothing to do with each other.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.differences import Positions
from gencard.core.privacy.distances.distances import pairs_of
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.records import Records

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
        found = pairs.distances((slice(start, stop), None), slice(None), shape)
        for row in np.round(found, DIGITS):
            yield _closest(row, count, rng)


def _closest(row: NDArray[np.float64], count: int, rng: np.random.Generator) -> Positions:
    """Positions of the smallest numbers; NaN is no number, and sorted last."""
    shuffled = rng.permutation(len(row))
    chosen = shuffled[np.argpartition(row[shuffled], count - 1)[:count]]
    return chosen[~np.isnan(row[chosen])]
