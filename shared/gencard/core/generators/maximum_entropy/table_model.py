"""A distribution given by the probability of every cell."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError
from gencard.core.statistics.marginals import project, total

_BLOCK_ROWS = 2**16
"""Rows drawn together, so that what lies between the draw and the codes stays in the cache."""

_WORDS = 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class TableModel:
    """Independent records, each in cell ``i`` with probability ``probabilities[i]``.

    Args:
        domain: The attributes, in the order of the axes.
        probabilities: Shape ``domain.sizes``, zero or more; scaled to sum to 1. Read-only.

    Raises:
        DomainMismatchError: The shape is not the domain's.
        InvalidNumberError: A probability is negative or not finite, or all are zero.
    """

    domain: Domain
    probabilities: NDArray[np.float64]
    _thresholds: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.probabilities.shape != self.domain.sizes:
            raise DomainMismatchError(problem="the table of probabilities has the wrong shape")
        whole = total(self.probabilities)
        if not (np.isfinite(whole) and whole > 0 and self.probabilities.min() >= 0):
            raise InvalidNumberError(field="probabilities", expected="zero or more, with a finite sum")
        frozen = self.probabilities / whole
        frozen.flags.writeable = False
        object.__setattr__(self, "probabilities", frozen)
        object.__setattr__(self, "_thresholds", _thresholds(frozen))

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Probabilities on a clique, axes in its order; they sum to 1."""
        return project(self.probabilities, self.domain.attributes, clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records by inversion: a cell is drawn where a raw 64-bit word falls below its threshold.

        Row ``i`` depends on word ``i`` of the bit generator alone, so the bytes depend on no
        sampling algorithm of numpy's, and ``sample(a)`` then ``sample(b)`` is ``sample(a + b)``.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        _check_words(rng)
        codes = np.empty(
            (rows, len(self.domain)), dtype=code_dtype(max(self.domain.sizes, default=1)), order="F"
        )
        for begin in range(0, rows, _BLOCK_ROWS):
            block = codes[begin : begin + _BLOCK_ROWS]
            words = rng.bit_generator.random_raw(len(block))
            _decode(np.searchsorted(self._thresholds, words, side="right"), self.domain.sizes, block)
        return Dataset(self.domain, codes)


def _thresholds(probabilities: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Upper end of each cell's share of the 64-bit words; the last cell that is drawn needs none.

    A cell of probability zero has its predecessor's threshold, so no word falls to it.
    """
    cumulative = np.cumsum(probabilities, axis=None)
    last = int(np.searchsorted(cumulative, cumulative[-1], side="left"))
    ends: NDArray[np.float64] = cumulative[:last] / cumulative[-1]
    return (ends * _WORDS).astype(np.uint64)


def _check_words(rng: np.random.Generator) -> None:
    if isinstance(rng.bit_generator, np.random.MT19937):
        raise InvalidInputError(field="rng", problem="must produce 64-bit words, as PCG64 does")


def _decode(cells: NDArray[Any], sizes: tuple[int, ...], block: NDArray[Any]) -> None:
    """Write the codes of the cells into ``block``, the last attribute running fastest."""
    rest = cells.astype(np.uint32) if np.prod(sizes, dtype=float) < 2.0**32 else cells
    for axis in reversed(range(len(sizes))):
        whole = rest // sizes[axis]
        block[:, axis] = rest - whole * sizes[axis]
        rest = whole
