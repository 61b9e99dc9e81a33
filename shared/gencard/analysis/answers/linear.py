r"""Linear regression from pairs of terms, and least squares in whole numbers.

:math:`X'X b = X'y` needs no record and no joint table.

Columns and response are centred on their means before their products are summed, which keeps the digits
that the normal equations would lose. Columns that depend on earlier ones are left out and named, as R
does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import lcm, log, pi

import numpy as np
from numpy.typing import NDArray
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
from gencard.analysis.answers.margins import Margins, Units, records_of, summed
from gencard.core.domain import Clique
from gencard.core.errors import NoEstimateError
from gencard.core.scale import Scale
from gencard.core.types import FloatArray, IntArray

# Least squares in whole numbers: no digit of the records' sums is lost before the last step.
#
# Columns are sums of parts, each a number of each cell times 1 or times the units of an attribute. Their
# inner products are whole numbers of a common fraction, sums of psi times these. The normal equations
# are solved by fraction-free elimination [1]_: all intermediate numbers are minors of the matrix, so
# that a column depends on earlier ones if its pivot vanishes, not if rounding says so.
#
# References:
#     .. [1] E. H. Bareiss, "Sylvester's identity and multistep integer-preserving Gaussian elimination",
#        Mathematics of Computation 22(103), 1968.


MOST_EXACT = 40
"""Columns up to which elimination is exact; above, floats are corrected by exact residuals."""

_ALIASED = 10**11
"""A column is left out if earlier ones explain all but less than this part of its sum of squares."""

_CORRECTIONS = 3

Whole = NDArray[np.object_]
"""Whole numbers of any size."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The parts of columns that are functions of the same cells, times 1 or times the same units.

    Args:
        block: Block whose values are whole numbers; places may repeat.
        factors: Factor of each row.
    """

    block: Block
    factors: tuple[Fraction, ...]

    def wholes(self, divisors: Sequence[int]) -> Whole:
        pairs = zip(self.block.places.tolist(), self.factors, strict=True)
        return np.array([int(factor * divisors[place]) for place, factor in pairs], dtype=object)


@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """Inner products of columns over the records, exactly.

    Args:
        products: Shape ``(columns, columns)``, whole numbers.
        divisors: The product of columns i and j is that of ``products`` by both of their divisors, and
            by ``common``.
        common: 1 where counts and sums are whole numbers.
    """

    products: Whole
    divisors: tuple[int, ...]
    common: int

    def product(self, one: int, other: int) -> Fraction:
        under = self.divisors[one] * self.divisors[other] * self.common
        return Fraction(self.products[one, other], under)

    @property
    def floats(self) -> FloatArray:
        """The inner products, each rounded once."""
        size = range(len(self.divisors))
        return _floats_of([[self.product(one, other) for other in size] for one in size])


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """Least squares.

    Args:
        kept: Positions of the columns that are estimated.
        inverse: :math:`(X'X)^{-1}` of them.
        rss: Residual sum of squares.
        tss: Sum of squares of the response, about its mean where there is a constant.
        constant: Whether the columns span a constant.
    """

    kept: IntArray
    params: FloatArray
    inverse: FloatArray
    rss: float
    tss: float
    constant: bool
    n: float

    @property
    def degrees(self) -> float:
        return self.n - len(self.kept)


def gram_of(margins: Margins, columns: Sequence[Column], scales: Mapping[str, Scale]) -> Gram:
    """Inner products; raises LackingMarginalsError where a table of counts or sums is absent."""
    parts = tuple(_parts(columns, scales))
    divisors = [1] * len(columns)
    for part in parts:
        for place, factor in zip(part.block.places.tolist(), part.factors, strict=True):
            divisors[place] = lcm(divisors[place], factor.denominator)
    products = np.zeros((len(columns), len(columns)), dtype=object)
    tables = [_table(margins, scales, *pair) for pair in combinations_with_replacement(parts, 2)]
    common = lcm(*(unit.denominator for _, unit in tables))
    pairs = combinations_with_replacement(parts, 2)
    for (one, other), (table, unit) in zip(pairs, tables, strict=True):
        inside = block_products(one.block, other.block, table, _dot) * int(unit * common)
        inside = inside * one.wholes(divisors)[:, None] * other.wholes(divisors)[None, :]
        np.add.at(products, np.ix_(one.block.places, other.block.places), inside)
        if one is not other:
            np.add.at(products, np.ix_(other.block.places, one.block.places), inside.T)
    return Gram(products, tuple(divisors), common)


def cross_products(
    margins: Margins, columns: Sequence[Column], others: Sequence[Column], scales: Mapping[str, Scale]
) -> Whole:
    """Inner products of columns with others, in fractions; raises as ``gram_of``.

    Returns:
        Shape ``(columns, others)``.
    """
    products = np.full((len(columns), len(others)), Fraction(0), dtype=object)
    for one, other in product(_parts(columns, scales), tuple(_parts(others, scales))):
        table, unit = _table(margins, scales, one, other)
        inside = block_products(one.block, other.block, table, _dot)
        factors = np.multiply.outer(np.array(one.factors), np.array(other.factors)) * unit
        np.add.at(products, np.ix_(one.block.places, other.block.places), inside * factors)
    return products


def centred_products(gram: Gram) -> Whole:
    """Products about the means, in fractions, of all columns but the first, which is a constant of 1.

    Returns:
        Shape ``(columns - 1, columns - 1)``.
    """
    places = range(1, len(gram.divisors))
    records = gram.product(0, 0)
    centred = [
        [gram.product(i, j) - gram.product(0, i) * gram.product(0, j) / records for j in places]
        for i in places
    ]
    return np.array(centred, dtype=object).reshape(len(places), -1)


def blocks_of(columns: Sequence[Column], scales: Mapping[str, Scale]) -> tuple[Block, ...]:
    """The same columns in floats, as sums of parts: those with ``of`` are multiplied by units.

    A column is in each part at most once, so that a single one has parts of one row.
    """
    blocks = []
    for part in _parts(columns, scales):
        # The rows of each column are added: a constant may have come from several.
        places, own = np.unique(part.block.places, return_inverse=True)
        factors = np.array([float(factor) for factor in part.factors])
        values = np.zeros((len(places), part.block.values.shape[1]))
        np.add.at(values, own, part.block.values.astype(float) * factors[:, None])
        blocks.append(replace(part.block, places=places, values=values))
    return tuple(blocks)


def _parts(columns: Sequence[Column], scales: Mapping[str, Scale]) -> Iterator[Piece]:
    """The columns, cut into parts; a number is its units and the centre of its scale, times the step."""
    rows: dict[tuple[Clique, Clique], list[tuple[int, Whole, Fraction]]] = {}
    for place, column in enumerate(columns):
        if np.any(column.values) or not column.slopes:
            values, factor = _whole(column.values)
            rows.setdefault(((), column.attributes), []).append((place, values, factor))
        for slope in column.slopes:
            scale, (values, factor) = scales[slope.number], _whole(slope.values)
            step = Fraction(scale.step) * factor
            rows.setdefault(((slope.number,), slope.attributes), []).append((place, values, step))
            if scale.centre:
                constant = step * scale.centre
                rows.setdefault(((), slope.attributes), []).append((place, values, constant))
    for (number, attributes), inside in rows.items():
        places, values_of, factors = zip(*inside, strict=True)
        values = np.array(values_of, dtype=object).reshape(len(places), -1)
        yield Piece(Block(attributes, np.array(places, dtype=np.int64), values, number), factors)


def _whole(values: FloatArray) -> tuple[Whole, Fraction]:
    """Floats as whole multiples of a fraction, shape ``(cells,)``."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if np.array_equal(flat, np.rint(flat)):
        return np.array([int(one) for one in flat.tolist()], dtype=object), Fraction(1)
    ratios = [one.as_integer_ratio() for one in flat.tolist()]
    divisor = lcm(*(under for _, under in ratios))
    wholes = np.array([over * (divisor // under) for over, under in ratios], dtype=object)
    return wholes, Fraction(1, divisor)


def _table(
    margins: Margins, scales: Mapping[str, Scale], one: Piece, other: Piece
) -> tuple[Units, Fraction]:
    """Sums of the product of both parts' units in the cells of all attributes of both.

    Returns:
        Whole numbers, and the unit that they count: 1, but of counts with noise, and of sums that are
        moved by a part of it, which are no wholes.
    """
    left, right = one.block, other.block
    by = union_of(left, right)
    if of := left.of + right.of:
        sums = summed(margins).sums(tuple(sorted(of, key=list(scales).index)), by)
        if all(isinstance(value, int) for value in sums.flat):
            return sums, Fraction(1)
        table = sums.astype(np.float64)
    else:
        table = margins.counts(by)
    wholes, unit = _whole(table)
    return wholes.reshape(table.shape), unit


def _dot(left: Whole, right: Whole) -> Whole:
    """A product of matrices of whole numbers, in machine words where they cannot overflow."""
    if _largest(left) * _largest(right) * max(left.shape[-1], 1) < 2**62:
        return np.asarray(left.astype(np.int64) @ right.astype(np.int64)).astype(object)
    return np.asarray(left @ right)


def _largest(values: Whole) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)), 1)


def least_squares(gram: Gram, n: float) -> LinearFit:
    """Regress the last column on all but the last two, leaving out those that earlier ones determine.

    Args:
        gram: Inner products of the columns, then a constant, then the response.
    """
    size = len(gram.divisors)
    solved = _solved if size - 2 <= MOST_EXACT else _solved_in_floats
    kept, params, inverse, (rest, rss) = solved(gram)
    records, y1 = gram.product(size - 2, size - 2), gram.product(size - 2, size - 1)
    constant = rest * 10**9 < records
    tss = gram.product(size - 1, size - 1) - (y1 * y1 / records if constant else 0)
    places = np.array(kept, dtype=np.int64)
    return LinearFit(places, params, inverse, float(rss), float(tss), constant, n)


_Solution = tuple[Sequence[int], FloatArray, FloatArray, tuple[Fraction, Fraction]]
"""Positions of the columns that are estimated, estimates, inverse, and residual sums of squares of the
constant and the response."""


def _solved(gram: Gram) -> _Solution:
    kept, rows, last = _eliminated(gram.products)
    size, under = len(gram.divisors), gram.divisors
    params = [float(Fraction(rows[i][size - 1], last) * under[i] / under[-1]) for i in kept]
    inverse = [
        [float(Fraction(rows[i][size + j], last) * under[i] * under[j] * gram.common) for j in kept]
        for i in kept
    ]
    rest, rss = (Fraction(rows[i][i], last) / under[i] ** 2 / gram.common for i in (size - 2, size - 1))
    return kept, np.array(params), np.array(inverse).reshape(len(kept), -1), (rest, rss)


def _eliminated(products: Whole) -> tuple[list[int], list[list[int]], int]:
    """Fraction-free Gauss-Jordan elimination of all columns but the last two, in their order.

    Returns:
        The pivots, the rows of ``[products | unit matrix]`` afterwards, and what they are divided by.
    """
    size = len(products)
    rows = [[*map(int, row), *(int(i == j) for j in range(size))] for i, row in enumerate(products)]
    norms, kept, last = [rows[i][i] for i in range(size)], [], 1
    for place in range(size - 2):
        pivot, own = rows[place][place], rows[place]
        if pivot <= 0 or pivot * _ALIASED <= last * norms[place]:
            continue
        for i, row in enumerate(rows):
            if i != place:
                factor = row[place]
                rows[i] = [(pivot * x - factor * y) // last for x, y in zip(row, own, strict=True)]
        kept.append(place)
        last = pivot
    return kept, rows, last


def _solved_in_floats(gram: Gram) -> _Solution:
    """The same in floats, with estimates corrected by exact residuals."""
    places = range(len(gram.divisors))
    exact = [[gram.product(i, j) for j in places] for i in places]
    columns = places[:-2]
    first = exact[0]
    centred = [
        [exact[i][j] - (first[i] * first[j] / first[0] if i and j and first[0] else 0) for j in columns]
        for i in columns
    ]
    for i in columns[1:]:  # the first column explains nothing of what is centred on it
        centred[0][i] = centred[i][0] = Fraction(0)
    norms = np.array([float(exact[i][i]) for i in columns])
    kept = independent(_floats_of(centred), norms).tolist()
    roots = np.sqrt([float(exact[i][i]) for i in kept])
    unit = _floats_of([[exact[i][j] for j in kept] for i in kept]) / np.outer(roots, roots)
    inverse = np.linalg.inv(unit) / np.outer(roots, roots)
    (_, rest), (params, rss) = (_corrected(exact, kept, inverse, place) for place in places[-2:])
    return kept, params, inverse, (rest, rss)


def _corrected(
    exact: Sequence[Sequence[Fraction]], kept: Sequence[int], inverse: FloatArray, response: int
) -> tuple[FloatArray, Fraction]:
    """Estimates of a column by others, and its residual sum of squares."""
    params = [Fraction(0)] * len(kept)
    for _ in range(_CORRECTIONS):
        rest = [exact[i][response] - _dot_of(exact[i], kept, params) for i in kept]
        change = inverse @ np.array(list(map(float, rest)))
        params = [b + Fraction(float(more)) for b, more in zip(params, change, strict=True)]
    pairs = zip(kept, params, strict=True)
    parts = [b * (2 * exact[i][response] - _dot_of(exact[i], kept, params)) for i, b in pairs]
    explained = sum(parts, Fraction(0))
    return np.array(list(map(float, params))), exact[response][response] - explained


def _dot_of(row: Sequence[Fraction], places: Sequence[int], params: Sequence[Fraction]) -> Fraction:
    return sum((row[i] * b for i, b in zip(places, params, strict=True)), Fraction(0))


def _floats_of(matrix: Sequence[Sequence[Fraction]]) -> FloatArray:
    return np.array([list(map(float, row)) for row in matrix]).reshape(len(matrix), -1)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over the records of products of columns and response, each less its centre.

    Args:
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
    """Ordinary least squares with the usual standard errors."""
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
    """Exact inner products, by ``gram``, of the columns, then a constant, then the response."""

    gram: Gram
    n: float

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
        gram, last = self.gram, len(self.gram.divisors) - 1
        own = [*places, last - 1, last]
        divisors = tuple(gram.divisors[place] for place in own)
        fit = least_squares(Gram(gram.products[np.ix_(own, own)], divisors, gram.common), self.n)
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
        m, centres=m.centres[places], xx=m.xx[np.ix_(places, places)], xy=m.xy[places], x1=m.x1[places]
    )
