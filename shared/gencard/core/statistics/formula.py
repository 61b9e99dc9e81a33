"""Formulas, and which marginals an analysis of one depends on."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, combinations, product
from keyword import iskeyword
from unicodedata import normalize

from gencard.core.domain import Clique, Domain
from gencard.core.errors import FEWER_TERMS, InvalidInputError, TooLargeError
from gencard.core.statistics.marginals import maximal

Terms = tuple[Clique, ...]
"""Different sets of attributes, each in the order in which it was written; the constant is empty."""

MOST_TERMS = 256

_CONSTANT: frozenset[str] = frozenset()
_WORD = re.compile(r"\w+")
"""Letters of a name for the parser of formulas; Python has others, such as a middle dot."""


@dataclass(frozen=True, slots=True)
class Formula:
    """Response and terms of a formula, without the constant.

    >>> str(Formula("grade", (("group",), ("birth", "age group"))))
    'grade ~ group + birth:`age group`'
    """

    response: str | None
    terms: Terms

    def __str__(self) -> str:
        """A formula that reads as the same one."""
        terms = " + ".join(":".join(map(written_name, term)) for term in self.terms) or "1"
        return f"~ {terms}" if self.response is None else f"{written_name(self.response)} ~ {terms}"

    @property
    def attributes(self) -> Clique:
        """All of them, the response first."""
        response = () if self.response is None else (self.response,)
        return tuple(dict.fromkeys((*response, *chain.from_iterable(self.terms))))


@dataclass(frozen=True, slots=True)
class Written:
    """A formula as it is written: its terms are products of factors, such as ``log(age)``.

    Args:
        terms: Sets of factors; the empty one is the intercept.
        attributes: For each factor, the attributes that it is a function of.
    """

    response: str | None
    terms: Terms
    attributes: Mapping[str, Clique]

    @property
    def formula(self) -> Formula:
        """The attributes alone, each term with an effect of its own in each of their cells."""
        terms = distinct(map(self.attributes_of, self.terms))
        response = None if self.response is None else self.attributes[self.response][0]
        return Formula(response, tuple(term for term in terms if term))

    def attributes_of(self, term: Clique) -> Clique:
        return tuple(dict.fromkeys(name for factor in term for name in self.attributes[factor]))


def crossed(left: Terms, right: Terms) -> Iterator[Clique]:
    """Each term of one side with each of the other, some perhaps twice."""
    for one, other in product(left, right):
        yield one + tuple(name for name in other if name not in one)


def distinct(*terms: Iterable[Clique]) -> Terms:
    """Return the first of all terms with the same attributes.

    Raises:
        TooLargeError: There are more than ``MOST_TERMS``, the constant aside; the rest is not read.
    """
    first: dict[frozenset[str], Clique] = {}
    for term in chain(*terms):
        first.setdefault(frozenset(term), term)
        if len(first) - (_CONSTANT in first) > MOST_TERMS:
            what = "The number of terms of the formula"
            raise TooLargeError(what=what, limit=MOST_TERMS, advice=FEWER_TERMS)
    return tuple(first.values())


def power_of(terms: Terms, power: int) -> Terms:
    """Interactions of at most so many terms; more than there are add nothing."""
    product = terms
    for _ in range(min(power, len(terms)) - 1):
        product = distinct(product, crossed(product, terms))
    return product


def nested(outer: Terms, inner: Terms) -> Terms:
    """``outer / inner``: the outer terms, and each inner one within all of them together."""
    return distinct(outer, crossed((_union(*outer),), inner))


def written_name(name: str) -> str:
    """A name as it stands in a formula: in backticks where Python does not read it as this name."""
    parts = name.split(".")
    is_code = all(_WORD.fullmatch(one) and one.isidentifier() and not iskeyword(one) for one in parts)
    return name if is_code and normalize("NFKC", name) == name else f"`{name}`"


class Analysis(StrEnum):
    """The kinds of analysis of a formula."""

    LOGISTIC = "logistic"
    MULTINOMIAL = "multinomial"
    ORDINAL = "ordinal"
    POISSON = "poisson"
    LINEAR = "linear"
    LOGLINEAR = "loglinear"
    CROSSTAB = "crosstab"
    MEANS = "means"
    QUANTILES = "quantiles"
    TTEST = "ttest"
    ANOVA = "anova"
    CORRELATION = "correlation"
    COMPONENTS = "components"
    CORRESPONDENCE = "correspondence"
    POLYCHORIC = "polychoric"
    NAIVE_BAYES = "naive-bayes"
    CHOW_LIU = "chow-liu"
    DISCRIMINANT = "discriminant"
    KAPLAN_MEIER = "kaplan-meier"
    COX = "cox"


_SUMMED_IN_PAIRS = {Analysis.LINEAR, Analysis.CORRELATION, Analysis.COMPONENTS}

SUMMED_TERMS = {*_SUMMED_IN_PAIRS, Analysis.DISCRIMINANT}
"""Kinds that sum numbers of terms, not only of the response."""

SUMMED_KINDS = {*(Analysis.MEANS, Analysis.TTEST, Analysis.ANOVA, Analysis.POISSON), *_SUMMED_IN_PAIRS}
"""Kinds whose response is summed."""

_JOINT = {Analysis.LOGISTIC, Analysis.MULTINOMIAL, Analysis.POISSON}
"""Need the joint marginal of the features."""

_WHOLE = {Analysis.ORDINAL, Analysis.KAPLAN_MEIER, Analysis.COX}
"""Need the joint marginal of all attributes."""

_PAIRS_OF_TERMS = {Analysis.LINEAR, Analysis.ANOVA}

_PAIRS_OF_ATTRIBUTES = {
    *(Analysis.CORRELATION, Analysis.COMPONENTS, Analysis.CORRESPONDENCE),
    *(Analysis.POLYCHORIC, Analysis.CHOW_LIU, Analysis.DISCRIMINANT),
}

NO_RESPONSE = _PAIRS_OF_ATTRIBUTES - {Analysis.DISCRIMINANT} | {Analysis.CROSSTAB, Analysis.LOGLINEAR}
"""Kinds whose formula may lack a response."""


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

    * **Ordinal regression** (proportional odds). The joint marginal of the response and all features:
      the likelihood of a cumulative model is no function of fewer.

    * **Survival** (Kaplan-Meier, Cox): the joint marginal of time, event and features.

    * **Poisson regression.** As logistic regression.

    * **Log-linear model.** The marginal of each term, and of the response with each term.

    * **Means, quantiles, t test, naive Bayes.** The marginals of the response with each term.

    * **Analysis of variance.** As linear regression.

    * **Correlations, principal components, correspondence analysis, Chow-Liu tree, linear
      discriminant.** The marginals of each two attributes.

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
    if kind not in NO_RESPONSE:
        if formula.response is None:
            problem = "a regression needs a response before the '~'"
            raise InvalidInputError(field="formula", problem=problem)
        if domain.size(formula.response) < 2:
            raise InvalidInputError(field="formula", problem="the response has a single level")
    cliques = [clique for clique in _needed(formula, kind) if clique]
    if not cliques:
        raise InvalidInputError(field="formula", problem="names no attribute")
    return maximal(domain.canonical(clique) for clique in cliques)


def _needed(formula: Formula, kind: Analysis) -> Iterator[Clique]:
    """Every set of attributes whose marginal the analysis uses."""
    response = () if formula.response is None else (formula.response,)
    yield response
    for term in formula.terms if kind not in _PAIRS_OF_ATTRIBUTES else ():
        yield response + term
    names = _union(response, *formula.terms)
    if kind in _PAIRS_OF_TERMS:
        for one, other in combinations(maximal(formula.terms), 2):
            yield _union(one, other)
    elif kind in _PAIRS_OF_ATTRIBUTES:
        yield from ((name,) for name in names)
        yield from combinations(names, 2)
    elif kind in _JOINT:
        yield _union(*formula.terms)
    elif kind in _WHOLE:
        yield names


def _union(*terms: Clique) -> Clique:
    return tuple(dict.fromkeys(name for term in terms for name in term))
