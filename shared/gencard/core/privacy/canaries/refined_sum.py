r"""The reconstruction audit by the sum of distances, with its distribution instead of a volume.

Under replace-one epsilon-differential privacy, given the rows and all other canaries, each distance is
within r with probability at most

.. math:: G(r) = \frac{q(r)}{q(r) + e^{-\varepsilon} (1 - q(r))}

so the distances dominate independent draws from G, and :math:`p = P[\sum R_i \le \nu]`. It is computed
with numbers rounded down to a grid, which makes p too large rather than too small. Always at least as
strong as the published sum but for that, and valid for levels, where the distance is Hamming's.
Pure differential privacy alone; under add-remove a replacement is two steps, and epsilon halves.
"""

from gencard.core.card.budget import Neighbouring
from gencard.core.privacy.canaries.canaries import Reconstruction
from gencard.core.privacy.canaries.canary_space import log_chance, tilted_chance
from gencard.core.privacy.canaries.epsilon_bound import (
    EpsilonBound,
    LogPValue,
    check_beta,
    check_epsilon,
    smallest_epsilon,
    steps_of,
)
from gencard.core.privacy.canaries.tilted_sum import log_sum_at_most

_COARSE = 2**10
"""Steps that a first guess is made with."""


def log_p_value(found: Reconstruction, *, epsilon: float, neighbouring: Neighbouring) -> float:
    """Natural log of p of the sum of distances if the generator is epsilon-differentially private.

    Raises:
        InvalidNumberError: epsilon is negative or not finite.
    """
    check_epsilon(epsilon)
    return _log_p(found)(epsilon * steps_of(neighbouring))


def sum_bound(found: Reconstruction, *, beta: float, neighbouring: Neighbouring) -> EpsilonBound:
    """The bound of one run.

    Raises:
        InvalidNumberError: beta is not above 0 and at most 1/2.
    """
    check_beta(beta)
    guess = smallest_epsilon(_log_p(found, coarse=True), beta)
    epsilon = smallest_epsilon(_log_p(found), beta, guess=guess) / steps_of(neighbouring)
    return EpsilonBound(epsilon, 0.0, beta, neighbouring)


def _log_p(found: Reconstruction, *, coarse: bool = False) -> LogPValue:
    """Natural log of p by the epsilon of replacing one record; coarsely, only about that."""
    terms = len(found.radii)
    edges = found.space.edges(found.nu, terms)
    step = max(1, len(edges) // _COARSE) if coarse else 1
    log_q = log_chance(found.space, edges[step - 1 :: step], found.rows)
    return lambda epsilon: log_sum_at_most(tilted_chance(log_q, epsilon), terms)
