"""Draws that nets need, from numpy's generator alone: the libraries' own have a state for all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.nets.layout import Floats

_LEAST = 1e-30
"""A draw of zero would be an infinite logit."""


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
    last = np.searchsorted(cumulative, total)  # rounding must not lead to what has no probability
    found = np.searchsorted(cumulative, uniforms * total, side="right")
    drawn: NDArray[np.int64] = np.minimum(found, last)
    return drawn
