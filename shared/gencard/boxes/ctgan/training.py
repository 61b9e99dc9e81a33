"""The training of CTGAN. Imports PyTorch: loaded only where something is fitted."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gencard.boxes.ctgan.conditions import conditions_of
from gencard.boxes.ctgan.discriminator import Discriminator
from gencard.boxes.ctgan.options import Options
from gencard.boxes.nets.blocks import Blocks
from gencard.boxes.nets.fitted import FittedNet
from gencard.boxes.nets.generator import Generator, Tensor, adam, normal
from gencard.boxes.nets.layout import Entries, Layout, Rows
from gencard.core.types import Progress

_PENALTY = 10.0
"""Weight of the gradient's penalty (Gulrajani et al. 2017)."""

_SETTLING_ROWS = 5_000
"""Over which the normalisations of the fitted net are taken."""


def trained(
    layout: Layout, rows: Rows, options: Options, *, rng: np.random.Generator, progress: Progress
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

    def __init__(self, layout: Layout, rows: Rows, options: Options, rng: np.random.Generator) -> None:
        self._layout, self._rows, self._options, self._rng = layout, rows, options, rng
        self._conditions = conditions_of(layout, rows)
        self._blocks = Blocks(layout)
        wide, pac = len(self._conditions), options.pac
        self._generator = Generator(options.embedding, wide, options.generator, layout.width, rng=rng)
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

    def _inputs(self, entries: Entries) -> tuple[Tensor, Tensor]:
        """Noise and conditions of a batch."""
        noise = normal((len(entries), self._options.embedding), self._rng)
        return noise, torch.from_numpy(entries)

    def _given(self, entries: Entries) -> Tensor:
        """Conditions of each pack: those of its second row come after all of its first, and so on."""
        pac = self._options.pac
        given = entries.reshape(-1, pac) + len(self._conditions) * np.arange(pac)
        return torch.from_numpy(given)

    def _packed(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, self._options.pac * rows.shape[1])
