"""Functions in formulas of runs on records: a short list, and groups that are judged as tables are.

An analyst who chooses the number of each level reads single records: a mean of numbers that are 0 but
at one level is a count of that level. A function can be such a choice: ``age ** 30``, ``(age == 37) *
1e9``, or ``(age - 1.5) ** 2`` of three levels. So a run takes the numbers that the schema declares, and
few functions of them, in which the analyst chooses unit and origin at most. Every other function of a
formula divides the records into groups by its value. Comparisons, ``ifelse`` and ``C(...)`` of an
expression are taken as groups, which ``output_checks.groups`` judges; the rest is refused.

Answers from psi take all functions: psi is released already.
"""

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from gencard.analysis.answers.design import Crossed, GroupFactor, Grouping
from gencard.analysis.answers.kinds import kind_of
from gencard.analysis.answers.margins import Mask, every_cell
from gencard.analysis.formulas.formula_values import (
    BINARY,
    CODINGS,
    Factor,
    Levels,
    NotUsableError,
    NumericFactor,
    evaluated,
    function_of,
    function_values,
    parsed,
)
from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.model_matrix import numbers_of
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import InvalidFormulaError
from gencard.core.statistics.formula import Analysis, Written
from gencard.core.types import FloatArray, IntArray

MOST_GROUPS = 20
"""Groups that the functions of one formula may make: each is a population of its own."""

_AS_NUMBER = {"as_integer", "as_numeric"}
_ONE_NUMBER = {"log", "log2", "log10", "log1p", "sqrt", *_AS_NUMBER}
_POWERS = {1.0, 2.0, 3.0}
_TRANSPARENT = {"I"}
_CHOICES = {"ifelse", "where"}
_SMALLEST, _LARGEST = 1e-6, 1e6
"""Bounds on the size of the analyst's constants: beyond them, rounding errors merge levels."""

_LEAST_GAP = 1e-9
"""Between the numbers of two levels, relative to the largest: less is a rounding error."""

_SURVIVAL = {Analysis.KAPLAN_MEIER, Analysis.COX}
_OF_LEVELS = {Analysis.MULTINOMIAL, Analysis.ORDINAL, Analysis.LOGLINEAR, *_SURVIVAL}
"""Kinds that take the levels of the response, whatever numbers a function gives them."""

_LISTED = "runs on records do not take this function"
_ADVICE = (
    "Runs take log, log2, log10, log1p, log(x + 1), sqrt and powers 2 and 3 of an attribute, multiples "
    "of these, and as groups comparisons, ifelse(condition, 1, 0) and C(...); answers from psi all."
)
_SHIFTED = "runs on records take no constant added here; the declared numbers are judged as they are"
_UNIT = f"constants of runs on records must be from {_SMALLEST:g} to {_LARGEST:,.0f} in size"
_UNDEFINED = (
    "this is not a finite number at every level that the run may read; choose the levels with 'where'"
)
_MERGED = "this gives several levels the same number, or another order; write groups as C(...)"
_PLAIN = "runs of this kind take the attribute itself here, without a function"
_TWICE = "an attribute appears twice in one term; use one form of it"
_CODED_GROUP = "write a condition as the response, such as I(age < 40)"
_MANY = f"the functions make more than {MOST_GROUPS} groups; write the attribute as C(...)"


@dataclass(frozen=True, slots=True)
class _Reading:
    """The factors of one formula.

    Args:
        stored: Attributes whose numbers count as the records have them.
    """

    text: str
    coding: Coding
    possible: Mapping[str, Mask]
    written: Written
    stored: Set[str] = frozenset()

    @classmethod
    def of(cls, text: str, coding: Coding, possible: Mapping[str, Mask]) -> "_Reading":
        return cls(text, coding, possible, read_factors(text, coding))

    def form(self, factor: str) -> "_FactorForm":
        """Raises InvalidFormulaError where the factor is nested too deeply to be read."""
        tree, quoted = parsed(factor)
        try:
            return _FactorForm.of(tree, {**dict.fromkeys(self.coding.domain.attributes), **quoted})
        except RecursionError:
            raise self.wrong(factor, _LISTED) from None

    def values(self, factor: str, own: Clique) -> Factor:
        """Value of a factor in each cell of its attributes that the population may have."""
        numbers, labels, given = numbers_of(self.coding), {}, {}
        codes = every_cell([np.flatnonzero(self.levels(name)) for name in own]).T
        for name, code in zip(own, codes, strict=True):
            labels[name] = Levels(code, self.coding.attribute(name).coding.level_names)
            if name in numbers:
                given[name] = np.asarray(numbers[name])[code]
        return evaluated(factor, given, labels)

    def group(self, factor: str, own: Clique) -> GroupFactor:
        """The groups into which a factor divides the cells of its attributes."""
        attributes = self.coding.domain.canonical(own)
        value = self.values(factor, attributes)
        if isinstance(value, NumericFactor):
            _, codes = np.unique(value.values, return_inverse=True)
        else:
            codes = value.codes
        masks = [self.levels(name) for name in attributes]
        cells: IntArray = np.full([len(mask) for mask in masks], -1, dtype=np.int64)
        cells[np.ix_(*masks)] = codes.reshape([int(mask.sum()) for mask in masks])
        return GroupFactor(factor, attributes, cells)

    def levels(self, name: str) -> Mask:
        everything = np.ones(self.coding.domain.size(name), dtype=bool)
        return self.possible.get(name, everything)

    def wrong(self, factor: str, problem: str) -> InvalidFormulaError:
        place = max(self.text.find(factor), 0) + 1
        return InvalidFormulaError(position=place, problem=problem, advice=_ADVICE)


def number_factors(text: str, coding: Coding) -> frozenset[str]:
    """The factors of a formula that are one attribute, or a listed function of one, as a number."""
    reading = _Reading.of(text, coding, {})
    forms = {factor: reading.form(factor) for factor in reading.written.attributes}
    return frozenset(
        factor
        for factor, form in forms.items()
        if not (form.is_group or form.is_coded or form.problem)
        and len(reading.written.attributes[factor]) == 1
    )


def grouping_of(text: str, coding: Coding, possible: Mapping[str, Mask]) -> Grouping | None:
    """The groups that functions of a formula make; None where they make none.

    Also a function that no run takes makes groups, by its values: runs of before may hold it.
    """
    reading = _Reading.of(text, coding, possible)
    written = reading.written
    response = None if written.response is None else _crossed(reading, (written.response,))
    terms = tuple(_crossed(reading, term) for term in written.terms if term)
    grouping = Grouping(response, terms)
    return grouping if any(one.groups for one in grouping.parts) else None


def _crossed(reading: _Reading, factors: Sequence[str]) -> Crossed:
    levels, groups = list[str](), list[GroupFactor]()
    for factor in factors:
        own = reading.written.attributes[factor]
        try:
            if reading.form(factor).is_group:
                groups.append(reading.group(factor, own))
                continue
        except (NotUsableError, InvalidFormulaError):  # no value: the analysis has none either
            pass
        levels += own
    return Crossed(tuple(dict.fromkeys(levels)), tuple(groups))


def check_functions(
    text: str,
    kind: Analysis,
    coding: Coding,
    possible: Mapping[str, Mask],
    stored: Set[str] = frozenset(),
) -> None:
    """Refuse a formula with a function that no run on records takes, by the schema alone.

    Args:
        possible: Levels of each attribute that the population leaves.
        stored: Attributes whose numbers count as the records have them, not by levels.

    Raises:
        InvalidFormulaError: Names the place of the function, and which functions there are.
    """
    reading = replace(_Reading.of(text, coding, possible), stored=stored)
    written = reading.written
    if written.response is not None:
        _check_response(reading, kind, written.response)
    terms = [term for term in written.terms if term]
    if kind in _SURVIVAL and terms:
        for factor in terms[0]:
            if not reading.form(factor).is_plain:
                raise reading.wrong(factor, _PLAIN)
    for term in terms:
        names = [name for factor in term for name in written.attributes[factor]]
        plain = all(reading.form(factor).is_plain for factor in term)
        if len(names) != len(set(names)) and not plain:
            raise reading.wrong(term[0], _TWICE)
        for factor in term:
            _check_factor(reading, factor, shift=kind_of(kind).has_design)
    grouping = grouping_of(text, coding, possible)
    groups = [] if grouping is None else [group for one in grouping.parts for group in one.groups]
    codes = [np.unique(group.codes) for group in groups]
    if sum(int(np.count_nonzero(one >= 0)) for one in codes) > MOST_GROUPS:
        raise reading.wrong(groups[0].factor, _MANY)


def _check_response(reading: _Reading, kind: Analysis, factor: str) -> None:
    form = reading.form(factor)
    if kind in _OF_LEVELS and not form.is_plain:
        raise reading.wrong(factor, _PLAIN)
    if form.is_coded and form.is_group:
        raise reading.wrong(factor, _CODED_GROUP)
    _check_factor(reading, factor, shift=False)


def _check_factor(reading: _Reading, factor: str, *, shift: bool) -> None:
    form = reading.form(factor)
    own = reading.written.attributes[factor]
    if form.problem:
        raise reading.wrong(factor, form.problem)
    if form.shifted and not shift:
        raise reading.wrong(factor, _SHIFTED)
    if form.is_plain:
        return
    try:
        value = reading.values(factor, own)
    except NotUsableError as error:
        raise reading.wrong(factor, error.problem) from None
    if form.is_group:
        names = value.values.tolist() if isinstance(value, NumericFactor) else value.names
        if not all(isfinite(name) for name in names if isinstance(name, float)):
            raise reading.wrong(factor, _UNDEFINED)
    elif isinstance(value, NumericFactor):
        _check_numbers(reading, factor, own, value.values)
        _check_ends(reading, factor, own[0])


def _check_numbers(reading: _Reading, factor: str, own: Clique, values: FloatArray) -> None:
    """Refuse what is infinite or undefined at a level, or merges levels of an attribute."""
    numbers = numbers_of(reading.coding).get(own[0])
    number = None if numbers is None else np.asarray(numbers)[reading.levels(own[0])]
    missing = np.zeros(len(values), dtype=bool) if number is None else np.isnan(number)
    known = values[~missing]
    if not np.isfinite(known).all():
        raise reading.wrong(factor, _UNDEFINED)
    order = np.argsort(known if number is None else number[~missing], kind="stable")
    different = np.ones(max(len(known) - 1, 0), dtype=bool)
    if number is not None:
        different = np.diff(number[~missing][order]) > 0
    steps = np.diff(known[order])[different]
    least = _LEAST_GAP * np.abs(known).max(initial=0.0)
    if len(steps) and not (np.all(steps > least) or np.all(-steps > least)):
        raise reading.wrong(factor, _MERGED)


def _check_ends(reading: _Reading, factor: str, name: str) -> None:
    """Refuse what is infinite, undefined or turns around at numbers inside a level of several."""
    coding = reading.coding.attribute(name).coding
    if name not in reading.stored or not isinstance(coding, Edges):
        return
    possible = reading.levels(name)[: len(coding.ends)]
    numbers = np.asarray(coding.ends, dtype=np.float64)[possible].reshape(-1)
    values = function_values(factor, name, numbers)
    steps = np.diff(values)
    if not np.isfinite(values).all():
        raise reading.wrong(factor, _UNDEFINED)
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise reading.wrong(factor, _MERGED)


@dataclass(frozen=True, slots=True)
class _FactorForm:
    """Form of a factor.

    Args:
        is_plain: An attribute, or ``C(...)`` of one: its levels.
        is_coded: ``C(...)``.
        is_group: Neither an attribute nor one of the listed functions of numbers.
        shifted: A constant is added.
        problem: Why no run takes it; "" where runs do.
    """

    is_plain: bool = False
    is_coded: bool = False
    is_group: bool = False
    shifted: bool = False
    problem: str = ""

    @classmethod
    def of(cls, tree: ast.expr, names: Mapping[str, str | None]) -> "_FactorForm":
        """Read a factor; ``names``: attributes, and words that stand for attributes in backticks."""
        if isinstance(tree, ast.Call) and function_of(tree) in CODINGS:
            plain = bool(tree.args) and _is_attribute(tree.args[0], names)
            return cls(is_plain=plain, is_coded=True, is_group=not plain)
        if _is_attribute(tree, names):
            return cls(is_plain=True)
        if _is_condition(tree) or _is_indicator(tree):
            return cls(is_group=True)
        shifts = list[float]()
        problem = _problem(tree, names, shifts)
        return cls(is_group=problem == _LISTED, shifted=bool(shifts), problem=problem)


def _is_attribute(tree: ast.expr, names: Mapping[str, str | None]) -> bool:
    node = _inside(tree)
    if isinstance(node, ast.Call) and function_of(node) == "Q" and len(node.args) == 1:
        return isinstance(node.args[0], ast.Constant) and node.args[0].value in names
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names


def _inside(node: ast.expr) -> ast.expr:
    """The expression inside functions that change nothing."""
    while (
        isinstance(node, ast.Call)
        and function_of(node) in _TRANSPARENT
        and len(node.args) == 1
        and not node.keywords
    ):
        node = node.args[0]
    return node


def _is_condition(tree: ast.expr) -> bool:
    """Whether an expression is true or false everywhere."""
    match _inside(tree):
        case ast.Compare():
            return True
        case ast.BoolOp(values=parts):
            return all(map(_is_condition, parts))
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _is_condition(left) and _is_condition(right)
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            return _is_condition(operand)
        case ast.Call(args=[_], keywords=[]) as call:
            return function_of(call) == "as_logical" or (
                function_of(call) in _AS_NUMBER and _is_condition(call.args[0])
            )
    return False


def _is_indicator(tree: ast.expr) -> bool:
    """Whether an expression is ``ifelse(condition, 1, 0)``, or with 0 and 1."""
    match _inside(tree):
        case ast.Call(args=[condition, yes, no], keywords=[]) as call:
            return (
                function_of(call) in _CHOICES
                and _is_condition(condition)
                and {_constant(yes), _constant(no)} == {0.0, 1.0}
            )
    return False


def _problem(tree: ast.expr, names: Mapping[str, str | None], shifts: list[float]) -> str:
    """Why this is no listed function of numbers, or ""; ``shifts`` receives the constants added."""
    node = _inside(tree)
    if _is_attribute(node, names):
        return ""
    match node:
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _problem(operand, names, shifts)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return "" if _is_attribute(left, names) and _constant(right) in _POWERS else _LISTED
        case ast.BinOp(
            left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as symbol, right=right
        ):
            return _of_sides(left, symbol, right, names, shifts)
        case ast.Call(args=[argument], keywords=[]) as call if function_of(call) in _ONE_NUMBER:
            plain = _is_attribute(argument, names)
            return "" if plain or _is_one_more(call, argument, names) else _LISTED
    return _LISTED


def _of_sides(
    left: ast.expr,
    symbol: ast.operator,
    right: ast.expr,
    names: Mapping[str, str | None],
    shifts: list[float],
) -> str:
    """The same of a sum, product or quotient of which one side is a constant."""
    constant, other = _constant(right), left
    if constant is None and not isinstance(symbol, ast.Div):
        constant, other = _constant(left), right
    if constant is None:
        return _LISTED
    if isinstance(symbol, ast.Add | ast.Sub):
        shifts.append(constant)
        allowed = abs(constant) <= _LARGEST
    else:
        allowed = _SMALLEST <= abs(constant) <= _LARGEST
    return _problem(other, names, shifts) or ("" if allowed else _UNIT)


def _is_one_more(call: ast.Call, argument: ast.expr, names: Mapping[str, str | None]) -> bool:
    """Whether a call is ``log(x + 1)``, which many write for ``log1p(x)``."""
    match _inside(argument):
        case ast.BinOp(left=left, op=ast.Add(), right=right) if function_of(call) == "log":
            return (_is_attribute(left, names) and _constant(right) == 1.0) or (
                _is_attribute(right, names) and _constant(left) == 1.0
            )
    return False


def _constant(node: ast.expr) -> float | None:
    """The number that an expression without attributes is; None where it is none."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return float(number) if abs(number) <= _LARGEST**2 else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inside = _constant(operand)
            return None if inside is None else -inside
        case ast.BinOp(
            left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as symbol, right=right
        ):
            sides = _constant(left), _constant(right)
            if None in sides or (isinstance(symbol, ast.Div) and sides[1] == 0):
                return None
            return float(BINARY[type(symbol)](*sides))
    return None
