r"""Records as rows of a net, and fitted nets.

A row has some numbers from -1 to 1, then one-hot blocks, one for each attribute. Numbers are normalised
by mode. A number x of mode k is the mode, one-hot, and :math:`\alpha = (x - \mu_k) / (4 \sigma_k)`,
which lies in -1..1 for nearly all. The modes are those of a Gaussian mixture fitted to the records'
numbers; x draws its mode by the mixture's posterior law. PyTorch comes with the extra ``deep`` and is
loaded only where a net is trained.

References:
    L. Xu, M. Skoularidou, A. Cuesta-Infante, K. Veeramachaneni, "Modeling Tabular Data using Conditional
    GAN", NeurIPS 2019, section 4.2.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import numbers_of_codes
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, InvalidInputError, InvalidNumberError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.model_file import BROKEN, archived, unarchived
from gencard.core.types import FloatArray, IntArray, Progress, ignore_progress


def missing_extra() -> InvalidInputError:
    return InvalidInputError(
        field="black_box", problem="its networks need torch: pip install 'gencard[deep]'"
    )


def check_torch() -> None:
    """Raises InvalidInputError where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise missing_extra()


@contextmanager
def repeatable() -> Iterator[None]:
    """One thread and deterministic algorithms for the block, so that equal seeds give equal fits."""
    check_torch()
    torch = import_module("torch")
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict)
        torch.set_num_threads(threads)


_WIDE = 4.0
"""Standard deviations from the middle of a mode to its end."""

_MOST_MODES = 10
_LEAST_WEIGHT = 0.005
_MOST_RECORDS = 2_500
"""From which the mixture is learned; more do not change its modes much."""

_RANDOM_STATES = 2**32


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """Coding of one attribute: its codes as entries and numbers from -1 to 1, and back.

    Entries are the modes, then each code that stands for missing.

    Args:
        numbers: That of each code, NaN for missing, shape ``(size,)``; not all are NaN.
        means: Shape ``(modes,)``, in units of the attribute, as are the others.
        stddevs: Positive.
    """

    numbers: FloatArray
    means: FloatArray
    stddevs: FloatArray
    weights: FloatArray

    @property
    def entries(self) -> int:
        return len(self.means) + len(self._missing)

    @property
    def _missing(self) -> IntArray:
        return np.flatnonzero(np.isnan(self.numbers))

    def placed(self, codes: NDArray[Any], rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """The entry of each code, its mode drawn by the posterior law, and its place in the mode."""
        # Chance of each mode given each code, shape ``(size, modes)``; missing codes have any.
        values = np.where(np.isnan(self.numbers), self.means[0], self.numbers)
        logs = -0.5 * ((values[:, None] - self.means) / self.stddevs) ** 2
        logs += np.log(self.weights) - np.log(self.stddevs)
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        cumulative = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)[codes]
        entries = (rng.random(len(codes))[:, None] > cumulative[:, :-1]).sum(axis=1)
        alphas = (self.numbers[codes] - self.means[entries]) / (_WIDE * self.stddevs[entries])
        ranks = np.cumsum(np.isnan(self.numbers)) - 1
        missing = np.isnan(alphas)
        entries = np.where(missing, len(self.means) + ranks[codes], entries)
        return entries, np.clip(np.where(missing, 0.0, alphas), -1.0, 1.0)

    def codes_of(self, entries: NDArray[Any], alphas: NDArray[Any]) -> IntArray:
        """The code whose number is nearest to each place in a mode; missing is missing."""
        known = np.flatnonzero(~np.isnan(self.numbers))
        order = known[np.argsort(self.numbers[known], kind="stable")]
        ascending = self.numbers[order]
        middles = ascending[:-1] + np.diff(ascending) / 2
        modes = np.minimum(entries, len(self.means) - 1)
        values = self.means[modes] + _WIDE * self.stddevs[modes] * alphas
        codes: IntArray = order[np.searchsorted(middles, values)]
        if not len(self._missing):
            return codes
        missing = self._missing[np.maximum(entries - len(self.means), 0)]
        codes_or_missing: IntArray = np.where(entries < len(self.means), codes, missing)
        return codes_or_missing


def declared(numbers: FloatArray) -> Modes:
    """One mode, the range of the declared numbers: no record is looked at."""
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    stddev = (high - low) / 2 / _WIDE or 1.0
    return Modes(numbers, np.array([(low + high) / 2]), np.array([stddev]), np.ones(1))


def learned(numbers: FloatArray, codes: NDArray[Any], rng: np.random.Generator) -> Modes:
    """The modes of the records' numbers: a variational mixture that drops those that it does not need.

    Where no record has a number, or all have the same, it is the declared range.
    """
    values = numbers[codes]
    values = values[~np.isnan(values)]
    if not len(values) or np.ptp(values) == 0:
        return declared(numbers)
    if len(values) > _MOST_RECORDS:
        values = values[rng.choice(len(values), _MOST_RECORDS, replace=False)]
    middle, spread = float(values.mean()), float(values.std()) or 1.0
    random_state = int(rng.integers(_RANDOM_STATES))
    try:
        method = import_module("sklearn.mixture").BayesianGaussianMixture
    except ModuleNotFoundError:
        raise missing_extra() from None
    # Bayesian, with a Dirichlet process for the weights; values are standardised
    mixture = method(
        n_components=min(_MOST_MODES, len(values)),
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=0.001,
        random_state=random_state,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more modes than distinct values; not the last digit reached
        mixture.fit(((values - middle) / spread).reshape(-1, 1))
    is_heavy = mixture.weights_ > _LEAST_WEIGHT
    means = mixture.means_.ravel()[is_heavy] * spread + middle
    stddevs = np.sqrt(mixture.covariances_.ravel()[is_heavy]) * spread
    return Modes(numbers, means, stddevs, mixture.weights_[is_heavy])


Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Positions of the attributes in a row.

    A row has one number for each numeric attribute, then the entries: nominal attributes, whose
    entries are their codes, then numeric ones, whose entries are modes. Both in the domain's order.

    Args:
        modes: For the axis of each numeric attribute.
    """

    domain: Domain
    modes: Mapping[int, Modes]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis of each block."""
        return tuple(sorted(range(len(self.domain)), key=lambda axis: (axis in self.modes, axis)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Entries of each block."""
        return tuple(
            self.modes[axis].entries if axis in self.modes else self.domain.sizes[axis]
            for axis in self.axes
        )

    @property
    def starts(self) -> IntArray:
        """The first entry of each block, and the number of entries: shape ``(d + 1,)``."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @property
    def numbers(self) -> int:
        return len(self.modes)

    @property
    def nominal(self) -> int:
        """Blocks of nominal attributes; they come first."""
        return len(self.sizes) - self.numbers

    @property
    def width(self) -> int:
        return self.numbers + int(self.starts[-1])

    def encoded(self, dataset: Dataset, rng: np.random.Generator) -> "Rows":
        """The records as rows; each number's mode is drawn."""
        entries = np.empty((len(dataset), len(self.sizes)), dtype=np.int64)
        alphas = np.empty((len(dataset), self.numbers), dtype=np.float32)
        for place, axis in enumerate(self.axes):
            codes = dataset.codes[:, axis].astype(np.int64)
            if axis in self.modes:
                codes, alphas[:, place - self.nominal] = self.modes[axis].placed(codes, rng)
            entries[:, place] = codes + self.starts[place]
        return Rows(entries, alphas)

    def decoded(self, rows: "Rows") -> Dataset:
        columns = [np.empty(0, dtype=np.int64)] * len(self.domain)
        for place, axis in enumerate(self.axes):
            codes = rows.entries[:, place] - self.starts[place]
            if axis in self.modes:
                codes = self.modes[axis].codes_of(codes, rows.alphas[:, place - self.nominal])
            columns[axis] = codes
        return Dataset.of_columns(self.domain, columns)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a net, in short.

    Args:
        entries: The entry that is 1 in each block, counted from the first entry: shape ``(n, d)``.
        alphas: The numbers, shape ``(n, numbers)``.
    """

    entries: IntArray
    alphas: Floats

    def dense(self, rows: NDArray[Any], width: int) -> Floats:
        """Some of the rows in full, shape ``(len(rows), width)``."""
        full = np.zeros((len(rows), width), dtype=np.float32)
        numbers = self.alphas.shape[1]
        full[:, :numbers] = self.alphas[rows]
        full[np.arange(len(rows))[:, None], self.entries[rows] + numbers] = 1.0
        return full


def layout_of(
    domain: Domain, values: Mapping[str, tuple[float, ...]], modes_of: Callable[[int, FloatArray], Modes]
) -> Layout:
    """The layout of a domain.

    Args:
        values: For each numeric attribute the number of each code, NaN for missing.
    """
    if not len(domain):
        raise InvalidInputError(field="domain", problem="it has no attributes")
    numbers = {
        axis: numbers_of_codes(values, name, size)
        for axis, (name, size) in enumerate(zip(domain.attributes, domain.sizes, strict=True))
    }
    return Layout(
        domain, {axis: modes_of(axis, n) for axis, n in numbers.items() if not np.isnan(n).all()}
    )


# A fitted net samples with numpy alone; its bytes are JSON and plain arrays, no code.


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


_VERSION = 1
_KIND = "net"
_MODES = ("numbers", "means", "stddevs", "weights")
_BLOCK = 4096
"""Rows drawn at a time: a row needs far more memory while it is decoded than its codes do."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedNet:
    """A net, and how its inputs are drawn and its outputs read; it holds nothing else of the records.

    The input is normal noise, then the condition, one-hot over nominal entries; the output one number
    for each numeric attribute, of which tanh is taken, then the logits of every block.

    Args:
        noise: Numbers of noise in an input.
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
        domain, numbers, starts = self.layout.domain, self.layout.numbers, self.layout.starts
        codes = np.empty((rows, len(domain)), dtype=code_dtype(max(domain.sizes)), order="F")
        for start in range(0, rows, _BLOCK):
            block = codes[start : start + _BLOCK]
            inputs = np.zeros((len(block), self.noise + len(self.conditions)), dtype=np.float32)
            inputs[:, : self.noise] = rng.standard_normal((len(block), self.noise), dtype=np.float32)
            if len(self.conditions):
                chosen = drawn_by(np.cumsum(self.conditions), rng.random(len(block)))
                inputs[np.arange(len(block)), self.noise + chosen] = 1.0
            outputs = self.net(inputs)
            # One draw of each block by its logits: the highest with Gumbel noise.
            logits = outputs[:, numbers:] + gumbel((len(block), int(starts[-1])), rng)
            highest = [first + logits[:, first:end].argmax(axis=1) for first, end in pairwise(starts)]
            drawn = Rows(np.stack(highest, axis=1), np.tanh(outputs[:, :numbers]))
            block[:] = self.layout.decoded(drawn).codes
        return Dataset(domain, codes)

    def save(self) -> bytes:
        """An npz archive of plain arrays; equal fits give equal bytes."""
        arrays: dict[str, Any] = {"conditions": self.conditions}
        layers = zip(self.net.weights, self.net.biases, strict=True)
        for number, (weights, bias) in enumerate(layers):
            arrays |= {f"layers.{number}": weights, f"biases.{number}": bias}
        for axis, modes in self.layout.modes.items():
            arrays |= {f"{name}.{axis}": getattr(modes, name) for name in _MODES}
        header = {
            "version": _VERSION,
            "kind": _KIND,
            "attributes": self.layout.domain.attributes,
            "sizes": self.layout.domain.sizes,
            "numeric": sorted(self.layout.modes),
            "layers": len(self.net.weights),
            "noise": self.noise,
        }
        return archived(header, arrays)


def net_of(data: bytes) -> FittedNet:
    """Read the bytes that ``FittedNet.save`` wrote."""
    try:
        header, arrays = unarchived(data, most_bytes=2**30, version=_VERSION)
        domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
        modes = {
            int(axis): Modes(*(arrays[f"{name}.{axis}"] for name in _MODES))
            for axis in header["numeric"]
        }
        weights, biases = (
            tuple(arrays[f"{name}.{number}"] for number in range(header["layers"]))
            for name in ("layers", "biases")
        )
        layout, noise = Layout(domain, modes), int(header["noise"])
        net = FittedNet(layout, ResidualNet(weights, biases), noise, arrays["conditions"])
        if header["kind"] == _KIND and _is_sound(net):
            return net
    except (*BROKEN, AttributeError, IndexError):
        pass
    raise BlackBoxError(problem="the saved bytes are not a fit of this black box")


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


class NetBox(ABC):
    """A black box that trains a net on records: see ``FittingBox``."""

    __slots__ = ()

    @abstractmethod
    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> FittedNet:
        """Train a net on records."""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.fit(dataset, seed=seed).sample(rows, seed=seed)

    def load(self, saved: bytes) -> FittedNet:
        """A fit that was saved; raises BlackBoxError where the bytes are none."""
        return net_of(saved)
