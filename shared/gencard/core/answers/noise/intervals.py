r"""The answer from noisy margins: the same estimates, with what the noise adds to their covariance.

An estimate solves :math:`U(\hat\theta; \hat n) = 0`, with information A. Sampling of the records leaves
the usual covariance; noise with covariance V on the counts adds, to first order,

.. math:: A^{-1} \Big( \frac{\partial U}{\partial n} V \frac{\partial U}{\partial n}^\top \Big) A^{-1}

so that an interval is never narrower than without noise. This holds while noise moves the information
little. How much it moves it is estimated, too, along the information's own directions: beyond
``MOST_MOVED`` no number is given.

Statistical tests whose distribution knows no noise lose their p values. ``bootstrap`` gives intervals of
every number, these included.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gencard.core.answers.answer import Answer, Coefficients, Scalar, coefficients_of
from gencard.core.answers.design import Block, Question
from gencard.core.answers.margins import Margins
from gencard.core.answers.noise.differences import widened
from gencard.core.answers.noise.estimating import Equations
from gencard.core.answers.noise.reconciled import covariance_of
from gencard.core.errors import ComputationError, NoiseDrownsError
from gencard.core.types import FloatArray

NOTE = "standard errors and intervals include the noise of psi; tests that do not are left out"


def with_noise(
    answer_of: Callable[[Margins, Question], Answer],
    equations: Callable[[Margins, Question, Answer], Equations] | None,
    question: Question,
    margins: Margins,
) -> Answer:
    """An answer from noisy margins, with intervals that know the noise.

    Args:
        answer_of: The answer where counts are taken as they are.
        equations: What its coefficients solve; None for answers from tables.

    Raises:
        NoiseDrownsError: There is no answer, or the noise is too large for intervals of first order.
        InvalidInputError, TooLargeError: As the analysis raises them.
    """

    def analysis(margins: Margins) -> Answer:
        return answer_of(margins, question)

    try:
        answer = analysis(margins)
    except ComputationError:
        raise NoiseDrownsError from None
    if equations is None or answer.coefficients is None:
        known = widened(answer, analysis, margins, question.cliques)
    else:
        noise_covariance = added_covariance(equations(margins, question, answer), margins)
        known = replace(answer, coefficients=_with(answer.coefficients, noise_covariance))
    scalars = tuple(map(_untested, known.scalars))
    return replace(known, scalars=scalars, notes=(*known.notes, NOTE))


def _with(coefficients: Coefficients, added: FloatArray) -> Coefficients:
    covariance = np.reshape(coefficients.covariance, added.shape) + added
    params = np.array(coefficients.params)
    return coefficients_of(coefficients.names, params, covariance, coefficients.degrees)


def _untested(scalar: Scalar) -> Scalar:
    if scalar.standard_error is not None:
        return scalar
    return replace(scalar, pvalue=None)


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
    shifts = np.sqrt(np.maximum(np.diag(chain @ noise @ chain.T), 0.0)) / sizes
    if float(shifts.max(initial=0.0)) > MOST_MOVED:
        raise NoiseDrownsError
    covariance: FloatArray = solved @ noise[:size, :size] @ solved
    return covariance


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
