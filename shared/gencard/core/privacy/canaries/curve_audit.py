r"""What guesses in one run say if the generator's trade-off curve is Gaussian: no bound otherwise.

A generator that is (epsilon, delta)-differentially private need not have a Gaussian curve, so a number
from here refutes no claim of that kind. It refutes curves: that the generator is mu-Gaussian private.
Of m canaries r are guessed, v of them right. A curve is refuted at level beta where
:math:`a_0 + b_0 > r / m`, with :math:`a_v = \beta v / m`, :math:`b_v = \beta (r - v) / m` and, downwards
for i below v,

.. math:: b_i = \max\big(b_{i+1}, \Phi(\Phi^{-1}(a_{i+1}) - \mu)\big), \quad
   a_i = \min\Big(1, a_{i+1} + \frac{i}{r - i} (b_i - b_{i+1})\Big)

References:
    S. Mahloujifar, L. Melis, K. Chaudhuri, "Auditing f-Differential Privacy in One Run", ICML 2025,
    arXiv 2410.22235.
"""

from dataclasses import dataclass

from scipy.optimize import brentq

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidNumberError
from gencard.core.privacy.canaries.epsilon_bound import check_beta
from gencard.core.privacy.canaries.gaussian_curve import epsilon_of_curve, least_share
from gencard.core.privacy.canaries.one_run import Guesses


@dataclass(frozen=True, slots=True)
class IfGaussian:
    """The least mu that is not refuted, with probability 1 - beta, among Gaussian curves only.

    It is no ``EpsilonBound``: where the curve is another one, neither mu nor epsilon bounds anything.

    Args:
        mu: Of the curve, at least 0; 0 says nothing.
        delta: Between 0 and 1; at which delta ``epsilon`` is told.
        beta: Probability, 0 to 1/2, that mu is too high.
        neighbouring: The relation that the curve is meant for.
    """

    mu: float
    delta: float
    beta: float
    neighbouring: Neighbouring

    @property
    def epsilon(self) -> float:
        """Of the Gaussian curve at delta, in nats."""
        return epsilon_of_curve(self.mu, self.delta)

    def __str__(self) -> str:
        return (
            f"mu {self.mu:.4g}, epsilon {self.epsilon:.4g} at delta {self.delta:g}, "
            "if the trade-off curve is Gaussian; no bound otherwise"
        )


def if_gaussian(
    guesses: Guesses, *, delta: float, beta: float, neighbouring: Neighbouring
) -> IfGaussian:
    """The least Gaussian curve that the guesses do not refute.

    Raises:
        InvalidNumberError: delta is not between 0 and 1, or beta not above 0 and at most 1/2.
    """
    check_level(delta, beta)
    return IfGaussian(_least_mu(guesses, beta), delta, beta, neighbouring)


def check_level(delta: float, beta: float) -> None:
    """Refuse what no curve can be told at.

    Raises:
        InvalidNumberError: delta is not between 0 and 1, or beta not above 0 and at most 1/2.
    """
    check_beta(beta)
    if not 0 < delta < 1:
        raise InvalidNumberError(field="delta", expected="above 0 and below 1")


def excess(guesses: Guesses, mu: float, beta: float) -> float:
    """By how much a curve is refuted: above 0 where it is, and falling with mu."""
    canaries, made, right = guesses.canaries, guesses.guesses, guesses.correct
    a, b = beta * right / canaries, beta * (made - right) / canaries
    for fewer in range(right - 1, -1, -1):
        least = least_share(a, mu)
        if least <= b:
            break
        a, b = min(1.0, a + fewer / (made - fewer) * (least - b)), least
    return a + b - made / canaries


def _least_mu(guesses: Guesses, beta: float) -> float:
    if excess(guesses, 0.0, beta) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(guesses, high, beta) > 0:
        low, high = high, 2 * high
    return float(brentq(lambda mu: excess(guesses, mu, beta), low, high, xtol=1e-11))
