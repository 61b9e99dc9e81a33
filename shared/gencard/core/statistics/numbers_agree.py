"""Agreement of the exact histograms and sums of psi with its marginals, and with each other.

Anybody who holds psi and the schema can check this, without a record.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.sums import Sum, product_ends, scale_of
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import InvalidPsiError
from gencard.core.statistics.marginals import Attributes, check_subsets, project, subsets
from gencard.core.statistics.psi import HistogramMeasurement, Psi, SumMeasurement
from gencard.core.statistics.unit_sums import level_of_cells, unit_bounds
from gencard.core.types import Counts

Table = NDArray[Any]
"""Whole numbers of any size: Python's, in an array of objects."""


def check_numbers_agree(psi: Psi, coding: Coding) -> None:
    """Refuse exact histograms and sums that contradict psi's marginals, each other or the schema.

    Args:
        psi: psi whose marginals agree (``check_consistent``). Noisy or rounded numbers are not compared.

    Raises:
        InvalidPsiError: A count is negative, fine counts do not add up to a marginal's levels, counts
            of a population differ from those of a marginal or of another sum, a sum over all groups is
            not the sum of the groups, or a sum is out of the range that counts and schema leave it.
        TooLargeError: The groups are too wide to compare.
    """
    if psi.histograms or psi.sums:
        _Agreement(psi, coding).check()


def population_counts(psi: Psi, one: SumMeasurement, coding: Coding) -> Table | None:
    """Return the records of each group of a sum that are in its population.

    Returns:
        Shape: the numbers of levels of ``by``. None if psi does not tell them.
    """
    return _Agreement(psi, coding).counts(one)


@dataclass(frozen=True)
class _Agreement:
    psi: Psi
    coding: Coding

    def check(self) -> None:
        for histogram in self.psi.histograms:
            if histogram.stddev == 0:
                self._check_histogram(histogram)
        check_subsets(one.sum.by for one in self.psi.sums)
        seen: dict[tuple[Clique, Attributes, Attributes], Table] = {}
        exact = [one for one in self.psi.sums if one.stddev == one.counts_stddev == 0]
        for one in exact:
            counts = self.counts(one)
            population = frozenset(one.sum.population(self.coding))
            values = self._of_groups(one.sum, one.values)
            self._check_missing(one.sum, values)
            if counts is not None:
                self._check_counts(one.sum, counts)
                self._check_ranges(one, values, counts)
                self._compare(one.sum, (), population, counts, seen)
            self._compare(one.sum, one.sum.of, population, values, seen)

    def counts(self, one: SumMeasurement) -> Table | None:
        own = one.counts if one.sum.of else one.values
        if own:
            return self._of_groups(one.sum, own)
        return self._of_marginals(one.sum.by, frozenset(one.sum.population(self.coding)))

    def _of_marginals(self, by: Clique, population: Attributes) -> Table | None:
        """Records in each cell of some attributes in which all of a population are present."""
        names = frozenset(by) | population
        wider = self._wider.get(names)
        if wider is None:
            return None
        table, clique = wider
        rest = tuple(name for name in self.coding.domain.attributes if name in names - frozenset(by))
        counts = project(table, clique, (*by, *rest))
        for axis, name in enumerate((*by, *rest)):
            if name in population:
                present = np.arange(counts.shape[axis]) < counts.shape[axis] - 1
                shape = [-1 if other == axis else 1 for other in range(counts.ndim)]
                counts = np.where(present.reshape(shape), counts, 0)
        return np.asarray(counts.sum(axis=tuple(range(len(by), counts.ndim)))).astype(object)

    @cached_property
    def _wider(self) -> Mapping[Attributes, tuple[Counts, Clique]]:
        """An exact marginal that holds each set of attributes, by the set."""
        exact = [one for one in self.psi.measurements if one.stddev == 0]
        check_subsets(one.clique for one in exact)
        wider: dict[Attributes, tuple[Counts, Clique]] = {}
        for one in exact:
            for names in subsets(one.clique):
                wider.setdefault(names, (one.values, one.clique))
        return wider

    @cached_property
    def _records(self) -> int | None:
        if self.psi.measurements:
            table = self._wider.get(frozenset())
            return None if table is None else int(table[0].sum())
        linear = self.psi.linear[0]
        return None if linear.stddevs.any() else int(linear.values[0])

    def _of_groups(self, one: Sum, values: tuple[int, ...]) -> Table:
        table = np.empty(len(values), dtype=object)
        table[:] = values
        return table.reshape([self.coding.domain.size(name) for name in one.by])

    def _check_histogram(self, one: HistogramMeasurement) -> None:
        counts, what = np.array(one.counts, dtype=object), f"the histogram of {one.attribute}"
        if np.any(counts < 0):
            raise InvalidPsiError(problem=f"{what} holds a negative count")
        if self._records not in (None, counts.sum()):
            raise InvalidPsiError(problem=f"{what} disagrees on the number of records")
        marginal = self._of_marginals((one.attribute,), frozenset())
        if marginal is not None:
            levels = np.zeros(len(marginal), dtype=object)
            np.add.at(levels, level_of_cells(self.coding, one.attribute), counts)
            if np.any(levels != marginal):
                raise InvalidPsiError(problem=f"{what} does not add up to the levels of a marginal")

    def _check_missing(self, one: Sum, values: Table) -> None:
        """Groups of records without a value that must be present are empty."""
        for axis, name in enumerate(one.by):
            if name in one.present and np.any(values.take(-1, axis)):
                raise InvalidPsiError(problem=f"{one} is not 0 where {name} is missing")

    def _check_counts(self, one: Sum, counts: Table) -> None:
        groups = self._of_marginals(one.by, frozenset())
        if np.any(counts < 0) or (groups is not None and np.any(counts > groups)):
            raise InvalidPsiError(problem=f"{one} has counts below 0 or above its groups")
        self._check_missing(one, counts)

    def _check_ranges(self, one: SumMeasurement, values: Table, counts: Table) -> None:
        """Each sum is one that so many records can have, by levels and histogram if psi tells them."""
        low, high = product_ends(self.coding, one.sum.of) if one.sum.of else (1, 1)
        bounds = [(counts * low, counts * high), *self._bounds(one.sum)]
        if any(np.any(values < least) or np.any(values > most) for least, most in bounds):
            raise InvalidPsiError(problem=f"{one.sum} is out of the range of its records")
        mean = self._sums.get((one.sum.of[:1], one.sum.by, one.sum.population(self.coding)))
        squares = len(set(one.sum.of)) < len(one.sum.of)
        if squares and mean is not None and np.any(counts * values < mean * mean):
            raise InvalidPsiError(problem=f"{one.sum} is smaller than its mean leaves it")

    @cached_property
    def _sums(self) -> Mapping[tuple[Clique, Clique, Clique], Table]:
        """Exact sums of one number, by number, groups and population."""
        return {
            (one.sum.of, one.sum.by, one.sum.population(self.coding)): self._of_groups(
                one.sum, one.values
            )
            for one in self.psi.sums
            if len(one.sum.of) == 1 and one.stddev == 0
        }

    def _bounds(self, one: Sum) -> Iterator[tuple[Table, Table]]:
        """Bounds of a sum of one number by its levels in a marginal, and by its histogram."""
        if len(one.of) != 1:
            return
        (name,) = one.of
        scale, own = scale_of(self.coding, name), self.coding.attribute(name).coding
        population = frozenset(one.population(self.coding))
        levels = self._of_marginals((*one.by, name), population)
        if levels is not None and isinstance(own, Edges):
            yield _weighted(levels, unit_bounds(scale, own.edges[:-1]))
        for histogram in self.psi.histograms:
            alone = histogram.attribute == name and not one.by and population <= {name}
            if alone and histogram.stddev == 0:
                cells = np.array(histogram.counts, dtype=object)
                yield _weighted(cells, unit_bounds(scale, scale.cells[:-1]))

    def _compare(
        self,
        one: Sum,
        of: Clique,
        population: Attributes,
        values: Table,
        seen: dict[tuple[Clique, Attributes, Attributes], Table],
    ) -> None:
        """Compare sums over groups with the first ones seen of the same numbers, and with marginals."""
        for names in subsets(one.by):
            clique = tuple(name for name in one.by if name in names)
            table = project(values, one.by, clique) if one.by else values
            first = seen.setdefault((of, population, names), table)
            marginal = None if of else self._of_marginals(clique, population)
            if np.any(table != first) or (marginal is not None and np.any(table != marginal)):
                raise InvalidPsiError(problem=f"{one} disagrees with another sum or marginal")


def _weighted(counts: Table, bounds: list[tuple[int, int]]) -> tuple[Table, Table]:
    """Least and largest sum of units of records whose last axis says in which cell they are."""
    present = counts[..., : len(bounds)]
    least, most = zip(*bounds, strict=True)
    return present @ np.array(least, dtype=object), present @ np.array(most, dtype=object)
