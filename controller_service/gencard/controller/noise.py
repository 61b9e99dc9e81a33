"""Privacy noise: OpenDP's exact samplers on the system's cryptographic source, and no other."""

from typing import Any

import numpy as np
import opendp.prelude as dp

from gencard.core.statistics.noise import Integers

dp.enable_features("contrib")

_COUNTS = dp.vector_domain(dp.atom_domain(T="i64"))


class OpenDpNoise:
    """Discrete Laplace and Gaussian noise on whole numbers, and private choices; there is no seed.

    The samplers are exact in whole numbers and rationals (Canonne, Kamath, Steinke 2020): what comes
    out lies on the grid, and no float tells anything of the count under the noise. A choice is the
    highest of scores with Gumbel noise, each drawn to as many digits as it takes to compare them: that
    is the exponential mechanism, with no rounding.
    """

    def laplace(self, counts: Integers, scale: float) -> Integers:
        return _drawn((_COUNTS, dp.l1_distance(T="i64")) >> dp.m.then_laplace(scale), counts)

    def gaussian(self, counts: Integers, scale: float) -> Integers:
        return _drawn((_COUNTS, dp.l2_distance(T="f64")) >> dp.m.then_gaussian(scale), counts)

    def choose(self, scores: Integers, scale: float) -> int:
        space = _COUNTS, dp.linf_distance(T="i64")
        highest = space >> dp.m.then_noisy_max(dp.zero_concentrated_divergence(), scale)
        return int(highest(scores.tolist()))


def _drawn(measurement: Any, counts: Integers) -> Integers:
    drawn = measurement(counts.ravel().tolist())
    return np.array(drawn, dtype=np.int64).reshape(counts.shape)
