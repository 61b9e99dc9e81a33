"""The fitted net of a generator, in plain arrays."""

from dataclasses import dataclass

import numpy as np

from gencard.boxes.nets.layout import Floats


@dataclass(frozen=True, slots=True, eq=False)
class ResidualNet:
    """Layers of rectified units, each put before its input; the last is affine.

    With :math:`h_0` the input, :math:`h_{i+1} = [\\max(0, h_i W_i + b_i), h_i]`.

    Args:
        weights: W of each layer, of shape (inputs, units).
        biases: b of each layer.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def __call__(self, inputs: Floats) -> Floats:
        """Outputs, one row for each row of inputs."""
        held = inputs
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            held = np.concatenate([np.maximum(held @ weights + bias, 0), held], axis=1)
        outputs: Floats = held @ self.weights[-1] + self.biases[-1]
        return outputs

    def is_sound(self, inputs: int, outputs: int) -> bool:
        """Whether the layers fit together and hold finite numbers."""
        for number, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if weights.ndim != 2 or weights.shape[0] != inputs or bias.shape != weights.shape[1:]:
                return False
            if {weights.dtype, bias.dtype} != {np.dtype(np.float32)}:
                return False
            if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
                return False
            inputs += weights.shape[1]
            if number == len(self.weights) - 1:
                return bool(weights.shape[1] == outputs)
        return False
