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

from collections.abc import Mapping
from functools import reduce

import numpy as np
from scipy import special, stats

from gencard.analysis.answers.answer import AnalysisAnswer, Scalar, coefficients_of, finite
from gencard.analysis.answers.design import CheckedQuestion, Design, observed_levels, occurring
from gencard.analysis.answers.linear import aliased_note
from gencard.analysis.answers.margins import Margins, Mask, Occupied, records_of
from gencard.analysis.answers.newton import MOST_NUMBERS, Columns, Maximum, columns_of, maximum
from gencard.core.domain import Clique
from gencard.core.errors import FEWER_TERMS, InvalidInputError, LackingMarginalsError, TooLargeError
from gencard.core.statistics.marginals import maximal
from gencard.core.types import FloatArray


def loglinear_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """The maximum-likelihood fit; deviance and log likelihood where the whole table is determined.

    Raises:
        InvalidInputError: The formula has a response.
        NoEstimateError: Zeros of the margins leave some estimate without a bound.
        TooLargeError: The table has too many cells.
    """
    if question.formula.response is not None:
        problem = "a log-linear model has no response; write all attributes after the '~'"
        raise InvalidInputError(field="formula", problem=problem)
    design = question.model()
    cells = open_cells(margins, design)
    columns = columns_of(design, cells)
    sums = _sums(margins, design)[columns.kept] @ columns.back
    n = records_of(margins)
    fit = _fitted(columns, sums, n)
    means = np.exp(columns.matrix @ fit.params)
    names, back = columns.kept_names, fit.linear(columns.back)
    degrees = len(cells.codes) - len(names)
    scalars = (Scalar("df_resid", float(degrees)), *_of_table(margins, design, cells, means, degrees))
    return AnalysisAnswer(
        question.kind.value,
        question.text,
        n,
        coefficients_of(names, back.params, back.covariance),
        scalars,
        notes=aliased_note(columns.names, columns.kept),
    )


def open_cells(margins: Margins, design: Design) -> Occupied:
    """The cells of the table that lie inside no empty margin, with equal weights."""
    attributes = design.attributes
    sizes = margins.domain.project(attributes).sizes if attributes else ()
    if np.prod(sizes, dtype=np.float64) * len(design.columns) > MOST_NUMBERS:
        raise TooLargeError(
            what="The size of the model matrix over the cells", limit=MOST_NUMBERS, advice=FEWER_TERMS
        )
    observed = observed_levels(margins, attributes)
    open_cells = reduce(
        np.logical_and,
        (_along(observed[name], (name,), attributes) for name in attributes),
        np.ones(sizes, dtype=bool),
    )
    for clique in maximal(block.attributes for block in design.blocks):
        if _is_saturated(design, clique, observed):
            open_cells = open_cells & _along(occurring(margins, clique), clique, attributes)
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


def _along(table: Mask, clique: Clique, attributes: Clique) -> Mask:
    """A table of a clique with axes for more attributes."""
    order = sorted(range(len(clique)), key=lambda axis: attributes.index(clique[axis]))
    outside = tuple(axis for axis, name in enumerate(attributes) if name not in clique)
    return np.expand_dims(np.transpose(table, order), outside)


def _sums(margins: Margins, design: Design) -> FloatArray:
    """Sums of each column over the records."""
    sums = np.zeros(len(design.columns))
    for block in design.blocks:
        sums[block.places] = block.values @ margins.counts(block.attributes).reshape(-1)
    return sums


def _fitted(columns: Columns, sums: FloatArray, n: float) -> Maximum:
    x = columns.matrix

    def objective(params: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        with np.errstate(over="ignore"):
            means = np.exp(x @ params)
            value = float(params @ sums - means.sum())
        return value, sums - means @ x, (x.T * means) @ x

    level = np.full(len(x), np.log(max(n, 1.0) / len(x)))
    start = np.linalg.lstsq(x, level, rcond=None)[0]
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
    tests = (
        (name, finite(value)) for name, value in (("deviance", deviance), ("pearson_chi2", pearson))
    )
    return (
        Scalar("llf", finite(llf)),
        *(Scalar(name, value, None, (float(degrees),), _tail(value, degrees)) for name, value in tests),
    )


def _tail(value: float | None, degrees: int) -> float | None:
    if value is None or degrees <= 0:
        return None
    return float(stats.chi2.sf(max(value, 0.0), degrees))
