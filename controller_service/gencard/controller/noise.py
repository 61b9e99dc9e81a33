"""Privacy noise: OpenDP's exact samplers on the system's cryptographic source, and no other."""

from typing import Any

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import zero_concentrated_divergence
from opendp.metrics import l1_distance, l2_distance, linf_distance
from opendp.mod import enable_features

from gencard.core.types import IntArray

enable_features("contrib")

# Whole numbers, never floats: the low bits of a float with noise can disclose the number below it (I.
# Mironov, "On significance of the least significant bits for differential privacy", CCS 2012).
_COUNTS = vector_domain(atom_domain(T="i64"))


class OpenDpNoise:
    """Discrete Laplace and Gaussian noise on whole numbers, and private choices; there is no seed.

    The samplers are exact in whole numbers and rationals (Canonne, Kamath, Steinke 2020): what comes
    out lies on the grid, and no float tells anything of the count under the noise. A choice is the
    highest of scores with Gumbel noise, each drawn to as many digits as it takes to compare them: that
    is the exponential mechanism, with no rounding.
    """

    def laplace(self, counts: IntArray, scale: float) -> IntArray:
        return _drawn(make_laplace(_COUNTS, l1_distance(T="i64"), scale), counts)

    def gaussian(self, counts: IntArray, scale: float) -> IntArray:
        return _drawn(make_gaussian(_COUNTS, l2_distance(T="f64"), scale), counts)

    def choose(self, scores: IntArray, scale: float) -> int:
        space = _COUNTS, linf_distance(T="i64")
        # The measure selects the noise: for zCDP OpenDP draws Gumbel noise, which is the exponential
        # mechanism. For pure differential privacy it draws exponential noise, which chooses with other
        # probabilities.
        highest = make_noisy_max(*space, zero_concentrated_divergence(), scale)
        return int(highest(scores.tolist()))


def _drawn(measurement: Any, counts: IntArray) -> IntArray:
    # OpenDP clamps to 64 bits where the sum does not fit, so that no count wraps around.
    counts_drawn = measurement(counts.ravel().tolist())
    return np.array(counts_drawn, dtype=np.int64).reshape(counts.shape)
