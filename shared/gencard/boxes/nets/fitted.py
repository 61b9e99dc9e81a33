"""A fitted network: sampling with numpy alone, and the fit as bytes (JSON and plain arrays, no code)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.nets.layout import Floats, Layout, Modes, Rows
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, InvalidNumberError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.model_file import BROKEN, Arrays, archived, unarchived
from gencard.core.types import FloatArray, Progress, ignore_progress


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


_LEAST = 1e-30
"""Lower bound of a draw: zero would give an infinite logit."""


def gumbel(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Standard Gumbel noise: a logit is highest under it with the probability of its softmax."""
    draws = rng.standard_exponential(shape, dtype=np.float32)
    noise: Floats = -np.log(np.maximum(draws, np.float32(_LEAST)))
    return noise


def drawn_by(cumulative: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions with the probabilities whose cumulative sums, of any total, are given.

    Args:
        uniforms: One number from 0 to below 1 for each draw.
    """
    total: Any = cumulative[-1]
    last = np.searchsorted(cumulative, total)  # rounding must not select a position of probability zero
    positions = np.searchsorted(cumulative, uniforms * total, side="right")
    draws: NDArray[np.int64] = np.minimum(positions, last)
    return draws


_BLOCK = 4096
"""Rows drawn at a time: a row needs far more memory while it is decoded than its codes do."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedNet:
    """A net, and how its inputs are drawn and its outputs read.

    The input is normal noise, then the condition, one-hot over nominal entries; the output one number
    for each numeric attribute, of which tanh is taken, then the logits of every block.

    Args:
        layout: Of the outputs.
        net: The net.
        noise: FloatArray of noise.
        conditions: Chance of each nominal entry to be the condition; empty where there is none.
    """

    layout: Layout
    net: ResidualNet
    noise: int
    conditions: FloatArray

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


_VERSION = 1
_KIND = "net"
_MODES = ("numbers", "means", "stddevs", "weights")


def bytes_of(fitted: FittedNet) -> bytes:
    """An archive; equal fits give equal bytes."""
    arrays: dict[str, Any] = {"conditions": fitted.conditions}
    layers = zip(fitted.net.weights, fitted.net.biases, strict=True)
    for number, (weights, bias) in enumerate(layers):
        arrays |= {f"layers.{number}": weights, f"biases.{number}": bias}
    for axis, modes in fitted.layout.modes.items():
        arrays |= {f"{name}.{axis}": getattr(modes, name) for name in _MODES}
    header = {
        "version": _VERSION,
        "kind": _KIND,
        "attributes": fitted.layout.domain.attributes,
        "sizes": fitted.layout.domain.sizes,
        "numeric": sorted(fitted.layout.modes),
        "layers": len(fitted.net.weights),
        "noise": fitted.noise,
    }
    return archived(header, arrays)


def net_of(data: bytes, *, most_bytes: int = 2**30) -> FittedNet:
    """Read the bytes that ``bytes_of`` wrote.

    Raises:
        BlackBoxError: These are not the bytes of a fit of this version, or over the bound.
    """
    try:
        header, arrays = unarchived(data, most_bytes=most_bytes, version=_VERSION)
        net = _fitted(header, arrays)
        if header["kind"] == _KIND and _is_sound(net):
            return net
    except (*BROKEN, AttributeError, IndexError):
        pass
    raise BlackBoxError(problem="the saved bytes are not a fit of this black box")


def _fitted(header: dict[str, Any], arrays: Arrays) -> FittedNet:
    domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
    modes = {
        int(axis): Modes(*(arrays[f"{name}.{axis}"] for name in _MODES)) for axis in header["numeric"]
    }
    weights, biases = (
        tuple(arrays[f"{name}.{number}"] for number in range(header["layers"]))
        for name in ("layers", "biases")
    )
    net = ResidualNet(weights, biases)
    return FittedNet(Layout(domain, modes), net, int(header["noise"]), arrays["conditions"])


def _is_sound(fitted: FittedNet) -> bool:
    """Whether every array has the shape and the range that sampling relies on."""
    layout, chances = fitted.layout, fitted.conditions
    if not all(_fits(modes, layout.domain.sizes[axis]) for axis, modes in layout.modes.items()):
        return False
    if chances.shape not in {(0,), (int(layout.starts[layout.nominal]),)}:
        return False
    if chances.dtype != np.float64 or not np.isfinite(chances).all() or (chances < 0).any():
        return False
    if len(chances) and not 0 < chances.sum() < np.inf:
        return False
    inputs = fitted.noise + len(chances)
    return fitted.noise > 0 and fitted.net.is_sound(inputs, layout.width)


def _fits(modes: Modes, size: int) -> bool:
    parts = (modes.means, modes.stddevs, modes.weights)
    return bool(
        modes.numbers.shape == (size,)
        and not np.isinf(modes.numbers).any()
        and not np.isnan(modes.numbers).all()
        and len(modes.means)
        and all(part.shape == (len(modes.means),) and np.isfinite(part).all() for part in parts)
        and {part.dtype for part in (modes.numbers, *parts)} == {np.dtype(np.float64)}
        and min(modes.stddevs.min(), modes.weights.min()) > 0
    )


@dataclass(frozen=True, slots=True)
class KeptNet:
    """A fitted network; it holds nothing else of the records."""

    net: FittedNet

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records; raises InvalidNumberError where rows or seed are out of range."""
        return self.net.sample(rows, seed=seed)

    def save(self) -> bytes:
        """An npz archive of plain arrays; see ``bytes_of``."""
        return bytes_of(self.net)


class NetBox(ABC):
    """A black box that trains a net on records: see ``FittingBox``."""

    __slots__ = ()

    @abstractmethod
    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptNet:
        """Train a net on records."""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.fit(dataset, seed=seed).sample(rows, seed=seed)

    def load(self, saved: bytes) -> KeptNet:
        """A fit that was saved; raises BlackBoxError where the bytes are none."""
        return KeptNet(net_of(saved))
