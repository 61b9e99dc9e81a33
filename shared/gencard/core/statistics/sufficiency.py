r"""Which marginals an analysis depends on, and no more.

All attributes are categorical, and each term :math:`T` of a formula has its own effect in each cell of
its attributes. "Missing" is a level like any other: leaving records out is another analysis.

* **Logistic and multinomial regression.** The log likelihood of :math:`\beta` is

  .. math:: \sum_T \sum_{y, t} n(y, t)\, \beta_T(y, t) -
            \sum_x n(x) \log \sum_y \exp \sum_T \beta_T(y, x_T)

  The first part sees the marginals of the response with each term [1]_, the second the joint marginal
  of all features. With both, the model is the log-linear model that holds them [2]_. Estimates and
  standard errors follow, and deviances of single records and between nested models; so they do for any
  grouping of the response's levels. The deviance from the table of all attributes needs that table.

* **Linear regression** on a numeric response, with any value for each level: the normal equations
  :math:`X'X \beta = X'y` and the residual variance see the marginals of each two terms together, and
  of the response with each term. Standard errors that are robust against unequal variances need more.

* **Cross-tabulation.** The marginals of the response with each term; of each term without a response.

No set of marginals that lacks one of these, even with every smaller marginal inside it, determines the
analysis for all records, as long as every attribute has two levels or more.

References:
    .. [1] P. McCullagh, J. A. Nelder, *Generalized Linear Models*, 2nd edition, 1989, section 2.2.4.
    .. [2] W. Jing, M. Papathomas, "On the correspondence of deviances and maximum-likelihood and
       interval estimates from log-linear to logistic regression modelling", Royal Society Open
       Science 7, 191483, 2020.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import combinations

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.closure import maximal
from gencard.core.statistics.formula import Formula


class Analysis(StrEnum):
    """What is to be done with a formula."""

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
    """The fewest and smallest marginals that determine an analysis, whatever the records are.

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
    """
    if kind is not Analysis.CROSSTAB:
        _check_response(formula, domain)
    found = [clique for clique in _needed(formula, kind) if clique]
    if not found:
        raise InvalidInputError(field="formula", problem="names no attribute")
    return maximal(domain.canonical(clique) for clique in found)


def _needed(formula: Formula, kind: Analysis) -> Iterator[Clique]:
    """Every set of attributes whose marginal is used, by its formula above."""
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
