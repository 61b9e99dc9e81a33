r"""The training of CTGAN. Imports PyTorch, so it is loaded only for a fit.

Between two bends of its rectifiers the discriminator is linear in its input,
:math:`w D_L W_L \cdots D_1 W_1 x`, where D holds the slopes (0 for units that dropout leaves out).
So its gradient is that product, and the gradient penalty needs one pass back through the product and
no second derivative.

References:
    L. Xu, M. Skoularidou, A. Cuesta-Infante, K. Veeramachaneni, "Modeling Tabular Data using Conditional
    GAN", NeurIPS 2019, section 4.4.
    I. Gulrajani et al., "Improved Training of Wasserstein GANs", NIPS 2017, section 4.
    Z. Lin, A. Khetan, G. Fanti, S. Oh, "PacGAN: The power of two samples in generative adversarial
    networks", NeurIPS 2018.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gencard.boxes.nets.fitted import FittedNet
from gencard.boxes.nets.generator import GeneratorNet, OutputBlocks, Tensor, adam, normal, uniform
from gencard.boxes.nets.layout import Layout, Rows
from gencard.boxes.nets.options import CtganOptions, conditions_of
from gencard.core.types import IntArray, Progress

_LEAK = 0.2


_KEPT = 0.5
"""Share of units that dropout leaves in."""


class Discriminator:
    """Leaky rectified layers with dropout, then one number: how real a pack of rows looks.

    Args:
        rows: Numbers of a pack of rows.
        conditions: Numbers of the conditions of a pack.
        units: Of each hidden layer.
        rng: Draws the weights.
    """

    def __init__(
        self, rows: int, conditions: int, units: Sequence[int], *, rng: np.random.Generator
    ) -> None:
        inputs = rows + conditions
        self.first = uniform(inputs, (rows, units[0]), rng)
        self.lookup = uniform(inputs, (conditions, units[0]), rng)
        self.weights, self.biases = [], [uniform(inputs, (units[0],), rng)]
        for before, after in zip(units, [*units[1:], 1], strict=True):
            self.weights.append(uniform(before, (before, after), rng))
            self.biases.append(uniform(before, (after,), rng))

    @property
    def parameters(self) -> list[Tensor]:
        lookup = [self.lookup] if len(self.lookup) else []
        return [self.first, *lookup, *self.weights, *self.biases]

    def begun(self, packs: Tensor, conditions: Tensor) -> Tensor:
        """The first layer's units, which are affine in the packs.

        Args:
            conditions: Those of each pack, by position among the conditions of a pack.
        """
        units = torch.addmm(self.biases[0], packs, self.first)
        if not len(self.lookup):
            return units
        return units + torch.nn.functional.embedding_bag(conditions, self.lookup, mode="sum")

    def scores(self, units: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the score of each pack, shape ``(packs, 1)``, from the units of the first layer."""
        scores, _ = self._passed(units, rng)
        return scores

    def penalty(self, units: Tensor, rng: np.random.Generator) -> Tensor:
        """Mean squared distance from 1 of the length of the score's gradient by the rows of a pack."""
        with torch.no_grad():
            _, slopes = self._passed(units, rng)
        return ((self.gradient(slopes).norm(dim=1) - 1) ** 2).mean()

    def gradient(self, slopes: Sequence[Tensor]) -> Tensor:
        """Return the gradient of each score by its rows, given the slope of every unit."""
        back = slopes[-1] * self.weights[-1][:, 0]
        for weights, slope in zip(self.weights[-2::-1], slopes[-2::-1], strict=True):
            back = (back @ weights.T) * slope
        return back @ self.first.T

    def _passed(self, units: Tensor, rng: np.random.Generator) -> tuple[Tensor, list[Tensor]]:
        """Scores, and the slopes of all layers with fresh dropout."""
        slopes = []
        for weights, bias in zip(self.weights, self.biases[1:], strict=True):
            kept = torch.from_numpy(rng.random(units.shape, dtype=np.float32) < _KEPT)
            slope = torch.where(units.detach() > 0, 1.0, _LEAK)
            slopes.append(slope * kept / _KEPT)
            units = torch.addmm(bias, units * slopes[-1], weights)
        return units, slopes


_PENALTY = 10.0
"""Weight of the gradient's penalty (Gulrajani et al. 2017)."""

_SETTLING_ROWS = 5_000
"""Over which the normalisations of the fitted net are taken."""


def trained(
    layout: Layout, rows: Rows, options: CtganOptions, *, rng: np.random.Generator, progress: Progress
) -> FittedNet:
    """A generator trained on the records, of which there is at least one."""
    training = _Training(layout, rows, options, rng)
    batches = max(1, len(rows.entries) // options.batch_size)
    for epoch in range(options.epochs):
        for _ in range(batches):
            training.step()
        progress("epochs", (epoch + 1) / options.epochs)
    return training.fitted()


class _Training:
    """Both nets and their optimisers; a step trains each once."""

    def __init__(
        self, layout: Layout, rows: Rows, options: CtganOptions, rng: np.random.Generator
    ) -> None:
        self._layout, self._rows, self._options, self._rng = layout, rows, options, rng
        self._conditions = conditions_of(layout, rows)
        self._blocks = OutputBlocks(layout)
        wide, pac = len(self._conditions), options.pac
        self._generator = GeneratorNet(options.embedding, wide, options.generator, layout.width, rng=rng)
        self._discriminator = Discriminator(
            pac * layout.width, pac * wide, options.discriminator, rng=rng
        )
        self._adam_g = adam(self._generator.parameters, options.generator_rate)
        self._adam_d = adam(self._discriminator.parameters, options.discriminator_rate)

    def step(self) -> None:
        """One step of the discriminator, then one of the generator."""
        self._step_discriminator()
        self._step_generator()

    def fitted(self) -> FittedNet:
        entries, _ = self._conditions.drawn(_SETTLING_ROWS, self._rng)
        net = self._generator.fitted(*self._inputs(entries))
        return FittedNet(self._layout, net, self._options.embedding, self._conditions.by_count)

    def _step_discriminator(self) -> None:
        entries, records = self._conditions.drawn(self._options.batch_size, self._rng)
        with torch.no_grad():
            outputs = self._generator(*self._inputs(entries))
            false = self._packed(self._blocks.row(outputs, self._rng))
        true = self._packed(torch.from_numpy(self._rows.dense(records, self._layout.width)))
        packs = len(true)
        given = self._given(entries)
        units = self._discriminator.begun(torch.cat([true, false]), torch.cat([given, given]))
        scores = self._discriminator.scores(units, self._rng)
        between = torch.from_numpy(self._rng.random((packs, 1), dtype=np.float32))
        mixed = torch.lerp(*units.detach().split(packs), between)
        gap = scores[packs:].mean() - scores[:packs].mean()
        loss = gap + _PENALTY * self._discriminator.penalty(mixed, self._rng)
        self._improve(self._adam_d, self._discriminator.parameters, loss)

    def _step_generator(self) -> None:
        entries, _ = self._conditions.drawn(self._options.batch_size, self._rng)
        outputs = self._generator(*self._inputs(entries))
        packs = self._packed(self._blocks.row(outputs, self._rng))
        units = self._discriminator.begun(packs, self._given(entries))
        loss = -self._discriminator.scores(units, self._rng).mean()
        if len(self._conditions):
            loss = loss + self._blocks.surprise(outputs, entries)
        self._improve(self._adam_g, self._generator.parameters, loss)

    def _improve(self, adam: Any, parameters: Sequence[Tensor], loss: Tensor) -> None:
        """A step down the gradient by these parameters, no other being computed."""
        for each, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            each.grad = gradient
        adam.step()

    def _inputs(self, entries: IntArray) -> tuple[Tensor, Tensor]:
        """Noise and conditions of a batch."""
        noise = normal((len(entries), self._options.embedding), self._rng)
        return noise, torch.from_numpy(entries)

    def _given(self, entries: IntArray) -> Tensor:
        """Conditions of each pack: those of its second row come after all of its first, and so on."""
        pac = self._options.pac
        positions = entries.reshape(-1, pac) + len(self._conditions) * np.arange(pac)
        return torch.from_numpy(positions)

    def _packed(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, self._options.pac * rows.shape[1])
