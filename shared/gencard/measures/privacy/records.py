r"""Records of mixed attributes, numbers and levels, as distances read them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import DomainMismatchError, InvalidDatasetError

Column = NDArray[np.float64] | NDArray[np.int64]
"""Numbers, or codes of levels."""

Kinds = tuple[tuple[str, bool], ...]
"""Each attribute's name, and whether it holds numbers."""

_LARGEST = 2.0**1022
"""Two numbers up to here have a finite difference."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Attributes and a column for each, of shape ``(n,)``.

    A column of floats holds numbers, NaN being missing. A column of integers holds codes of levels,
    -1 being missing; a code means the same level in all records that are compared.

    Raises:
        InvalidDatasetError: No attribute, repeated attributes, columns of different lengths, neither
            floats nor integers, codes below -1, or numbers that are infinite or above 2**1022.
    """

    attributes: tuple[str, ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        problem = _problem(self.attributes, self.columns)
        if problem:
            raise InvalidDatasetError(problem=problem)
        columns = [_frozen(column) for column in self.columns]
        object.__setattr__(self, "columns", tuple(columns))

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def kinds(self) -> Kinds:
        return tuple(
            (name, column.dtype.kind == "f")
            for name, column in zip(self.attributes, self.columns, strict=True)
        )

    def column(self, attribute: str) -> Column:
        """The values of one of the attributes."""
        return self.columns[self.attributes.index(attribute)]

    def take(self, rows: NDArray[np.intp]) -> "Records":
        """The records at the given positions, in that order."""
        return Records(self.attributes, tuple(column[rows] for column in self.columns))

    def project(self, clique: Clique) -> "Records":
        """The records' values of some of their attributes, in the clique's order."""
        return Records(clique, tuple(map(self.column, clique)))


def records_of(dataset: Dataset, coding: Coding) -> Records:
    """Coded records: intervals become their midpoints, ordered whole numbers themselves."""
    if dataset.domain != coding.domain:
        raise DomainMismatchError(problem="the records have another schema")
    columns = [
        _levels_of(attribute.coding)[dataset.codes[:, axis]]
        for axis, attribute in enumerate(coding.attributes)
    ]
    return Records(dataset.domain.attributes, tuple(columns))


def present(column: Column) -> NDArray[np.bool_]:
    """Mark the values that are not missing."""
    return ~np.isnan(column) if column.dtype.kind == "f" else column >= 0


def check_same_kinds(one: Kinds, other: Kinds) -> None:
    """Refuse to compare what differs in attributes, their order or what they hold."""
    if [name for name, _ in one] != [name for name, _ in other]:
        raise DomainMismatchError(problem="the attributes differ")
    if one != other:
        raise DomainMismatchError(problem="an attribute holds numbers here and levels there")


def _levels_of(coding: Labels | Edges) -> Column:
    """Return the value that each code stands for."""
    if isinstance(coding, Edges):
        return np.append(coding.midpoints, [np.nan] * coding.missing)
    if coding.integer and coding.ordered:
        return np.array([*map(float, coding.labels), *[np.nan] * coding.missing])
    return np.append(np.arange(len(coding.labels)), [-1] * coding.missing).astype(np.int64)


def _problem(attributes: tuple[str, ...], columns: tuple[Column, ...]) -> str | None:
    if not attributes or len(set(attributes)) != len(attributes):
        return "attributes are missing or repeated"
    arrays = [np.asarray(column) for column in columns]
    if len(arrays) != len(attributes) or {array.shape for array in arrays} != {(len(arrays[0]),)}:
        return "attributes differ in length or are missing"
    if not all(array.dtype.kind in "iuf" for array in arrays):
        return "a column holds neither floats nor integers"
    if not all(np.all((array >= -1) | (array.dtype.kind == "f")) for array in arrays):
        return "a code is below -1"
    if any(np.any(np.abs(array) > _LARGEST) for array in arrays if array.dtype.kind == "f"):
        return "a number is infinite or above 2**1022"
    return None


def _frozen(column: Column) -> Column:
    """Read-only, 64 bits a value: a copy, unless it is such a column of other records."""
    array = np.asarray(column)
    if not array.flags.writeable and array.base is None and array.dtype in (np.float64, np.int64):
        return column
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    frozen: Column = np.array(column, dtype=kind)
    frozen.flags.writeable = False
    return frozen


_MOST_NUMBERS = 2**62
"""Numbers of combinations below fit into 64 bits together with one more attribute."""


def combination_numbers(
    rows: int, columns: Iterable[tuple[NDArray[np.integer], int]]
) -> NDArray[np.int64]:
    """The number of each record's combination, counted from 0 without holes, shape ``(rows,)``.

    Args:
        columns: Codes of one attribute, shape ``(rows,)``, and how many codes there can be.
    """
    numbers = np.zeros(rows, dtype=np.int64)
    levels = 1
    for codes, size in columns:
        if levels * size > _MOST_NUMBERS:
            numbers, levels = _without_gaps(numbers, levels)
        numbers, levels = numbers * size + codes, levels * size
    return _without_gaps(numbers, levels)[0]


def _without_gaps(numbers: NDArray[np.int64], levels: int) -> tuple[NDArray[np.int64], int]:
    """The same numbers without holes between them, and how many there are.

    A table of all levels is many times as fast as to sort, as long as it is not much longer.
    """
    if levels > 8 * len(numbers):
        values, ranks = np.unique(numbers, return_inverse=True)
        return ranks, max(len(values), 1)
    is_used = np.zeros(levels, dtype=bool)
    is_used[numbers] = True
    places = np.cumsum(is_used) - 1
    return places[numbers], int(places[-1]) + 1
