r"""Log-linear models of a table from the margins that the model fits.

The expected counts of the maximum-likelihood fit have the observed margins of the model's terms, and no
other table of its form does [1]_: the margins alone determine it. Names and standard errors are those of
a Poisson regression of the table's counts. Cells inside an empty margin have expected count 0 and are
left out, with the columns that only they would tell apart [2]_.

References:
    .. [1] M. W. Birch, "Maximum Likelihood in Three-Way Contingency Tables", Journal of the Royal
       Statistical Society B 25, 1963.
    .. [2] S. E. Fienberg, A. Rinaldo, "Maximum likelihood estimation in log-linear models", Annals of
       Statistics 40, 2012.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy
from scipy import special, stats

from gencard.analysis.answers.answer import AnalysisAnswer, Scalar, coefficients_of, finite
from gencard.analysis.answers.design import (
    INTERCEPT,
    CheckedQuestion,
    Design,
    independent,
    observed_levels,
    occurring,
)
from gencard.analysis.answers.linear import aliased_note
from gencard.analysis.answers.margins import Margins, Mask, Occupied, along, check_size, records_of
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, LackingMarginalsError, NoEstimateError
from gencard.core.statistics.marginals import maximal
from gencard.core.types import FloatArray, IntArray

# Maximum likelihood by Newton's method, on columns that are centred and scaled first.


MOST_NUMBERS = 40_000_000
"""Entries of a model matrix over cells: 320 MB."""

SIZE_OF_MATRIX = "The size of the model matrix over the cells"

_STEPS = 60
_HALVES = 40
_CLOSE = 1e-9
"""A Newton step on scaled columns after which one more gives all digits that floats have."""

_VANISHED = 1e-10
"""Share of the information at the start below which none is left in some direction.

Where the likelihood has a maximum, about one divided by the number of records is left.
"""

_FAR = 4.0
"""An effect of as many logits for one spread of a column is named where there is no maximum."""

_MOST_NAMED = 3

Objective = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]
"""From parameters to the log likelihood, its gradient, and the information (minus its Hessian)."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The independent columns of a model matrix over cells, centred and scaled.

    Args:
        kept: Positions of the columns that are estimated.
        matrix: Shape ``(cells, kept)``.
        back: Matrix from parameters of these columns to those of the original columns.
    """

    names: tuple[str, ...]
    kept: IntArray
    matrix: FloatArray
    back: FloatArray
    centres: FloatArray

    @property
    def kept_names(self) -> tuple[str, ...]:
        return tuple(self.names[place] for place in self.kept)


@dataclass(frozen=True, slots=True, eq=False)
class Maximum:
    """Maximum of a likelihood; the covariance is the inverse of the information there."""

    params: FloatArray
    covariance: FloatArray
    llf: float

    def linear(self, back: FloatArray) -> "Maximum":
        """The same in other parameters."""
        return Maximum(back @ self.params, back @ self.covariance @ back.T, self.llf)


def columns_of(design: Design, cells: Occupied, *, without: Sequence[str] = ()) -> Columns:
    """The columns of a design over the cells of its attributes.

    Args:
        cells: Cells of ``design.attributes``, in this order.
    """
    check_size(len(cells.counts) * len(design.columns), MOST_NUMBERS, SIZE_OF_MATRIX)
    whole = design.matrix(cells.codes)
    places = [place for place, name in enumerate(design.names) if name not in without]
    names = tuple(design.names[place] for place in places)
    return centred(names, whole[:, places], cells.counts, absorbed=INTERCEPT in without)


def centred(
    names: tuple[str, ...], matrix: FloatArray, weights: FloatArray, *, absorbed: bool = False
) -> Columns:
    """Columns about their weighted means where there is a constant, in units of their spread.

    Args:
        absorbed: Whether other parameters of the model are a constant, so that none may be left here.
    """
    mass = np.abs(weights)
    constant = names.index(INTERCEPT) if INTERCEPT in names else None
    centres = np.zeros(len(names))
    if constant is not None or absorbed:
        centres = (mass @ matrix) / mass.sum()
    if constant is not None:
        centres[constant] = 0.0
    shifted = matrix - centres
    gram = (shifted.T * mass) @ shifted
    usable = independent(gram, np.diag(gram) + mass.sum() * centres**2)
    scale = np.sqrt(np.diag(gram)[usable] / mass.sum())
    back = np.diag(1 / scale)
    if constant is not None and constant in usable:
        row = int(np.flatnonzero(usable == constant)[0])
        back[row] -= centres[usable] / scale
    return Columns(names, usable, shifted[:, usable] / scale, back, centres[usable])


def sums_of(margins: Margins, design: Design, attribute: str, weights: FloatArray) -> FloatArray:
    """Sums over the records of each column times a function of one attribute's level.

    Args:
        weights: The functions at each level, shape ``(functions, levels)``.

    Returns:
        Shape ``(functions, columns)``.
    """
    sums = np.zeros((len(weights), len(design.columns)))
    for block in design.blocks:
        if attribute in block.attributes:
            counts = margins.counts(block.attributes)
            axis = block.attributes.index(attribute)
            shape = [-1 if place == axis else 1 for place in range(counts.ndim)]
            tables = np.stack([counts * row.reshape(shape) for row in weights])
        else:
            tables = weights @ margins.counts((attribute, *block.attributes)).reshape(
                weights.shape[1], -1
            )
        sums[:, block.places] = tables.reshape(len(weights), -1) @ block.values.T
    return sums


def maximum(
    objective: Objective,
    start: FloatArray,
    names: Sequence[str],
    kind: str,
    where: Callable[[FloatArray], str] | None = None,
) -> Maximum:
    """Newton's method with halved steps.

    Args:
        where: From parameters on their way to infinity to the levels that drive them, for people;
            "" where no level does.

    Raises:
        NoEstimateError: The likelihood rises without bound, or the information is singular.
    """
    params = start
    value, gradient, information = objective(params)
    initial_information = information
    for _ in range(_STEPS):
        newton_step = step = _solved(information, gradient, params, names, kind, where)
        for _ in range(_HALVES):
            following = objective(params + step)
            if np.isfinite(following[0]) and following[0] >= value - 1e-12 * abs(value):
                break
            step = step / 2
        params = params + step
        value, gradient, information = following
        # The whole step: a halved one is short, too, where rounding hides that the likelihood rises.
        if np.abs(newton_step).max(initial=0.0) < _CLOSE:
            # On its way to infinity, a likelihood becomes flat: the gradient is rounded to 0 at last,
            # as if there were a maximum. The least part of the initial information that is left in any
            # direction does not depend on how nearly columns are collinear.
            left = scipy.linalg.eigh(information, initial_information, eigvals_only=True)
            if float(left.min(initial=1.0)) < _VANISHED:
                break
            inverse = _solved(information, np.eye(len(params)), params, names, kind, where)
            return Maximum(params, inverse, value)
    raise _unbounded(params, names, kind, where)


def _solved(
    information: FloatArray,
    right: FloatArray,
    params: FloatArray,
    names: Sequence[str],
    kind: str,
    where: Callable[[FloatArray], str] | None,
) -> FloatArray:
    """The solution of a positive definite system, by Cholesky on a unit diagonal."""
    diagonal = np.diag(information)
    if np.any(diagonal <= 0) or not np.all(np.isfinite(information)):
        raise _unbounded(params, names, kind, where)
    scale = 1 / np.sqrt(diagonal)
    scaled = information * np.outer(scale, scale)
    try:
        root = np.linalg.inv(np.linalg.cholesky(scaled))
    except np.linalg.LinAlgError:
        raise _unbounded(params, names, kind, where) from None
    factor = root * scale
    return np.asarray(factor.T @ (factor @ right))


def _unbounded(
    params: FloatArray, names: Sequence[str], kind: str, where: Callable[[FloatArray], str] | None
) -> NoEstimateError:
    """The error on the parameters that were on their way to infinity.

    If the reference level of a factor is the cause, the coefficients of all its other levels diverge. So
    levels are named by the cells whose fitted values diverge; coefficients, if no level explains these.
    """
    if where is not None and (levels := where(params)):
        problem = (
            "the likelihood has no finite maximum, because a response may be absent, or all may be "
            f"equal, at {levels}"
        )
        return NoEstimateError(kind=kind, problem=problem)
    order = np.argsort(-np.abs(params), kind="stable")
    far = [names[place] for place in order if abs(params[place]) > _FAR] or list(names)
    some = ", ".join(far[:_MOST_NAMED]) + ", ..." * (len(far) > _MOST_NAMED)
    problem = (
        f"the likelihood has no finite maximum along {some}; at some level all responses may be equal"
    )
    return NoEstimateError(kind=kind, problem=problem)


def diverging_levels(
    fitted: FloatArray, codes: IntArray, attributes: Clique, levels: Callable[[str], Sequence[str]]
) -> str:
    """Name the levels in whose cells alone fitted values diverge; "" where levels do not explain it.

    Args:
        fitted: Linear predictors, shape ``(cells, equations)``.
        codes: Codes of the cells, shape ``(cells, attributes)``.
    """
    sizes = np.abs(fitted).max(axis=1)
    far = sizes > max(_FAR, sizes.max(initial=0.0) / 2)
    named = []
    for place, name in enumerate(attributes):
        own = np.unique(codes[far, place])
        inside = np.isin(codes[:, place], own)
        if far.any() and np.array_equal(inside, far) and not far.all():
            named += [f"{name} = {levels(name)[code]}" for code in own]
    some = ", ".join(named[:_MOST_NAMED])
    return some + ", ..." * (len(named) > _MOST_NAMED)


def loglinear_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """The maximum-likelihood fit; deviance and log likelihood where the whole table is determined."""
    if question.formula.response is not None:
        problem = "a log-linear model has no response; write all attributes after the '~'"
        raise InvalidInputError(field="formula", problem=problem)
    design = question.model()
    cells = open_cells(margins, design)
    columns = columns_of(design, cells)
    sums = np.zeros(len(design.columns))
    for block in design.blocks:
        sums[block.places] = block.values @ margins.counts(block.attributes).reshape(-1)
    n = records_of(margins)
    fit = _fitted(columns, sums[columns.kept] @ columns.back, n)
    means = np.exp(columns.matrix @ fit.params)
    names, back = columns.kept_names, fit.linear(columns.back)
    degrees = len(cells.codes) - len(names)
    scalars = (Scalar("df_resid", float(degrees)), *_of_table(margins, design, cells, means, degrees))
    return model_answer(question, n, columns, back, names, scalars)


def model_answer(
    question: CheckedQuestion,
    n: float,
    columns: Columns,
    fit: Maximum,
    names: tuple[str, ...],
    scalars: tuple[Scalar, ...],
) -> AnalysisAnswer:
    """The answer of a fit in the parameters of the original columns, which have ``names``."""
    return AnalysisAnswer(
        question.kind.value,
        question.text,
        n,
        coefficients_of(names, fit.params, fit.covariance),
        scalars,
        notes=aliased_note(columns.names, columns.kept),
    )


def open_cells(margins: Margins, design: Design) -> Occupied:
    """The cells of the table that lie inside no empty margin, with equal weights."""
    attributes = design.attributes
    sizes = margins.domain.project(attributes).sizes if attributes else ()
    size = float(np.prod(sizes, dtype=np.float64)) * len(design.columns)
    check_size(size, MOST_NUMBERS, SIZE_OF_MATRIX)
    observed = observed_levels(margins, attributes)
    open_cells = reduce(
        np.logical_and,
        (along(observed[name], (name,), attributes) for name in attributes),
        np.ones(sizes, dtype=bool),
    )
    for clique in maximal(block.attributes for block in design.blocks):
        if _is_saturated(design, clique, observed):
            open_cells = open_cells & along(occurring(margins, clique), clique, attributes)
    codes = np.argwhere(open_cells)
    return Occupied(codes, np.ones(len(codes)))


def _is_saturated(design: Design, clique: Clique, observed: Mapping[str, Mask]) -> bool:
    """Whether each cell of a margin has an effect of its own; scores of numbers have fewer."""
    cells = np.argwhere(reduce(np.multiply.outer, (observed[name] for name in clique), np.array(True)))
    columns = [
        column.values[tuple(cells[:, clique.index(name)] for name in column.attributes)]
        for column in design.columns
        if set(column.attributes) <= set(clique)
    ]
    rows = np.array([np.broadcast_to(column, len(cells)) for column in columns])
    return bool(np.linalg.matrix_rank(rows) == len(cells))


def _fitted(columns: Columns, sums: FloatArray, n: float) -> Maximum:
    x = columns.matrix

    def objective(params: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        with np.errstate(over="ignore"):
            means = np.exp(x @ params)
            value = float(params @ sums - means.sum())
        return value, sums - means @ x, (x.T * means) @ x

    start = np.linalg.lstsq(x, np.full(len(x), np.log(max(n, 1.0) / len(x))), rcond=None)[0]
    return maximum(objective, start, columns.kept_names, "loglinear")


def _of_table(
    margins: Margins, design: Design, cells: Occupied, means: FloatArray, degrees: int
) -> tuple[Scalar, ...]:
    """Return the scalars that need the whole table; none if the table is not determined."""
    try:
        counts = margins.counts(design.attributes)[tuple(cells.codes.T)]
    except LackingMarginalsError:
        return ()
    deviance = 2 * float((special.xlogy(counts, counts / means) - (counts - means)).sum())
    pearson = float(((counts - means) ** 2 / means).sum())
    llf = float((special.xlogy(counts, means) - means - special.gammaln(counts + 1)).sum())
    scalars = [Scalar("llf", finite(llf))]
    for name, value in (("deviance", finite(deviance)), ("pearson_chi2", finite(pearson))):
        pvalue = None
        if value is not None and degrees > 0:
            pvalue = float(stats.chi2.sf(max(value, 0.0), degrees))
        scalars.append(Scalar(name, value, None, (float(degrees),), pvalue))
    return tuple(scalars)
