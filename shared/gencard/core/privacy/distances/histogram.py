"""Histogram of distances, with exact copies apart."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidNumberError


@dataclass(frozen=True, slots=True, eq=False)
class DistanceHistogram:
    """How many records lie how far from their closest one.

    Args:
        zeros: Records at distance 0, in no bin.
        undefined: Records without a distance, in no bin.
        edges: Of the bins, in distance from 0 to 1; each bin has its lower edge, the last both.
        counts: Records in each bin.
    """

    zeros: int
    undefined: int
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


def distance_histogram(distances: NDArray[np.float64], bins: int = 100) -> DistanceHistogram:
    """Count distances in equal bins from 0 to 1.

    Raises:
        InvalidNumberError: There is no bin.
    """
    if bins < 1:
        raise InvalidNumberError(field="The number of bins", expected="at least 1")
    counts, edges = np.histogram(distances[distances > 0], bins=bins, range=(0.0, 1.0))
    return DistanceHistogram(
        zeros=int(np.sum(distances == 0)),
        undefined=int(np.sum(np.isnan(distances))),
        edges=edges,
        counts=counts.astype(np.int64),
    )
