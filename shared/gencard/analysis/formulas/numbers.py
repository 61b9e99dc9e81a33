"""Numbers of a formula that are summed as the records have them, and the sums that an analysis needs.

A number is *wide* if a level of its attribute holds more than one value. In a term it is summed where it
stands alone in a linear function, such as ``I(2 * age - 3)``, and is multiplied by no other wide number;
elsewhere its levels count, each as one number: it is *grouped*.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import chain, combinations_with_replacement
from typing import cast

import numpy as np

from gencard.analysis.answers.margins import Mask
from gencard.analysis.formulas.formula_values import (
    CODINGS,
    NotUsableError,
    function_of,
    function_values,
    parsed,
)
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.scale import Scale, scale_near
from gencard.core.statistics.formula import SUMMED_KINDS, SUMMED_TERMS, Analysis, Written
from gencard.core.statistics.marginals import maximal
from gencard.core.types import FloatArray

_OF_NUMBERS = {
    *(Analysis.LINEAR, Analysis.LOGISTIC, Analysis.MULTINOMIAL, Analysis.ORDINAL, Analysis.POISSON),
    *(Analysis.COX, Analysis.CORRELATION, Analysis.COMPONENTS, Analysis.DISCRIMINANT),
}
"""Kinds that take numbers of terms as such; all others have their levels as groups or in their order."""

CONSTANT = ""
"""The name of the constant among the coefficients of a linear function."""

_SAME = {"I", "as_numeric"}


@dataclass(frozen=True, slots=True)
class NumbersUsed:
    """The wide numbers of a formula.

    Args:
        response: The response, if it is summed; "" if not.
        terms: Numbers of terms that are summed, in the schema's order.
        grouped: Numbers of terms whose levels count, in the schema's order.
        made: Numbers that only records have: functions of one number, by the factor, and products of
            several, by their factors joined with ":". For each, the factors that are multiplied, each
            with its attribute.
        means: Of the numbers that ``center`` subtracts a mean from, over the records that count.
    """

    response: str = ""
    terms: Clique = ()
    grouped: Clique = ()
    made: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    means: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def summed(self) -> frozenset[str]:
        """All attributes that are summed."""
        return frozenset({*self.terms, self.response} - {""})

    @property
    def attributes(self) -> frozenset[str]:
        """All attributes whose numbers are used, also in functions and products."""
        return self.summed.union(name for pairs in self.made.values() for _, name in pairs)

    def without(self, name: str) -> "NumbersUsed":
        """The same with a number of the terms grouped."""
        left = tuple(one for one in self.terms if one != name)
        return replace(self, terms=left, grouped=(*self.grouped, name))

    def function(self, factor: str, attributes: Clique) -> Mapping[str, Fraction] | None:
        """The coefficients of a factor of summed numbers; None for another one."""
        if factor in self.made:
            return {factor: Fraction(1)}
        if not self.summed.intersection(attributes):
            return None
        return linear_function(factor, self.summed, self.means)


@dataclass(frozen=True, slots=True)
class Needs:
    """The statistics that determine an analysis.

    Args:
        sums: Sums, and numbers of records of which numbers are present.
        histograms: Attributes whose values are placed inside their levels.
    """

    cliques: tuple[Clique, ...]
    sums: tuple[Sum, ...] = ()
    histograms: Clique = ()


def is_wide(coding: Coding, name: str) -> bool:
    """Whether an attribute has numbers that its levels do not determine, and that can be summed."""
    attribute = coding.attribute(name)
    if not isinstance(attribute.coding, Edges) or attribute.coding.scale is None:
        return False
    return attribute.derivation is None and any(low != high for low, high in attribute.coding.ends)


def linear_function(
    code: str, numbers: Set[str], means: Mapping[str, Fraction] | None = None
) -> Mapping[str, Fraction] | None:
    """The coefficients of a linear function of some attributes, that of ``CONSTANT`` included.

    Args:
        means: What ``center`` subtracts from an attribute; by default 0, as long as it is not known.

    Returns:
        None where it is another function, or one of other attributes, too.

    >>> linear_function("I(2 * age - 3)", {"age"})
    {'age': Fraction(2, 1), '': Fraction(-3, 1)}
    >>> linear_function("center(age)", {"age"}, {"age": Fraction(40)})
    {'age': Fraction(1, 1), '': Fraction(-40, 1)}
    """
    try:
        tree, quoted = parsed(code)
    except NotUsableError:
        return None
    return _LinearReader(numbers, quoted, means or {}).of(tree)


def least_number(factor: str, name: str, coding: Coding) -> Fraction:
    """The least value that a linear function of one number may have by the schema."""
    scale = cast("Scale", cast("Edges", coding.attribute(name).coding).scale)
    ends = [Fraction(scale.cells[0]), Fraction(scale.cells[-1])]
    functions = [linear_function(factor, {name}, {name: mean}) or {} for mean in ends]
    return min(one.get(CONSTANT, Fraction(0)) + one[name] * end for one in functions for end in ends)


def centred_numbers(written: Written, numbers: Set[str]) -> Clique:
    """The numbers whose mean ``center`` subtracts in some factor."""
    return tuple(
        sorted(
            name
            for name in numbers
            for factor, own in written.attributes.items()
            if name in own
            and linear_function(factor, numbers) != linear_function(factor, numbers, {name: Fraction(1)})
        )
    )


class _LinearReader:
    def __init__(
        self, numbers: Set[str], quoted: Mapping[str, str], means: Mapping[str, Fraction]
    ) -> None:
        self._numbers, self._quoted, self._means = numbers, quoted, means

    def of(self, node: ast.expr) -> dict[str, Fraction] | None:
        match node:
            case ast.Name() | ast.Attribute():
                return self._named(ast.unparse(node))
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return {CONSTANT: Fraction(repr(number))}
            case ast.Call(args=[ast.Constant(value=str() as name)]) if function_of(node) == "Q":
                return self._named(name)
            case ast.Call(args=[inner]) if function_of(node) in _SAME and not node.keywords:
                return self.of(inner)
            case ast.Call(args=[inner]) if function_of(node) == "center" and not node.keywords:
                function = self.of(inner) or {}
                slopes = {name: one for name, one in function.items() if name != CONSTANT}
                parts = (one * self._means.get(name, 0) for name, one in slopes.items())
                return slopes | {CONSTANT: -sum(parts, Fraction(0))} if slopes else None
        return self._of_operation(node)

    def _of_operation(self, node: ast.expr) -> dict[str, Fraction] | None:
        match node:
            case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
                return _times(self.of(inner), Fraction(-1 if isinstance(sign, ast.USub) else 1))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
                turned = _times(self.of(right), Fraction(-1 if isinstance(sign, ast.Sub) else 1))
                one, nothing = self.of(left), Fraction(0)
                if one is None or turned is None:
                    return None
                names = dict.fromkeys((*one, *turned))
                return {name: one.get(name, nothing) + turned.get(name, nothing) for name in names}
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                sides = (self.of(left), self.of(right))
                for factor, rest in (sides, sides[::-1]):
                    if (number := _constant(factor)) is not None:
                        return _times(rest, number)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                under = _constant(self.of(right))
                return _times(self.of(left), 1 / under) if under else None
        return None

    def _named(self, text: str) -> dict[str, Fraction] | None:
        name = self._quoted.get(text, text)
        return {name: Fraction(1)} if name in self._numbers else None


def _constant(function: dict[str, Fraction] | None) -> Fraction | None:
    """The number that a function is, if it is one."""
    return function[CONSTANT] if function is not None and set(function) == {CONSTANT} else None


def _times(function: dict[str, Fraction] | None, factor: Fraction) -> dict[str, Fraction] | None:
    return None if function is None else {name: factor * one for name, one in function.items()}


def numbers_used(
    written: Written, kind: Analysis, coding: Coding, *, fixed: Set[str] = frozenset()
) -> NumbersUsed:
    """The wide numbers of a formula, from schema and formula alone.

    Args:
        fixed: Attributes whose levels count anyway: those of a condition, or with numbers of their own.
    """
    wide = frozenset(one.name for one in coding.attributes if is_wide(coding, one.name))
    response = ""
    if kind in SUMMED_KINDS and written.response is not None:
        name = written.attributes[written.response][0]
        linear = linear_function(written.response, wide - fixed)
        response = name if linear and name in linear else ""
    factors = {factor for term in written.terms for factor in term}
    numbers = {factor: wide.intersection(written.attributes[factor]) for factor in factors}
    free = _summed_in_terms(written, numbers, wide - fixed) if kind in SUMMED_TERMS else frozenset()
    as_numbers = [one for one in factors if kind in _OF_NUMBERS and not is_categorical(one)]
    grouped = frozenset().union(*(numbers[factor] for factor in as_numbers)) - free
    order = coding.domain.attributes
    summed = tuple(name for name in order if name in free)
    return NumbersUsed(response, summed, tuple(name for name in order if name in grouped))


def numbers_at_records(
    written: Written, kind: Analysis, coding: Coding, names: Set[str], factors: Set[str]
) -> NumbersUsed:
    """The numbers of a formula as the records have them, and functions and products of these.

    Args:
        names: Attributes whose numbers count as the records have them.
        factors: Those of the formula that are numbers, not levels or groups.
    """
    numbers = {one: frozenset(names) & {*written.attributes[one]} for one in factors}
    of_terms = written.terms if kind in SUMMED_TERMS else ()
    terms = [tuple(one for one in term if numbers.get(one)) for term in of_terms]
    response = written.response if written.response and numbers.get(written.response) else ""
    alone = {*chain.from_iterable(terms)}
    linear = {one for one in alone | {response} - {""} if linear_function(one, names) is not None}
    used = frozenset[str]().union(*(numbers[one] for one in alone & linear))
    return NumbersUsed(
        response=min(numbers[response]) if response else "",
        terms=tuple(name for name in coding.domain.attributes if name in used),
        made={
            **{one: ((one, min(numbers[one])),) for one in sorted((alone | {response} - {""}) - linear)},
            **{
                ":".join(term): tuple((one, min(numbers[one])) for one in term)
                for term in terms
                if len(term) > 1
            },
        },
    )


def record_numbers(used: NumbersUsed, numbers: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """All numbers of a run, by the names that slopes have.

    Args:
        numbers: Of the attributes, as the records have them, shape ``(n,)`` each.
    """
    values = {name: numbers[name] for name in used.summed}
    for name, pairs in used.made.items():
        values[name] = reduce(np.multiply, _factors(pairs, numbers))
    return values


def _factors(pairs: Iterable[tuple[str, str]], numbers: Mapping[str, FloatArray]) -> list[FloatArray]:
    return [function_values(factor, name, numbers[name]) for factor, name in pairs]


def made_scales(used: NumbersUsed, coding: Coding, possible: Mapping[str, Mask]) -> dict[str, Scale]:
    """Scales of numbers without a declared step: functions, products, and attributes without one.

    Each holds 15 digits of the largest number that the schema permits.

    Args:
        possible: Levels of each attribute that the population leaves.
    """
    codings = {name: cast("Edges", coding.attribute(name).coding) for name in used.attributes}
    ends = {
        name: np.asarray(one.ends, dtype=np.float64)[possible[name][: len(one.ends)]].reshape(-1)
        for name, one in codings.items()
    }
    scales = {name: scale_near(ends[name]) for name, one in codings.items() if one.scale is None}
    for name, pairs in used.made.items():
        products = reduce(np.multiply.outer, _factors(pairs, ends)).reshape(-1)
        scales[name] = scale_near(products[np.isfinite(products)])
    return scales


def cells_at_records(
    written: Written, kind: Analysis, coding: Coding, used: NumbersUsed
) -> tuple[Clique, ...]:
    """The attributes of the cells by which counts and sums of a run's numbers are needed."""
    in_terms = replace(used, response="")
    cells = [frozenset[str]()]
    for term in written.terms:
        levels = [one for one in term if in_terms.function(one, written.attributes[one]) is None]
        cells.append(frozenset(written.attributes_of(tuple(levels))))
    several = kind in SUMMED_TERMS or (len(written.formula.terms) > 1 and kind is Analysis.ANOVA)
    if several:
        cells = [one | other for one, other in combinations_with_replacement(cells, 2)]
    if written.response is not None and not used.response:
        cells = [one.union(written.attributes[written.response]) for one in cells]
    cliques = [coding.domain.canonical(one) for one in cells if one]
    return tuple(maximal(cliques)) if cliques else ()


def is_categorical(factor: str) -> bool:
    """Whether a factor has levels, not numbers: ``C(x)``, a comparison, or several that are joined."""
    node = parsed(factor)[0]
    while isinstance(node, ast.Call) and function_of(node) == "I" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Call):
        return is_coded(factor)
    joined = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr)
    opposite = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert)
    return joined or opposite or isinstance(node, ast.Compare | ast.BoolOp)


def is_coded(factor: str) -> bool:
    """Whether a factor says how the levels of an attribute are coded, as ``C(x)`` does."""
    node = parsed(factor)[0]
    return isinstance(node, ast.Call) and function_of(node) in CODINGS


def _summed_in_terms(
    written: Written, numbers: Mapping[str, frozenset[str]], wide: frozenset[str]
) -> frozenset[str]:
    """The numbers that stand in linear functions wherever they stand, and in products with no other."""
    free = wide.intersection(frozenset().union(*numbers.values()))
    while True:
        bound: set[str] = set()
        for factor, inside in numbers.items():
            if inside and linear_function(factor, free) is None:
                bound |= inside
        for term in written.terms:
            several = [numbers[factor] for factor in term if numbers[factor]]
            if len(several) > 1:
                bound |= frozenset().union(*several)
        if not bound & free:
            return free
        free -= bound


def needs_of(
    written: Written,
    kind: Analysis,
    coding: Coding,
    used: NumbersUsed,
    *,
    about: Clique = (),
    drop: bool = False,
    pooled: bool = False,
) -> Needs:
    """The marginals and sums that determine an analysis of summed numbers.

    Args:
        about: Attributes of the condition that chooses records.
        drop: Records with a missing value in the formula are left out.
        pooled: One variance within all groups is enough, in place of each group's own.
    """
    parts = tuple(_cells(written, kind, used))
    several = kind is Analysis.ANOVA and len(written.formula.terms) > 1
    in_pairs = kind in SUMMED_TERMS or several
    pairs = combinations_with_replacement(parts, 2) if in_pairs else zip(parts, parts, strict=True)
    wanted = [((*one[0], *other[0]), one[1] | other[1]) for one, other in pairs]
    if kind is Analysis.POISSON:
        wanted += [((), frozenset(chain.from_iterable(written.formula.terms)))]
    if name := used.response:
        wanted += [((name, *number), cells) for number, cells in parts]
        squared = parts if kind is not Analysis.POISSON else ()
        wanted += [((name, name), frozenset() if in_pairs or pooled else cells) for _, cells in squared]
    elif written.response is not None:
        levels = written.attributes[written.response]
        wanted += [(number, cells.union(levels)) for number, cells in parts]
    return _needs(wanted, coding, population_of(written, coding, used, drop=drop), about)


def _cells(
    written: Written, kind: Analysis, used: NumbersUsed
) -> Iterator[tuple[Clique, frozenset[str]]]:
    """The parts of columns: a number or none, and the attributes of the cells."""
    seen: set[tuple[Clique, frozenset[str]]] = {((), frozenset())}
    yield (), frozenset()
    for term in written.terms:
        attributes = frozenset(written.attributes_of(term))
        numbers = attributes.intersection(used.terms) if kind in SUMMED_TERMS else frozenset()
        rest = attributes - numbers
        for number in ((), *((name,) for name in sorted(numbers))):
            if (number, rest) not in seen:
                seen.add((number, rest))
                yield number, rest


def _needs(
    wanted: Iterable[tuple[Clique, frozenset[str]]], coding: Coding, population: Clique, about: Clique
) -> Needs:
    domain, missing = coding.domain, {*population}
    cliques, sums = [], []
    for of, cells in wanted:
        by = domain.canonical(cells | {*about}) if cells or about else ()
        if of or not missing <= {*by}:
            present = tuple(name for name in population if name not in of)
            if of or present:
                sums.append(Sum(tuple(of), by, present).in_order_of(domain))
                continue
        if by:
            cliques.append(by)
    distinct = tuple(dict.fromkeys(sums))
    widest = [  # the sums that are no sums of others
        one
        for one in distinct
        if not any(
            (other.of == one.of or not one.of)
            and other.population(coding) == one.population(coding)
            and {*one.by} <= {*other.by}
            and (other.of, other.by) != (one.of, one.by)
            for other in distinct
        )
    ]
    kept = maximal(cliques) if cliques else ()
    return Needs(tuple(kept), tuple(sorted(widest, key=lambda one: one.place(domain))))


def population_of(written: Written, coding: Coding, used: NumbersUsed, *, drop: bool) -> Clique:
    """The attributes that must be present in each record that counts, in the schema's order."""
    names = {*written.formula.attributes} if drop else {*used.summed}
    return tuple(one.name for one in coding.attributes if one.name in names and one.coding.missing)
