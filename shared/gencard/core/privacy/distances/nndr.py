"""Nearest neighbour distance ratio: distance to the closest record by that to the second closest.

Near 0, a record singles one real record out; near 1, it lies no nearer to one than to another.
"""

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.nearest import Nearest


def nndr(found: Nearest) -> NDArray[np.float64]:
    """The ratio of each record, 0 to 1, without a unit, shape ``(n,)``.

    A record that two real ones equal has ratio 1: neither is singled out. NaN where fewer than two
    real records can be compared with.
    """
    equal = found.distance == found.second
    return np.divide(found.distance, found.second, out=np.ones(len(found)), where=~equal)
