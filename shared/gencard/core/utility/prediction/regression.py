"""Regressions that analysts ask for: what explains what, and the matrix that says so of records."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Coding, level_values
from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.statistics.formula import Formula
from gencard.core.utility.prediction.prediction import distinct
from gencard.core.utility.propensity.predictor_matrix import Matrix, numbers_of, products

MOST_PARAMETERS = 400
MOST_ENTRIES = 40_000_000
"""Of the matrix, different records by parameters: 320 MB."""

CONSTANT = "(constant)"


class Kind(Enum):
    """How the response is explained."""

    LEAST_SQUARES = "least squares"
    LOGISTIC = "logistic regression"


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The m different records that lack nothing, as a regression sees them.

    Args:
        matrix: A column for each parameter, shape ``(m, p)``.
        response: Shape ``(m,)``; 1 and 0 for the second and the first level of a logistic one.
        counts: Records of each kind, shape ``(m,)``.
    """

    matrix: Matrix
    response: Matrix
    counts: Matrix


@dataclass(frozen=True, slots=True)
class Regression:
    """A response, and what explains it.

    Numbers (see ``coding.level_values``) are as they are. Other attributes have an indicator of each
    level but the first, as R's treatment contrasts; missing is no level. An interaction has their
    products.

    Raises:
        InvalidInputError: There is no response, it is no number or has not two levels, or an interaction
            lacks one of its parts.
        TooLargeError: More than ``MOST_PARAMETERS``.
        UnknownAttributeError: An attribute is not in the schema.
    """

    formula: Formula
    coding: Coding
    kind: Kind

    def __post_init__(self) -> None:
        if self.formula.response is None:
            raise InvalidInputError(field="formula", problem="names no response")
        for name in self.attributes:
            self.coding.attribute(name)
        self._check_response()
        present = {frozenset(term) for term in self.formula.terms}
        for term in self.formula.terms:
            if any(frozenset(part) not in present for part in _parts(term)):
                raise InvalidInputError(field="formula", problem="an interaction lacks one of its parts")
        width = 1 + sum(prod(map(self._width, term)) for term in self.formula.terms)
        if width > MOST_PARAMETERS:
            raise TooLargeError(what="The number of parameters", limit=MOST_PARAMETERS)

    @classmethod
    def of(cls, formula: str, coding: Coding, kind: Kind = Kind.LEAST_SQUARES) -> "Regression":
        """That of a formula such as ``income ~ sex * age + work``; raises InvalidFormulaError too."""
        return cls(Formula.of(formula), coding, kind)

    @property
    def response(self) -> str:
        return self.formula.response or ""

    @property
    def attributes(self) -> Clique:
        """The response and all that explain it."""
        explaining = (name for term in self.formula.terms for name in term)
        return tuple(dict.fromkeys((self.response, *explaining)))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters: the constant, numbers, ``attribute=level``, and these joined by ``:``."""
        terms = (product(*map(self._column_names, term)) for term in self.formula.terms)
        return (CONSTANT, *(":".join(parts) for term in terms for parts in term))

    def design(self, records: Dataset) -> Design:
        """What the regression sees of records; those that lack an attribute of it are left out.

        Raises:
            DomainMismatchError: An attribute has other levels there than in the schema.
            InvalidInputError: Values that are no numbers to count with.
            TooLargeError: More than ``MOST_ENTRIES``.
            UnknownAttributeError: An attribute is not there.
        """
        declared = self.coding.domain.project(self.attributes)
        check_same_domain(declared, records.domain.project(self.attributes))
        cells, places = distinct(records, self.attributes)
        counts = np.bincount(places, minlength=len(cells)).astype(np.float64)
        whole = np.all([self._is_present(cells, name) for name in self.attributes], axis=0)
        cells, counts = cells.take(np.flatnonzero(whole)), counts[whole]
        if len(cells) * len(self.names) > MOST_ENTRIES:
            raise TooLargeError(what="The regression", limit=f"{MOST_ENTRIES} entries")
        return Design(np.hstack(list(self._blocks(cells))), self._response_of(cells), counts)

    def _check_response(self) -> None:
        if self.kind is Kind.LOGISTIC and len(self._levels(self.response)) != 2:
            raise InvalidInputError(field=self.response, problem="has not two levels to tell apart")
        if self.kind is Kind.LEAST_SQUARES and not self._values(self.response):
            raise InvalidInputError(field=self.response, problem="is no number to be explained")

    def _levels(self, name: str) -> tuple[str, ...]:
        """Names of the codes, missing not among them."""
        coding = self.coding.attribute(name).coding
        return coding.level_names[: coding.size - coding.missing]

    def _values(self, name: str) -> tuple[float, ...]:
        """The number of each code; empty where the attribute is no number."""
        return level_values(Coding((self.coding.attribute(name),))).get(name, ())

    def _width(self, name: str) -> int:
        return 1 if self._values(name) else len(self._levels(name)) - 1

    def _column_names(self, name: str) -> tuple[str, ...]:
        if self._values(name):
            return (name,)
        return tuple(f"{name}={level}" for level in self._levels(name)[1:])

    def _is_present(self, cells: Dataset, name: str) -> NDArray[np.bool_]:
        return np.asarray(cells.column(name) < len(self._levels(name)))

    def _blocks(self, cells: Dataset) -> Iterator[Matrix]:
        """The constant, then the columns of each term."""
        yield np.ones((len(cells), 1))
        for term in self.formula.terms:
            yield products([self._columns(cells, name) for name in term])

    def _columns(self, cells: Dataset, name: str) -> Matrix:
        if self._values(name):
            return self._numbers(cells, name)[:, None]
        return np.asarray(np.eye(len(self._levels(name)))[cells.column(name)][:, 1:])

    def _numbers(self, cells: Dataset, name: str) -> Matrix:
        values = self._values(name)
        return np.asarray(numbers_of(name, len(values), {name: values})[cells.column(name)])

    def _response_of(self, cells: Dataset) -> Matrix:
        if self.kind is Kind.LEAST_SQUARES:
            return self._numbers(cells, self.response)
        return cells.column(self.response).astype(np.float64)


def _parts(term: Clique) -> Iterator[Clique]:
    """Every set that is one attribute smaller, but the empty one."""
    return combinations(term, len(term) - 1) if len(term) > 1 else iter(())
