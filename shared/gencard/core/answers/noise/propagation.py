r"""Intervals that know the noise: first-order propagation through estimating equations.

An estimate solves :math:`U(\hat\theta; \hat n) = 0`, with information A. Sampling of the records leaves
the usual covariance; noise with covariance V on the counts adds

.. math:: A^{-1} \Big( \frac{\partial U}{\partial n} V \frac{\partial U}{\partial n}^\top \Big) A^{-1}

so that an interval is never narrower than without noise. This holds while noise moves the information
little. How much it moves it is estimated, too, along the information's own directions: beyond
``MOST_MOVED`` no number is given.
"""

import numpy as np

from gencard.core.answers.design import Block
from gencard.core.answers.margins import Margins
from gencard.core.answers.noise.estimating import Equations
from gencard.core.answers.noise.reconciled import covariance_of
from gencard.core.errors import NoiseDrownsError
from gencard.core.types import FloatArray

MOST_MOVED = 0.25
"""Largest relative standard deviation of the information along any of its directions.

Coverage of 95 % intervals was between 93 and 97 % below, over 1,000 draws of each of the analyses in
``benchmarks.answers``; above, it is not.
"""


def added_covariance(equations: Equations, margins: Margins) -> FloatArray:
    """The covariance that noise adds to the estimates, shape ``(coefficients, coefficients)``.

    Raises:
        NoiseDrownsError: The noise is too large for first order.
        TooLargeError: The derivatives would not fit into memory.
    """
    along, sizes = _directions(equations.information)
    size = len(sizes)
    curvature = equations.curvature(along)
    shifted = tuple(
        Block(part.attributes, part.places + size, part.values) for part in curvature.by_counts
    )
    noise = covariance_of(margins, (*equations.gradients, *shifted), 2 * size)
    solved = np.linalg.inv(equations.information)
    chain = np.hstack([curvature.by_params @ solved, np.eye(size)])
    moved = np.sqrt(np.maximum(np.diag(chain @ noise @ chain.T), 0.0)) / sizes
    if float(moved.max(initial=0.0)) > MOST_MOVED:
        raise NoiseDrownsError
    added: FloatArray = solved @ noise[:size, :size] @ solved
    return added


def _directions(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvectors of the information in units of its diagonal, as rows, and their quadratic forms."""
    scale = np.diag(information)
    if not np.all(np.isfinite(information)) or np.any(scale <= 0):
        raise NoiseDrownsError
    root = np.sqrt(scale)
    values, vectors = np.linalg.eigh(information / np.outer(root, root))
    if values.min() <= 0:
        raise NoiseDrownsError
    return (vectors / root[:, None]).T, values
