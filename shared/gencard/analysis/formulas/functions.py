"""Functions in formulas: of which attributes each one is, or why it is refused.

A function of attributes is determined by their levels, so the marginal of its attributes is all that an
analysis needs of it. Functions of other rows, random ones and unknown ones are refused.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gencard.core.coding import Coding, Labels
from gencard.core.domain import Clique
from gencard.core.errors import UnknownAttributeError

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
UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.UAdd: np.positive,
    ast.USub: np.negative,
}
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
        coding: The schema.

    Raises:
        NotUsableError: The function is refused, unknown, not of numbers, or of no attribute.
        UnknownAttributeError: An attribute is not declared.
    """
    tree, quoted = parsed(code)
    try:
        names = tuple(dict.fromkeys(_ExpressionNames(coding, quoted).of(tree)))
    except RecursionError:
        raise _unreadable() from None
    if not names:
        raise NotUsableError("the function uses no attribute; remove it")
    return names


def parsed(code: str) -> tuple[ast.expr, Mapping[str, str]]:
    """The expression, and the names in backticks by the words that stand for them in it.

    Raises:
        NotUsableError: It cannot be read.
    """
    quoted: dict[str, str] = {}

    def placeholder(name: re.Match[str]) -> str:
        word = f"_quoted_{len(quoted)}"
        quoted[word] = name[1]
        return word

    words = _DOTTED.sub(r"\1_", _QUOTED.sub(placeholder, code)).replace("^", "**").strip()
    try:
        return ast.parse(words, mode="eval").body, quoted
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable() from None


def function_of(call: ast.Call) -> str:
    """The name of the function that is called, without its library."""
    name = ast.unparse(call.func)
    namespace, _, last = name.rpartition(".")
    return last if namespace in _NAMESPACES else name


def _unreadable() -> NotUsableError:
    return NotUsableError("the expression cannot be parsed; use Python syntax")


class _ExpressionNames:
    """The attributes of an expression.

    Args:
        coding: The schema.
        quoted: The names in backticks, by the words that stand for them in the code.
    """

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
