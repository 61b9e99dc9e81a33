"""Formulas, and which marginals an analysis of one depends on.

    formula     = [name] "~" sum
    sum         = product {"+" product}            these terms and those
    product     = interaction {"*" interaction}    a * b means a + b + a:b
    interaction = atom {":" atom}                  each term of one side with each of the other
    atom        = name | "1" | "(" sum ")"         1 is the constant, which every model has

A name is a word (letters, digits, "_" and ".", not starting with a digit), or anything in `backticks`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidFormulaError, InvalidInputError, TooLargeError
from gencard.core.statistics.closure import maximal

Terms = tuple[Clique, ...]
"""Different sets of attributes, each in the order in which it was written; the constant is empty."""

LONGEST = 4_000
"""Characters of a formula."""

MOST_TERMS = 256
DEEPEST = 40
"""Parentheses inside parentheses."""

_WORD = re.compile(r"[^\W\d][\w.]*")
_TOKEN = re.compile(r"(?P<word>[^\W\d][\w.]*)|`(?P<quoted>[^`]+)`|(?P<mark>[~+*:()]|1(?![\w.]))")
_END = ""


@dataclass(frozen=True, slots=True)
class Formula:
    """What is explained, and the terms that explain it, without the constant.

    >>> str(Formula.of("grade ~ group + birth * family"))
    'grade ~ group + birth + family + birth:family'
    """

    response: str | None
    terms: Terms

    @classmethod
    def of(cls, text: str) -> "Formula":
        """Read a formula.

        Raises:
            InvalidFormulaError: It is none; the position, counted from 1, and the problem are named.
            TooLargeError: It is longer than ``LONGEST`` or has more than ``MOST_TERMS`` terms.
        """
        if len(text) > LONGEST:
            raise TooLargeError(what="The length of the formula", limit=LONGEST)
        return _Reader(text).formula()

    def __str__(self) -> str:
        """A formula that reads as the same one."""
        terms = " + ".join(":".join(map(_written, term)) for term in self.terms) or "1"
        return f"~ {terms}" if self.response is None else f"{_written(self.response)} ~ {terms}"


@dataclass(frozen=True, slots=True)
class _Token:
    """A name where ``is_name``, else a mark; ``position`` counts from 1."""

    position: int
    text: str
    is_name: bool = False


class _Reader:
    """Reads by recursive descent, one method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens)
        self._depth = 0
        self._response: str | None = None

    def formula(self) -> Formula:
        if self._next.is_name:
            self._response = self._take().text
        self._expect("~")
        terms = self._sum()
        if self._next.text != _END:
            raise self._wrong("'+', '*', ':' or the end was expected")
        return Formula(self._response, tuple(term for term in terms if term))

    def _sum(self) -> Terms:
        return self._chain("+", self._product, lambda left, right: left + right)

    def _product(self) -> Terms:
        return self._chain("*", self._interaction, lambda a, b: a + b + _crossed(a, b))

    def _interaction(self) -> Terms:
        return self._chain(":", self._atom, _crossed)

    def _chain(
        self, mark: str, part: Callable[[], Terms], joined: Callable[[Terms, Terms], Terms]
    ) -> Terms:
        terms = part()
        while self._is(mark):
            self._take()
            terms = _distinct(joined(terms, part()))
        return terms

    def _atom(self) -> Terms:
        if self._next.is_name:
            if self._next.text == self._response:
                raise self._wrong("the response is also a predictor")
            return ((self._take().text,),)
        if self._is("1"):
            self._take()
            return ((),)
        return self._group()

    def _group(self) -> Terms:
        if not self._is("("):
            raise self._wrong("an attribute was expected")
        if self._depth == DEEPEST:
            raise self._wrong(f"more than {DEEPEST} nested parentheses")
        self._take()
        self._depth += 1
        terms = self._sum()
        self._expect(")")
        self._depth -= 1
        return terms

    def _is(self, mark: str) -> bool:
        return not self._next.is_name and self._next.text == mark

    def _expect(self, mark: str) -> None:
        if not self._is(mark):
            raise self._wrong(f"'{mark}' was expected")
        self._take()

    def _take(self) -> _Token:
        taken, self._next = self._next, next(self._tokens)
        return taken

    def _wrong(self, problem: str) -> InvalidFormulaError:
        return InvalidFormulaError(position=self._next.position, problem=problem)


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens, and then the end."""
    place = 0
    while rest := text[place:].lstrip():
        place = len(text) - len(rest)
        match = _TOKEN.match(text, place)
        if match is None:
            raise InvalidFormulaError(
                position=place + 1, problem=f"unexpected character '{text[place]}'"
            )
        name = match["word"] or match["quoted"]
        yield _Token(place + 1, name or match["mark"], is_name=name is not None)
        place = match.end()
    yield _Token(len(text) + 1, _END)


def _crossed(left: Terms, right: Terms) -> Terms:
    """Each term of one side with each of the other; raises TooLargeError before any is made."""
    _check_count(len(left) * len(right))
    return tuple(
        one + tuple(name for name in other if name not in one) for one in left for other in right
    )


def _distinct(terms: Iterable[Clique]) -> Terms:
    """Of terms with the same attributes, the first; raises TooLargeError."""
    first: dict[frozenset[str], Clique] = {}
    for term in terms:
        first.setdefault(frozenset(term), term)
    _check_count(len(first))
    return tuple(first.values())


def _check_count(terms: int) -> None:
    if terms > MOST_TERMS:
        raise TooLargeError(what="The number of terms of the formula", limit=MOST_TERMS)


def _written(name: str) -> str:
    return name if _WORD.fullmatch(name) else f"`{name}`"


class Analysis(StrEnum):
    """The kinds of analysis of a formula."""

    LOGISTIC = "logistic"
    MULTINOMIAL = "multinomial"
    LINEAR = "linear"
    CROSSTAB = "crosstab"


def analysis_of(text: str) -> Analysis:
    """Raises InvalidInputError where there is no such analysis."""
    if text not in set(Analysis):
        raise InvalidInputError(field="kind", problem=f"must be one of {', '.join(Analysis)}")
    return Analysis(text)


def sufficient_cliques(formula: Formula, kind: Analysis, domain: Domain) -> tuple[Clique, ...]:
    r"""The fewest and smallest marginals that determine an analysis, whatever the records are.

    All attributes are categorical, and each term :math:`T` of a formula has its own effect in each cell
    of its attributes. "Missing" is a level like any other: dropping missing values changes the analysis.

    * **Logistic and multinomial regression.** The log likelihood of :math:`\beta` is

      .. math:: \sum_T \sum_{y, t} n(y, t)\, \beta_T(y, t) -
                \sum_x n(x) \log \sum_y \exp \sum_T \beta_T(y, x_T)

      The first part depends on the marginals of the response with each term [1]_, the second on the
      joint marginal of all features. With both, the model is the log-linear model with these margins
      [2]_. Estimates, standard errors, deviances of single records and between nested models follow,
      for any grouping of the response's levels. The deviance from the full table needs that table.

    * **Linear regression** on a numeric response, with any value for each level: the normal equations
      :math:`X'X \beta = X'y` and the residual variance depend on the marginals of each two terms
      together, and of the response with each term. Standard errors that are robust against unequal
      variances need more.

    * **Cross-tabulation.** The marginals of the response with each term; of each term without one.

    No set of marginals that lacks one of these, even with every smaller marginal inside it, determines
    the analysis for all records, as long as every attribute has two levels or more.

    >>> domain = Domain.of({"grade": 4, "group": 5, "birth": 2, "family": 6})
    >>> formula = Formula.of("grade ~ group + birth * family")
    >>> sufficient_cliques(formula, Analysis.CROSSTAB, domain)
    (('grade', 'group'), ('grade', 'birth', 'family'))
    >>> sufficient_cliques(formula, Analysis.LOGISTIC, domain)[-1]
    ('group', 'birth', 'family')

    Returns:
        Cliques in the domain's order, none inside another one.

    Raises:
        InvalidInputError: A regression without a response, or with one that has a single level; a
            table of nothing.
        UnknownAttributeError: An attribute is not in the domain.

    References:
        .. [1] P. McCullagh, J. A. Nelder, *Generalized Linear Models*, 2nd edition, 1989, section 2.2.4.
        .. [2] W. Jing, M. Papathomas, "On the correspondence of deviances and maximum-likelihood and
           interval estimates from log-linear to logistic regression modelling", Royal Society Open
           Science 7, 191483, 2020.
    """
    if kind is not Analysis.CROSSTAB:
        _check_response(formula, domain)
    needed = [clique for clique in _needed(formula, kind) if clique]
    if not needed:
        raise InvalidInputError(field="formula", problem="names no attribute")
    return maximal(domain.canonical(clique) for clique in needed)


def _needed(formula: Formula, kind: Analysis) -> Iterator[Clique]:
    """Every set of attributes whose marginal the analysis uses."""
    response = () if formula.response is None else (formula.response,)
    yield response
    for term in formula.terms:
        yield response + term
    if kind is Analysis.LINEAR:
        for one, other in combinations(maximal(formula.terms), 2):
            yield _union(one, other)
    elif kind is not Analysis.CROSSTAB:
        yield _union(*formula.terms)


def _union(*terms: Clique) -> Clique:
    return tuple(dict.fromkeys(name for term in terms for name in term))


def _check_response(formula: Formula, domain: Domain) -> None:
    if formula.response is None:
        raise InvalidInputError(field="formula", problem="a regression needs a response before the '~'")
    if domain.size(formula.response) < 2:
        raise InvalidInputError(field="formula", problem="the response has a single level")
