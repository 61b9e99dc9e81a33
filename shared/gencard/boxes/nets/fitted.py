"""A generator's net after its training: it samples without the library that trained it."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gencard.boxes.nets.draws import drawn_by, gumbel
from gencard.boxes.nets.layout import Layout, Rows
from gencard.boxes.nets.modes import Numbers
from gencard.boxes.nets.residual import ResidualNet
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.errors import InvalidNumberError
from gencard.core.generators.replay import rng_of

_BLOCK = 4096
"""Rows that are drawn and decoded at a time: what a row needs on the way is far more than its codes."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedNet:
    """A net, and how its inputs are drawn and its outputs read.

    The input is normal noise, then the condition, one-hot over nominal entries; the output one number
    for each numeric attribute, of which tanh is taken, then the logits of every block.

    Args:
        layout: Of the outputs.
        net: The net.
        noise: Numbers of noise.
        conditions: Chance of each nominal entry to be the condition; empty where there is none.
    """

    layout: Layout
    net: ResidualNet
    noise: int
    conditions: Numbers

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, independent of each other.

        Raises:
            InvalidNumberError: Rows are negative, or the seed is out of range.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="a whole number of 0 or more")
        rng = rng_of(seed)
        domain = self.layout.domain
        codes = np.empty((rows, len(domain)), dtype=code_dtype(max(domain.sizes)), order="F")
        for start in range(0, rows, _BLOCK):
            block = codes[start : start + _BLOCK]
            block[:] = self.layout.decoded(self._drawn(len(block), rng)).codes
        return Dataset(domain, codes)

    def _drawn(self, rows: int, rng: np.random.Generator) -> Rows:
        """One draw of each block by its logits: the highest with Gumbel noise."""
        inputs = np.zeros((rows, self.noise + len(self.conditions)), dtype=np.float32)
        inputs[:, : self.noise] = rng.standard_normal((rows, self.noise), dtype=np.float32)
        if len(self.conditions):
            chosen = drawn_by(np.cumsum(self.conditions), rng.random(rows))
            inputs[np.arange(rows), self.noise + chosen] = 1.0
        outputs = self.net(inputs)
        numbers, starts = self.layout.numbers, self.layout.starts
        logits = outputs[:, numbers:] + gumbel((rows, int(starts[-1])), rng)
        highest = [start + logits[:, start:end].argmax(axis=1) for start, end in pairwise(starts)]
        return Rows(np.stack(highest, axis=1), np.tanh(outputs[:, :numbers]))
