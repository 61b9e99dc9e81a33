"""Weights that tell tables apart best where cells are counts of random records."""

from collections.abc import Sequence

from gencard.core.audit.pairs.direction import Basis
from gencard.core.types import FloatArray

_UNIFORM = 0.02
"""As much of a uniform table keeps the weights of cells bounded that are hardly ever hit."""


def inverse_variance(table: FloatArray, shares: FloatArray) -> FloatArray:
    """Each entry divided by the expected share of its cell.

    The variance of a cell's count is nearly proportional to its expected share, so of all linear
    scores this one separates two sides that differ by ``table`` by most standard deviations (Fisher).
    """
    return table / ((1 - _UNIFORM) * shares + _UNIFORM / shares.size)


def within_blocks(basis: Basis, vector: FloatArray, shares: Sequence[FloatArray]) -> FloatArray:
    """The same for every block, kept inside it, so that no block speaks for another.

    Args:
        vector: Coordinates of the difference.
        shares: Expected marginal on each clique of the basis.
    """
    pairs = zip(basis.tables(vector), shares, strict=True)
    return basis.coordinates([inverse_variance(table, share) for table, share in pairs])
