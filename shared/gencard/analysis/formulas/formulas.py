"""Formulas as in R and patsy: read by formulaic's parser, down to the attributes of each term.

Which operators there are, and which binds first, is formulaic's. What a term means is decided here:
all attributes are categorical, and a term has its own effect in each cell of its attributes. So
``log(age)`` needs what ``age`` needs, ``I(age * work)`` what ``age:work`` needs, and a model without
intercept what the one with it needs. What no plan can give is refused with what to write instead.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from formulaic.errors import FormulaicError
from formulaic.parser import DefaultOperatorResolver
from formulaic.parser.algos import tokenize, tokens_to_ast
from formulaic.parser.types import ASTNode, Token

from gencard.analysis.formulas.formula_values import NotUsableError, attributes_of_call
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.errors import FEWER_TERMS, InvalidFormulaError, TooLargeError
from gencard.core.statistics.formula import (
    Formula,
    Terms,
    Written,
    crossed,
    distinct,
    nested,
    power_of,
    written_name,
)

LONGEST = 4_000
"""Characters of a formula."""

_OPERATOR = Token.Kind.OPERATOR
_OPERATORS = {"~", "+", "-", "*", "/", ":", "**", "^", "in"}
_SYMBOL = re.compile(r"[+-](?:\s*[+-])*|\*\*|\S")
_QUOTED = re.compile("`[^`]*`")
_POWERS = ("**", "^")
_POWER = re.compile("[1-9][0-9]?")
_MISSING = "an attribute was expected"
_NUMBER = "only the numbers 0 and 1 are allowed; write a multiple as I(2 * a)"
_TEXT = "text in quotes is not a name; write it in backticks or as Q('...')"
_STAGES = "stages in brackets are not supported; plan each stage separately"
_INSTEAD = {
    "|": "random effects are not supported; write the group as a term, such as '+ g' or '* g'",
    "%": "the only operator in percent signs is %in%",
    "=": "write comparisons inside I(...), such as I(a == 'x')",
    "<": "write comparisons inside I(...), such as I(a < 3)",
    ">": "write comparisons inside I(...), such as I(a > 3)",
    "!": "write comparisons inside I(...), such as I(a != 'x')",
    "$": "write only the attribute, without the name of the data",
    ",": "join terms with '+'",
    "[": _STAGES,
    "]": _STAGES,
}
"""Advice for each symbol that is no operator here: the notation to write instead."""


def read_formula(text: str, coding: Coding) -> Formula:
    """Read the attributes of a formula; see ``read_factors``."""
    return read_factors(text, coding).formula


def read_factors(text: str, coding: Coding) -> Written:
    """Read a formula over the attributes of a schema.

    Args:
        text: Such as ``grade ~ C(group) + birth * family``; ``.`` stands for all other attributes.

    Raises:
        InvalidFormulaError: It cannot be read, or a plan cannot give what it asks for. Names the
            position, counted from 1, the problem, and what to write instead.
        UnknownAttributeError: A function is of an attribute that the schema does not declare.
        TooLargeError: It is longer than ``LONGEST`` or has more than ``MOST_TERMS`` terms.
    """
    if len(text) > LONGEST:
        raise TooLargeError(what="The length of the formula", limit=LONGEST, advice=FEWER_TERMS)
    return _Reader(text, coding).written()


class _Reader:
    """Reads one formula; positions inside count from 0."""

    def __init__(self, text: str, coding: Coding) -> None:
        self._text, self._coding = text, coding
        # In backticks a backslash is part of the name; formulaic takes it for an escape.
        self._backslash = next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)
        self._response: str | None = None
        self._attributes: dict[str, Clique] = {}

    def written(self) -> Written:
        tokens = [part for token in self._tokens() for part in self._parts(token)]
        self._check_order(tokens)
        tilde = [_symbol(token) for token in tokens].index("~")
        predictors = tokens[tilde + 1 :]
        response = self._response_of(tokens[:tilde])
        tree = tokens_to_ast(list(_with_intercept(predictors)), DefaultOperatorResolver())
        # Without recursion: a chain of terms is a deep tree.
        nodes, below = [], [tree]
        while below:
            nodes.append(below.pop())
            if isinstance(nodes[-1], ASTNode):
                below.extend(
                    nodes[-1].args[:1] if nodes[-1].operator.symbol in _POWERS else nodes[-1].args
                )
        values: dict[int, Terms] = {}
        for node in reversed(nodes):
            values[id(node)] = (
                self._joined(node, [values.get(id(part), ()) for part in node.args])
                if isinstance(node, ASTNode)
                else self._terms_of(node)
            )
        formula = Written(response, values[id(tree)], self._attributes)
        if any(self._response in formula.attributes_of(term) for term in formula.terms):
            # the first operand that names the response
            using = (
                token
                for token in predictors
                if _symbol(token) == _OPERAND
                for term in self._terms_of(token)
                if any(self._response in self._attributes[factor] for factor in term)
            )
            raise self._wrong(next(using).source_start, "the response is also a predictor")
        return formula

    def _tokens(self) -> Iterator[Token]:
        """The tokens as formulaic cuts them."""
        text = _QUOTED.sub(self._quoted, self._text)
        end = 0
        try:
            for token in tokenize(text):
                yield token
                end = token.source_end + 1 + (text[token.source_start] in "`{%")
        except FormulaicError:
            problem = "this quote, backtick or parenthesis is not closed"
            raise self._wrong(self._after(end), problem) from None
        if self._after(end) < len(text):
            raise self._wrong(self._after(end), "there is nothing between these parentheses or quotes")

    def _quoted(self, name: re.Match[str]) -> str:
        if name[0] == "``":
            raise self._wrong(name.start(), "the name in backticks is empty")
        return name[0].replace("\\", self._backslash)

    def _after(self, place: int) -> int:
        """Return the place at which the next word begins."""
        return len(self._text) - len(self._text[place:].lstrip())

    def _parts(self, token: Token) -> Iterator[Token]:
        """The token; of operators side by side each one, several signs together as their product."""
        start, last = token.source_start, token.source_end
        if token.kind is not _OPERATOR or (self._text[start] == "%" and str(token) == "in"):
            yield token
            return
        for match in _SYMBOL.finditer(self._text, start, last + 1):
            symbol, place = match[0], match.start()
            if symbol[0] in "+-":
                symbol = "-" if symbol.count("-") % 2 else "+"
            if symbol not in _OPERATORS:
                problem = _INSTEAD.get(symbol, f"unexpected character '{symbol}'")
                raise self._wrong(place, problem)
            yield Token(symbol, kind=_OPERATOR, source=self._text, source_start=place)

    def _check_order(self, tokens: Sequence[Token]) -> None:
        """Refuse what is no sequence of operands and operators with one '~' outside parentheses."""
        depth, before, tildes, end = 0, "", 0, len(self._text)
        for token in tokens:
            symbol = _symbol(token)
            tildes += symbol == "~"
            depth += (symbol == "(") - (symbol == ")")
            problem = _INSTEAD.get(symbol) or _misplaced(symbol, before)
            if depth < 0:
                problem = "this ')' has no matching '('"
            elif symbol == "~" and (tildes > 1 or depth):
                problem = "only one '~' is allowed, outside parentheses"
            elif before in _POWERS and not _POWER.fullmatch(token.token):
                problem = "a power must be a whole number from 1 to 99"
            if problem:
                raise self._wrong(token.source_start, problem)
            before = symbol
        if not tildes:
            raise self._wrong(end, "'~' was expected; write the response, '~' and the predictors")
        if before not in _ENDS or depth:
            raise self._wrong(end, "')' was expected" if before in _ENDS else _MISSING)

    def _response_of(self, tokens: Sequence[Token]) -> str | None:
        if not tokens:
            return None
        terms = self._terms_of(tokens[0]) if len(tokens) == 1 and tokens[0] != "." else ()
        attributes = self._attributes[terms[0][0]] if len(terms) == 1 and terms[0] else ()
        if len(attributes) != 1:
            problem = "the response must be one attribute; plan each response separately"
            raise self._wrong(tokens[0].source_start, problem)
        self._response = attributes[0]
        return terms[0][0]

    def _joined(self, node: ASTNode[Any], parts: Sequence[Terms]) -> Terms:
        symbol = node.operator.symbol
        if len(parts) == 1:
            return parts[0] if symbol == "+" else ()
        left, right = parts
        if symbol == "+":
            return distinct(left, right)
        if symbol == "-":
            right_terms = set(map(frozenset, right))
            return tuple(term for term in left if frozenset(term) not in right_terms)
        if symbol in _POWERS:
            return power_of(left, int(node.args[1].token))
        if not (left and right):
            raise self._wrong(self._text.find(symbol), f"'{symbol}' needs a term on each side")
        return _PRODUCTS[symbol](left, right)

    def _terms_of(self, token: Token) -> Terms:
        if token.kind is Token.Kind.NAME:
            return (self._factor_of(token.token.replace(self._backslash, "\\")),)
        if token.kind is Token.Kind.PYTHON:
            braces = self._text[token.source_start] == "{"
            code = token.token.replace(self._backslash, "\\")
            code = f"I({code})" if braces else code
            try:
                self._attributes[code] = attributes_of_call(code, self._coding)
            except NotUsableError as error:
                raise self._wrong(token.source_start, error.problem) from None
            return ((code,),)
        match token.token:
            case "0":
                return ()
            case "1":
                return ((),)
            case ".":
                names = self._coding.domain.attributes
                return distinct(self._factor_of(name) for name in names if name != self._response)
        raise self._wrong(token.source_start, _TEXT if token.token[0] in "'\"" else _NUMBER)

    def _factor_of(self, name: str) -> Clique:
        """The term of an attribute alone; in backticks it is told from code, which never is."""
        factor = written_name(name)
        self._attributes[factor] = (name,)
        return (factor,)

    def _wrong(self, place: int, problem: str) -> InvalidFormulaError:
        return InvalidFormulaError(position=place + 1, problem=problem)


_OPERAND = "operand"
_ENDS = {_OPERAND, ")"}
"""Symbols that may come before an operator, or end a formula."""


def _with_intercept(tokens: Sequence[Token]) -> Iterator[Token]:
    """The predictors with the intercept that R adds; "+ 0" takes it away, as "- 1" does."""
    yield Token("1", kind=Token.Kind.VALUE)
    if not tokens or _symbol(tokens[0]) not in ("+", "-"):
        tokens = [Token("+", kind=_OPERATOR), *tokens]
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if following is not None and _is_zero(following) and _symbol(token) in ("+", "-"):
            yield Token("-" if _symbol(token) == "+" else "+", kind=_OPERATOR)
        else:
            yield Token("1", kind=Token.Kind.VALUE) if _is_zero(token) else token


def _is_zero(token: Token) -> bool:
    return token.kind is Token.Kind.VALUE and str(token) == "0"


def _symbol(token: Token) -> str:
    """An operator or a parenthesis; ``_OPERAND`` for all else."""
    return token.token if token.kind in (Token.Kind.OPERATOR, Token.Kind.CONTEXT) else _OPERAND


def _misplaced(symbol: str, before: str) -> str | None:
    """Say what is wrong with a symbol after another one; "" is the beginning; None if nothing is."""
    if symbol in (_OPERAND, "("):
        after_name = "; write '(' directly after the name of a function" * (
            symbol == "(" and before == _OPERAND
        )
        return f"an operator, such as '+', was expected{after_name}" if before in _ENDS else None
    is_sign = symbol in ("+", "-") and before in ("~", "(", "")
    if before in _ENDS or is_sign or (symbol == "~" and not before):
        return None
    return _MISSING


_PRODUCTS: dict[str, Callable[[Terms, Terms], Terms]] = {
    ":": lambda left, right: distinct(crossed(left, right)),
    "*": lambda left, right: distinct(left, right, crossed(left, right)),
    "/": nested,
    "in": lambda left, right: nested(right, left),
}
