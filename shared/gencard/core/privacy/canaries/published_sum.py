r"""The reconstruction audit as published: the sum nu of m canaries' distances in the unit cube.

A generator of n rows that never saw the canaries comes to nu or less with a probability of at most the
volume of :math:`n^m` bodies; epsilon-differential privacy multiplies it by :math:`e^{m \varepsilon}`:

.. math:: p = \min\Big(1, \frac{1}{(md)!} \Big(e^{\varepsilon}
   \frac{2 \pi^{d/2} n \Gamma(d)}{\Gamma(d/2)} \nu^d\Big)^m\Big)

.. math:: \varepsilon_{lower} = \max\Big(0, \ln \frac{\Gamma(d/2)\, (\beta\, (md)!)^{1/m}}
   {2 \pi^{d/2} n \Gamma(d)\, \nu^d}\Big)

The published text rejects a claim where nu *exceeds* the threshold; nearness is the evidence, so it is
rejected where nu is at or below it. Valid for every m, n and d, under both neighbouring relations, and
for pure differential privacy alone. One canary that was not memorised hides many: see ``hit_count``.
"""

from math import inf, lgamma, log, pi

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.core.privacy.canaries.canaries import Reconstruction
from gencard.core.privacy.canaries.canary_space import Cube
from gencard.core.privacy.canaries.epsilon_bound import EpsilonBound, check_beta, check_epsilon


def log_p_value(nu: float, m: int, n: int, d: int, *, epsilon: float) -> float:
    """Natural log of p of a sum of distances ``nu`` if the generator is epsilon-differentially private.

    Args:
        m: Number of canaries.
        n: Number of rows.
        d: Number of attributes.

    Raises:
        InvalidNumberError: A number below 1, nu negative, or no epsilon.
    """
    check_epsilon(epsilon)
    return min(0.0, m * (epsilon + _log_growth(nu, m, n, d)) - lgamma(m * d + 1))


def epsilon_lower(nu: float, m: int, n: int, d: int, *, beta: float) -> float:
    """The epsilon, in nats, at which p is beta; infinite at nu = 0. Raises as ``log_p_value``."""
    check_beta(beta)
    growth = _log_growth(nu, m, n, d)
    return max(0.0, (log(beta) + lgamma(m * d + 1)) / m - growth)


def published_bound(found: Reconstruction, *, beta: float, neighbouring: Neighbouring) -> EpsilonBound:
    """The bound of one run.

    Raises:
        ComputationError: The canaries are levels, of which the theorem does not speak.
        InvalidNumberError: beta is not above 0 and at most 1/2.
    """
    if not isinstance(found.space, Cube):
        raise ComputationError(problem="the published sum is for numbers; levels have other bounds")
    sizes = len(found.radii), found.rows, found.space.attributes
    return EpsilonBound(epsilon_lower(found.nu, *sizes, beta=beta), 0.0, beta, neighbouring)


def _log_growth(nu: float, m: int, n: int, d: int) -> float:
    """Natural log of what each canary contributes to p, without epsilon."""
    if min(m, n, d) < 1:
        raise InvalidNumberError(field="The numbers of canaries, rows and attributes", expected="from 1")
    if not 0 <= nu < inf:
        raise InvalidNumberError(field="nu", expected="finite and at least 0")
    log_nu = log(nu) if nu else -inf
    return log(2) + d / 2 * log(pi) + lgamma(d) - lgamma(d / 2) + log(n) + d * log_nu
