r"""The estimating equations of each kind of model, from its answer, and tests with the noise.

Without noise, the F of a term is :math:`b^\top (s^2 C)^{-1} b / q` of its q coefficients, C the inverse
of :math:`X^\top X`. With noise of covariance V on the coefficients it is
:math:`b^\top (s^2 C + V)^{-1} b / q`; a difference of residual sums of squares has no such form.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import AnalysisAnswer, Coefficients, Scalar, table_of
from gencard.analysis.answers.design import Block, CheckedQuestion, Design, occurring
from gencard.analysis.answers.exact import LinearFit, blocks_of
from gencard.analysis.answers.families.anova import (
    TESTS,
    adjusted_for,
    cell_design,
    places_of_terms,
    terms_of,
    typ_of,
)
from gencard.analysis.answers.families.levels import choice, number, numbers, response_of
from gencard.analysis.answers.likelihood import events_of
from gencard.analysis.answers.linear import (
    ExactModel,
    Moments,
    linear_fit,
    moments,
    of_columns,
    response_column,
)
from gencard.analysis.answers.loglinear import MOST_NUMBERS, open_cells
from gencard.analysis.answers.margins import Margins, within
from gencard.analysis.answers.noise.intervals import (
    Equations,
    ModelCells,
    choice_equations,
    count_equations,
    covariance_with_noise,
    kept_blocks,
    linear_equations,
    product_of,
    residuals,
)
from gencard.analysis.answers.noise.reconciled import covariance_of
from gencard.core.errors import FEWER_TERMS, NoEstimateError, NoiseDrownsError, TooLargeError
from gencard.core.types import FloatArray, IntArray


def linear_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    """The equations of an answer by ``linear_answer``."""
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
    """The equations of an answer by ``logistic_answer``."""
    response = question.model().required_response()
    events = one_number(response.attribute, events_of(margins, response))
    return _choice_noise(margins, question.model(), estimated(answer), events, "")


def multinomial_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    """The equations of an answer by ``multinomial_answer``."""
    response = question.model().required_response()
    counts = margins.counts((response.attribute,))
    levels = np.flatnonzero(occurring(margins, (response.attribute,)))[1:]
    each = Block((response.attribute,), levels, np.eye(len(counts))[levels])
    prefix = f"{response.name}={response.levels[levels[0]]}:"
    return _choice_noise(margins, question.model(), estimated(answer), each, prefix)


def _choice_noise(
    margins: Margins, design: Design, coefficients: Coefficients, responses: Block, prefix: str
) -> Equations:
    """Args: prefix: Of the names of the first equation's coefficients."""
    params = np.reshape(coefficients.params, (len(responses.values), -1))
    names = [name.removeprefix(prefix) for name in coefficients.names[: params.shape[1]]]
    places = np.array([design.names.index(name) for name in names], dtype=np.int64)
    cells = _cells(margins, design, places)
    return choice_equations(kept_blocks(design, places), responses, cells, params, margins.domain)


def poisson_noise(margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer) -> Equations:
    """The equations of an answer by ``poisson_answer``."""
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
    """The equations of an answer by ``loglinear_answer``."""
    design, coefficients = question.model(), estimated(answer)
    places = places_of(design, coefficients)
    codes = open_cells(margins, design).codes
    cells = _checked(ModelCells(design.attributes, design.matrix(codes), np.ones(len(codes))), places)
    params = np.array(coefficients.params)
    return count_equations(kept_blocks(design, places), None, cells, params, margins.domain)


def _cells(margins: Margins, design: Design, kept: IntArray) -> ModelCells:
    """All cells of the features, empty ones too."""
    counts = margins.counts(design.attributes)
    if counts.size * len(design.columns) > MOST_NUMBERS:
        raise TooLargeError(
            what="The size of the model matrix over the cells", limit=MOST_NUMBERS, advice=FEWER_TERMS
        )
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
    table = table_of(
        "anova", (*names, "Residual"), _COLUMNS, np.array([*rows, (full.degrees, np.nan, np.nan)])
    )
    return replace(known, tables=(table, *known.tables))


def _tested(
    model: "NoisyFits", columns: IntArray, own: IntArray, scale: float, degrees: float
) -> tuple[float, float, float]:
    """Degrees of freedom, F and p value of a term.

    Args:
        columns: Columns of the model in which the term is tested.
        own: Columns of the term.
        scale: Variance of the residuals.
        degrees: Degrees of freedom of the residuals.
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
    """Least squares on some columns of a design, by levels or of summed numbers.

    Args:
        margins: Margins of the records, with noise.
        design: All columns; the response is that of the question.
    """

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
            _check_eigenvalues(self._exact.scale[np.ix_(columns, columns)], len(fit.kept))
            return summed_equations(margins, self.question, design, fit, kept)
        # Columns that others determine leave eigenvalues of 0; noise leaves negative ones.
        m = of_columns(self._moments, columns)
        _check_eigenvalues(m.xx + m.n * np.outer(m.centres, m.centres), len(fit.kept))
        response = design.required_response()
        values = one_number(response.attribute, response.numbers(margins))
        blocks = kept_blocks(design, kept)
        return linear_equations(blocks, (values,), fit.params, fit.inverse, margins.domain)
