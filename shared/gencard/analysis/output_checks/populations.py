"""Populations: which records an output is about, by a test of declared levels that anybody can read.

A population is public: it says which cells of a few attributes are in it, and never which records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.privacy import Transform
from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError
from gencard.core.types import IntArray

Kept = NDArray[np.bool_]
"""Membership of records in a population, one entry for each."""

_MOST_CELLS = 2**20
"""Cells of a marginal that are numbered by their place in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Membership of cells of some attributes.

    Args:
        attributes: In the order of the axes.
        cells: True where a record of this cell is in.
    """

    attributes: Clique
    cells: NDArray[np.bool_]

    def kept(self, dataset: Dataset) -> Kept:
        """Return the records that pass.

        Raises:
            UnknownAttributeError: The dataset lacks an attribute.
            DomainMismatchError: An attribute has another number of levels.
        """
        if dataset.domain.project(self.attributes).sizes != self.cells.shape:
            raise DomainMismatchError(problem="a test of a population has other levels")
        if not self.attributes:
            return np.full(len(dataset), bool(self.cells))
        codes = tuple(dataset.column(name) for name in self.attributes)
        mask: Kept = self.cells[codes]
        return mask


EVERYBODY = Condition((), np.array(True))  # a table without axes


@dataclass(frozen=True, slots=True, eq=False)
class ToldOutput:
    """Output that was released of some records: tables of counts, or numbers that depend on these alone.

    Args:
        tests: A record is in the population where it passes all of them: what the analyst asked for,
            and that no used value is missing.
        cliques: The marginals of the population that the output rests on, so that it tells no more.
    """

    tests: tuple[Condition, ...]
    cliques: tuple[Clique, ...]

    @property
    def attributes(self) -> frozenset[str]:
        """All that says who is in."""
        return frozenset(name for test in self.tests for name in test.attributes)

    def kept(self, dataset: Dataset) -> Kept:
        """Return the records that the output is about."""
        everybody = np.ones(len(dataset), dtype=bool)
        return reduce(np.logical_and, (test.kept(dataset) for test in self.tests), everybody)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A marginal of everybody, released rounded; ``checks``: threshold and base of the rounding."""

    clique: Clique
    checks: Transform


def not_missing(attributes: Iterable[str], levels: Domain) -> tuple[Condition, ...]:
    """That no value of these attributes is missing, whose last level is "missing"."""
    return tuple(
        Condition((name,), np.arange(levels.size(name)) < levels.size(name) - 1) for name in attributes
    )


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Levels that conditions treat alike, as one: by attribute, the new code of each level."""

    classes: Mapping[str, IntArray]

    @classmethod
    def by(cls, conditions: Sequence[Condition], attributes: Iterable[str], levels: Domain) -> "Merged":
        """Merge the levels of attributes that stand in conditions and nowhere else."""
        classes = {}
        for name in attributes:
            size = levels.size(name)
            slices = [
                np.moveaxis(one.cells, one.attributes.index(name), 0).reshape(size, -1)
                for one in conditions
                if name in one.attributes
            ]
            # Levels that all conditions treat alike have the same slices, and get the same number.
            every = np.concatenate([np.zeros((size, 0), dtype=bool), *slices], axis=1)
            _, numbers = np.unique(every, axis=0, return_inverse=True)
            if numbers.max() + 1 < size:
                classes[name] = numbers.reshape(-1).astype(np.int64)
        return cls(classes)

    def domain(self, domain: Domain) -> Domain:
        """With fewer levels."""
        sizes = zip(domain.attributes, domain.sizes, strict=True)
        levels = {name: int(numbers.max()) + 1 for name, numbers in self.classes.items()}
        return Domain.of({name: levels.get(name, size) for name, size in sizes})

    def dataset(self, dataset: Dataset) -> Dataset:
        """The records with the new codes."""
        columns = [
            self.classes[name][dataset.column(name)]
            if name in self.classes
            else dataset.column(name).astype(np.int64)
            for name in dataset.domain.attributes
        ]
        return Dataset(self.domain(dataset.domain), np.stack(columns, axis=1))

    def condition(self, condition: Condition) -> Condition:
        """The same one, of the new codes."""
        cells = condition.cells
        for axis, name in enumerate(condition.attributes):
            if name in self.classes:
                _, first = np.unique(self.classes[name], return_index=True)
                cells = cells.take(first, axis=axis)
        return Condition(condition.attributes, cells)

    def zeros(self, zeros: StructuralZeros, levels: Domain) -> StructuralZeros:
        """Cells of the new codes all of which cannot occur."""
        table = impossible_cells(levels.project(zeros.clique), [zeros])
        for axis, name in enumerate(zeros.clique):
            if name in self.classes:
                numbers = self.classes[name]
                parts = [
                    table.compress(numbers == one, axis).all(axis) for one in range(numbers.max() + 1)
                ]
                table = np.stack(parts, axis=axis)
        return StructuralZeros(zeros.clique, tuple(map(tuple, np.argwhere(table).tolist())))


def cell_numbers(dataset: Dataset, attributes: Sequence[str]) -> tuple[IntArray, int]:
    """The cell of each record in the marginal on some attributes, and how many cells there are.

    Cells are numbered as they occur where the whole table would be large.
    """
    sizes = [dataset.domain.size(name) for name in attributes]
    if prod(sizes) > _MOST_CELLS:
        rows = dataset.codes[:, list(dataset.domain.axes(tuple(attributes)))]
        _, numbers = np.unique(rows, axis=0, return_inverse=True)
        return numbers.astype(np.int64), int(numbers.max(initial=-1)) + 1
    numbers = np.zeros(len(dataset), dtype=np.int64)
    for name, size in zip(attributes, sizes, strict=True):
        numbers = numbers * size + dataset.column(name)
    return numbers, prod(sizes)
