"""Fitted trees: they sample without the records, though every leaf holds some of their codes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.synthpop.file import bytes_of
from gencard.boxes.synthpop.step import Step
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.generators.replay import rng_of

_BLOCK_ROWS = 65_536
"""Rows drawn at a time: memory stays flat."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedTrees:
    """One step for each attribute of the domain, in the order of the visits."""

    domain: Domain
    steps: tuple[Step, ...]

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them.

        Raises:
            InvalidNumberError: ``rows`` is negative, or the seed outside 0..2**64-1.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        rng = rng_of(seed)
        width = code_dtype(max(self.domain.sizes, default=1))
        codes = np.zeros((rows, len(self.domain)), dtype=width, order="F")
        for begin in range(0, rows, _BLOCK_ROWS):
            self._draw(codes[begin : begin + _BLOCK_ROWS], rng)
        return Dataset(self.domain, codes)

    def save(self) -> bytes:
        """Trees, codes in their leaves, rules: made of records, and to be kept as they are."""
        return bytes_of(self.domain, self.steps)

    def _draw(self, codes: NDArray[Any], rng: np.random.Generator) -> None:
        for step in self.steps:
            codes[:, step.axis] = step.draw(codes, self.domain, rng)
