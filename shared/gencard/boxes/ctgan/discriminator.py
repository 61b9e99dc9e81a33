r"""The discriminator: Wasserstein distance of packs of rows, with a penalty on its gradient.

Between two bends of its rectifiers the net is linear in its input, :math:`w D_L W_L \cdots D_1 W_1 x`,
where D holds the slopes (with the units that dropout left out at 0). So its gradient is that product,
and the penalty's own derivative needs one pass back through the product and none through a gradient.

References:
    L. Xu, M. Skoularidou, A. Cuesta-Infante, K. Veeramachaneni, "Modeling Tabular Data using Conditional
    GAN", NeurIPS 2019, section 4.4.
    I. Gulrajani et al., "Improved Training of Wasserstein GANs", NIPS 2017, section 4.
    Z. Lin, A. Khetan, G. Fanti, S. Oh, "PacGAN: The power of two samples in generative adversarial
    networks", NeurIPS 2018.
"""

from collections.abc import Sequence

import numpy as np
import torch

from gencard.boxes.nets.generator import Tensor, uniform

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
        """Of each pack, shape ``(packs, 1)``, from the units of the first layer."""
        scores, _ = self._passed(units, rng)
        return scores

    def penalty(self, units: Tensor, rng: np.random.Generator) -> Tensor:
        """Mean squared distance from 1 of the length of the score's gradient by the rows of a pack."""
        with torch.no_grad():
            _, slopes = self._passed(units, rng)
        return ((self.gradient(slopes).norm(dim=1) - 1) ** 2).mean()

    def gradient(self, slopes: Sequence[Tensor]) -> Tensor:
        """Of each score by its rows, given the slope of every unit."""
        back = slopes[-1] * self.weights[-1][:, 0]
        for weights, slope in zip(self.weights[-2::-1], slopes[-2::-1], strict=True):
            back = (back @ weights.T) * slope
        return back @ self.first.T

    def _passed(self, units: Tensor, rng: np.random.Generator) -> tuple[Tensor, list[Tensor]]:
        """Scores, and the slopes of all layers with fresh dropout."""
        slopes = []
        for weights, bias in zip(self.weights, self.biases[1:], strict=True):
            slopes.append(_slope(units, rng))
            units = torch.addmm(bias, units * slopes[-1], weights)
        return units, slopes


def _slope(units: Tensor, rng: np.random.Generator) -> Tensor:
    kept = torch.from_numpy(rng.random(units.shape, dtype=np.float32) < _KEPT)
    slope = torch.where(units.detach() > 0, 1.0, _LEAK)
    return slope * kept / _KEPT
