r"""Epsilon from canaries' scores by the best of all thresholds: estimates, and no bounds.

The level is shared among the k corners of the hull (``roc``). Thresholds, and their number, come from
the same scores that are then counted, so the level is nominal: of 1,000 canaries and blind scores, 7 %
of runs refute epsilon 0 at a beta of 5 %. Who wants a bound fixes beforehand how many canaries are
guessed, and asks ``Guesses``.

``by_rates`` takes the upper ends of Clopper and Pearson's intervals, FNR and FPR, each at
:math:`\beta / 2k`:

.. math:: \varepsilon = \ln \frac{1 - FNR - \delta}{FPR}

It needs independent canaries, each of a run of its own; those of one run push each other out.
``by_guesses`` needs one run, and so does ``by_curve``, which assumes a Gaussian curve besides.

References:
    M. Nasr et al., "Adversary Instantiation: Lower Bounds for Differentially Private Machine Learning",
    arXiv 2101.04535 (rates); ``one_run`` and ``curve_audit`` name the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from gencard.core.card.budget import Neighbouring
from gencard.core.privacy.canaries.curve_audit import IfGaussian, check_level, excess, if_gaussian
from gencard.core.privacy.canaries.one_run import Guesses
from gencard.core.privacy.canaries.roc import Counts, ScoredCanaries


@dataclass(frozen=True, slots=True)
class ThresholdEstimate:
    """An epsilon by the best threshold; it is no ``EpsilonBound``, and refutes no claim.

    Args:
        epsilon: In nats, at least 0.
        delta: At which it is told.
        beta: The nominal level, shared among the thresholds.
        thresholds: Among how many.
        neighbouring: The relation that it is meant for.
        assumption: What it takes for granted.
    """

    epsilon: float
    delta: float
    beta: float
    thresholds: int
    neighbouring: Neighbouring
    assumption: str

    def __str__(self) -> str:
        return (
            f"epsilon {self.epsilon:.4g} at delta {self.delta:g}, an estimate and no bound: "
            f"best of {self.thresholds} thresholds, {self.assumption}"
        )


def by_rates(
    scored: ScoredCanaries, *, delta: float, beta: float, neighbouring: Neighbouring
) -> ThresholdEstimate:
    """From error rates, if each canary's score is of a run of its own.

    Raises:
        InvalidNumberError: delta is not between 0 and 1, or beta not above 0 and at most 1/2.
    """
    check_level(delta, beta)
    right, wrong = scored.corners
    level = beta / (2 * len(right))
    hits = 1 - _at_most(len(scored.put_in) - right, len(scored.put_in), level) - delta
    alarms = _at_most(wrong, len(scored.left_out), level)
    ratio = float(np.max(hits / alarms))
    epsilon = float(np.log(ratio)) if ratio > 1 else 0.0
    return ThresholdEstimate(
        epsilon, delta, beta, len(right), neighbouring, "canaries independent of each other"
    )


def by_guesses(
    scored: ScoredCanaries, *, delta: float, beta: float, neighbouring: Neighbouring
) -> ThresholdEstimate:
    """From guesses in one run; raises as ``by_rates`` does."""
    check_level(delta, beta)
    guesses = list(_guesses(scored))
    level = beta / len(guesses)
    best = max(
        each.bound(delta=delta, beta=level, neighbouring=neighbouring).epsilon for each in guesses
    )
    return ThresholdEstimate(best, delta, beta, len(guesses), neighbouring, "chosen by the same scores")


def by_curve(
    scored: ScoredCanaries, *, delta: float, beta: float, neighbouring: Neighbouring
) -> ThresholdEstimate:
    """From guesses in one run, if the trade-off curve is Gaussian; raises as ``by_rates`` does."""
    check_level(delta, beta)
    guesses = list(_guesses(scored))
    level = beta / len(guesses)
    best = IfGaussian(0.0, delta, level, neighbouring)
    for each in guesses:
        if excess(each, best.mu, level) > 0:
            best = if_gaussian(each, delta=delta, beta=level, neighbouring=neighbouring)
    return ThresholdEstimate(
        best.epsilon, delta, beta, len(guesses), neighbouring, "the trade-off curve Gaussian"
    )


def _guesses(scored: ScoredCanaries) -> Iterator[Guesses]:
    canaries = len(scored.put_in) + len(scored.left_out)
    for right, wrong in zip(*(side.tolist() for side in scored.corners), strict=True):
        yield Guesses(canaries, right + wrong, right)


def _at_most(seen: Counts, attempts: int, level: float) -> NDArray[np.float64]:
    """Clopper and Pearson's upper end of a share, for so many seen of so many attempts."""
    ends = betaincinv(seen + 1, np.maximum(attempts - seen, 1), 1 - level)
    return np.where(seen < attempts, ends, 1.0)
