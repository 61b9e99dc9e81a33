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
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product

import numpy as np

from gencard.analysis.answers.answer import (
    NOISE,
    AnalysisAnswer,
    coefficients_of,
    table_of,
)
from gencard.analysis.answers.design import Block, CheckedQuestion, Design, lifted, union_of
from gencard.analysis.answers.families.levels import level
from gencard.analysis.answers.margins import Margins
from gencard.analysis.answers.noise.differences import MOST_MOVED, Held, widened, widening
from gencard.analysis.answers.noise.numbers import (
    COEFFICIENTS,
    Use,
    names_of,
    numbers_of,
    rebuilt,
    use_of,
)
from gencard.analysis.answers.noise.reconciled import covariance_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ComputationError, InvalidInputError, NoiseDrownsError
from gencard.core.statistics.marginals import maximal
from gencard.core.types import FloatArray, IntArray

# Estimating equations: what the coefficients of a model solve, as linear functions of counts.
#
# Every model here solves :math:`U(\theta; n) = \sum_c n_c\, g_c(\theta) = 0` over cells c of a few
# tables. The derivative of U by each count says what noise on it does; that of the information
# :math:`A = -\partial U / \partial \theta`, whether the noise is small enough for this to be said.


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """Changes of quadratic forms of the information, one for each of some directions.

    Args:
        by_counts: Derivatives by the counts, at fixed coefficients.
        by_params: Derivatives by the coefficients, shape ``(directions, coefficients)``.
    """

    by_counts: tuple[Block, ...]
    by_params: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Equations:
    """A model's estimating equations at their solution.

    Args:
        information: Shape ``(coefficients, coefficients)``.
        gradients: Derivatives of each equation by the counts of some tables.
        curvature: Curvature of the information along directions, shape ``(directions, coefficients)``.
        sampling: Covariance of the coefficients without the noise, where it is not that of the answer.
        notes: Notes for the reader of the answer.
    """

    information: FloatArray
    gradients: tuple[Block, ...]
    curvature: Callable[[FloatArray], Curvature]
    sampling: FloatArray | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ModelCells:
    """The cells of all features of a model together.

    Args:
        attributes: The features.
        matrix: The model matrix, shape ``(cells, columns)``.
        counts: Records in each; negative where noise made them so.
    """

    attributes: Clique
    matrix: FloatArray
    counts: FloatArray

    def block(self, values: FloatArray) -> Block:
        """Functions of the counts from values of shape ``(cells, functions)``."""
        return Block(self.attributes, np.arange(values.shape[1]), values.T)


def kept_blocks(design: Design, kept: IntArray) -> tuple[Block, ...]:
    """The columns that are estimated, at their positions among the estimates."""
    position = {int(place): index for index, place in enumerate(kept)}
    blocks = []
    for block in design.blocks:
        inside = np.array([int(place) in position for place in block.places], dtype=bool)
        places = np.array([position[int(place)] for place in block.places[inside]], dtype=np.int64)
        blocks.append(Block(block.attributes, places, block.values[inside]))
    return tuple(block for block in blocks if len(block.places))


def on_both(one: Block, other: Block, domain: Domain) -> tuple[Clique, FloatArray, FloatArray]:
    """The attributes of two blocks together, and the values of both in their cells."""
    union = union_of(one, other)
    sizes = tuple(domain.size(name) for name in union)
    return union, lifted(one, union, sizes), lifted(other, union, sizes)


def residuals(blocks: tuple[Block, ...], response: tuple[Block, ...], params: FloatArray) -> list[Block]:
    """The response less what is fitted, as single numbers in the cells of each block."""
    fitted = [
        replace(block, places=block.places[:1], values=-(params[block.places] @ block.values)[None])
        for block in blocks
    ]
    return [*response, *fitted]


def linear_equations(
    blocks: tuple[Block, ...],
    response: tuple[Block, ...],
    params: FloatArray,
    inverse: FloatArray,
    domain: Domain,
) -> Equations:
    r"""Least squares: :math:`X'(y - X b) = 0`, from pairs of terms.

    Args:
        response: Number of the response in each cell, in parts.
        inverse: :math:`(X'X)^{-1}`.
    """
    rest = residuals(blocks, response, params)
    gradients = [product_of(block, part, domain) for block in blocks for part in rest]
    return Equations(
        np.asarray(np.linalg.inv(inverse), dtype=np.float64),
        tuple(gradients),
        lambda along: _linear_curvature(blocks, along, domain),
    )


def product_of(block: Block, number: Block, domain: Domain) -> Block:
    """The derivatives, by the counts or sums of a table, of sums of columns times a number."""
    union, left, right = on_both(block, number, domain)
    return Block(union, block.places, left * right, _numbers(block, number, domain))


def _numbers(one: Block, other: Block, domain: Domain) -> Clique:
    return tuple(sorted(one.of + other.of, key=domain.axis))


def _linear_curvature(blocks: tuple[Block, ...], along: FloatArray, domain: Domain) -> Curvature:
    parts = []
    for one, other in combinations_with_replacement(range(len(blocks)), 2):
        union, left, right = on_both(blocks[one], blocks[other], domain)
        forms = (along[:, blocks[one].places] @ left) * (along[:, blocks[other].places] @ right)
        values = forms if one == other else 2 * forms
        numbers = _numbers(blocks[one], blocks[other], domain)
        parts.append(Block(union, np.arange(len(along)), values, numbers))
    return Curvature(tuple(parts), np.zeros_like(along))


def choice_equations(
    blocks: tuple[Block, ...], responses: Block, cells: ModelCells, params: FloatArray, domain: Domain
) -> Equations:
    r"""Logistic and multinomial regression: :math:`\sum n(y, x)\, x_j - \sum_x n(x)\, p_y(x)\, x_j = 0`.

    Args:
        responses: 1 at the levels of the response that each equation is of, 0 at the others.
        params: Shape ``(equations, columns)``; coefficients are numbered equation by equation.
    """
    columns = params.shape[1]
    utility = np.exp(np.clip(cells.matrix @ params.T, -500, 500))
    shares = utility / (1 + utility.sum(axis=1, keepdims=True))
    weights = np.einsum("mk,kl->mkl", shares, np.eye(len(params))) - shares[:, :, None] * shares[:, None]
    spread = shares[:, :, None] * cells.matrix[:, None]
    gradients = [cells.block(-spread.reshape(len(cells.matrix), -1))]
    for equation, own in enumerate(responses.values):
        one = Block(responses.attributes, responses.places[:1], own[None])
        for block in blocks:
            part = product_of(block, one, domain)
            gradients.append(replace(part, places=part.places + equation * columns))
    size = params.size
    information = np.einsum("m,mkl,mi,mj->kilj", cells.counts, weights, cells.matrix, cells.matrix)
    return Equations(
        information.reshape(size, size),
        tuple(gradients),
        lambda along: _choice_curvature(cells, shares, along),
    )


def _choice_curvature(cells: ModelCells, shares: FloatArray, along: FloatArray) -> Curvature:
    """The form along a direction is the variance of its utilities, over the levels of the response."""
    directions = along.reshape(len(along), shares.shape[1], -1)
    forms, by_params = np.empty((len(along), len(shares))), np.empty_like(along)
    for place, direction in enumerate(directions):
        utilities = cells.matrix @ direction.T
        mean = (shares * utilities).sum(axis=1)
        centred = utilities - mean[:, None]
        forms[place] = (shares * centred**2).sum(axis=1) + (1 - shares.sum(axis=1)) * mean**2
        slopes = shares * (centred**2 - forms[place][:, None]) * cells.counts[:, None]
        by_params[place] = (slopes.T @ cells.matrix).reshape(-1)
    return Curvature((cells.block(forms.T),), by_params)


def count_equations(
    blocks: tuple[Block, ...],
    response: tuple[Block, ...] | None,
    cells: ModelCells,
    params: FloatArray,
    domain: Domain,
) -> Equations:
    r"""Poisson regression, and the log-linear model, in which each cell has one count.

    .. math:: \sum n(y, x)\, y\, x_j - \sum_x n(x)\, e^{x \beta} x_j = 0, \quad
       \sum_x n(x)\, x_j - \sum_x e^{x \beta} x_j = 0

    Args:
        response: Number of the response in each cell, in parts; None for the log-linear model.
    """
    rates = np.exp(np.clip(cells.matrix @ params, -500, 500))
    means = rates if response is None else rates * cells.counts
    if response is None:
        gradients = blocks
    else:
        fitted_block = cells.block(-rates[:, None] * cells.matrix)
        pairs = product(blocks, response)
        gradients = (fitted_block, *(product_of(block, part, domain) for block, part in pairs))

    def curvature(along: FloatArray) -> Curvature:
        forms = (cells.matrix @ along.T) ** 2
        by_params = (forms * means[:, None]).T @ cells.matrix
        direct = () if response is None else (cells.block(rates[:, None] * forms),)
        return Curvature(direct, by_params)

    return Equations((cells.matrix * means[:, None]).T @ cells.matrix, gradients, curvature)


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
        groups = [clique for clique in question.cliques if clique]
        groups += [one.by for one in question.sums if one.by]
        tables: list[Held] = [((), by) for by in maximal(groups) or ((),)]
        tables += [(one.of, one.by) for one in question.sums if one.of]
        kind, alpha = question.kind, level(question)
        known, stddev = widened(answer, analysis, margins, tables, kind=kind, alpha=alpha)
    else:
        plain = answer.coefficients
        covariance = np.reshape(plain.covariance, (len(plain.names),) * 2)
        own = equations(margins, question, answer)
        sampling = covariance if own.sampling is None else own.sampling
        total = covariance_with_noise(own, margins, sampling)
        params = np.array(plain.params)
        coefficients = coefficients_of(plain.names, params, total, plain.degrees)
        known = _given(replace(answer, coefficients=coefficients), question)
        part = np.sqrt(np.maximum(np.diag(total) - np.diag(sampling), 0.0))
        rows = tuple(f"{COEFFICIENTS}: {name}" for name in plain.names)
        beside = table_of(NOISE, rows, ("std",), part[:, None])
        known = replace(known, tables=(*known.tables, beside))
        answer = replace(answer, notes=(*answer.notes, *own.notes))
        stddev = float(margins.variances(())) ** 0.5
    if tests is not None:
        known = tests(margins, question, known)
    if known.coefficients is None and not known.scalars and not known.tables:
        raise NoiseDrownsError
    return replace(known, notes=_notes(known, answer, stddev))


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
