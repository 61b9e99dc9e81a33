"""Nets that tell records from made-up rows: all teachers at once, or the student alone."""

from typing import Any

import numpy as np
import torch

from gencard.boxes.nets.generator import Tensor, adam, uniform
from gencard.core.types import IntArray


class Critics:
    """Some nets of one form, side by side, each with weights of its own.

    A net has one hidden layer of rectified units; its output is the logit of "real". No number of one
    net enters another: neither its outputs nor its gradient nor its step.

    Args:
        nets: How many.
        inputs: Numbers of a row.
        units: Of the hidden layer.
        rng: Draws the weights.
    """

    def __init__(
        self, nets: int, inputs: int, units: int, step: float, *, rng: np.random.Generator
    ) -> None:
        self.parameters = [
            uniform(inputs, (nets, inputs, units), rng),
            uniform(inputs, (nets, 1, units), rng),
            uniform(units, (nets, units, 1), rng),
            uniform(units, (nets, 1, 1), rng),
        ]
        self._adam = adam(self.parameters, step)

    def logits(self, rows: Tensor) -> Tensor:
        """Of the same rows for all nets, ``(m, inputs)``, or rows of each, ``(nets, m, inputs)``.

        Returns:
            Shape ``(nets, m)``.
        """
        first, first_bias, last, last_bias = self.parameters
        return (torch.relu(rows @ first + first_bias) @ last + last_bias)[:, :, 0]

    def learn(self, rows: Tensor, labels: Any) -> None:
        """One step of each net on the cross entropy of its logits.

        Args:
            rows: As for ``logits``.
            labels: 1 for real, 0 for made up, or between; of a shape that fits the logits.
        """
        logits = self.logits(rows)
        surprise = torch.nn.functional.softplus(logits) - labels * logits
        loss = surprise.mean(dim=1).sum()
        for each, gradient in zip(
            self.parameters, torch.autograd.grad(loss, self.parameters), strict=True
        ):
            each.grad = gradient
        self._adam.step()

    def votes(self, rows: Tensor) -> IntArray:
        """How many nets take each row for real."""
        with torch.no_grad():
            counts: IntArray = (self.logits(rows) > 0).sum(dim=0).numpy()
        return counts
