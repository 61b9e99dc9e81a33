r"""What accuracy theory promises for a reduced space, and what was achieved.

Boedihardjo, Strohmer, Vershynin (arXiv 2109.01748): with records n, points m, rows k, functions F with
values in [-1, 1], and noise :math:`\lambda_f` on their means, all means of the output are within
:math:`6\delta` of those of the law that the records come from, with probability at least
:math:`1 - 4\gamma`, where :math:`\delta` bounds four errors with probability :math:`1 - \gamma` each:

* of the noise: :math:`\max_f |\lambda_f|`;
* of the records: :math:`\sqrt{2 \ln(2|F|/\gamma) / n}` (Hoeffding), and the same of the rows;
* of the points: :math:`\sqrt{K |F| / (\gamma m)}` (Chebyshev), K the Rényi condition number.

The constant 6 is that of normalising the density (one), data (one), noise (two), points (one) and
rows (one).

That is the promise for exact psi, whose density is the paper's. For noisy psi another density is taken,
and the promise is that of any density h, by the triangle inequality: its own largest miss of the noisy
means, which psi tells, and the errors of the noise, of the records and of the rows, each once.
"""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from gencard.core.generators.functions import Goals, number_of_functions, records, values_on
from gencard.core.generators.support.support_model import SupportModel
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Largest errors of a function's mean, the functions scaled to [-1, 1].

    Args:
        achieved: Of the model's density from psi; the draw of rows comes on top.
        promised: Of the rows from the records' law; above 2 it promises nothing.
        failing: Probability with which the promise may fail.
    """

    achieved: float
    promised: float
    failing: float


def accuracy(
    model: SupportModel,
    psi: Psi,
    rows: int,
    *,
    points: int | None,
    condition: float = 1.0,
    gamma: float = 0.025,
) -> Accuracy:
    """What a fitted reduced space achieved, beside the theorem.

    Args:
        points: Of the reduced space; None where it is the whole domain, and costs no accuracy.
        condition: The Rényi condition number K, as far as it is known; 1 is its least value.
        gamma: A quarter of the probability of failing.
    """
    goals, functions = Goals.of(psi), number_of_functions(psi)
    missed = np.abs(values_on(psi, model.support) @ model.weights - goals.means)
    achieved = float(missed.max())
    errors = (
        _noise(float(goals.stddevs.max()), functions, gamma),
        _hoeffding(records(psi), functions, gamma),
        _hoeffding(rows, functions, gamma),
    )
    drawn = sqrt(condition * functions / (gamma * points)) if points else 0.0
    promised = 6 * max(*errors, drawn) if psi.exact else achieved + sum(errors)
    return Accuracy(achieved, promised, 4 * gamma)


def condition_number(distribution: FloatArray, drawn_from: FloatArray) -> float:
    r"""Rényi's: :math:`\sum_x \mu(x)^2 / \nu(x)`, of the law of records and that of the points.

    For points that are uniform over the :math:`2^p` cells of p binary attributes it is
    :math:`2^p \sum_x \mu(x)^2`. Infinite where a record can be that no point can.
    """
    possible = distribution > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(np.square(distribution[possible]) / drawn_from[possible]))


def _noise(stddev: float, functions: int, gamma: float) -> float:
    r"""Not exceeded by any of so many draws: for Laplace noise of scale b, :math:`b \ln(|F|/\gamma)`."""
    laplace = stddev / sqrt(2) * log(functions / gamma)
    gaussian = stddev * sqrt(2 * log(2 * functions / gamma))
    return max(laplace, gaussian)


def _hoeffding(number: float, functions: int, gamma: float) -> float:
    return sqrt(2 * log(2 * functions / gamma) / number)
