r"""Linear regression from pairs of terms: :math:`X'X b = X'y` needs no record and no joint table.

Columns and response are centred on their means before their products are summed, which keeps the digits
that the normal equations would lose. Columns that depend on earlier ones are left out and named, as R
does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
from scipy import stats

from gencard.analysis.answers.answer import AnalysisAnswer, Scalar, coefficients_of, finite
from gencard.analysis.answers.design import (
    INTERCEPT,
    Block,
    CheckedQuestion,
    Column,
    Design,
    block_products,
    independent,
    union_of,
)
from gencard.analysis.answers.exact import Gram, LinearFit, gram_of, least_squares
from gencard.analysis.answers.margins import Margins, records_of
from gencard.core.errors import NoEstimateError
from gencard.core.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over the records of products of columns and response, each less its centre.

    Args:
        n: Number of records.
        centres: Centre that was subtracted from each column.
        centre: Centre that was subtracted from the response.
        xx: Shape ``(columns, columns)``.
        xy: Shape ``(columns,)``.
        yy: The response with itself.
        x1: Sums of the columns as they are.
        y1: Sum of the response as it is.
        intercept: Position of the intercept; without one, nothing is centred.
    """

    intercept: int | None
    n: float
    centres: FloatArray
    centre: float
    xx: FloatArray
    xy: FloatArray
    yy: float
    x1: FloatArray
    y1: float


def linear_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Ordinary least squares with the usual standard errors.

    Raises:
        NoEstimateError: No column, or as many columns as records.
        InvalidInputError: There is no response, or it is no number.
    """
    design = question.model()
    if question.is_summed:
        fit = ExactModel.of(margins, question, design).fit(np.arange(len(design.columns)))
    else:
        fit = linear_fit(moments(margins, design))
    if fit.degrees <= 0:
        raise NoEstimateError(kind="linear", problem="it has as many coefficients as records")
    names = tuple(design.names[place] for place in fit.kept)
    covariance = fit.inverse * (fit.rss / fit.degrees)
    return AnalysisAnswer(
        question.kind.value,
        question.text,
        fit.n,
        coefficients_of(names, fit.params, covariance, fit.degrees),
        _scalars(fit),
        notes=aliased_note(design.names, fit.kept),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ExactModel:
    """Inner products of columns, of a constant and of the response, of numbers as the records have them.

    Args:
        gram: Inner products of the columns, then the constant, then the response.
        n: Number of records.
    """

    gram: Gram
    n: float

    @property
    def scale(self) -> FloatArray:
        """Inner products of the columns of the design, in floats."""
        return self.gram.floats[:-2, :-2]

    @classmethod
    def of(cls, margins: Margins, question: CheckedQuestion, design: Design) -> "ExactModel":
        """Raises NoEstimateError without records, LackingMarginalsError where a sum is absent."""
        n = records_of(margins)
        if n <= 0:
            raise NoEstimateError(kind="linear", problem="there are no records")
        one = Column(INTERCEPT, (), np.ones(()))
        columns = (*design.columns, one, response_column(question, design, margins))
        return cls(gram_of(margins, columns, question.scales), n)

    def fit(self, places: IntArray) -> LinearFit:
        """Least squares on some of the columns; raises NoEstimateError where no column is left."""
        last = len(self.gram.divisors) - 1
        fit = least_squares(self.gram.of([*places, last - 1, last]), self.n)
        if not len(fit.kept):
            raise NoEstimateError(kind="linear", problem="the model matrix has no column left")
        return fit


def response_column(question: CheckedQuestion, design: Design, margins: Margins) -> Column:
    """The response of a model as a column of its design."""
    if question.summed_response is not None:
        return question.summed_response
    response = design.required_response()
    return Column(response.name, (response.attribute,), response.numbers(margins))


def aliased_note(names: tuple[str, ...], kept: IntArray) -> tuple[str, ...]:
    """Names of the columns that were left out, if any."""
    left = [name for place, name in enumerate(names) if place not in kept]
    return (f"not estimated, because earlier columns determine them: {', '.join(left)}",) if left else ()


def moments(margins: Margins, design: Design) -> Moments:
    """Raises InvalidInputError where there is no response, or it is no number."""
    response = design.required_response()
    numbers, name = response.numbers(margins), (response.attribute,)
    n = records_of(margins)
    if n <= 0:
        raise NoEstimateError(kind="linear", problem="there are no records")
    y1 = float(numbers @ margins.counts(name))
    x1 = np.zeros(len(design.columns))
    for block in design.blocks:
        x1[block.places] = block.values @ margins.counts(block.attributes).reshape(-1)
    intercept = design.names.index(INTERCEPT) if INTERCEPT in design.names else None
    centres = np.zeros_like(x1) if intercept is None else x1 / n
    centre = 0.0 if intercept is None else y1 / n
    own = Block(name, np.zeros(1, dtype=np.int64), (numbers - centre)[None])
    blocks = [
        replace(block, values=block.values - centres[block.places][:, None]) for block in design.blocks
    ]
    xx, xy = np.zeros((len(x1), len(x1))), np.zeros(len(x1))
    for place, block in enumerate(blocks):
        xy[block.places] = products(margins, block, own)[:, 0]
        for other in blocks[place:]:
            inside = products(margins, block, other)
            xx[np.ix_(block.places, other.places)] = inside
            xx[np.ix_(other.places, block.places)] = inside.T
    yy = float(products(margins, own, own)[0, 0])
    return Moments(intercept, n, centres, centre, xx, xy, yy, x1, y1)


def products(margins: Margins, one: Block, other: Block) -> FloatArray:
    """Sums over the records of each column of one block times each of the other."""
    counts = margins.counts(union_of(one, other))
    return np.asarray(block_products(one, other, counts, np.matmul))


def linear_fit(m: Moments) -> LinearFit:
    """Raises NoEstimateError where no column is left."""
    gram, intercept = m.xx.copy(), m.intercept
    if intercept is not None:
        gram[intercept, intercept] = m.n
    usable = independent(gram, np.diag(m.xx) + m.n * m.centres**2)
    if not len(usable):
        raise NoEstimateError(kind="linear", problem="the model matrix has no column left")
    slopes = usable if intercept is None else usable[usable != intercept]
    scale = np.sqrt(np.diag(m.xx)[slopes])
    inside = inverse_of(m.xx[np.ix_(slopes, slopes)] / np.outer(scale, scale)) / np.outer(scale, scale)
    b = inside @ m.xy[slopes]
    b += inside @ (m.xy[slopes] - m.xx[np.ix_(slopes, slopes)] @ b)
    rss = max(m.yy - 2 * float(b @ m.xy[slopes]) + float(b @ m.xx[np.ix_(slopes, slopes)] @ b), 0.0)
    if intercept is None:
        constant = abs(m.n - float(m.x1[slopes] @ inside @ m.x1[slopes])) < 1e-9 * m.n
        tss = m.yy - constant * m.y1**2 / m.n
        return LinearFit(usable, b, inside, rss, tss, constant, m.n)
    place = int(np.flatnonzero(usable == intercept)[0])
    centres = m.centres[slopes]
    cross = -inside @ centres
    corner = 1 / m.n + float(centres @ inside @ centres)
    params = np.insert(b, place, m.centre - float(b @ centres))
    inverse = np.insert(np.insert(inside, place, cross, axis=0), place, 0.0, axis=1)
    inverse[:, place] = np.insert(cross, place, corner)
    return LinearFit(usable, params, inverse, rss, m.yy, True, m.n)


def inverse_of(matrix: FloatArray) -> FloatArray:
    """Invert a symmetric positive definite matrix by Cholesky; raise NoEstimateError for another one."""
    try:
        root = np.linalg.inv(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        problem = "the information matrix is singular"
        raise NoEstimateError(kind="linear", problem=problem) from None
    return np.asarray(root.T @ root)


def _scalars(fit: LinearFit) -> tuple[Scalar, ...]:
    n, k = fit.n, len(fit.kept)
    llf = -n / 2 * (log(2 * pi) + np.log(fit.rss / n) + 1) if fit.rss > 0 else np.inf
    model = k - fit.constant
    explained = fit.tss - fit.rss
    scale = fit.rss / fit.degrees
    adjusted = 1 - (n - fit.constant) / fit.degrees * fit.rss / fit.tss if fit.tss > 0 else np.nan
    values = {
        "rsquared": explained / fit.tss if fit.tss > 0 else np.nan,
        "rsquared_adj": adjusted,
        "scale": scale,
        "ssr": fit.rss,
        "llf": llf,
        "aic": 2 * k - 2 * llf,
        "bic": log(n) * k - 2 * llf,
    }
    plain = tuple(Scalar(name, finite(value)) for name, value in values.items())
    if not model or scale <= 0:
        return plain
    f = explained / model / scale
    degrees = (float(model), float(fit.degrees))
    return (*plain, Scalar("fvalue", f, None, degrees, float(stats.f.sf(f, *degrees))))


def fitter(
    margins: Margins, question: CheckedQuestion, design: Design
) -> Callable[[IntArray], LinearFit]:
    """Least squares on some of a design's columns, the first being the constant."""
    if question.is_summed:
        return ExactModel.of(margins, question, design).fit
    sums = moments(margins, design)
    return lambda places: linear_fit(of_columns(sums, places))


def of_columns(m: Moments, places: IntArray) -> Moments:
    """The moments of some of the columns, the first being the constant."""
    return replace(
        m,
        centres=m.centres[places],
        xx=m.xx[np.ix_(places, places)],
        xy=m.xy[places],
        x1=m.x1[places],
    )
