"""Functions in formulas: which are allowed, and their values on the levels of their attributes.

An expression is walked, never run: what is no operator or function of the tables here is refused, so a
formula can be evaluated where records are.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, nan, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Coding, Labels
from gencard.core.domain import Clique
from gencard.core.errors import UnknownAttributeError
from gencard.core.types import FloatArray, IntArray

# Functions in formulas: of which attributes each one is, or why it is refused.
#
# A function of attributes is determined by their levels, so the marginal of its attributes is all that
# an analysis needs of it. Functions of other rows, random ones and unknown ones are refused.


_CODINGS = {"C", "Q", "factor", "as_factor", "ordered", "as_ordered", "relevel", "as_logical"}
"""Functions of one attribute of any type; arguments after the first say how its levels are coded."""

_NUMERIC = {
    "abs", "as_integer", "as_numeric", "bs", "cc", "ceil", "ceiling", "center", "cr", "cs", "cut", "exp",
    "expm1", "floor", "log", "log10", "log1p", "log2", "ns", "offset", "poly", "round", "scale", "sign",
    "sqrt", "standardize",
}  # fmt: skip
"""Functions of numbers, which are the first argument."""

_TOGETHER = {"I", "ifelse", "interaction", "maximum", "minimum", "pmax", "pmin", "where"}
"""Functions of all their arguments together."""

_CONSTANTS = {"c", "list", "range", "set", "tuple"}
_NAMESPACES = {"math", "np", "numpy", "patsy", "pd"}
_NO_ATTRIBUTES = {"F", "FALSE", "Inf", "NA", "NULL", "T", "TRUE", "pi"}
"""Constants of R, where no attribute has the name."""

_ROWS = "rows have no order, so functions of the previous or next row are not supported"
_SMOOTH = "smooth terms are not supported; write the attribute, which gives each level its own effect"
_REFUSED = {
    **dict.fromkeys(("L", "cumsum", "diff", "lag", "lead", "shift"), _ROWS),
    **dict.fromkeys(("lo", "s", "te", "ti"), _SMOOTH),
    "Surv": "survival times are not supported; write the time or the event as the response",
    "cbind": "the response must be one attribute; plan each response separately",
}

_UNREADABLE = "the expression cannot be parsed; use Python syntax"
_QUOTED = re.compile("`([^`]+)`")
_DOTTED = re.compile(r"\b(as|is)\.(?=\w+\()")
"""R's ``as.factor``: "as" and "is" are words of Python, which reads the code."""


BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
    ast.BitAnd: np.logical_and,
    ast.BitOr: np.logical_or,
}
UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {ast.UAdd: np.positive, ast.USub: np.negative}
COMPARED: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
OF_ONE: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "as_integer": np.trunc,
    "as_logical": lambda x: x != 0,
    "as_numeric": np.positive,
    "ceil": np.ceil,
    "ceiling": np.ceil,
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "I": np.positive,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "round": np.round,
    "sign": np.sign,
    "sqrt": np.sqrt,
}
OF_MORE: dict[str, Callable[..., Any]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pmax": np.maximum,
    "pmin": np.minimum,
}
"""Operators and functions of one or several numbers, evaluated in each cell."""


class NotUsableError(Exception):
    """Why a function cannot be used, and what to write instead."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def attributes_of_call(code: str, coding: Coding) -> Clique:
    """The attributes of which a call is a function, in the order in which they are written.

    Args:
        code: Such as ``log(age)``; the code is read, never run.
    """
    tree, quoted = parsed(code)
    try:
        names = tuple(dict.fromkeys(_ExpressionNames(coding, quoted).of(tree)))
    except RecursionError:
        raise NotUsableError(_UNREADABLE) from None
    if not names:
        raise NotUsableError("the function uses no attribute; remove it")
    return names


def parsed(code: str) -> tuple[ast.expr, Mapping[str, str]]:
    """The expression, and the names in backticks by the words that stand for them in it."""
    quoted: dict[str, str] = {}

    def placeholder(name: re.Match[str]) -> str:
        word = f"_quoted_{len(quoted)}"
        quoted[word] = name[1]
        return word

    words = _DOTTED.sub(r"\1_", _QUOTED.sub(placeholder, code)).replace("^", "**").strip()
    try:
        return ast.parse(words, mode="eval").body, quoted
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotUsableError(_UNREADABLE) from None


def function_of(call: ast.Call) -> str:
    """The name of the function that is called, without its library."""
    name = ast.unparse(call.func)
    namespace, _, last = name.rpartition(".")
    return last if namespace in _NAMESPACES else name


class _ExpressionNames:
    """Attributes of an expression; ``quoted`` has names in backticks by their words in the code."""

    def __init__(self, coding: Coding, quoted: Mapping[str, str]) -> None:
        self._coding, self._quoted = coding, quoted
        self._declared = set(coding.domain.attributes)

    def of(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Call():
                yield from self._of_call(node)
            case ast.Name() | ast.Attribute():
                yield from self._of_name(ast.unparse(node))
            case _:
                for part in ast.iter_child_nodes(node):
                    yield from self.of(part)

    def _of_name(self, text: str) -> Iterator[str]:
        name = self._quoted.get(text, text)
        if name in self._declared:
            yield name
        elif text not in _NO_ATTRIBUTES:
            raise UnknownAttributeError(attribute=name)

    def _of_call(self, call: ast.Call) -> Iterator[str]:
        name = function_of(call)
        if name in _REFUSED:
            raise NotUsableError(_REFUSED[name])
        if name in _CODINGS | _NUMERIC:
            match call.args:
                case [ast.Constant(value=str() as text), *_] if name == "Q":
                    yield from self._of_name(text)
                case [first, *_]:
                    names = list(self.of(first))
                    if name in _NUMERIC:
                        self._check_numbers(name, names)
                    yield from names
                case _:
                    raise NotUsableError(f"{name}(...) needs an attribute as its first argument")
        elif name in _TOGETHER | _CONSTANTS:
            for part in (*call.args, *(keyword.value for keyword in call.keywords)):
                yield from self.of(part)
        else:
            problem = (
                f"the function '{ast.unparse(call.func)}' is not supported; write the attribute itself"
            )
            raise NotUsableError(problem)

    def _check_numbers(self, name: str, attributes: Sequence[str]) -> None:
        for attribute in attributes:
            coding = self._coding.attribute(attribute).coding
            if isinstance(coding, Labels) and not (coding.integer or coding.boolean):
                problem = (
                    f"{name}(...) needs numbers, and '{attribute}' has text labels; use it without "
                    "the function"
                )
                raise NotUsableError(problem)


Cells = NDArray[Any]
"""One value for each cell: numbers, or the labels of levels."""


@dataclass(frozen=True, slots=True, eq=False)
class NumericFactor:
    """A number in each cell, NaN for none; if ``truth``, the numbers stand for true and false."""

    values: FloatArray
    truth: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """A factor that is a level in each cell.

    Args:
        codes: Positions in ``names``, one for each cell.
        names: The levels, the first of which a contrast compares with.
        contrast: Its name and its base, such as ``("Treatment", "male")``; "" for the usual one.
    """

    codes: IntArray
    names: tuple[Any, ...]
    contrast: tuple[str, Any] = ("", None)


TRUTHS = ("False", "True")
"""Names of truth values, as data frames have them."""

Factor = NumericFactor | Levels

_CHOICES = {"ifelse", "where"}
_LISTS = {"c", "list", "set", "tuple"}
CODINGS = {"C", "factor", "as_factor", "ordered", "as_ordered", "relevel"}
_CONTRASTS = {"Treatment", "Sum", "Helmert", "Poly", "Diff", "SAS"}
_BASED = {"Treatment", "SAS"}
"""Contrasts with a base level; of the others, no analyst chooses a number."""

_NAMED = {"F": False, "FALSE": False, "T": True, "TRUE": True, "Inf": inf, "NA": nan, "pi": pi}
_OF_RECORDS = "depends on the records; write it with fixed numbers, such as I((age - 40) / 10)"
_LONGEST_TEXT = 60


@dataclass(frozen=True, slots=True)
class Logic:
    """Values of comparisons, 1 for true and 0 for false; ``compared`` makes an array of an outcome."""

    compared: Callable[[Any, Any, Any], Cells]
    both: Callable[[Any, Any], Any]
    either: Callable[[Any, Any], Any]
    opposite: Callable[[Any], Any]
    chosen: Callable[[Any, Any, Any], Any]
    functions: Mapping[str, Callable[..., Any]]


def _known_or_unknown(outcome: Any, *sides: Any) -> FloatArray:
    return np.where(_unknown(*sides), nan, np.asarray(outcome, dtype=np.float64))


def _unknown(*sides: Any) -> Any:
    """Mark the cells in which any side is NaN; a text never is."""
    arrays = [np.asarray(side) for side in sides]
    return reduce(np.logical_or, [np.isnan(one) for one in arrays if one.dtype.kind == "f"], np.False_)


def _both(one: Any, other: Any) -> FloatArray:
    false = (one == 0) | (other == 0)
    return np.where(false, 0.0, np.where(_unknown(one, other), nan, 1.0))


def _opposite(one: Any) -> FloatArray:
    return _known_or_unknown(np.equal(one, 0), one)


TWO_VALUED = Logic(
    compared=lambda outcome, *_: np.asarray(outcome, dtype=bool),
    both=np.logical_and,
    either=np.logical_or,
    opposite=np.logical_not,
    chosen=lambda condition, one, other: np.where(condition != 0, one, other),
    functions=OF_ONE,
)
"""In formulas, as in Python: a comparison with a missing number is false."""

THREE_VALUED = Logic(
    compared=_known_or_unknown,
    both=_both,
    either=lambda one, other: _opposite(_both(_opposite(one), _opposite(other))),
    opposite=_opposite,
    chosen=lambda condition, one, other: np.where(
        _unknown(condition), nan, np.where(condition != 0, one, other)
    ),
    functions=OF_ONE | {"as_logical": lambda x: _known_or_unknown(x != 0, x)},
)
"""In conditions, as in SQL and in R: a comparison with a missing number is unknown, here NaN."""


def evaluated(
    code: str, numbers: Mapping[str, FloatArray], labels: Mapping[str, Levels], logic: Logic = TWO_VALUED
) -> Factor:
    """The value of a function in each cell.

    Args:
        numbers: For attributes that are numbers, the number in each cell.
        labels: For all attributes, the level in each cell.

    Raises:
        NotUsableError: It has no value that follows from the levels.
    """
    tree, quoted = parsed(code)
    reader = _Evaluation(numbers, labels, quoted, logic)
    try:
        with np.errstate(all="ignore"):
            return reader.factor(tree)
    except (TypeError, ValueError, OverflowError, RecursionError):
        short = code if len(code) <= _LONGEST_TEXT else f"{code[:_LONGEST_TEXT]}..."
        raise NotUsableError(f"'{short}' has no value for these levels") from None


def function_values(code: str, name: str, numbers: FloatArray) -> FloatArray:
    """The value of a function of one attribute at some of its numbers, shape ``(n,)``.

    Raises:
        NotUsableError: It has no value that is a number.
    """
    label = Levels(np.zeros(len(numbers), dtype=np.int64), ("",))
    value = evaluated(code, {name: numbers}, {name: label})
    if not isinstance(value, NumericFactor):
        raise NotUsableError("a number is needed here")
    return value.values


class _Evaluation:
    def __init__(
        self,
        numbers: Mapping[str, FloatArray],
        labels: Mapping[str, Levels],
        quoted: Mapping[str, str],
        logic: Logic,
    ) -> None:
        self._numbers, self._labels, self._quoted, self._logic = numbers, labels, quoted, logic
        self._cells = len(next(iter(labels.values())).codes)

    def factor(self, node: ast.expr) -> Factor:
        """Numbers, or levels where the outermost function says so or there are no numbers."""
        if isinstance(node, ast.Call) and function_of(node) in CODINGS:
            return self._coded(node)
        if (name := self._attribute(node)) is not None and name not in self._numbers:
            return self._labels[name]
        value = self._value(node)
        numbers = np.broadcast_to(self._numeric(value), (self._cells,)).astype(np.float64)
        return NumericFactor(numbers, truth=np.asarray(value).dtype == bool)

    def _coded(self, call: ast.Call) -> Levels:
        """The levels of ``C(...)``, with its contrast."""
        if not call.args:
            raise NotUsableError("C(...) needs an attribute")
        name = self._attribute(call.args[0])
        levels = self._labels[name] if name is not None else self._distinct(call.args[0])
        arguments = {keyword.arg: keyword.value for keyword in call.keywords}
        named = (arguments[key] for key in ("contr", "contrasts") if key in arguments)
        others = [*call.args[1:], *named]
        if "ref" in arguments:
            base = self._level(arguments["ref"], levels)
            return Levels(levels.codes, levels.names, ("Treatment", base))
        if unknown := arguments.keys() - {"contr", "contrasts", "levels"}:
            raise NotUsableError(f"C(...) has no argument '{min(map(str, unknown))}'")
        if "levels" in arguments:
            names = tuple(self._level(part, levels) for part in _parts(arguments["levels"]))
            if len(set(names)) != len(names) or set(names) != set(levels.names):
                raise NotUsableError("levels=[...] must name each level once")
            order = np.array([names.index(name) for name in levels.names])
            levels = Levels(order[levels.codes], names)
        return Levels(levels.codes, levels.names, self._contrast(others, levels))

    def _contrast(self, nodes: Sequence[ast.expr], levels: Levels) -> tuple[str, Any]:
        if not nodes:
            return ("", None)
        call = nodes[0]
        text = ast.unparse(call.func if isinstance(call, ast.Call) else call)
        name = text.removeprefix("contr.")
        name = next((one for one in _CONTRASTS if one.lower() == name.lower()), name)
        if name not in _CONTRASTS:
            choices = ", ".join(sorted(_CONTRASTS))
            raise NotUsableError(f"the contrast must be one of {choices}")
        keywords = call.keywords if isinstance(call, ast.Call) else ()
        arguments = [*call.args, *(one.value for one in keywords)] if isinstance(call, ast.Call) else []
        if arguments and name not in _BASED:
            raise NotUsableError(f"the contrast {name} takes no argument")
        return (name, self._level(arguments[0], levels) if arguments else None)

    def _level(self, node: ast.expr, levels: Levels) -> Any:
        """The level that a constant names."""
        text = str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
        if levels.names[: len(TRUTHS)] == TRUTHS and text.capitalize() in TRUTHS:
            text = text.capitalize()
        for name in levels.names:
            if str(name) == text:
                return name
        raise NotUsableError(f"'{text[:_LONGEST_TEXT]}' is not a level of the attribute")

    def _distinct(self, node: ast.expr) -> Levels:
        """The different values of an expression as levels."""
        values = np.broadcast_to(self._value(node), (self._cells,))
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise NotUsableError("C(...) of this has no value at some level; choose levels with 'where'")
        names, codes = np.unique(values, return_inverse=True)
        return Levels(codes.reshape(-1), tuple(names.tolist()))

    def _attribute(self, node: ast.expr) -> str | None:
        """The attribute that a name or ``Q("...")`` stands for."""
        if isinstance(node, ast.Call) and function_of(node) == "Q" and len(node.args) == 1:
            argument = node.args[0]
            return str(argument.value) if isinstance(argument, ast.Constant) else None
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        text = ast.unparse(node)
        name = self._quoted.get(text, text)
        return name if name in self._labels else None

    def _value(self, node: ast.expr) -> Any:
        """Evaluate an expression: an array, a number or a text."""
        if (name := self._attribute(node)) is not None:
            if name in self._numbers:
                return self._numbers[name]
            levels = self._labels[name]
            return np.array([str(one) for one in levels.names], dtype=object)[levels.codes]
        match node:
            case ast.Compare() | ast.Call():
                return self._compared(node) if isinstance(node, ast.Compare) else self._called(node)
            case ast.Constant(value=str() | bool() | int() | float() as value):
                return value if isinstance(value, str) else float(value)
            case ast.Name(id=text) if text in _NAMED:
                return float(_NAMED[text])
        return self._joined(node)

    def _joined(self, node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self._logic.both(*self._numeric_values(left, right))
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._logic.either(*self._numeric_values(left, right))
            case ast.BinOp(left=left, op=symbol, right=right) if type(symbol) in BINARY:
                return BINARY[type(symbol)](*self._numeric_values(left, right))
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return self._logic.opposite(self._numeric(self._value(operand)))
            case ast.UnaryOp(op=symbol, operand=operand) if type(symbol) in UNARY:
                return UNARY[type(symbol)](self._numeric(self._value(operand)))
            case ast.BoolOp(op=symbol, values=parts):
                join = self._logic.both if isinstance(symbol, ast.And) else self._logic.either
                return reduce(join, self._numeric_values(*parts))
        raise NotUsableError(f"'{ast.unparse(node)[:_LONGEST_TEXT]}' is not allowed in a function")

    def _numeric(self, value: Any) -> FloatArray:
        array = np.asarray(value)
        if array.dtype == object or array.dtype.kind not in "bif":
            raise NotUsableError("the function needs numbers; compare text labels with ==")
        return array.astype(np.float64)

    def _numeric_values(self, *nodes: ast.expr) -> Iterator[FloatArray]:
        return (self._numeric(self._value(node)) for node in nodes)

    def _compared(self, node: ast.Compare) -> Cells:
        logic = self._logic
        left, result = self._value(node.left), np.ones(self._cells, dtype=bool)
        for symbol, following in zip(node.ops, node.comparators, strict=True):
            if isinstance(symbol, ast.In | ast.NotIn):
                among = [self._pair(operator.eq, left, self._value(part)) for part in _parts(following)]
                inside = reduce(logic.either, among, np.zeros(self._cells, dtype=bool))
                outcome = inside if isinstance(symbol, ast.In) else logic.opposite(inside)
                result = logic.both(result, outcome)
            elif type(symbol) in COMPARED:
                right = self._value(following)
                result = logic.both(result, self._pair(COMPARED[type(symbol)], left, right))
                left = right
            else:
                raise NotUsableError("'is' is not allowed in a function; use ==")
        return result

    def _called(self, call: ast.Call) -> Any:
        name = function_of(call)
        parts = [self._value(part) for part in call.args] if name not in _LISTS else []
        if name in OF_ONE and len(parts) == 1 and not call.keywords:
            only = parts[0]
            of = self._attribute(call.args[0]) if name.startswith("as_") else None
            if of is not None and of not in self._numbers:  # labels that are numbers
                levels = self._labels[of]
                only = np.array([_number(one) for one in levels.names])[levels.codes]
            if name == "I" and np.asarray(only).dtype == bool:
                return only
            return self._logic.functions[name](self._numeric(only))
        if name in OF_MORE and len(parts) > 1 and not call.keywords:
            return reduce(OF_MORE[name], map(self._numeric, parts))
        if name in _CHOICES and len(parts) == 3:
            return self._logic.chosen(*map(self._numeric, parts))
        raise NotUsableError(f"'{name}' with these arguments {_OF_RECORDS}")

    def _pair(self, compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Cells:
        """A comparison in each cell; text is compared with text, numbers with numbers."""
        others = [side for side in (left, right) if not isinstance(side, str)]
        if len(others) < 2 and any(np.asarray(side).dtype != object for side in others):
            raise NotUsableError("a number cannot be compared with a text")
        return self._logic.compared(compare(left, right), left, right)


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return node.elts
    if isinstance(node, ast.Call) and function_of(node) in _LISTS:
        return node.args
    raise NotUsableError("a list was expected, such as ['a', 'b']")


def _number(name: Any) -> float:
    try:
        return float(name)
    except ValueError:
        return nan
