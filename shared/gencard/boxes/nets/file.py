"""A fitted net as bytes, and back: a JSON header and plain arrays, nothing that runs."""

from typing import Any

import numpy as np

from gencard.boxes.nets.fitted import FittedNet
from gencard.boxes.nets.layout import Layout
from gencard.boxes.nets.modes import Modes
from gencard.boxes.nets.residual import ResidualNet
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError
from gencard.core.generators.archive import BROKEN, Arrays, archived, unarchived

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
    """What ``bytes_of`` wrote.

    Raises:
        BlackBoxError: These are not the bytes of a fit of this version, or over the bound.
    """
    try:
        header, arrays = unarchived(data, most_bytes=most_bytes, version=_VERSION)
        fitted = _fitted(header, arrays)
        if header["kind"] == _KIND and _is_sound(fitted):
            return fitted
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
