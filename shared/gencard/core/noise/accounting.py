r"""What all noisy cards of a dataset spend together, in exact decimals rounded up.

Budgets of the same kind add up: epsilons of Laplace noise [1]_, rhos of Gaussian noise [2]_. Cards of a
dataset must have one neighbouring relation; that is for its policy to see to.

References:
    .. [1] C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Theorem 3.16.
    .. [2] M. Bun, T. Steinke, "Concentrated Differential Privacy", TCC 2016, Lemma 1.7, Prop. 1.4.
    .. [3] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy",
       NeurIPS 2020, Proposition 12 with the Renyi divergence of zCDP.
"""

from collections.abc import Collection
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from math import exp, log, log1p

from gencard.core.card.budget import ZERO

USUAL_DELTA = Decimal("1e-6")
"""At which an epsilon is given where no delta is named."""

_EXACT = Context(prec=60)
_PLACES = Decimal("1e-9")
_SHOWN = Decimal("1e-4")
_MARGIN = Decimal("1e-30")
"""Above every error of rounding in ``_epsilon``, whose terms have 60 digits."""


def epsilon_of(rho: Decimal, delta: Decimal) -> Decimal:
    r"""An epsilon such that rho-zCDP is (epsilon, delta)-differential privacy; nine places, rounded up.

    The least over :math:`\alpha > 1` of :math:`\rho \alpha + \log(1 - 1/\alpha) - \log(\delta \alpha) /
    (\alpha - 1)` [3]_. Every alpha gives a true bound: it is looked for in floats, and the bound at what
    was found is computed in decimals.
    """
    if rho == 0:
        return ZERO
    alpha = Decimal(1 + exp(_best(float(rho), log(float(delta)))))
    bound = _epsilon(rho, delta, alpha) + _MARGIN
    return max(ZERO, bound.quantize(_PLACES, rounding=ROUND_CEILING, context=_EXACT))


def rho_of(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The largest rho, to nine places, whose ``epsilon_of`` is at most ``epsilon``."""
    low, high = ZERO, max(epsilon, Decimal(1)) + 1
    while high - low > _PLACES:
        middle = ((low + high) / 2).quantize(_PLACES, rounding=ROUND_FLOOR, context=_EXACT)
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def rho_of_pure(epsilon: Decimal) -> Decimal:
    r"""Pure epsilon as zCDP: :math:`\epsilon^2 / 2` [2]_; exact."""
    with localcontext(_EXACT):
        return epsilon * epsilon / 2


def together(epsilons: Collection[Decimal], rho: Decimal, delta: Decimal) -> Decimal:
    """An epsilon that holds, at ``delta``, for all releases together; nine places, rounded up.

    Args:
        epsilons: Of each release with Laplace noise.
        rho: Sum over all releases with Gaussian noise.
        delta: Between 0 and 1.

    Returns:
        The smaller of two true bounds: pure epsilons added to what rho gives, or all of it as zCDP.
    """
    with localcontext(_EXACT):
        as_rho = sum(map(rho_of_pure, epsilons), rho)
        return min(sum(epsilons, epsilon_of(rho, delta)), epsilon_of(as_rho, delta))


def in_words(epsilon: Decimal, delta: Decimal) -> str:
    """A guarantee for people, its epsilon rounded up to four places.

    >>> in_words(Decimal("0.98765"), Decimal("0.000001"))
    'epsilon 0.9877 at delta 1e-6'
    """
    shown = epsilon.quantize(_SHOWN, rounding=ROUND_CEILING, context=_EXACT)
    return f"epsilon {shown.normalize():f} at delta {delta.normalize():e}"


def _epsilon(rho: Decimal, delta: Decimal, alpha: Decimal) -> Decimal:
    with localcontext(_EXACT):
        return rho * alpha + (1 - 1 / alpha).ln() - (delta * alpha).ln() / (alpha - 1)


def _best(rho: float, log_delta: float) -> float:
    r""":math:`\log(\alpha - 1)` at the least bound, by thirds; the bound falls, then rises."""

    def bound(place: float) -> float:
        over = exp(place)
        return rho * (1 + over) - log1p(1 / over) - (log_delta + log1p(over)) / over

    low, high = -30.0, 60.0
    for _ in range(200):
        third = (high - low) / 3
        low, high = (
            (low, high - third) if bound(low + third) < bound(high - third) else (low + third, high)
        )
    return low
