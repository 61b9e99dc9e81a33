r"""Numbers as a mode and a place in it: mode-specific normalisation.

A number x of mode k is the mode, one-hot, and :math:`\alpha = (x - \mu_k) / (4 \sigma_k)`, which lies in
-1..1 for nearly all. The modes are those of a Gaussian mixture that is fitted to the records' numbers,
so that each has numbers of its own around it; x draws its mode by the mixture's posterior law.

References:
    L. Xu, M. Skoularidou, A. Cuesta-Infante, K. Veeramachaneni, "Modeling Tabular Data using Conditional
    GAN", NeurIPS 2019, section 4.2.
"""

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.nets.extra import missing_extra
from gencard.core.types import FloatArray, IntArray

_WIDE = 4.0
"""Standard deviations from the middle of a mode to its end."""

_MOST_MODES = 10
_LEAST_WEIGHT = 0.005
_MOST_RECORDS = 2_500
"""From which the mixture is learned; more do not change its modes much."""

_RANDOM_STATES = 2**32


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """How the codes of one attribute become entries and numbers from -1 to 1, and back.

    Entries are the modes, then each code that stands for missing.

    Args:
        numbers: That of each code, NaN for missing, shape ``(size,)``; not all are NaN.
        means: Shape ``(modes,)``, in units of the attribute, as are the others.
        stddevs: Positive.
        weights: Of the mixture.
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
        cumulative = np.cumsum(self._posterior(), axis=1)[codes]
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

    def _posterior(self) -> FloatArray:
        """Chance of each mode given each code, shape ``(size, modes)``; missing codes have any."""
        values = np.where(np.isnan(self.numbers), self.means[0], self.numbers)
        logs = -0.5 * ((values[:, None] - self.means) / self.stddevs) ** 2
        logs += np.log(self.weights) - np.log(self.stddevs)
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares: FloatArray = chances / chances.sum(axis=1, keepdims=True)
        return shares


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
    mixture = _mixture((values - middle) / spread, int(rng.integers(_RANDOM_STATES)))
    kept = mixture.weights_ > _LEAST_WEIGHT
    means = mixture.means_.ravel()[kept] * spread + middle
    stddevs = np.sqrt(mixture.covariances_.ravel()[kept]) * spread
    return Modes(numbers, means, stddevs, mixture.weights_[kept])


def _mixture(values: FloatArray, random_state: int) -> Any:
    """Bayesian, with a Dirichlet process for the weights; values are standardised."""
    try:
        method = import_module("sklearn.mixture").BayesianGaussianMixture
    except ModuleNotFoundError:
        raise missing_extra() from None
    mixture = method(
        n_components=min(_MOST_MODES, len(values)),
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=0.001,
        random_state=random_state,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more modes than distinct values; not the last digit reached
        return mixture.fit(values.reshape(-1, 1))
