"""Softmax over every block of a row at once."""

from typing import Any

import numpy as np
import torch

from gencard.boxes.nets.draws import gumbel
from gencard.boxes.nets.generator import Tensor, array
from gencard.boxes.nets.layout import Layout

_TEMPERATURE = 0.2


class Blocks:
    """The outputs of a generator's net as rows: numbers by tanh, blocks by softmax.

    A block's sum is a product with the matrix that says which entry is in which block, so that many
    blocks cost as much as one.
    """

    def __init__(self, layout: Layout) -> None:
        self.numbers = layout.numbers
        self._starts = layout.starts[:-1]
        self._owner = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
        self._member = torch.from_numpy(
            (self._owner[:, None] == np.arange(len(layout.sizes))).astype(np.float32)
        )

    def row(self, outputs: Tensor, rng: np.random.Generator) -> Tensor:
        """A draw by Gumbel softmax: nearly one-hot, and differentiable."""
        logits = outputs[:, self.numbers :]
        noise = torch.from_numpy(gumbel(tuple(logits.shape), rng))
        soft = self._softmax((logits + noise) / _TEMPERATURE)
        return torch.cat([torch.tanh(outputs[:, : self.numbers]), soft], dim=1)

    def hard_row(self, outputs: Tensor, rng: np.random.Generator) -> Tensor:
        """The same, one-hot, with the gradient of what is nearly so."""
        soft = self.row(outputs, rng)
        entries = array(soft)[:, self.numbers :]
        highest = np.maximum.reduceat(entries, self._starts, axis=1)[:, self._owner]
        hard = soft.detach().clone()
        hard[:, self.numbers :] = torch.from_numpy((entries == highest).astype(np.float32))
        return hard + soft - soft.detach()

    def surprise(self, outputs: Tensor, entries: Any) -> Tensor:
        """Cross entropy of one entry of each row against its block, the mean over rows.

        Args:
            entries: Counted from the first entry, shape ``(rows,)``.
        """
        logits = self._lowered(outputs[:, self.numbers :])
        block = self._member.T[torch.from_numpy(self._owner[entries])]
        total = (torch.exp(logits) * block).sum(dim=1)
        own = logits.gather(1, torch.from_numpy(entries)[:, None])[:, 0]
        return (torch.log(total) - own).mean()

    def _softmax(self, logits: Tensor) -> Tensor:
        chances = torch.exp(self._lowered(logits))
        return chances / ((chances @ self._member) @ self._member.T)

    def _lowered(self, logits: Tensor) -> Tensor:
        """The highest logit of each block at 0: a constant that changes nothing but rounding."""
        highest = np.maximum.reduceat(array(logits), self._starts, axis=1)
        return logits - torch.from_numpy(highest[:, self._owner])
