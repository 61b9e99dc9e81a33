r"""Training of CTGAN and PATE-GAN. Imports PyTorch, so it is loaded only for a fit.

Between two bends of its rectifiers the discriminator of CTGAN is linear in its input,
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

from gencard.boxes.net_options import CtganOptions, PateGanOptions, conditions_of, shards_of
from gencard.boxes.nets import FittedNet, Layout, ResidualNet, Rows, gumbel
from gencard.core.card.privacy import Noise
from gencard.core.types import IntArray, Progress

Tensor = Any
"""A PyTorch tensor; PyTorch is optional, so its types are not imported."""

_EPSILON = 1e-5
"""Added to variances, as PyTorch's batch normalisation does."""

_SETTLING_ROWS = 5_000
"""Over which the normalisations of the fitted net are taken."""


def uniform(inputs: int, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    """Weights of a layer with so many inputs, to be learned."""
    bound = inputs**-0.5
    return torch.tensor(rng.uniform(-bound, bound, shape), dtype=torch.float32, requires_grad=True)


def normal(shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))


def array(tensor: Tensor) -> Any:
    """A tensor's numbers, without a copy."""
    return tensor.detach().numpy()


def adam(parameters: Sequence[Tensor], rate: float) -> Any:
    """Adam with the momenta of Wasserstein nets."""
    return torch.optim.Adam(parameters, lr=rate, betas=(0.5, 0.9), fused=True)


def descend(optimiser: Any, parameters: Sequence[Tensor], loss: Tensor) -> None:
    """Step down the gradient of a loss by these parameters; no other gradient is computed."""
    for each, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        each.grad = gradient
    optimiser.step()


class GeneratorNet:
    r"""Residual layers, normalised over the batch, and an affine last one.

    With :math:`h_0` the noise, :math:`h_{i+1} = [\max(0, \mathrm{BN}(h_i W_i + V_i c)), h_i]`, where c
    is the one-hot condition, so that :math:`V_i c` is looked up; no bias before a normalisation,
    which would take it off again.

    Args:
        outputs: Numbers and logits.
        rng: Draws the weights, uniform within :math:`1 / \sqrt{inputs}` of each layer.
    """

    def __init__(
        self,
        noise: int,
        conditions: int,
        units: Sequence[int],
        outputs: int,
        *,
        rng: np.random.Generator,
    ) -> None:
        self.weights, self.lookups, inputs = [], [], noise
        for width in (*units, outputs):
            self.weights.append(uniform(inputs + conditions, (inputs, width), rng))
            self.lookups.append(uniform(inputs + conditions, (conditions, width), rng))
            inputs += width
        self.gains = [torch.ones(width, requires_grad=True) for width in units]
        self.shifts = [torch.zeros(width, requires_grad=True) for width in units]
        self.bias = uniform(len(self.weights[-1]) + conditions, (outputs,), rng)

    @property
    def parameters(self) -> list[Tensor]:
        lookups = [lookup for lookup in self.lookups if len(lookup)]
        return [*self.weights, *lookups, *self.gains, *self.shifts, self.bias]

    def __call__(self, noise: Tensor, conditions: Tensor) -> Tensor:
        """Outputs of a batch, one row for each row of noise and each condition."""
        inputs = noise
        for layer, (gain, shift) in enumerate(zip(self.gains, self.shifts, strict=True)):
            units = torch.nn.functional.batch_norm(
                self._units(layer, inputs, conditions), None, None, gain, shift, True, 0.0, _EPSILON
            )
            inputs = torch.cat([torch.relu(units), inputs], dim=1)
        return self._units(-1, inputs, conditions) + self.bias

    def fitted(self, noise: Tensor, conditions: Tensor) -> ResidualNet:
        """The net with means and variances of all these inputs in place of a batch's [1]_.

        So a row does not depend on those beside it, and a normalisation is part of its layer.

        References:
            .. [1] Y. Wu, J. Johnson, "Rethinking 'Batch' in BatchNorm", arXiv 2105.07576, section 3.
        """
        weights, biases, inputs = [], [], noise
        with torch.no_grad():
            for layer, (gain, shift) in enumerate(zip(self.gains, self.shifts, strict=True)):
                units = self._units(layer, inputs, conditions)
                scale = gain / torch.sqrt(units.var(dim=0, correction=0) + _EPSILON)
                biases.append(shift - units.mean(dim=0) * scale)
                weights.append(torch.cat([self.weights[layer], self.lookups[layer]]) * scale)
                inputs = torch.cat([torch.relu(units * scale + biases[-1]), inputs], dim=1)
        weights.append(torch.cat([self.weights[-1], self.lookups[-1]]))
        return ResidualNet(
            tuple(array(each).copy() for each in weights),
            tuple(array(each).copy() for each in (*biases, self.bias)),
        )

    def _units(self, layer: int, held: Tensor, conditions: Tensor) -> Tensor:
        units = held @ self.weights[layer]
        lookup = self.lookups[layer]
        if not len(lookup):
            return units
        return units + torch.nn.functional.embedding(conditions, lookup)


_TEMPERATURE = 0.2


class OutputBlocks:
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
        chances = torch.exp(self._lowered((logits + noise) / _TEMPERATURE))
        soft = chances / ((chances @ self._member) @ self._member.T)
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

    def _lowered(self, logits: Tensor) -> Tensor:
        """The highest logit of each block at 0: a constant that changes nothing but rounding."""
        highest = np.maximum.reduceat(array(logits), self._starts, axis=1)
        return logits - torch.from_numpy(highest[:, self._owner])


# CTGAN.

_LEAK = 0.2

_KEPT = 0.5
"""Share of units that dropout leaves in."""


class Discriminator:
    """Leaky rectified layers with dropout, then one number: how real a pack of rows looks.

    Args:
        rows: Numbers of a pack of rows.
        conditions: Numbers of the conditions of a pack.
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
        return self._passed(units, rng)[0]

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


def trained_ctgan(
    layout: Layout, rows: Rows, options: CtganOptions, *, rng: np.random.Generator, progress: Progress
) -> FittedNet:
    """A generator trained on the records, of which there is at least one."""
    training = _CtganTraining(layout, rows, options, rng)
    batches = max(1, len(rows.entries) // options.batch_size)
    for epoch in range(options.epochs):
        for _ in range(batches):
            training.step_discriminator()
            training.step_generator()
        progress("epochs", (epoch + 1) / options.epochs)
    return training.fitted()


class _CtganTraining:
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

    def fitted(self) -> FittedNet:
        entries, _ = self._conditions.drawn(_SETTLING_ROWS, self._rng)
        net = self._generator.fitted(*self._inputs(entries))
        return FittedNet(self._layout, net, self._options.embedding, self._conditions.by_count)

    def step_discriminator(self) -> None:
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
        descend(self._adam_d, self._discriminator.parameters, loss)

    def step_generator(self) -> None:
        entries, _ = self._conditions.drawn(self._options.batch_size, self._rng)
        outputs = self._generator(*self._inputs(entries))
        packs = self._packed(self._blocks.row(outputs, self._rng))
        units = self._discriminator.begun(packs, self._given(entries))
        loss = -self._discriminator.scores(units, self._rng).mean()
        if len(self._conditions):
            loss = loss + self._blocks.surprise(outputs, entries)
        descend(self._adam_g, self._generator.parameters, loss)

    def _inputs(self, entries: IntArray) -> tuple[Tensor, Tensor]:
        noise = normal((len(entries), self._options.embedding), self._rng)
        return noise, torch.from_numpy(entries)

    def _given(self, entries: IntArray) -> Tensor:
        """Conditions of each pack: those of its second row come after all of its first, and so on."""
        pac = self._options.pac
        positions = entries.reshape(-1, pac) + len(self._conditions) * np.arange(pac)
        return torch.from_numpy(positions)

    def _packed(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, self._options.pac * rows.shape[1])


# PATE-GAN.


class Critics:
    """Some nets of one form, side by side, each with weights of its own.

    A net has one hidden layer of rectified units; its output is the logit of "real". No number of one
    net enters another: neither its outputs nor its gradient nor its step.
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
            labels: 1 for real, 0 for made up, or between; of a shape that fits the logits.
        """
        logits = self.logits(rows)
        surprise = torch.nn.functional.softplus(logits) - labels * logits
        loss = surprise.mean(dim=1).sum()
        descend(self._adam, self.parameters, loss)

    def votes(self, rows: Tensor) -> IntArray:
        """Count the nets that take each row for real."""
        with torch.no_grad():
            counts: IntArray = (self.logits(rows) > 0).sum(dim=0).numpy()
        return counts


def trained_pate_gan(
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
        descend(self._adam, self._generator.parameters, loss)

    def fitted(self) -> FittedNet:
        net = self._generator.fitted(*self._inputs(_SETTLING_ROWS))
        return FittedNet(self._layout, net, self._options.embedding, np.empty(0))

    def _made_up(self, batch: int) -> Tensor:
        with torch.no_grad():
            return self._blocks.hard_row(self._generator(*self._inputs(batch)), self._rng)

    def _inputs(self, batch: int) -> tuple[Tensor, Tensor]:
        return normal((batch, self._options.embedding), self._rng), torch.empty(0)
