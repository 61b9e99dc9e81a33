"""A distribution on a list of records."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidNumberError
from gencard.core.generators.inversion import raw_words
from gencard.core.generators.ladder import Ladder, scale_to_one
from gencard.core.generators.support.support_table import SupportTable

_BLOCK_ROWS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class SupportModel:
    """Independent records, each the support's record ``i`` with probability ``weights[i]``.

    Args:
        support: Records that a model drew, not real ones.
        weights: Shape ``(len(support),)``, zero or more; scaled to sum to 1. Read-only.
        residual: Mean total variation of the marginals from those that were fitted; None where the
            method does not state it.

    Raises:
        DomainMismatchError: There is not one weight for each record.
        InvalidNumberError: A weight is negative or not finite, or all are zero.
    """

    support: Dataset
    weights: NDArray[np.float64]
    residual: float | None = None
    _shares: Ladder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.support),):
            raise DomainMismatchError(problem="the support needs one weight for each record")
        weights = np.array(self.weights, dtype=np.float64)
        scale_to_one(weights, "weights")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "_shares", Ladder.of(weights[None, :]))

    @property
    def domain(self) -> Domain:
        """The attributes of the records."""
        return self.support.domain

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Probabilities on a clique, axes in its order; they sum to 1."""
        return SupportTable(self.support, self.weights, [clique]).marginal(0)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records by inversion, one 64-bit word each; ``sample(a + b)`` is one after the other.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        narrow = code_dtype(max(self.domain.sizes))
        codes = np.empty((rows, len(self.domain)), dtype=narrow, order="F")
        for begin in range(0, rows, _BLOCK_ROWS):
            block = codes[begin : begin + _BLOCK_ROWS]
            drawn = self._shares.shares(raw_words(rng, len(block), 1)[:, 0] >> np.uint64(1))
            for axis in range(len(self.domain)):
                block[:, axis] = self.support.codes[:, axis].take(drawn)
        return Dataset(self.domain, codes)
