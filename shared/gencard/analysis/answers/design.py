"""The columns of a model matrix, each as its value in every cell of a few attributes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.analysis.answers.margins import Margins, Mask
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.scale import Scale
from gencard.core.statistics.formula import Analysis, Formula, sufficient_cliques
from gencard.core.types import FloatArray, IntArray

INTERCEPT = "Intercept"

Option = float | str | Sequence[float]
"""Value of an option of an analysis: a number, several numbers, or a word."""


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """A part of a column that is proportional to a number.

    Args:
        number: The attribute whose number, as the records have it, multiplies the values.
        values: The factor in each cell of the attributes, in their order.
    """

    number: str
    attributes: Clique
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column.

    Args:
        name: Name as in formulaic and statsmodels: ``Intercept``, ``age:C(sex)[T.male]``.
        attributes: Attributes that the column is a function of; none for a constant.
        values: Value of the column in each cell of the attributes, in their order; 0 at unused levels.
        slopes: Terms added to ``values``, proportional to numbers of the records inside the cells.
    """

    name: str
    attributes: Clique
    values: FloatArray
    slopes: tuple[Slope, ...] = ()

    def at(self, codes: Mapping[str, IntArray], numbers: Mapping[str, FloatArray]) -> FloatArray:
        """Return the value of the column at m records, shape ``(m,)``.

        Args:
            codes: Codes of the records, by attribute; shape ``(m,)`` each.
            numbers: Numbers of the records that slopes multiply, by name; shape ``(m,)`` each. Numbers
                of a name that is absent count as 0.
        """
        value = self.values[tuple(codes[name] for name in self.attributes)]
        for slope in self.slopes:
            if slope.number in numbers:
                factor = slope.values[tuple(codes[name] for name in slope.attributes)]
                value = value + factor * numbers[slope.number]
        return np.asarray(value)


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """Response of a model.

    Args:
        name: Response as written in the formula, such as ``log(income)``.
        levels: Names of the attribute's levels, in the order of the codes.
        values: The number that each level stands for; NaN where it stands for none.
    """

    name: str
    attribute: str
    levels: tuple[str, ...]
    values: FloatArray

    def numbers(self, margins: Margins) -> FloatArray:
        """The number of each level, 0 for levels that nobody has.

        Raises:
            InvalidInputError: A level that somebody has stands for no number.
        """
        absent = np.isnan(self.values)
        if np.any(absent & occurring(margins, (self.attribute,))):
            problem = (
                f"'{self.name}' needs a number for each level that occurs; drop missing values with "
                "missing='drop', or give numbers with values= to an answer from psi"
            )
            raise InvalidInputError(field="formula", problem=problem)
        return np.where(absent, 0.0, self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The columns of a design that are functions of the same attributes.

    Args:
        attributes: In the order of the axes.
        places: Positions of the columns in the design.
        values: Shape ``(columns, cells)``, the cells in row-major order; floats, or whole numbers.
        of: Numbers by whose units the values are multiplied, in each record.
    """

    attributes: Clique
    places: IntArray
    values: NDArray[Any]
    of: Clique = ()


def lifted(block: Block, union: Clique, sizes: tuple[int, ...]) -> NDArray[Any]:
    """The columns of a block in the cells of more attributes, shape ``(columns, cells)``."""
    own = [sizes[union.index(name)] for name in block.attributes]
    values = block.values.reshape(len(block.places), *own)
    order = sorted(range(len(own)), key=lambda axis: union.index(block.attributes[axis]))
    ordered = np.transpose(values, [0, *(1 + axis for axis in order)])
    inside = {union.index(name) for name in block.attributes}
    absent = tuple(1 + axis for axis in range(len(union)) if axis not in inside)
    wide = np.broadcast_to(np.expand_dims(ordered, absent), (len(block.places), *sizes))
    return wide.reshape(len(block.places), -1)


def union_of(one: Block, other: Block) -> Clique:
    """The attributes of two blocks together, those of the first first."""
    return one.attributes + tuple(name for name in other.attributes if name not in one.attributes)


def block_products(
    one: Block,
    other: Block,
    table: NDArray[Any],
    product: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]],
) -> NDArray[Any]:
    """Sums over the cells of each column of one block times each of the other times a table.

    Args:
        table: One axis for each attribute of ``union_of``.
        product: Function that multiplies two matrices, such as ``np.matmul``.

    Returns:
        Shape ``(columns of one, columns of the other)``.
    """
    if not set(one.attributes) & set(other.attributes):
        wide = table.reshape(one.values.shape[1], other.values.shape[1])
        return product(product(one.values, wide), other.values.T)
    left, right = (lifted(block, union_of(one, other), table.shape) for block in (one, other))
    return product(left * table.reshape(-1), right.T)


_ALIASED = 1e-11
"""Share of a column's sum of squares below which earlier columns explain it."""


def independent(gram: FloatArray, norms: FloatArray | None = None) -> IntArray:
    """Positions of the columns that earlier ones do not determine, from their inner products.

    Args:
        gram: Inner products, shape ``(columns, columns)``.
        norms: Sums of squares that the rest of each column is compared with; default: the diagonal.
    """
    rest = np.array(gram, dtype=np.float64)
    norms = np.diag(gram).copy() if norms is None else norms
    places = []
    for place in range(len(rest)):
        pivot = rest[place, place]
        if pivot > _ALIASED * norms[place] and pivot > 0:
            places.append(place)
            row = rest[place].copy()
            rest -= np.outer(row, row) / pivot
    return np.array(places, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Design:
    """The model matrix of a formula, over cells in place of records.

    Args:
        columns: In the order of formulaic: the intercept, then terms of ascending degree.
    """

    formula: str
    response: Response | None
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def attributes(self) -> Clique:
        return tuple(dict.fromkeys(chain.from_iterable(column.attributes for column in self.columns)))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The columns, those of the same attributes together."""
        places: dict[Clique, list[int]] = {}
        for place, column in enumerate(self.columns):
            places.setdefault(column.attributes, []).append(place)
        return tuple(
            Block(
                attributes,
                np.array(inside, dtype=np.int64),
                np.array([self.columns[place].values.reshape(-1) for place in inside]),
            )
            for attributes, inside in places.items()
        )

    def matrix(self, codes: IntArray, numbers: Mapping[str, FloatArray] | None = None) -> FloatArray:
        """The model matrix of some cells, or of records in them.

        Args:
            codes: Shape ``(m, len(attributes))``, in the order of ``attributes``.
            numbers: Numbers that slopes multiply, by name, shape ``(m,)`` each; by default 0.

        Returns:
            Shape ``(m, columns)``.
        """
        matrix = np.empty((len(codes), len(self.columns)))
        places = dict(zip(self.attributes, codes.T, strict=True))
        for place, column in enumerate(self.columns):
            matrix[:, place] = column.at(places, numbers or {})
        return matrix

    def required_response(self) -> Response:
        """Raises InvalidInputError where the formula has no response."""
        if self.response is None:
            raise InvalidInputError(field="formula", problem="needs a response before the '~'")
        return self.response


@dataclass(frozen=True, slots=True, eq=False)
class GroupFactor:
    """A factor that divides the records into groups, such as ``I(age < 40)``.

    Args:
        attributes: Attributes that decide the group of a record, in the domain's order.
        codes: Group of each cell of the attributes; -1 for cells that the population cannot have.
    """

    factor: str
    attributes: Clique
    codes: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Crossed:
    """A response or a term as a table: levels of attributes, crossed with groups."""

    levels: Clique
    groups: tuple[GroupFactor, ...] = ()

    @property
    def attributes(self) -> Clique:
        return tuple(dict.fromkeys((*self.levels, *(n for one in self.groups for n in one.attributes))))

    @property
    def name(self) -> str:
        return " × ".join((*self.levels, *(one.factor for one in self.groups))) or "all"


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The parts of a formula of which at least one has a group.

    Args:
        terms: Without the intercept.
    """

    response: Crossed | None
    terms: tuple[Crossed, ...]

    @property
    def parts(self) -> tuple[Crossed, ...]:
        return self.terms if self.response is None else (self.response, *self.terms)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedQuestion:
    """An analysis that was asked for, read and checked.

    Args:
        formula: The attributes of its terms.
        values: For each attribute that is a number, the number that each code stands for, NaN where it
            stands for none.
        grouping: For runs on records, the groups that functions make; None where they make none.
        columns: Of attributes without a design, or of the response, that are summed as the records have
            them: their numbers as columns of slopes.
        needs: Marginals that determine the answer, if they are not those of the formula alone.
        sums: Sums that also determine the answer.
        own_scales: Of numbers that are no attributes: functions of the records' numbers.
        notes: Which attributes count by levels of several values, and with which numbers.
    """

    kind: Analysis
    text: str
    formula: Formula
    coding: Coding
    values: Mapping[str, tuple[float, ...]]
    design: Design | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    grouping: Grouping | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    needs: tuple[Clique, ...] | None = None
    sums: tuple[Sum, ...] = ()
    own_scales: Mapping[str, Scale] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def scales(self) -> dict[str, Scale]:
        """The scales of all numbers that have one: attributes, in the schema's order, then others."""
        declared = {
            one.name: one.coding.scale
            for one in self.coding.attributes
            if isinstance(one.coding, Edges) and one.coding.scale is not None
        }
        return {**declared, **self.own_scales}

    @property
    def is_summed(self) -> bool:
        """Whether numbers are summed as the records have them, not by their levels alone."""
        slopes = self.design is not None and any(column.slopes for column in self.design.columns)
        return bool(self.columns) or slopes

    @property
    def summed_response(self) -> Column | None:
        """The response as a column of slopes; None where its levels count."""
        return self.columns.get(self.formula.response or "")

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The marginals that determine the answer; raises as ``sufficient_cliques`` does."""
        if self.needs is not None:
            return self.needs
        return sufficient_cliques(self.formula, self.kind, self.coding.domain)

    def levels(self, attribute: str) -> tuple[str, ...]:
        """Names of an attribute's levels, in the order of the codes."""
        return self.coding.attribute(attribute).coding.level_names

    def model(self) -> Design:
        """The design of an analysis that needs one; raises InvalidInputError where there is none."""
        if self.design is None:
            raise InvalidInputError(field="formula", problem="has no model matrix")
        return self.design


def observed_levels(margins: Margins, attributes: Clique) -> dict[str, Mask]:
    """For each attribute, the levels that occur, as ``occurring`` has them."""
    return {name: occurring(margins, (name,)) for name in attributes}


def occurring(margins: Margins, clique: Clique) -> Mask:
    """Cells that may hold records: exact counts above 0, and every cell whose count has noise.

    A noisy count of 0 says no more than one of 1. An analysis that left out its level would be another
    one from draw to draw.
    """
    return np.asarray((margins.counts(clique) != 0) | (margins.variances(clique) != 0))
