"""The generator's network during training, and its outputs as rows. Imports PyTorch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gencard.boxes.nets.fitted import ResidualNet, gumbel
from gencard.boxes.nets.layout import Layout

Tensor = Any
"""A PyTorch tensor; PyTorch is optional, so its types are not imported."""

_EPSILON = 1e-5
"""Added to variances, as PyTorch's batch normalisation does."""


def uniform(inputs: int, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    """Weights of a layer with so many inputs, to be learned."""
    bound = inputs**-0.5
    return torch.tensor(rng.uniform(-bound, bound, shape), dtype=torch.float32, requires_grad=True)


def normal(shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    """Standard normal noise."""
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))


def array(tensor: Tensor) -> Any:
    """A tensor's numbers, without a copy."""
    return tensor.detach().numpy()


def adam(parameters: Sequence[Tensor], rate: float) -> Any:
    """Adam with the momenta of Wasserstein nets."""
    return torch.optim.Adam(parameters, lr=rate, betas=(0.5, 0.9), fused=True)


class GeneratorNet:
    r"""Residual layers, normalised over the batch, and an affine last one.

    With :math:`h_0` the noise, :math:`h_{i+1} = [\max(0, \mathrm{BN}(h_i W_i + V_i c)), h_i]`, where c
    is the one-hot condition, so that :math:`V_i c` is looked up; no bias before a normalisation,
    which would take it off again.

    Args:
        noise: Numbers of noise.
        conditions: How many there are; none is 0.
        units: Of each residual layer.
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
                weights.append(self._stacked(layer) * scale)
                inputs = torch.cat([torch.relu(units * scale + biases[-1]), inputs], dim=1)
        return ResidualNet(
            tuple(array(each).copy() for each in (*weights, self._stacked(-1))),
            tuple(array(each).copy() for each in (*biases, self.bias)),
        )

    def _units(self, layer: int, held: Tensor, conditions: Tensor) -> Tensor:
        units = held @ self.weights[layer]
        lookup = self.lookups[layer]
        if not len(lookup):
            return units
        return units + torch.nn.functional.embedding(conditions, lookup)

    def _stacked(self, layer: int) -> Tensor:
        """Weights of all inputs, the conditions last."""
        return torch.cat([self.weights[layer], self.lookups[layer]])


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
