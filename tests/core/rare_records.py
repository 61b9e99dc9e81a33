"""A small population with a few hundred unique records, as generators meet them."""

from itertools import pairwise

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain

SIZES = (6, 5, 4, 4, 3)
CHAIN = tuple(pairwise(f"a{position}" for position in range(len(SIZES))))


def population(records=2_000):
    """Records of a Markov chain with skewed transitions, in 1,440 cells."""
    rng = np.random.default_rng(0)
    columns = [rng.choice(SIZES[0], p=rng.dirichlet([1.5] * SIZES[0]), size=records)]
    for size in SIZES[1:]:
        transitions = rng.dirichlet([1.5] * size, size=max(SIZES)).cumsum(axis=1)
        drawn = (rng.random(records)[:, None] > transitions[columns[-1]]).sum(axis=1)
        columns.append(np.minimum(drawn, size - 1))
    return Dataset.of_columns(
        Domain.of({f"a{position}": size for position, size in enumerate(SIZES)}), columns
    )
