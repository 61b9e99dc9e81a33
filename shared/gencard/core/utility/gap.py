r"""Gaps between two groups, such as the gender gap of each occupation, and how well they are kept.

The gap in level w is :math:`P(A = a \mid W = w) - P(A = b \mid W = w)` among the records looked at, and
0 where there is none. The error of a synthetic dataset is the root mean square over the levels of W,
each counted alike (Houssiau et al. 2022, Table 1).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.statistics.marginal import count


@dataclass(frozen=True, slots=True)
class Gap:
    """Which gap is meant; levels are codes.

    Args:
        attribute: The attribute A.
        levels: Its two levels, a and b.
        within: The attribute W.
        among: An attribute, and those of its levels whose records are looked at.
    """

    attribute: str
    levels: tuple[int, int]
    within: str
    among: tuple[str, tuple[int, ...]]


def gaps(dataset: Dataset, gap: Gap) -> NDArray[np.float64]:
    """The gap in each level of ``gap.within``, from -1 to 1.

    Raises:
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    chosen, codes = gap.among
    counts = count(dataset, (chosen, gap.within, gap.attribute))[list(codes)].sum(axis=0)
    first, second = (counts[:, level] for level in gap.levels)
    return np.asarray((first - second) / np.maximum(counts.sum(axis=1), 1))


def gap_error(original: Dataset, synthetic: Dataset, gap: Gap) -> float:
    """Root mean squared difference of the gaps, from 0 to 2; raises as ``gaps`` does.

    Raises:
        DomainMismatchError: The domains differ.
    """
    check_same_domain(original.domain, synthetic.domain)
    return float(np.sqrt(np.mean((gaps(original, gap) - gaps(synthetic, gap)) ** 2)))
