r"""Noise on sums of products of units, whole numbers of any size.

Values are divided by the largest product L that a record can have, so that one record moves a cell by at
most 1. A person has at most k records. Noise is drawn about 0 by samplers of 64 bits and added to the
sum. If its scale is above ``LARGEST_SCALE``, the sum is first divided by a power of two g and rounded
down: a record then moves a quotient by at most L / g + 1. The noise is never multiplied and added to a
sum that is not so rounded: the remainder of the sum would be exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import AddedNoise, Noise

LARGEST_SCALE = 2.0**50
"""Largest parameter of noise that the samplers are given: draws then fit 64 bits."""


@dataclass(frozen=True, slots=True)
class SumNoise:
    """Noise on the cells of one sum.

    Args:
        scale: Parameter of the noise on a quotient.
        divisor: g, a power of two; 1 where sums are not divided.
        counts_scale: Parameter of the noise on the counts of the population; 0 where they are not
            measured with the sum.
    """

    scale: float
    divisor: int
    counts_scale: float

    def stddev(self, privacy: AddedNoise) -> float:
        """Return the standard deviation of the noise on the sum of a cell, in products of units."""
        return self.divisor * privacy.stddev(self.scale)

    def added(self, values: Sequence[int], privacy: AddedNoise, noise: Noise) -> tuple[int, ...]:
        """Return exact sums with noise.

        Args:
            values: One for each cell.
        """
        drawn = privacy.draw(noise, np.zeros(len(values), dtype=np.int64), self.scale).tolist()
        pairs = zip(values, drawn, strict=True)
        # Floor first, then add noise: value + draw * divisor would release value mod divisor exactly.
        return tuple((value // self.divisor + draw) * self.divisor for value, draw in pairs)


def sum_noise(
    ends: tuple[int, int], cells: int, privacy: AddedNoise, budget: Fraction, *, counted: bool
) -> SumNoise:
    """Return the noise that spends a budget on one sum, and on its counts if they are measured.

    Args:
        ends: Least and largest product of units, or 0, by declaration; see ``sums.product_ends``.
        cells: Number of cells of the sum.
        counted: Counts of the population are measured by the same budget.
    """
    divisor = 1
    while True:
        moved = sensitivity(ends, cells, privacy, counted=counted, divisor=divisor)
        scale = privacy.scale(moved, budget)
        if scale <= LARGEST_SCALE:
            break
        divisor *= 2
    of_counts = sensitivity((0, 1), cells, privacy, counted=True)
    return SumNoise(scale, divisor, privacy.scale(of_counts, budget) if counted else 0.0)


def sensitivity(
    ends: tuple[int, int], cells: int, privacy: AddedNoise, *, counted: bool, divisor: int = 1
) -> Fraction:
    r"""Return the L1 sensitivity of a sum's cells (``norm`` 1), or the square of the L2 one.

    Let :math:`l \le 0 \le h` be the ends, :math:`L = \max(h, -l)`, and k a person's records. Added or
    removed, k records move one cell by at most :math:`k L`. Replaced, they move one cell by at most
    :math:`k (h - l)`, or two by :math:`k L` each: L1 :math:`2 k L`, squared L2
    :math:`k^2 \max((h-l)^2, 2 L^2)`. With counts, in units of 1 and L, each block alone is moved so, and
    both by the same records: twice the norm of one block.

    Args:
        counted: The counts of the cells are released with the sums, with noise of the same law in units
            of 1 in place of L; the sensitivity is that of both, in units of the sums.
        divisor: Sums are divided by it and rounded down, which moves each cell by at most 1 more.
    """
    low, high = ends
    most, norm = privacy.most_records or 1, privacy.norm
    rounding = int(divisor > 1)
    largest = Fraction(max(high, -low, 1), divisor) + rounding
    span = Fraction(max(high - low, 1), divisor) + rounding
    replaced = privacy.neighbouring is Neighbouring.REPLACE_ONE
    if counted:
        return (most * largest) ** norm * (4 if replaced else 2)
    if not replaced:
        return (most * largest) ** norm
    if cells == 1:
        return (most * span) ** norm
    # A replaced person moves one cell by k span or two cells by k largest each, whichever is worse.
    return most * 2 * largest if norm == 1 else most**2 * max(span**2, 2 * largest**2)
