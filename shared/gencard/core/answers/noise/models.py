"""The estimating equations of each kind of model, from its answer."""

from dataclasses import replace

import numpy as np

from gencard.core.answers.answer import Answer, Coefficients
from gencard.core.answers.design import Block, Design, Question, occurring
from gencard.core.answers.likelihood import events_of
from gencard.core.answers.linear import Moments, moments
from gencard.core.answers.loglinear import open_cells
from gencard.core.answers.margins import Margins
from gencard.core.answers.newton import MOST_NUMBERS
from gencard.core.answers.noise.estimating import (
    Cells,
    Equations,
    choice_equations,
    count_equations,
    kept_blocks,
    linear_equations,
)
from gencard.core.errors import NoiseDrownsError, TooLargeError
from gencard.core.types import FloatArray, IntArray


def linear_noise(margins: Margins, question: Question, answer: Answer) -> Equations:
    """The equations of an answer by ``linear_answer``."""
    design, coefficients = question.model(), estimated(answer)
    response = design.required_response()
    numbers = one_number(response.attribute, response.numbers(margins))
    check_rank(moments(margins, design), len(coefficients.names))
    size = len(coefficients.names)
    inverse = np.reshape(coefficients.covariance, (size, size)) / answer["scale"]
    return linear_equations(
        kept_blocks(design, places_of(design, coefficients)),
        numbers,
        np.array(coefficients.params),
        inverse,
        margins.domain,
    )


def logistic_noise(margins: Margins, question: Question, answer: Answer) -> Equations:
    """The equations of an answer by ``logistic_answer``."""
    response = question.model().required_response()
    events = one_number(response.attribute, events_of(margins, response))
    return _choice_noise(margins, question.model(), estimated(answer), events, "")


def multinomial_noise(margins: Margins, question: Question, answer: Answer) -> Equations:
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


def poisson_noise(margins: Margins, question: Question, answer: Answer) -> Equations:
    """The equations of an answer by ``poisson_answer``."""
    design, coefficients = question.model(), estimated(answer)
    response = design.required_response()
    places = places_of(design, coefficients)
    return count_equations(
        kept_blocks(design, places),
        one_number(response.attribute, response.numbers(margins)),
        _cells(margins, design, places),
        np.array(coefficients.params),
        margins.domain,
    )


def loglinear_noise(margins: Margins, question: Question, answer: Answer) -> Equations:
    """The equations of an answer by ``loglinear_answer``."""
    design, coefficients = question.model(), estimated(answer)
    places = places_of(design, coefficients)
    codes = open_cells(margins, design).codes
    cells = _checked(Cells(design.attributes, design.matrix(codes), np.ones(len(codes))), places)
    params = np.array(coefficients.params)
    return count_equations(kept_blocks(design, places), None, cells, params, margins.domain)


def _cells(margins: Margins, design: Design, kept: IntArray) -> Cells:
    """All cells of the features, empty ones too."""
    counts = margins.counts(design.attributes)
    if counts.size * len(design.columns) > MOST_NUMBERS:
        raise TooLargeError(what="The size of the model matrix over the cells", limit=MOST_NUMBERS)
    codes = np.argwhere(np.ones(counts.shape, dtype=bool))
    return _checked(Cells(design.attributes, design.matrix(codes), counts.reshape(-1)), kept)


def _checked(cells: Cells, kept: IntArray) -> Cells:
    """The columns that are estimated; raises NoiseDrownsError where noise alone made others depend."""
    if int(np.linalg.matrix_rank(cells.matrix)) != len(kept):
        raise NoiseDrownsError
    return replace(cells, matrix=cells.matrix[:, kept])


def estimated(answer: Answer) -> Coefficients:
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


def check_rank(m: Moments, estimated: int) -> None:
    """Columns that others determine leave eigenvalues of 0; noise leaves negative ones."""
    gram = m.xx + m.n * np.outer(m.centres, m.centres)
    scale = np.diag(gram)
    some = scale != 0
    if np.any(scale[some] < 0):
        raise NoiseDrownsError
    root = np.sqrt(scale[some])
    values = np.linalg.eigvalsh(gram[np.ix_(some, some)] / np.outer(root, root))
    if values.min() < -_SINGULAR or int((values > _SINGULAR).sum()) != estimated:
        raise NoiseDrownsError
