r"""The answer from noisy margins: the same estimates, with what the noise adds to their covariance.

An estimate solves :math:`U(\hat\theta; \hat n) = 0`, with information A. Sampling of the records leaves
the usual covariance; noise with covariance V on the counts adds, to first order,

.. math:: A^{-1} \Big( \frac{\partial U}{\partial n} V \frac{\partial U}{\partial n}^\top \Big) A^{-1}

so that an interval is never narrower than without noise. This holds while noise moves the information
little. How much it moves it is estimated, too, along the information's own directions: beyond
``MOST_MOVED`` no number is given.

Each other number is judged in ``numbers``: its noise is stated, or the number is left out.
``bootstrap`` gives intervals of all numbers.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gencard.analysis.answers.answer import (
    NOISE,
    AnalysisAnswer,
    Coefficients,
    coefficients_of,
    table_of,
)
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.families.levels import level
from gencard.analysis.answers.margins import Margins
from gencard.analysis.answers.noise.differences import MOST_MOVED, Held, widened, widening
from gencard.analysis.answers.noise.estimating import Equations
from gencard.analysis.answers.noise.numbers import (
    COEFFICIENTS,
    Use,
    names_of,
    numbers_of,
    rebuilt,
    use_of,
)
from gencard.analysis.answers.noise.reconciled import covariance_of
from gencard.core.errors import ComputationError, InvalidInputError, NoiseDrownsError
from gencard.core.statistics.marginals import maximal
from gencard.core.types import FloatArray

_TABLE = f"the table '{NOISE}' has the noise in standard errors and in numbers without an interval"

NOTE = "standard errors, intervals and p values include the noise of psi"

_OF_DATA = frozenset({"classes", "strata", "table"})
"""Fields of errors about counts, not about the question: noise makes such counts."""

_RAREST = 1.25
"""Factor on the shift of a coefficient: common cells hide a part of the noise in its rarest cell."""

Tests = Callable[[Margins, CheckedQuestion, AnalysisAnswer], AnalysisAnswer]
"""Makes tests again: adds them to the last argument, the answer with the noise in its other numbers."""


def with_noise(
    answer_of: Callable[[Margins, CheckedQuestion], AnalysisAnswer],
    equations: Callable[[Margins, CheckedQuestion, AnalysisAnswer], Equations] | None,
    tests: Tests | None,
    question: CheckedQuestion,
    margins: Margins,
) -> AnalysisAnswer:
    """An answer from noisy margins: each number knows the noise, or is left out.

    Args:
        answer_of: The answer where counts are taken as they are.
        equations: Equations that the coefficients solve; None for answers from tables.
        tests: Makes its tests again, with the noise; None where it has none.

    Raises:
        NoiseDrownsError: There is no answer, or the noise is too large for intervals of first order.
        InvalidInputError, TooLargeError: As the analysis raises them.
    """

    def analysis(margins: Margins) -> AnalysisAnswer:
        return answer_of(margins, question)

    answer = on_noisy_counts(analysis, margins)
    if equations is None or answer.coefficients is None:
        kind, alpha, tables = question.kind, level(question), _tables(question)
        known, stddev = widened(answer, analysis, margins, tables, kind=kind, alpha=alpha)
    else:
        covariance = np.reshape(answer.coefficients.covariance, (len(answer.coefficients.names),) * 2)
        own = equations(margins, question, answer)
        sampling = covariance if own.sampling is None else own.sampling
        total = covariance_with_noise(own, margins, sampling)
        known = _given(replace(answer, coefficients=_with(answer.coefficients, total)), question)
        part = np.sqrt(np.maximum(np.diag(total) - np.diag(sampling), 0.0))
        rows = tuple(f"{COEFFICIENTS}: {name}" for name in answer.coefficients.names)
        beside = table_of(NOISE, rows, ("std",), part[:, None])
        known = replace(known, tables=(*known.tables, beside))
        answer = replace(answer, notes=(*answer.notes, *own.notes))
        stddev = float(margins.variances(())) ** 0.5
    if tests is not None:
        known = tests(margins, question, known)
    if known.coefficients is None and not known.scalars and not known.tables:
        raise NoiseDrownsError
    return replace(known, notes=_notes(known, answer, stddev))


def _tables(question: CheckedQuestion) -> list[Held]:
    """The counts and the sums that an answer rests on."""
    groups = [clique for clique in question.cliques if clique]
    groups += [one.by for one in question.sums if one.by]
    counts: list[Held] = [((), by) for by in maximal(groups) or ((),)]
    return counts + [(one.of, one.by) for one in question.sums if one.of]


def on_noisy_counts(analysis: Callable[[Margins], AnalysisAnswer], margins: Margins) -> AnalysisAnswer:
    """The answer where counts are taken as they are.

    Raises:
        NoiseDrownsError: There is none; noise makes counts that no records have.
        InvalidInputError: As the analysis raises it, if the question is wrong.
    """
    try:
        with np.errstate(all="ignore"):
            return analysis(margins)
    except InvalidInputError as error:
        if error.fields.get("field") in _OF_DATA:
            raise NoiseDrownsError from None
        raise
    except (ComputationError, ArithmeticError, ValueError):  # roots and logarithms of negative counts
        raise NoiseDrownsError from None


def _given(answer: AnalysisAnswer, question: CheckedQuestion) -> AnalysisAnswer:
    numbers = numbers_of(answer)
    given = {at: value for at, value in numbers.items() if use_of(question.kind, at) is Use.GIVEN}
    return rebuilt(answer, given)


def _notes(known: AnalysisAnswer, answer: AnalysisAnswer, stddev: float) -> tuple[str, ...]:
    """The notes of an answer, with what is left out.

    Args:
        stddev: Standard deviation of the noise in the number of records.
    """
    there = numbers_of(known)
    absent = [
        at for at, value in numbers_of(answer).items() if value is not None and there.get(at) is None
    ]
    notes = [*answer.notes, NOTE, f"n has noise of standard deviation {stddev:.3g}"]
    if any(table.name == NOISE for table in known.tables):
        notes.append(_TABLE)
    if names := names_of(absent):
        notes.append(
            f"left out, in whole or in part, because the noise is not in them: {', '.join(names)}"
        )
    return tuple(notes)


def _with(coefficients: Coefficients, covariance: FloatArray) -> Coefficients:
    params = np.array(coefficients.params)
    return coefficients_of(coefficients.names, params, covariance, coefficients.degrees)


def covariance_with_noise(equations: Equations, margins: Margins, sampling: FloatArray) -> FloatArray:
    """The covariance of estimates, with what noise adds, shape ``(coefficients, coefficients)``.

    Args:
        sampling: Their covariance without the noise.

    Raises:
        NoiseDrownsError: The noise is too large for first order.
        TooLargeError: The derivatives would not fit into memory.
    """
    directions, sizes = _directions(equations.information)
    solved = np.linalg.inv(equations.information)
    # Along the rows of its inverse the information says what each coefficient rests on, which the
    # eigenvectors mix: a rare cell must not hide behind common ones.
    along, sizes = np.vstack([directions, solved]), np.concatenate([sizes, np.diag(solved)])
    size = len(solved)
    curvature = equations.curvature(along)
    shifted = tuple(replace(part, places=part.places + size) for part in curvature.by_counts)
    noise = covariance_of(margins, (*equations.gradients, *shifted), size + len(along))
    chain = np.hstack([curvature.by_params @ solved, np.eye(len(along))])
    shifts = np.sqrt(np.maximum(np.diag(chain @ noise @ chain.T), 0.0)) / sizes
    shifts[len(directions) :] *= _RAREST
    if not float(shifts.max(initial=0.0)) <= MOST_MOVED:
        raise NoiseDrownsError
    total = sampling + solved @ noise[:size, :size] @ solved
    factors = np.array([widening(float(one)) for one in shifts[len(directions) :]])
    return np.asarray(total * np.outer(factors, factors))


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
