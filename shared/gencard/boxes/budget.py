"""The privacy budget of one fit: every noisy marginal and every private choice is paid from it."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.noise import AddedNoise, Noise
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.counting import count_all
from gencard.core.statistics.noise import (
    noisy_marginal as with_noise,
)
from gencard.core.statistics.psi import Measurement
from gencard.core.types import IntArray

GRID = 1 << 10
"""Scores are whole numbers of this part of a record, so that what a record does to them is exact."""

_FINE = 1 << 10
"""Weights of budgets are whole numbers of this part."""

StepProgress = Callable[[float], None]
"""Called with the share of a step that is done, 0 to 1; it may raise, as ``Progress`` may."""


def _ignore_step(_done: float) -> None:
    """Report to nobody."""


class PrivacyBudget:
    """Budget of the steps of one fit, as exact fractions that add up to the total.

    Laplace: parts of epsilon, noise and choices of pure differential privacy. Gaussian: parts of rho.
    Each step's noise is sized so that it spends its part, rounded towards privacy.
    """

    def __init__(self, privacy: AddedNoise, noise: Noise) -> None:
        self._privacy, self._noise = privacy, noise
        (self.total,) = privacy.parts([1])
        self.remaining = self.total

    @property
    def l1_sensitivity(self) -> int:
        """L1 distance of the counts of a marginal between neighbours: 1, or 2 for replacing a record."""
        return int(self._privacy.moved)

    def stddev(self, part: Fraction) -> float:
        """Standard deviation of the noise on a count, in records, that is measured with this part."""
        return self._privacy.stddev(self._privacy.scale(self._privacy.moved, part))

    def noisy_marginal(self, clique: Clique, counts: NDArray[Any], part: Fraction) -> Measurement:
        """One marginal with noise on every count, zeros included."""
        self._spend(part)
        return with_noise(Measurement(clique, counts), self._privacy, self._noise, part)

    def noisy_marginals(
        self,
        dataset: Dataset,
        cliques: Sequence[Clique],
        part: Fraction,
        progress: StepProgress = _ignore_step,
    ) -> list[Measurement]:
        r"""Several marginals of a dataset, larger ones with more of the budget.

        With parts in proportion to :math:`n_c^{2/3}`, where :math:`n_c` is the number of cells, Gaussian
        noise has the least expected size over all cells of all of them: that is
        :math:`\sum_c n_c \sigma_c` with :math:`\sum_c 1 / \sigma_c^2` given.

        Args:
            progress: Called before each marginal with the share that is done.

        Raises:
            TooLargeError: They have too many cells.
        """
        tables = count_all(dataset, cliques)
        weights = [round(_FINE * float(np.cbrt(counts.size**2))) for counts in tables]
        measurements = []
        for number, (clique, counts) in enumerate(zip(cliques, tables, strict=True)):
            progress(number / len(cliques))
            share = part * Fraction(weights[number], sum(weights))
            measurements.append(self.noisy_marginal(clique, counts, share))
        return measurements

    def choose(self, scores: IntArray, sensitivity: int, part: Fraction) -> int:
        """A position, more likely where the score is higher: the exponential mechanism.

        Args:
            sensitivity: The most that any score moves between neighbours.
        """
        self._spend(part)
        scale = self._privacy.choice_scale(Fraction(sensitivity), part)
        return self._noise.choose(np.asarray(scores, dtype=np.int64), scale)

    def _spend(self, part: Fraction) -> None:
        if not 0 < part <= self.remaining:
            raise AssertionError("a step exceeds the remaining privacy budget")
        self.remaining -= part


def misfit(counts: NDArray[Any], expected: NDArray[np.float64]) -> int:
    """L1 distance of a marginal from what a model expects, both in records; in units of 1 / ``GRID``.

    The expectation is rounded to the grid, so one record more moves the distance by ``GRID`` at most,
    without any rounding.
    """
    return int(np.abs(counts * GRID - np.rint(expected * GRID).astype(np.int64)).sum())
