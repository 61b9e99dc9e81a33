"""Counting the marginals of a dataset held in memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.counting import Counter


def count(dataset: Dataset, clique: Clique) -> NDArray[np.int64]:
    """Number of records in each cell of a clique.

    Returns:
        Shape ``dataset.domain.project(clique).sizes``; sums to ``len(dataset)``.

    Raises:
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    return count_all(dataset, [clique])[0]


def count_all(dataset: Dataset, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
    """The marginals on all cliques, in their order, in one pass over the records.

    Raises:
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    counter = Counter(dataset.domain, cliques)
    counter.add(dataset.codes)
    return counter.marginals()
