r"""Least squares in whole numbers: no digit of the records' sums is lost before the last step.

Columns are sums of parts, each a number of each cell times 1 or times the units of an attribute. Their
inner products are whole numbers of a common fraction, sums of psi times these. The normal equations are
solved by fraction-free elimination [1]_: all intermediate numbers are minors of the matrix, so that a
column depends on earlier ones if its pivot vanishes, not if rounding says so.

References:
    .. [1] E. H. Bareiss, "Sylvester's identity and multistep integer-preserving Gaussian elimination",
       Mathematics of Computation 22(103), 1968.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm

import numpy as np
from numpy.typing import NDArray

from gencard.core.answers.design import Block, Column, lifted
from gencard.core.answers.margins import Margins, Units, summed
from gencard.core.domain import Clique
from gencard.core.scale import Scale
from gencard.core.types import FloatArray, IntArray

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
        block: Its values are whole numbers; places may repeat.
        factors: What each row is multiplied by.
    """

    block: Block
    factors: tuple[Fraction, ...]

    @property
    def divisors(self) -> tuple[tuple[int, int], ...]:
        """The place of each row, and what its factor is divided by."""
        pairs = zip(self.block.places.tolist(), self.factors, strict=True)
        return tuple((place, factor.denominator) for place, factor in pairs)

    def wholes(self, divisors: Sequence[int]) -> Whole:
        """The factors times the divisors of their columns."""
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
        return np.array([[float(self.product(one, other)) for other in size] for one in size])

    def of(self, places: Sequence[int]) -> "Gram":
        """The inner products of some of the columns."""
        divisors = tuple(self.divisors[place] for place in places)
        return Gram(self.products[np.ix_(places, places)], divisors, self.common)


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """Least squares.

    Args:
        kept: Positions of the columns that are estimated.
        params: One for each of them.
        inverse: :math:`(X'X)^{-1}` of them.
        rss: Residual sum of squares.
        tss: Sum of squares of the response, about its mean where there is a constant.
        constant: Whether the columns span a constant.
        n: Number of records.
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
        """Residual degrees of freedom."""
        return self.n - len(self.kept)


def gram_of(margins: Margins, columns: Sequence[Column], scales: Mapping[str, Scale]) -> Gram:
    """Inner products of columns; raises LackingMarginalsError where a table of counts or sums is absent.

    Args:
        scales: Of the attributes of which columns have slopes.
    """
    parts = tuple(_parts(columns, scales))
    divisors = [1] * len(columns)
    for part in parts:
        for place, divisor in part.divisors:
            divisors[place] = lcm(divisors[place], divisor)
    products = np.zeros((len(columns), len(columns)), dtype=object)
    tables = [_table(margins, scales, *pair) for pair in combinations_with_replacement(parts, 2)]
    common = lcm(*(unit.denominator for _, unit in tables))
    pairs = combinations_with_replacement(parts, 2)
    for (one, other), (table, unit) in zip(pairs, tables, strict=True):
        inside = _products(one.block, other.block, table) * int(unit * common)
        inside = inside * one.wholes(divisors)[:, None] * other.wholes(divisors)[None, :]
        np.add.at(products, np.ix_(one.block.places, other.block.places), inside)
        if one is not other:
            np.add.at(products, np.ix_(other.block.places, one.block.places), inside.T)
    return Gram(products, tuple(divisors), common)


def blocks_of(columns: Sequence[Column], scales: Mapping[str, Scale]) -> tuple[Block, ...]:
    """The same columns in floats, as sums of parts: those with ``of`` are multiplied by units."""
    return tuple(
        replace(part.block, values=part.block.values.astype(float) * _floats(part.factors)[:, None])
        for part in _parts(columns, scales)
    )


def _floats(numbers: Sequence[Fraction]) -> FloatArray:
    return np.array([float(number) for number in numbers])


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
    by = left.attributes + tuple(name for name in right.attributes if name not in left.attributes)
    if of := left.of + right.of:
        sums = summed(margins).sums(tuple(sorted(of, key=list(scales).index)), by)
        if all(isinstance(value, int) for value in sums.flat):
            return sums, Fraction(1)
        table = sums.astype(np.float64)
    else:
        table = margins.counts(by)
    wholes, unit = _whole(table)
    return wholes.reshape(table.shape), unit


def _products(one: Block, other: Block, table: Units) -> Whole:
    """Sums over the cells of each row of one part times each of the other times the table."""
    common = tuple(name for name in one.attributes if name in other.attributes)
    union = one.attributes + tuple(name for name in other.attributes if name not in common)
    if not common:
        wide = table.reshape(one.values.shape[1], other.values.shape[1])
        return _dot(_dot(one.values, wide), other.values.T)
    left, right = (lifted(block, union, table.shape) for block in (one, other))
    return _dot(left * table.reshape(-1), right.T)


_SAFE = 2**62


def _dot(left: Whole, right: Whole) -> Whole:
    """A product of matrices of whole numbers, in machine words where they cannot overflow."""
    cells = max(left.shape[-1], 1)
    largest = _largest(left) * _largest(right) * cells
    if largest < _SAFE:
        return np.asarray(left.astype(np.int64) @ right.astype(np.int64)).astype(object)
    return np.asarray(left @ right)


def _largest(values: Whole) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)), 1)


_Solution = tuple[list[int], FloatArray, FloatArray, Fraction]
"""Positions of the columns that are estimated, estimates, inverse, and residual sum of squares."""


def least_squares(gram: Gram, n: float) -> LinearFit:
    """Regress the last column on all but the last two, leaving out those that earlier ones determine.

    Args:
        gram: Of the columns, then a constant, then the response.
        n: Number of records.
    """
    *columns, one, response = range(len(gram.divisors))
    kept, params, inverse, rss = _solved(gram.of([*columns, response]))
    records, y1 = gram.product(one, one), gram.product(one, response)
    constant = _solved(gram.of([*columns, one]))[-1] * 10**9 < records
    tss = gram.product(response, response) - (y1 * y1 / records if constant else 0)
    places = np.array(kept, dtype=np.int64)
    return LinearFit(places, params, inverse, float(rss), float(tss), constant, n)


def _solved(gram: Gram) -> _Solution:
    """Regress the last column on the others."""
    if len(gram.divisors) - 1 > MOST_EXACT:
        return _solved_in_floats(gram)
    kept, rows, last = _eliminated(gram.products)
    response, under = len(gram.divisors) - 1, gram.divisors
    params = [float(Fraction(rows[i][response], last) * under[i] / under[response]) for i in kept]
    inverse = [
        [
            float(Fraction(rows[i][response + 1 + j], last) * under[i] * under[j] * gram.common)
            for j in kept
        ]
        for i in kept
    ]
    rss = Fraction(rows[response][response], last) / under[response] ** 2 / gram.common
    return kept, np.array(params), np.array(inverse).reshape(len(kept), -1), rss


def _eliminated(products: Whole) -> tuple[list[int], list[list[int]], int]:
    """Fraction-free Gauss-Jordan elimination of all columns but the last, in their order.

    Returns:
        The pivots, the rows of ``[products | unit matrix]`` afterwards, and what they are divided by.
    """
    size = len(products)
    rows = [[*map(int, row), *(int(i == j) for j in range(size))] for i, row in enumerate(products)]
    norms, kept, last = [rows[i][i] for i in range(size)], [], 1
    for place in range(size - 1):
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
    """The same by Cholesky's decomposition, with estimates corrected by exact residuals."""
    size = len(gram.divisors) - 1
    exact = [[gram.product(i, j) for j in range(size + 1)] for i in range(size + 1)]
    norms = np.array([float(exact[i][i]) for i in range(size)])
    centred = _centred(exact)
    kept = _independent(centred, norms)
    roots = np.sqrt([float(exact[i][i]) or 1.0 for i in kept])
    unit = np.array([[float(exact[i][j]) for j in kept] for i in kept]) / np.outer(roots, roots)
    inverse = np.linalg.inv(unit) / np.outer(roots, roots)
    params = [Fraction(0)] * len(kept)
    for _ in range(_CORRECTIONS):
        rest = [
            exact[i][size]
            - sum((exact[i][j] * b for j, b in zip(kept, params, strict=True)), Fraction(0))
            for i in kept
        ]
        change = inverse @ np.array(list(map(float, rest)))
        params = [b + Fraction(float(more)) for b, more in zip(params, change, strict=True)]
    explained = sum(
        (
            b
            * (
                2 * exact[i][size]
                - sum((exact[i][j] * c for j, c in zip(kept, params, strict=True)), Fraction(0))
            )
            for i, b in zip(kept, params, strict=True)
        ),
        Fraction(0),
    )
    estimates = np.array(list(map(float, params)))
    return kept, estimates, inverse, exact[size][size] - explained


def _centred(exact: Sequence[Sequence[Fraction]]) -> FloatArray:
    """Inner products of the columns less what the first one explains."""
    size, first = len(exact) - 1, exact[0]
    return np.array(
        [
            [
                float(exact[i][j] - (first[i] * first[j] / first[0] if i and j and first[0] else 0))
                for j in range(size)
            ]
            for i in range(size)
        ]
    )


def _independent(gram: FloatArray, norms: FloatArray) -> list[int]:
    rest, kept = gram.copy(), []
    for place in range(len(rest)):
        pivot = rest[place, place]
        if pivot > norms[place] / _ALIASED and pivot > 0:
            kept.append(place)
            if place:
                rest -= np.outer(rest[place], rest[place]) / pivot
    return kept
