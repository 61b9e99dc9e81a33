r"""The answer from noisy margins: the same estimates, with what the noise adds to their covariance.

An estimate solves :math:`U(\hat\theta; \hat n) = 0`, with information A. Sampling of the records leaves
the usual covariance; noise with covariance V on the counts adds, to first order,

.. math:: A^{-1} \Big( \frac{\partial U}{\partial n} V \frac{\partial U}{\partial n}^\top \Big) A^{-1}

so that an interval is never narrower than without noise. This holds while noise moves the information
little. How much it moves it is estimated, too, along the information's own directions: beyond
``MOST_MOVED`` no number is given.

Each other number is judged in ``answer``: its noise is stated, or the number is left out. The
bootstrap in ``noisy_margins`` gives intervals of all numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, product

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import (
    COEFFICIENTS,
    NOISE,
    AnalysisAnswer,
    Coefficients,
    Scalar,
    Use,
    coefficients_of,
    names_of,
    numbers_of,
    rebuilt,
    table_of,
    use_of,
)
from gencard.analysis.answers.design import Block, CheckedQuestion, Design, lifted, occurring, union_of
from gencard.analysis.answers.groups import (
    TESTS,
    adjusted_for,
    cell_design,
    places_of_terms,
    terms_of,
    typ_of,
)
from gencard.analysis.answers.levels import choice, level, number, numbers, response_of
from gencard.analysis.answers.linear import (
    ExactModel,
    LinearFit,
    Moments,
    blocks_of,
    linear_fit,
    moments,
    of_columns,
    response_column,
)
from gencard.analysis.answers.loglinear import MOST_NUMBERS, SIZE_OF_MATRIX, open_cells
from gencard.analysis.answers.margins import Margins, check_size, within
from gencard.analysis.answers.noisy_estimates import MOST_MOVED, Held, widened, widening
from gencard.analysis.answers.noisy_margins import covariance_of
from gencard.analysis.answers.regressions import events_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ComputationError, InvalidInputError, NoEstimateError, NoiseDrownsError
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
        fitted = replace(answer, coefficients=coefficients)
        numbers = numbers_of(fitted).items()
        given = {at: one for at, one in numbers if use_of(question.kind, at) is Use.GIVEN}
        known = rebuilt(fitted, given)
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


def _notes(known: AnalysisAnswer, answer: AnalysisAnswer, stddev: float) -> tuple[str, ...]:
    """Notes of an answer, with what is left out; ``stddev`` of the noise in the number of records."""
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
    """The ``sampling`` covariance of estimates plus that of the noise, shape ``(coefficients,) * 2``."""
    # Eigenvectors of the information in units of its diagonal, as rows, and their quadratic forms.
    information = equations.information
    scale = np.diag(information)
    if not np.all(np.isfinite(information)) or np.any(scale <= 0):
        raise NoiseDrownsError
    root = np.sqrt(scale)
    sizes, vectors = np.linalg.eigh(information / np.outer(root, root))
    if sizes.min() <= 0:
        raise NoiseDrownsError
    directions, solved = (vectors / root[:, None]).T, np.linalg.inv(information)
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


# The estimating equations of each kind of model, from its answer, and tests with the noise.
#
# Without noise, the F of a term is :math:`b^\top (s^2 C)^{-1} b / q` of its q coefficients, C the
# inverse of :math:`X^\top X`. With noise of covariance V on the coefficients it is
# :math:`b^\top (s^2 C + V)^{-1} b / q`; a difference of residual sums of squares has no such form.


def linear_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    estimated(answer)
    model = NoisyFits(margins, question, question.model())
    columns = np.arange(len(model.design.columns))
    return model.equations(model.fit(columns), columns)


def summed_equations(
    margins: Margins, question: CheckedQuestion, design: Design, fit: LinearFit, places: IntArray
) -> Equations:
    """Least squares of summed numbers, with the variance of the residuals at most.

    Noise that makes the residuals small often moves the estimates, too: answers whose errors are at most
    are those where it did. So these errors allow for noise in the residuals of ``_BEYOND`` standard
    deviations, and for so many times the variance that it gives to the estimates.

    Args:
        places: Positions of the estimated columns in the design.
    """
    columns = [design.columns[place] for place in places]
    blocks = blocks_of(columns, question.scales)
    response = blocks_of([response_column(question, design, margins)], question.scales)
    equations = linear_equations(blocks, response, fit.params, fit.inverse, margins.domain)
    rest = residuals(blocks, response, fit.params)
    squares = [product_of(one, other, margins.domain) for one in rest for other in rest]
    last = len(fit.params)
    own = [replace(part, places=np.array([last], dtype=np.int64)) for part in squares]
    noise = covariance_of(margins, (*equations.gradients, *own), last + 1)
    stddev = float(noise[last, last]) ** 0.5
    if fit.rss >= _BEYOND * stddev:
        return replace(equations, sampling=fit.inverse * (fit.rss / fit.degrees))
    rss = max(fit.rss, 0.0) + _BEYOND * stddev
    moved = fit.inverse @ noise[:last, last] / stddev
    sampling = fit.inverse * (rss / fit.degrees) + _BEYOND * np.outer(moved, moved)
    return replace(equations, sampling=sampling, notes=(AT_MOST,))


_BEYOND = 2
"""Chosen by simulation: see ``benchmarks.sums_noise``."""

AT_MOST = "the noise is as large as the residuals: standard errors are at most those that are printed"


def logistic_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    response = question.model().required_response()
    events = one_number(response.attribute, events_of(margins, response))
    return _choice_noise(margins, question.model(), estimated(answer), events, "")


def multinomial_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    response = question.model().required_response()
    counts = margins.counts((response.attribute,))
    levels = np.flatnonzero(occurring(margins, (response.attribute,)))[1:]
    each = Block((response.attribute,), levels, np.eye(len(counts))[levels])
    prefix = f"{response.name}={response.levels[levels[0]]}:"
    return _choice_noise(margins, question.model(), estimated(answer), each, prefix)


def _choice_noise(
    margins: Margins, design: Design, coefficients: Coefficients, responses: Block, prefix: str
) -> Equations:
    params = np.reshape(coefficients.params, (len(responses.values), -1))
    names = [name.removeprefix(prefix) for name in coefficients.names[: params.shape[1]]]
    places = np.array([design.names.index(name) for name in names], dtype=np.int64)
    cells = _cells(margins, design, places)
    return choice_equations(kept_blocks(design, places), responses, cells, params, margins.domain)


def poisson_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    design, coefficients = question.model(), estimated(answer)
    places = places_of(design, coefficients)
    return count_equations(
        kept_blocks(design, places),
        blocks_of([response_column(question, design, margins)], question.scales),
        _cells(margins, design, places),
        np.array(coefficients.params),
        margins.domain,
    )


def loglinear_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    design, coefficients = question.model(), estimated(answer)
    places = places_of(design, coefficients)
    codes = open_cells(margins, design).codes
    cells = _checked(ModelCells(design.attributes, design.matrix(codes), np.ones(len(codes))), places)
    params = np.array(coefficients.params)
    return count_equations(kept_blocks(design, places), None, cells, params, margins.domain)


def _cells(margins: Margins, design: Design, kept: IntArray) -> ModelCells:
    """All cells of the features, empty ones too."""
    counts = margins.counts(design.attributes)
    check_size(counts.size * len(design.columns), MOST_NUMBERS, SIZE_OF_MATRIX)
    codes = np.argwhere(np.ones(counts.shape, dtype=bool))
    return _checked(ModelCells(design.attributes, design.matrix(codes), counts.reshape(-1)), kept)


def _checked(cells: ModelCells, kept: IntArray) -> ModelCells:
    """The columns that are estimated; raises NoiseDrownsError where noise alone made others depend."""
    if int(np.linalg.matrix_rank(cells.matrix)) != len(kept):
        raise NoiseDrownsError
    return replace(cells, matrix=cells.matrix[:, kept])


def estimated(answer: AnalysisAnswer) -> Coefficients:
    """The coefficients of a model; raises NoiseDrownsError where nothing could be estimated."""
    if answer.coefficients is None:
        raise NoiseDrownsError
    return answer.coefficients


def one_number(attribute: str, values: FloatArray) -> Block:
    """A number at each level of an attribute."""
    return Block((attribute,), np.zeros(1, dtype=np.int64), values[None])


def places_of(design: Design, coefficients: Coefficients) -> IntArray:
    """Positions in the design of the columns that are estimated."""
    return np.array([design.names.index(name) for name in coefficients.names], dtype=np.int64)


_SINGULAR = 1e-8
"""Eigenvalues of a matrix with unit diagonal that are 0 but for rounding."""


def _check_eigenvalues(gram: FloatArray, estimated: int) -> None:
    scale = np.diag(gram)
    some = scale != 0
    if np.any(scale[some] < 0):
        raise NoiseDrownsError
    root = np.sqrt(scale[some])
    values = np.linalg.eigvalsh(gram[np.ix_(some, some)] / np.outer(root, root))
    if values.min() < -_SINGULAR or int((values > _SINGULAR).sum()) != estimated:
        raise NoiseDrownsError


_COLUMNS = ("df", "F", "PR(>F)")


def t_with_noise(margins: Margins, question: CheckedQuestion, known: AnalysisAnswer) -> AnalysisAnswer:
    """A t test from the estimate and its standard error with the noise; ranks have none."""
    del margins
    if known.coefficients is None:
        return known
    value = number(question, "value", 0.0)
    degrees = known.coefficients.degrees or np.inf
    t = (known.coefficients.params[0] - value) / float(known.coefficients.bse[0])
    pvalue = float(2 * special.stdtr(degrees, -abs(t)))
    tested = Scalar("tvalue", t, None, (degrees,), pvalue)
    return replace(known, scalars=(tested, *known.scalars))


def f_with_noise(margins: Margins, question: CheckedQuestion, known: AnalysisAnswer) -> AnalysisAnswer:
    """The table of Fisher's F, of each term with the noise; other tests have none."""
    if choice(question, "test", TESTS) != TESTS[0]:
        return known
    terms, typ = terms_of(question), typ_of(question)
    if not question.is_summed:  # records with a number for the response, as in the table of means
        response = response_of(question)
        known_response = ~np.isnan(numbers(question, response))
        if not known_response.all():
            margins = within(margins, (response,), known_response)
    design, places = cell_design(margins, question, terms), places_of_terms(margins, terms)
    model = NoisyFits(margins, question, design)
    try:
        full = model.fit(np.arange(len(design.columns)))
    except NoEstimateError:
        raise NoiseDrownsError from None
    if full.degrees <= 0 or not full.rss > 0:
        raise NoiseDrownsError
    rows = []
    for place in range(len(terms)):
        others = [places[1 + other] for other in adjusted_for(terms, place, typ)]
        columns = np.concatenate([places[0], *others, places[1 + place]])
        scale = full.rss / full.degrees
        rows.append(_tested(model, columns, places[1 + place], scale, full.degrees))
    names = tuple(":".join(term) for term in terms)
    rows.append((full.degrees, np.nan, np.nan))
    table = table_of("anova", (*names, "Residual"), _COLUMNS, np.array(rows))
    return replace(known, tables=(table, *known.tables))


def _tested(
    model: "NoisyFits", columns: IntArray, own: IntArray, scale: float, degrees: float
) -> tuple[float, float, float]:
    """Degrees of freedom, F and p value of a term.

    Args:
        columns: Columns of the model in which the term is tested.
        own: Columns of the term.
        scale: Variance of the residuals.
    """
    try:
        fit = model.fit(columns)
    except NoEstimateError:
        raise NoiseDrownsError from None
    kept = columns[fit.kept]
    equations = model.equations(fit, columns)
    covariance = covariance_with_noise(equations, model.margins, fit.inverse * scale)
    tested = np.flatnonzero(np.isin(kept, own))
    if not len(tested):
        return 0.0, np.nan, np.nan
    b = fit.params[tested]
    f = float(b @ np.linalg.solve(covariance[np.ix_(tested, tested)], b)) / len(tested)
    return float(len(tested)), f, float(special.fdtrc(len(tested), degrees, f))


@dataclass(frozen=True, eq=False)
class NoisyFits:
    """Least squares on some columns of a design, by levels or of summed numbers, from noisy margins."""

    margins: Margins
    question: CheckedQuestion
    design: Design

    @cached_property
    def _exact(self) -> ExactModel:
        return ExactModel.of(self.margins, self.question, self.design)

    @cached_property
    def _moments(self) -> Moments:
        return moments(self.margins, self.design)

    def fit(self, columns: IntArray) -> LinearFit:
        if self.question.is_summed:
            return self._exact.fit(columns)
        return linear_fit(of_columns(self._moments, columns))

    def equations(self, fit: LinearFit, columns: IntArray) -> Equations:
        """The equations of a fit; raises NoiseDrownsError where noise made columns depend."""
        margins, design, kept = self.margins, self.design, columns[fit.kept]
        if self.question.is_summed:
            _check_eigenvalues(self._exact.gram.floats[np.ix_(columns, columns)], len(fit.kept))
            return summed_equations(margins, self.question, design, fit, kept)
        # Columns that others determine leave eigenvalues of 0; noise leaves negative ones.
        m = of_columns(self._moments, columns)
        _check_eigenvalues(m.xx + m.n * np.outer(m.centres, m.centres), len(fit.kept))
        response = design.required_response()
        values = one_number(response.attribute, response.numbers(margins))
        blocks = kept_blocks(design, kept)
        return linear_equations(blocks, (values,), fit.params, fit.inverse, margins.domain)
