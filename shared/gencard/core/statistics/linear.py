"""Statistics that are sums of declared functions over the records: moments, sums by group."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.types import IntArray

LARGEST_VALUE = 2**31
"""Bound on a function's values, and on its denominator: sums over 2**31 records fit 64 bits."""

MOST_FUNCTIONS = 1_000
"""Functions of one statistic."""


@dataclass(frozen=True, slots=True)
class Function:
    """A number for each cell of a clique, on a grid of rational numbers: whole numbers by one other.

    Args:
        name: What it is called, for people.
        values: Numerators, the clique's last attribute running fastest.
        denominator: What all of them are divided by.

    Raises:
        InvalidNumberError: A number is not whole or too large, or all values are zero.
    """

    name: str
    values: tuple[int, ...]
    denominator: int = 1

    def __post_init__(self) -> None:
        if not all(type(value) is int for value in (*self.values, self.denominator)):
            raise InvalidNumberError(field=self.name, expected="whole numbers with a whole denominator")
        if not 1 <= self.denominator <= LARGEST_VALUE or not 1 <= self.largest <= LARGEST_VALUE:
            raise InvalidNumberError(field=self.name, expected=f"in size from 1 to {LARGEST_VALUE}")

    @property
    def largest(self) -> int:
        """The largest numerator, without its sign."""
        return max(map(abs, self.values), default=0)


@dataclass(frozen=True, slots=True)
class LinearStatistic:
    """The sums over all records of functions of their cell in a clique.

    The first function is the constant 1, whose sum is the number of records: sums become means by it,
    and noise falls on it as on every other sum.

    Raises:
        InvalidInputError: There is nothing but the constant, it is not first, there are too many
            functions, or they speak of different numbers of cells.
    """

    clique: Clique
    functions: tuple[Function, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.functions) <= MOST_FUNCTIONS:
            self._refuse(f"has one function besides the constant, and at most {MOST_FUNCTIONS}")
        if len({len(function.values) for function in self.functions}) > 1:
            self._refuse("has functions of different numbers of cells")
        constant = self.functions[0]
        if constant.denominator != 1 or set(constant.values) != {1}:
            self._refuse("begins with the constant 1")

    def _refuse(self, rule: str) -> None:
        where = ", ".join(self.clique)
        raise InvalidInputError(field="statistic", problem=f"on ({where}) is not one that {rule}")

    def check_belongs(self, domain: Domain) -> None:
        """Refuse a domain in which the clique has other cells.

        Raises:
            InvalidInputError: The functions have not one value for each cell of the clique.
            UnknownAttributeError: An attribute is not in the domain.
        """
        domain.canonical(self.clique)  # refuses unknown and repeated attributes
        if domain.project(self.clique).cells != len(self.functions[0].values):
            self._refuse("has one value for each cell")

    @property
    def numerators(self) -> IntArray:
        """Shape ``(functions, cells)``."""
        return np.array([function.values for function in self.functions], dtype=np.int64)

    @property
    def denominators(self) -> IntArray:
        """Shape ``(functions,)``."""
        return np.array([function.denominator for function in self.functions], dtype=np.int64)

    @property
    def scaled(self) -> NDArray[np.float64]:
        """The functions, each divided by its largest value: shape ``(functions, cells)``, in [-1, 1]."""
        largest = np.array([[float(function.largest)] for function in self.functions])
        scaled: NDArray[np.float64] = self.numerators / largest
        return scaled

    def sums(self, counts: NDArray[np.int64]) -> IntArray:
        """The sum of each function's numerators over the records that a marginal counts; exact."""
        sums: IntArray = self.numerators @ np.asarray(counts, dtype=np.int64).ravel()
        return sums


Statistic = Clique | LinearStatistic
"""What a card may name: a marginal, by its clique alone, or a linear statistic."""


def divided(statistics: Sequence[Statistic]) -> tuple[list[Clique], list[LinearStatistic]]:
    """Marginals and linear statistics.

    Raises:
        InvalidInputError: A marginal stands after a linear statistic: that is not a card's order.
    """
    linear = [statistic for statistic in statistics if isinstance(statistic, LinearStatistic)]
    cliques = [statistic for statistic in statistics if not isinstance(statistic, LinearStatistic)]
    if list(statistics) != [*cliques, *linear]:
        raise InvalidInputError(
            field="statistics", problem="must list marginals before linear statistics"
        )
    return cliques, linear
