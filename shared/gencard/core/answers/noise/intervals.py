"""The answer from noisy margins: the same estimates, with what the noise adds to their covariance.

Statistical tests whose distribution knows no noise lose their p values. ``bootstrap`` gives intervals of
every number, these included.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gencard.core.answers.answer import Answer, Coefficients, Scalar, coefficients_of
from gencard.core.answers.design import Question
from gencard.core.answers.margins import Margins
from gencard.core.answers.noise.differences import widened
from gencard.core.answers.noise.estimating import Equations
from gencard.core.answers.noise.propagation import added_covariance
from gencard.core.errors import ComputationError, NoiseDrownsError
from gencard.core.types import FloatArray

NOTE = "standard errors and intervals know the noise of psi; tests that do not are left out"


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
        added = added_covariance(equations(margins, question, answer), margins)
        known = replace(answer, coefficients=_with(answer.coefficients, added))
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
