"""The training of PATE-GAN. Imports PyTorch, so it is loaded only for a fit."""

from typing import Any

import numpy as np
import torch

from gencard.boxes.nets.fitted import FittedNet
from gencard.boxes.nets.generator import GeneratorNet, OutputBlocks, Tensor, adam, normal, uniform
from gencard.boxes.nets.layout import Layout, Rows
from gencard.boxes.nets.options import PateGanOptions, shards_of
from gencard.core.card.privacy import Noise
from gencard.core.types import IntArray, Progress


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
        """Return scores of the same rows for all nets, ``(m, inputs)``, or of ``(nets, m, inputs)``.

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
        """Count the nets that take each row for real."""
        with torch.no_grad():
            counts: IntArray = (self.logits(rows) > 0).sum(dim=0).numpy()
        return counts


_SETTLING_ROWS = 5_000
"""Over which the normalisations of the fitted net are taken."""


def trained(
    layout: Layout,
    rows: Rows,
    options: PateGanOptions,
    noise: Noise,
    *,
    rng: np.random.Generator,
    progress: Progress,
) -> FittedNet:
    """A generator trained against a student; there are at least as many records as teachers."""
    training = _PateTraining(layout, rows, options, rng)
    iterations = options.affordable
    for iteration in range(iterations):
        training.teach()
        training.study(noise)
        training.step_generator()
        progress("iterations", (iteration + 1) / iterations)
    return training.fitted()


class _PateTraining:
    """Teachers see records; the student and the generator see made-up rows and noisy votes."""

    def __init__(
        self, layout: Layout, rows: Rows, options: PateGanOptions, rng: np.random.Generator
    ) -> None:
        self._layout, self._rows, self._options, self._rng = layout, rows, options, rng
        self._blocks = OutputBlocks(layout)
        self._shards = shards_of(len(rows.entries), options.teachers, rng)
        self._generator = GeneratorNet(options.embedding, 0, options.generator, layout.width, rng=rng)
        self._teachers, self._student = (
            Critics(nets, layout.width, units, options.critic_rate, rng=rng)
            for nets, units in ((options.teachers, options.teacher), (1, options.student))
        )
        self._adam = adam(self._generator.parameters, options.generator_rate)

    def teach(self) -> None:
        """Steps of every teacher on its shard and on made-up rows, which are the same for all."""
        batch = max(2, min(self._options.batch_size, int(self._shards.sizes.max())))
        labels = torch.cat([torch.ones(batch), torch.zeros(batch)])
        for _ in range(self._options.teacher_steps):
            positions = self._shards.drawn(batch, self._rng)
            dense = self._rows.dense(positions.ravel(), self._layout.width)
            true = torch.from_numpy(dense.reshape(*positions.shape, -1))
            false = self._made_up(batch).expand(len(positions), -1, -1)
            self._teachers.learn(torch.cat([true, false], dim=1), labels)

    def study(self, noise: Noise) -> None:
        """Noisy votes on made-up rows, once, and steps of the student on them.

        More than half of the teachers make a label of 1, fewer one of 0, just half 1/2.
        """
        rows = self._made_up(self._options.batch_size)
        noisy = noise.laplace(self._teachers.votes(rows), self._options.noise)
        labels = (np.sign(2 * noisy - self._options.teachers) + 1) / 2
        for _ in range(self._options.student_steps):
            self._student.learn(rows, torch.from_numpy(labels.astype(np.float32)))

    def step_generator(self) -> None:
        """A step towards rows that the student takes for real."""
        outputs = self._generator(*self._inputs(self._options.batch_size))
        logits = self._student.logits(self._blocks.hard_row(outputs, self._rng))
        loss = torch.nn.functional.softplus(-logits).mean()
        parameters = self._generator.parameters
        for each, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            each.grad = gradient
        self._adam.step()

    def fitted(self) -> FittedNet:
        net = self._generator.fitted(*self._inputs(_SETTLING_ROWS))
        return FittedNet(self._layout, net, self._options.embedding, np.empty(0))

    def _made_up(self, batch: int) -> Tensor:
        with torch.no_grad():
            return self._blocks.hard_row(self._generator(*self._inputs(batch)), self._rng)

    def _inputs(self, batch: int) -> tuple[Tensor, Tensor]:
        """Noise, and no condition."""
        return normal((batch, self._options.embedding), self._rng), torch.empty(0)
