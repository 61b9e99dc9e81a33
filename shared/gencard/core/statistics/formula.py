"""Formulas, and which marginals an analysis of one depends on."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, combinations, product

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.statistics.closure import maximal

Terms = tuple[Clique, ...]
"""Different sets of attributes, each in the order in which it was written; the constant is empty."""

MOST_TERMS = 256

_WORD = re.compile(r"[^\W\d][\w.]*")


@dataclass(frozen=True, slots=True)
class Formula:
    """What is explained, and the terms that explain it, without the constant.

    >>> str(Formula("grade", (("group",), ("birth", "age group"))))
    'grade ~ group + birth:`age group`'
    """

    response: str | None
    terms: Terms

    def __str__(self) -> str:
        """A formula that reads as the same one."""
        terms = " + ".join(":".join(map(_written, term)) for term in self.terms) or "1"
        return f"~ {terms}" if self.response is None else f"{_written(self.response)} ~ {terms}"


def crossed(left: Terms, right: Terms) -> Iterator[Clique]:
    """Each term of one side with each of the other, some perhaps twice."""
    for one, other in product(left, right):
        yield one + tuple(name for name in other if name not in one)


def distinct(*terms: Iterable[Clique]) -> Terms:
    """Of terms with the same attributes, the first.

    Raises:
        TooLargeError: There are more than ``MOST_TERMS``; the rest is then not looked at.
    """
    first: dict[frozenset[str], Clique] = {}
    for term in chain(*terms):
        first.setdefault(frozenset(term), term)
        if len(first) > MOST_TERMS:
            raise TooLargeError(what="The number of terms of the formula", limit=MOST_TERMS)
    return tuple(first.values())


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
    >>> formula = Formula("grade", (("group",), ("birth",), ("family",), ("birth", "family")))
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
