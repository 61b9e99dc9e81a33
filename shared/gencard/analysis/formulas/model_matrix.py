"""From a formula to the columns of its model matrix, and from a condition to its cells.

formulaic decides which columns there are and what they are called, as it does for a data frame; each
term is then made on the cells of its own attributes alone, so that a model of ten features never needs
their joint table.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import prod
from operator import mul
from typing import Any

import formulaic
import numpy as np
import pandas as pd
from formulaic.formula import SimpleFormula
from formulaic.parser.types import Factor as FormulaicFactor
from formulaic.parser.types import Term
from formulaic.transforms import contrasts

from gencard.analysis.answers.design import Column, Design, Response, Slope
from gencard.analysis.answers.margins import Mask, check_size, every_cell
from gencard.analysis.formulas.formula_values import (
    THREE_VALUED,
    TRUTHS,
    TWO_VALUED,
    Factor,
    Levels,
    NotUsableError,
    NumericFactor,
    attributes_of_call,
    evaluated,
)
from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.numbers import CONSTANT, NumbersUsed
from gencard.core.card.sums import level_values
from gencard.core.coding import Coding, Edges, Labels
from gencard.core.domain import Clique
from gencard.core.errors import InvalidFormulaError, InvalidInputError
from gencard.core.statistics.formula import Written, written_name
from gencard.core.types import IntArray

Values = Mapping[str, Sequence[float]]
"""For some attributes, the number that each level stands for, in the order of the codes."""

MOST_COLUMNS = 1_000
MOST_TERM_CELLS = 1_000_000
MOST_NUMBERS = 10_000_000
"""Most entries in the columns of one term, cells by columns: 80 MB."""


_LARGEST = 1e50
"""Largest number, in size, that a level may stand for: sums of squares over the records stay finite."""

_CONTRASTS = {
    "": None,
    "Treatment": contrasts.TreatmentContrasts,
    "Sum": contrasts.SumContrasts,
    "Helmert": contrasts.HelmertContrasts,
    "Poly": contrasts.PolyContrasts,
    "Diff": contrasts.DiffContrasts,
    "SAS": contrasts.SASContrasts,
}


def numbers_of(coding: Coding, values: Values | None = None) -> dict[str, tuple[float, ...]]:
    """For each attribute that is a number, the number of each code; NaN for "missing".

    Intervals stand for their midpoints, ordered numbers for themselves, truth values for 0 and 1, unless
    ``values`` says otherwise. In a model matrix, truth values are levels, as in statsmodels and R.

    Raises:
        InvalidInputError: ``values`` has not one finite number for each level that is not "missing".
        UnknownAttributeError: ``values`` names an attribute that is not declared.
    """
    numbers = level_values(coding)
    for attribute in coding.attributes:
        one = attribute.coding
        if isinstance(one, Labels) and one.boolean:
            numbers[attribute.name] = (0.0, 1.0) + (np.nan,) * one.missing
        elif isinstance(one, Labels) and one.ordered and _are_numbers(one.labels):
            numbers[attribute.name] = tuple(map(float, one.labels)) + (np.nan,) * one.missing
    for name, given in (values or {}).items():
        one = coding.attribute(name).coding
        full = tuple(map(float, given)) + (np.nan,) * (one.size - len(given) if one.missing else 0)
        if len(full) != one.size or not all(np.abs(full[: one.size - one.missing]) <= _LARGEST):
            problem = f"needs one number for each of the {one.size - one.missing} levels of '{name}'"
            raise InvalidInputError(field="values", problem=problem)
        numbers[name] = full
    return numbers


def _are_numbers(labels: Sequence[str]) -> bool:
    try:
        return bool(np.isfinite(list(map(float, labels))).all())
    except ValueError:
        return False


def read_design(
    text: str,
    coding: Coding,
    *,
    values: Values | None = None,
    observed: Mapping[str, Mask] | None = None,
    used: NumbersUsed = NumbersUsed(),  # noqa: B008 - frozen
) -> Design:
    """The model matrix of a formula.

    Args:
        values: Numbers of levels; see ``numbers_of``.
        observed: For attributes where it is known, the levels that somebody has: others have no column.
        used: Which numbers are summed: their columns have slopes.
    """
    factors = read_factors(text, coding)
    truths = {
        one.name
        for one in coding.attributes
        if isinstance(one.coding, Labels) and one.coding.boolean and one.name not in (values or {})
    }
    numbers = numbers_of(coding, values)
    maker = _Maker(text, factors, coding, numbers, dict(observed or {}), frozenset(truths), used)
    return maker.design()


@dataclass(frozen=True, eq=False)
class _Maker:
    text: str
    written: Written
    coding: Coding
    numbers: Mapping[str, tuple[float, ...]]
    observed: dict[str, Mask]
    truths: frozenset[str]
    used: NumbersUsed

    def design(self) -> Design:
        self._check_size()
        terms = sorted(self.written.terms, key=len)
        columns = [column for term in terms for column in self._columns(term)]
        return Design(self.text, self._response(), tuple(columns))

    def _check_size(self) -> None:
        """Refuse what would be large, before it is made."""
        size = self.coding.domain.size
        attributes = map(self._levels_of, self.written.terms)
        cells = [prod(map(size, names)) for names in attributes]
        check_size(max(cells, default=0), MOST_TERM_CELLS, "The number of cells of a term")
        factors = self._factors.items()
        widths = {name: 1 if isinstance(one, NumericFactor) else len(one.names) for name, one in factors}
        columns = [prod(widths[factor] for factor in term) for term in self.written.terms]
        check_size(sum(columns), MOST_COLUMNS, "The number of columns of the model")
        numbers = max(map(mul, cells, columns), default=0)
        check_size(numbers, MOST_NUMBERS, "The size of the columns of a term over its cells")

    @cached_property
    def _factors(self) -> dict[str, Factor]:
        """Each factor on the cells of its own attributes."""
        names = dict.fromkeys(factor for term in self.written.terms for factor in term)
        return {name: self._evaluated(name) for name in names}

    @cached_property
    def _spec(self) -> formulaic.ModelSpec:
        """Return what formulaic decides about the whole formula, from rows that hold every level."""
        rows = max((_cells(factor) for factor in self._factors.values()), default=1)
        context = {
            name: _series(factor, np.arange(rows) % _cells(factor))
            for name, factor in self._factors.items()
        }
        terms = [_term(term) for term in sorted(self.written.terms, key=len)]
        spec = formulaic.ModelSpec(
            formula=SimpleFormula(terms, _ordering="none"),
            ensure_full_rank=True,
            na_action="ignore",
            output="numpy",
        )
        return spec.get_model_matrix(pd.DataFrame(index=range(rows)), context=context).model_spec

    def _levels_of(self, term: Clique) -> Clique:
        """The attributes of a term's factors that are not summed, each once."""
        return self.written.attributes_of(tuple(one for one in term if self._slopes(one) is None))

    def _slopes(self, factor: str) -> Mapping[str, Fraction] | None:
        """The coefficients of a factor of summed numbers; None for another one."""
        return replace(self.used, response="").function(factor, self.written.attributes[factor])

    def _columns(self, term: Clique) -> list[Column]:
        """The columns of one term, on the cells of its attributes."""
        attributes = self._levels_of(term)
        if attributes:
            attributes = self.coding.domain.canonical(attributes)
        shape = tuple(self.coding.domain.size(name) for name in attributes)
        codes = every_cell([np.flatnonzero(self._seen(name)) for name in attributes])
        context = {
            name: _series(self._factors[name], self._places(name, attributes, codes)) for name in term
        }
        spec = self._spec.subset(SimpleFormula([_term(term)], _ordering="none"))
        matrices = spec.get_model_matrix(pd.DataFrame(index=range(len(codes))), context=context)
        matrix = np.asarray(matrices, dtype=np.float64)
        numbers = [name for name in term if self._slopes(name) is not None]
        joined = {":".join(numbers): Fraction(1)}
        function = self._slopes(numbers[0]) if len(numbers) == 1 else joined if numbers else None
        columns = []
        for name, column in zip(spec.column_names, matrix.T, strict=True):
            values = np.zeros(shape)
            values[tuple(codes.T)] = column if attributes else column[0]
            whole = Column(self._named(name, term), attributes, values)
            columns.append(_sloped(whole, function) if function else whole)
        return columns

    def _named(self, column: str, term: Clique) -> str:
        """The name of a column, without backticks; numbers of groups say so."""
        for factor in term:
            if factor.startswith("`"):
                column = column.replace(factor, factor.strip("`"))
        for factor in term:
            for name in self.used.grouped:
                if name in self.written.attributes[factor] and isinstance(
                    self._factors[factor], NumericFactor
                ):
                    groups = self.coding.attribute(name).coding
                    size = groups.size - groups.missing
                    bare = factor.strip("`")
                    label = re.sub(
                        rf"(?<![\w.]){re.escape(name)}(?![\w.])", f"{name} ({size} groups)", bare
                    )
                    column = column.replace(bare, label)
        return column

    def _places(self, factor: str, attributes: Clique, codes: IntArray) -> IntArray:
        """Return the place of a factor's value for each of some cells of more attributes."""
        own = self._levels_of((factor,))
        ranks = [np.cumsum(self._seen(name)) - 1 for name in own]
        place = np.zeros(len(codes), dtype=np.int64)
        for name, rank in zip(own, ranks, strict=True):
            place = place * (rank[-1] + 1) + rank[codes[:, attributes.index(name)]]
        return place

    def _seen(self, name: str) -> Mask:
        if name not in self.observed:
            self.observed[name] = np.ones(self.coding.domain.size(name), dtype=bool)
        if not self.observed[name].any():
            problem = f"no record has a level of '{name}' that the analysis keeps"
            raise InvalidInputError(field="formula", problem=problem)
        return self.observed[name]

    def _evaluated(self, factor: str, *, whole: bool = False) -> Factor:
        """A factor on the cells of its attributes: those that somebody has, or all."""
        if not whole and self._slopes(factor) is not None:
            return NumericFactor(np.ones(1))
        own = self.written.attributes[factor]
        levels = [
            np.arange(self.coding.domain.size(name)) if whole else np.flatnonzero(self._seen(name))
            for name in own
        ]
        cells = every_cell(levels)
        labels = {}
        for axis, name in enumerate(own):
            names = self.coding.attribute(name).coding.level_names
            if name in self.truths:
                names = (*TRUTHS, *names[len(TRUTHS) :])
            rank = np.searchsorted(levels[axis], cells[:, axis])
            labels[name] = Levels(rank, tuple(names[code] for code in levels[axis]))
        is_level = not whole and self.truths.issuperset(own) and factor == written_name(own[0])
        numbers = {
            name: np.array(self.numbers[name])[cells[:, axis]]
            for axis, name in enumerate(own)
            if name in self.numbers and not is_level
        }
        for name in self.truths.intersection(numbers):
            if not self.coding.attribute(name).coding.missing:
                numbers[name] = numbers[name].astype(bool)
        try:
            value = evaluated(factor, numbers, labels)
        except NotUsableError as error:
            raise wrong_factor(self.text, factor, error.problem) from None
        if isinstance(value, Levels) or whole:
            return value
        if not np.isfinite(value.values).all():
            problem = (
                "this is not a finite number at every level; for missing values use missing='drop' or "
                "C(...), in answers from psi also values={...}"
            )
            raise wrong_factor(self.text, factor, problem)
        return Levels((value.values != 0).astype(np.int64), TRUTHS) if value.truth else value

    def _response(self) -> Response | None:
        if self.written.response is None:
            return None
        factor = self.written.response
        attribute = self.written.attributes[factor][0]
        names = self.coding.attribute(attribute).coding.level_names
        numbers = np.full(len(names), np.nan)
        if attribute not in self.used.means:  # a centred number has no value at a level
            value = self._evaluated(factor, whole=True)
            numbers = value.values if isinstance(value, NumericFactor) else numbers
        finite = np.where(np.isfinite(numbers), numbers, np.nan)
        return Response(factor.strip("`"), attribute, names, finite)


def wrong_factor(text: str, factor: str, problem: str) -> InvalidFormulaError:
    """The error about a factor of a formula, at its place."""
    return InvalidFormulaError(position=max(text.find(factor), 0) + 1, problem=problem)


def summed_columns(text: str, coding: Coding, used: NumbersUsed) -> dict[str, Column]:
    """The response, and the factors of terms, as columns where they are summed numbers."""
    written, columns = read_factors(text, coding), {}
    for factor in (written.response, *chain.from_iterable(written.terms)):
        function = used.function(factor, written.attributes[factor]) if factor else None
        names = [name for name in function or () if name != CONSTANT]
        if factor and function and len(names) == 1:
            (name,) = written.attributes[factor]
            columns[name] = _sloped(Column(factor.strip("`"), (), np.ones(())), function)
    return columns


def _sloped(column: Column, function: Mapping[str, Fraction]) -> Column:
    """A column times a linear function of summed numbers."""
    slopes = tuple(
        Slope(name, column.attributes, column.values * float(factor))
        for name, factor in function.items()
        if name != CONSTANT
    )
    constant = column.values * float(function.get(CONSTANT, 0))
    return replace(column, values=constant, slopes=slopes)


def _term(factors: Clique) -> Term:
    if not factors:
        return Term([FormulaicFactor("1", eval_method="literal")])
    return Term([FormulaicFactor(factor, eval_method="lookup") for factor in factors])


def _cells(factor: Factor) -> int:
    return len(factor.values if isinstance(factor, NumericFactor) else factor.codes)


def _series(factor: Factor, places: IntArray) -> Any:
    """A factor at some of its cells, as formulaic takes it."""
    if isinstance(factor, NumericFactor):
        return pd.Series(factor.values[places])
    categories = pd.Series(pd.Categorical.from_codes(factor.codes[places], pd.Index(factor.names)))
    name, base = factor.contrast
    if not name:
        return categories
    kind = _CONTRASTS[name]
    return contrasts.C(categories, contrasts=kind() if base is None else kind(base))


# Conditions that choose a part of the records by levels of the schema, and never by less.


MOST_CELLS = 100_000
"""Cells of a condition's attributes: each is looked at, also by the service, before anything is paid."""


def read_condition(
    text: str, coding: Coding, values: Values | None = None, *, of_present: bool = False
) -> tuple[Clique, Mask]:
    """Levels of attributes that a condition chooses.

    A comparison with a missing number is unknown, as in SQL: neither it nor its opposite is fulfilled,
    and ``or`` is where its other side is. A missing label is a label like others. All numbers of an
    interval must be on one side of a condition: a part of a level cannot be chosen.

    Args:
        of_present: Choose among records alone that have all numbers of the condition, with comparisons
            that are true or false. Runs under output rules of versions 1 and 2 were so.

    Returns:
        The attributes, and True for each chosen cell of them.

    Raises:
        InvalidInputError: The condition cannot be read, or it cuts through an interval.
        UnknownAttributeError: It names an attribute that is not declared.
        TooLargeError: Its attributes have too many cells.
    """
    try:
        attributes = coding.domain.canonical(attributes_of_call(text, coding))
        sizes = coding.domain.project(attributes).sizes
        advice = "Use fewer attributes in the condition, or attributes with fewer levels."
        check_size(prod(sizes), MOST_CELLS, "The number of cells of the condition", advice)
        cells = every_cell(list(map(np.arange, sizes)))
        middle = numbers_of(coding, values)
        mask = _fulfilling(text, attributes, cells, coding, middle, of_present=of_present)
        for ends in zip(*(_ends(coding, name, values, middle) for name in attributes), strict=True):
            numbers = {name: end for name, end in zip(attributes, ends, strict=True) if end is not None}
            again = _fulfilling(text, attributes, cells, coding, numbers, of_present=of_present)
            if not np.array_equal(again, mask):
                raise NotUsableError(
                    "the bound lies inside an interval of the schema; compare with one of its edges"
                )
        return attributes, mask.reshape(sizes)
    except NotUsableError as error:
        raise InvalidInputError(field="where", problem=error.problem) from None


def _ends(
    coding: Coding, name: str, values: Values | None, middle: Mapping[str, Sequence[float]]
) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """The least and the largest number of each level of an attribute; None where it has none."""
    one = coding.attribute(name).coding
    if not isinstance(one, Edges) or name in (values or {}):
        return middle.get(name), middle.get(name)
    absent = (np.nan,) * one.missing
    least, largest = zip(*(map(float, ends) for ends in one.ends), strict=True)
    if one.decimals is None:  # an upper edge belongs to the next level
        largest = (*np.nextafter(largest[:-1], -np.inf), largest[-1])
    return (*least, *absent), (*largest, *absent)


def _fulfilling(
    text: str,
    attributes: Clique,
    cells: IntArray,
    coding: Coding,
    level_numbers: Mapping[str, Sequence[float]],
    *,
    of_present: bool,
) -> Mask:
    """Return the cells that fulfil a condition; see ``read_condition``."""
    labels, numbers = {}, {}
    for axis, name in enumerate(attributes):
        labels[name] = Levels(cells[:, axis], coding.attribute(name).coding.level_names)
        if name in level_numbers:
            numbers[name] = np.array(level_numbers[name])[cells[:, axis]]
    value = evaluated(text, numbers, labels, TWO_VALUED if of_present else THREE_VALUED)
    if not isinstance(value, NumericFactor):
        raise NotUsableError("a condition must be true or false; compare with ==, <, > or in")
    mask = (value.values != 0) & ~np.isnan(value.values)
    for own in numbers.values() if of_present else ():
        mask &= ~np.isnan(own)
    return np.asarray(mask)
