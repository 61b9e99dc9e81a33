"""Source of the counts of an analysis: psi, records or made-up ones; all else is the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count
from math import prod
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.sums import Sum
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, key_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import FEWER_TERMS, InvalidInputError, LackingMarginalsError, TooLargeError
from gencard.core.statistics.linear import exact_sums
from gencard.core.statistics.marginals import MOST_CELLS, project
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi
from gencard.core.types import FloatArray, IntArray

Mask = NDArray[np.bool_]

Units = NDArray[np.object_]
"""Whole numbers of any size: sums of units, or of products of two units."""


@dataclass(frozen=True, slots=True, eq=False)
class Occupied:
    """The cells of a clique that hold somebody.

    Args:
        codes: Shape ``(m, k)``, one column for each attribute, in the clique's order.
        counts: Shape ``(m,)``, in records; none is 0.
    """

    codes: NDArray[np.int64]
    counts: FloatArray


class Margins(Protocol):
    """Counts of any clique that can be determined."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The attributes that may be asked for."""

    def counts(self, clique: Clique) -> FloatArray:
        """Counts in records, axes in the clique's order; of the empty clique, the number of records.

        Raises:
            LackingMarginalsError: They are not determined.
            TooLargeError: The table has more than ``MOST_CELLS`` cells.
        """

    def variances(self, clique: Clique) -> FloatArray:
        """Variance of the noise on each of these counts, in records squared; zeros where exact."""

    def occupied(self, clique: Clique) -> Occupied:
        """The cells of a clique with a count other than 0; raises as ``counts`` does."""
        return occupied_of(self.counts(clique))

    def source(self, clique: Clique) -> Clique:
        """The measured marginal that the counts of a clique rest on; raises as ``counts`` does."""


class SummedMargins(Margins, Protocol):
    """Margins that have sums of numbers, too."""

    __slots__ = ()

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:
        """Sums of products of units over the records in which ``of`` and ``present`` are present.

        Args:
            of: At most two numbers, in the schema's order; none for the number of such records.
            by: Attributes of the cells, none of ``of``.
            present: Attributes that must be present; those that always are change nothing.

        Returns:
            Axes in the order of ``by``.
        """

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:
        """Variance of the noise on each of these sums; zeros where exact."""


def records_of(margins: Margins) -> float:
    return float(margins.counts(()))


def check_determined(margins: Margins, cliques: Iterable[Clique]) -> None:
    """Refuse an analysis before any work.

    Raises:
        LackingMarginalsError: All the cliques that are not determined, together, each with the
            attributes by which a part of the records is chosen.
    """
    unreleased: list[Clique] = []
    for clique in cliques:
        try:
            margins.source(clique)
        except LackingMarginalsError as error:
            unreleased += error.lacking
    if unreleased:
        raise LackingMarginalsError.of(unreleased)


@dataclass(frozen=True, slots=True, eq=False)
class PsiMargins(Margins):
    """Margins of released statistics.

    Exact counts are summed out of the smallest marginal that holds the clique. Of noisy ones, all that
    hold it are combined by inverse variance; ``shares`` gives their weights.

    Args:
        coding: The schema, for sums of numbers; without it there are none.

    >>> psi = Psi(Domain.of({"a": 2}), (Measurement(("a",), np.array([3, 4])),))
    >>> PsiMargins(psi).counts(("a",)).tolist()
    [3.0, 4.0]
    """

    psi: Psi
    coding: Coding | None = None
    _shares: dict[frozenset[str], tuple[tuple[int, float], ...]] = field(
        default_factory=dict, repr=False
    )

    @property
    def domain(self) -> Domain:
        return self.psi.domain

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:
        source = self.sum_source(of, by, present)
        return _summed_out(source.table(self.domain), source.by, by)

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:
        source = self.sum_source(of, by, present)
        cells = _summed_out(source.counting(self.domain).astype(object), source.by, by)
        return source.stddev**2 * cells.astype(np.float64)

    def histogram(self, name: str) -> HistogramMeasurement | None:
        """The histogram of an attribute, if psi has one."""
        return next((one for one in self.psi.histograms if one.attribute == name), None)

    def sum_source(self, of: Clique, by: Clique, present: Clique) -> "SumSource":
        """The measurement that gives sums with the least noise, and of these the smallest.

        Raises:
            LackingMarginalsError: None does.
        """
        if self.coding is None:
            raise LackingMarginalsError.of([by])
        population = self.population(of, present)
        usable = [one for one in self.sum_sources(of, population) if {*by} <= {*one.by}]
        if not usable:
            wanted = Sum(of, by, tuple(sorted(population - {*of}))) if of or population else None
            lacking = wanted.in_order_of(self.coding.domain) if wanted else None
            raise LackingMarginalsError.of([] if lacking else [by], [lacking] if lacking else [])
        return min(usable, key=lambda one: (one.variance_of(by, self.domain), len(one.values)))

    def population(self, of: Clique, present: Clique) -> frozenset[str]:
        """The attributes of some sums that a record may lack, and then does not count."""
        attributes = self.coding.attributes if self.coding else ()
        return frozenset(one.name for one in attributes if one.coding.missing) & {*of, *present}

    def sum_sources(self, of: Clique, population: frozenset[str]) -> "list[SumSource]":
        """All measurements of some sums over a population, by whichever attributes."""
        sources = _sum_sources(self.psi, self.coding) if self.coding else ()
        return [
            replace(one, dropped=tuple(population.intersection(one.by)))
            for one in sources
            if one.gives(of, population)
        ]

    def shares(self, clique: Clique) -> tuple[tuple[int, float], ...]:
        """Positions in ``psi.measurements`` and weights, which sum to 1: how a count is made of them.

        Raises:
            LackingMarginalsError: No measurement holds the clique.
        """
        names = frozenset(clique)
        if names in self._shares:
            return self._shares[names]
        holders = [i for i, m in enumerate(self.psi.measurements) if names <= {*m.clique}]
        if not holders:
            raise LackingMarginalsError.of([clique])
        exact = [i for i in holders if not self._measured(i).stddev]
        if exact:
            shares = [(min(exact, key=lambda i: self._measured(i).values.size), 1.0)]
        else:
            weights = [1 / self._variance(self._measured(i), clique) for i in holders]
            shares = [(i, weight / sum(weights)) for i, weight in zip(holders, weights, strict=True)]
        self._shares[names] = tuple(shares)
        return self._shares[names]

    def counts(self, clique: Clique) -> FloatArray:
        parts = [
            share * project(self._measured(place).values, self._measured(place).clique, clique)
            for place, share in self.shares(clique)
        ]
        return np.asarray(sum(parts[1:], start=parts[0]), dtype=np.float64)

    def variances(self, clique: Clique) -> FloatArray:
        sizes = tuple(self.domain.size(name) for name in clique)
        variance = sum(
            share**2 * self._variance(self._measured(place), clique)
            for place, share in self.shares(clique)
        )
        return np.full(sizes, variance, dtype=np.float64)

    def source(self, clique: Clique) -> Clique:
        place, _ = max(self.shares(clique), key=lambda pair: pair[1])
        return self._measured(place).clique

    def _measured(self, place: int) -> Measurement:
        return self.psi.measurements[place]

    def _variance(self, measurement: Measurement, clique: Clique) -> float:
        """Return the variance of the noise on a count of the clique, by one measurement."""
        summed = self.domain.project(measurement.clique).cells
        cells = self.domain.project(clique).cells if clique else 1
        return measurement.stddev**2 * (summed // cells)


@dataclass(frozen=True, slots=True)
class SumSource:
    """Sums, or numbers of records, that psi has.

    Args:
        place: Position among all tables of sums and counts in psi.
        of: Attributes whose numbers are summed, as in ``Sum``.
        by: Attributes of the cells, the last one running fastest.
        population: Attributes that are present in all records that count.
        values: One for each cell.
        stddev: Standard deviation of the noise on each.
        dropped: Attributes of ``by`` whose last level, "missing", holds nobody who counts.
    """

    place: int
    of: Clique
    by: Clique
    population: frozenset[str]
    values: Sequence[int]
    stddev: float
    dropped: Clique = ()

    def gives(self, of: Clique, population: Set[str]) -> bool:
        """Whether sums over a population are some of these."""
        more = population - self.population
        return self.of == of and self.population <= population and more <= {*self.by}

    def variance_of(self, by: Clique, domain: Domain) -> float:
        """Return the variance of the noise on a sum by some of the attributes."""
        return self.stddev**2 * prod(domain.size(name) for name in self.by if name not in by)

    def table(self, domain: Domain) -> Units:
        """Return the values as a table, 0 in cells that do not count; axes in the order of ``by``."""
        values = np.array(list(map(int, self.values)), dtype=object)
        counting = self.counting(domain)
        return np.where(counting, values.reshape(counting.shape), 0)

    def counting(self, domain: Domain) -> Mask:
        """The cells that count."""
        mask = np.ones([domain.size(name) for name in self.by], dtype=bool)
        for name in self.dropped:
            np.moveaxis(mask, self.by.index(name), 0)[-1] = False
        return mask


def _sum_sources(psi: Psi, coding: Coding) -> Iterator[SumSource]:
    """All that psi says about sums, and about the numbers of records beside them."""
    nobody: frozenset[str] = frozenset()
    place = count()
    for marginal in psi.measurements:
        values = marginal.values.reshape(-1).tolist()
        yield SumSource(next(place), (), marginal.clique, nobody, values, marginal.stddev)
    for one in psi.sums:
        population = frozenset(one.sum.population(coding))
        yield SumSource(next(place), one.sum.of, one.sum.by, population, one.values, one.stddev)
        if one.counts:
            by, stddev = one.sum.by, one.counts_stddev
            yield SumSource(next(place), (), by, population, one.counts, stddev)


def _summed_out(table: Units, names: Clique, kept: Clique) -> Units:
    """Sum a table over the axes of all attributes but some, and put these in their order."""
    summed_axes = tuple(axis for axis, name in enumerate(names) if name not in kept)
    left = tuple(name for name in names if name in kept)
    sums = np.asarray(table.sum(axis=summed_axes) if summed_axes else table, dtype=object)
    return np.transpose(sums, [left.index(name) for name in kept])


@dataclass(frozen=True, slots=True, eq=False)
class RecordMargins:
    """Margins of records, counted when they are asked for.

    Args:
        weights: One for each record, from 0 up; None where each counts once.
        units: Numbers that can be summed, in whole units, one for each record: none is missing.
    """

    dataset: Dataset
    weights: FloatArray | None = None
    units: Mapping[str, IntArray] = field(default_factory=dict)
    _counted: dict[Clique, FloatArray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, dataset: Dataset, weights: Sequence[float] | FloatArray | None = None
    ) -> "RecordMargins":
        """Raises InvalidInputError where the weights are not one finite number from 0 up a record."""
        if weights is None:
            return cls(dataset)
        array = np.asarray(weights, dtype=np.float64)
        if array.shape != (len(dataset),) or not np.all(np.isfinite(array) & (array >= 0)):
            problem = "needs one finite number of 0 or more for each record"
            raise InvalidInputError(field="weights", problem=problem)
        return cls(dataset, array)

    @property
    def domain(self) -> Domain:
        return self.dataset.domain

    def counts(self, clique: Clique) -> FloatArray:
        clique = tuple(clique)
        if clique not in self._counted:
            keys, sizes = self._cells(clique)
            sums = np.bincount(keys, weights=self.weights, minlength=prod(sizes))
            self._counted[clique] = sums.astype(np.float64).reshape(sizes)
        return self._counted[clique]

    def _cells(self, clique: Clique) -> tuple[IntArray, tuple[int, ...]]:
        """The cell of each record, and the shape of the table."""
        sizes = tuple(self.domain.size(name) for name in clique)
        _check_cells(self.domain, clique)
        keys = key_of((self.dataset.column(name) for name in clique), sizes)
        return keys if clique else np.zeros(len(self.dataset), dtype=np.int64), sizes

    def variances(self, clique: Clique) -> FloatArray:
        return np.zeros(tuple(self.domain.size(name) for name in clique))

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:  # noqa: ARG002 - all are
        if any(name not in self.units for name in of):
            raise LackingMarginalsError.of([by])
        if not of:
            return self.counts(by).astype(np.int64).astype(object)
        cells, sizes = self._cells(tuple(by))
        sums = np.empty(prod(sizes), dtype=object)
        sums[:] = exact_sums([self.units[name] for name in of], cells, len(sums))
        return sums.reshape(sizes)

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:  # noqa: ARG002
        return self.variances(by)

    def occupied(self, clique: Clique) -> Occupied:
        if not clique:
            return occupied_of(self.counts(()))
        codes = self.dataset.codes[:, list(self.domain.axes(clique))]
        keys = key_of(codes.T, self.domain.project(clique).sizes)
        _, first, cell = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.bincount(cell, weights=self.weights, minlength=len(first)).astype(np.float64)
        some = counts != 0
        return Occupied(codes[first][some].astype(np.int64), counts[some])

    def source(self, clique: Clique) -> Clique:
        self.domain.axes(clique)
        return tuple(clique)


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """Margins of the part of the records whose levels of some attributes are among chosen ones.

    Args:
        chosen: True for each chosen cell, shape ``whole.domain.project(attributes).sizes``.
    """

    whole: Margins
    attributes: Clique
    chosen: Mask

    @property
    def domain(self) -> Domain:
        return self.whole.domain

    def counts(self, clique: Clique) -> FloatArray:
        return self._part(self.whole.counts(self._wider(clique)), clique)

    def variances(self, clique: Clique) -> FloatArray:
        return self._part(self.whole.variances(self._wider(clique)), clique)

    def occupied(self, clique: Clique) -> Occupied:
        wider = self._wider(clique)
        cells = self.whole.occupied(wider)
        places = [wider.index(name) for name in self.attributes]
        inside = self.chosen[tuple(cells.codes[:, places].T)]
        codes, counts = cells.codes[inside][:, : len(clique)], cells.counts[inside]
        keys = key_of(codes.T, (self.domain.size(name) for name in clique))
        keys = keys if clique else np.zeros(len(codes), dtype=np.int64)
        _, first, cell = np.unique(keys, return_index=True, return_inverse=True)
        summed = np.bincount(cell, weights=counts, minlength=len(first)).astype(np.float64)
        return Occupied(codes[first], summed)

    def source(self, clique: Clique) -> Clique:
        return self.whole.source(self._wider(clique))

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:
        wider = self._wider(by)
        table = summed(self.whole).sums(of, wider, present)
        return _summed_out(np.where(self._mask(wider), table, 0), wider, by)

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:
        wider = self._wider(by)
        return self._part(summed(self.whole).sum_variances(of, wider, present), by)

    def _wider(self, clique: Clique) -> Clique:
        return tuple(clique) + tuple(name for name in self.attributes if name not in clique)

    def _part(self, table: FloatArray, clique: Clique) -> FloatArray:
        wider = self._wider(clique)
        part: FloatArray = project(table * self._mask(wider), wider, tuple(clique))
        return part

    def _mask(self, wider: Clique) -> Mask:
        """The chosen cells, with an axis for each attribute of a wider clique."""
        _check_cells(self.domain, wider)
        return along(self.chosen, self.attributes, wider)


@dataclass(frozen=True, slots=True, eq=False)
class Present(Margins):
    """Margins of the records in which some attributes are present.

    Args:
        whole: The margins of all records; they have sums.
    """

    whole: Margins
    names: Clique

    @property
    def domain(self) -> Domain:
        return self.whole.domain

    def counts(self, clique: Clique) -> FloatArray:
        return np.asarray(self.sums((), tuple(clique)), dtype=np.float64)

    def variances(self, clique: Clique) -> FloatArray:
        return self.sum_variances((), tuple(clique))

    def source(self, clique: Clique) -> Clique:
        self.sums((), tuple(clique))
        return tuple(clique)

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:
        return summed(self.whole).sums(of, by, self._all(of, present))

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:
        return summed(self.whole).sum_variances(of, by, self._all(of, present))

    def _all(self, of: Clique, present: Clique) -> Clique:
        return tuple(dict.fromkeys((*present, *(name for name in self.names if name not in of))))


def summed(margins: Margins) -> SummedMargins:
    """Return margins as those that have sums; raises LackingMarginalsError where they have none."""
    if not hasattr(margins, "sums"):
        raise LackingMarginalsError.of([])
    return cast("SummedMargins", margins)


def within(margins: Margins, attributes: Clique, chosen: Mask) -> Margins:
    """Margins of the records whose levels of some attributes are chosen; see ``Within``."""
    if not isinstance(margins, RecordMargins):
        return Within(margins, attributes, chosen)
    dataset = margins.dataset
    places = np.flatnonzero(chosen[tuple(dataset.column(name) for name in attributes)])
    weights = None if margins.weights is None else margins.weights[places]
    units = {name: one[places] for name, one in margins.units.items()}
    return RecordMargins(dataset.take(places), weights, units)


def check_size(size: float, limit: int, what: str, advice: str = FEWER_TERMS) -> None:
    """Raises TooLargeError where the size is above the limit."""
    if size > limit:
        raise TooLargeError(what=what, limit=limit, advice=advice)


def _check_cells(domain: Domain, clique: Clique) -> None:
    cells = domain.project(clique).cells if clique else 1
    check_size(cells, MOST_CELLS, "The number of cells of a table of the analysis")


def every_cell(levels: Sequence[IntArray]) -> IntArray:
    """Every combination of some levels of each attribute, shape ``(cells, attributes)``."""
    shape = [len(each) for each in levels]
    places = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), dtype=np.int64)
    cells = [each[place] for each, place in zip(levels, places, strict=True)]
    return np.stack(cells, axis=1) if cells else np.zeros((1, 0), dtype=np.int64)


def along(table: NDArray[Any], clique: Clique, wider: Clique) -> NDArray[Any]:
    """A table of a clique, with axes in the order of a wider one: those of the others have length 1."""
    order = sorted(range(len(clique)), key=lambda axis: wider.index(clique[axis]))
    outside = tuple(axis for axis, name in enumerate(wider) if name not in clique)
    return np.expand_dims(np.transpose(table, order), outside)


def occupied_of(table: FloatArray) -> Occupied:
    """The cells of a table with a count other than 0."""
    return Occupied(np.argwhere(table), table[table != 0])


_MADE_UP, _CLASSES = 1e5, 3
"""Made-up records, and their latent classes."""


def _patternless(number: int, seed: int) -> FloatArray:
    """Different numbers from 1 to 3, without a pattern that an analysis could meet."""
    parts, _ = np.modf(np.sin(12.9898 * (np.arange(number) + 1) + 78.233 * seed) * 43758.5453)
    return np.asarray(1.0 + 2.0 * np.abs(parts))


@dataclass(frozen=True, slots=True, eq=False)
class MadeUp:
    """Margins of made-up records, exact and consistent with each other.

    They belong to a few latent classes, and their attributes are independent given the class.

    Args:
        classes: Shares of the latent classes, shape ``(classes,)``.
        shares: For each attribute, shares of its levels in each class, shape ``(classes, levels)``.
    """

    domain: Domain
    classes: FloatArray
    shares: Mapping[str, FloatArray]

    @classmethod
    def of(cls, domain: Domain, seed: int) -> "MadeUp":
        sizes = zip(domain.attributes, domain.sizes, strict=True)
        # shares between 1 and 3 to each other: no level is rare, and none is like another
        shares = {
            name: _patternless(_CLASSES * size, seed + 10 * place).reshape(_CLASSES, size)
            for place, (name, size) in enumerate(sizes)
        }
        shares = {name: one / one.sum(axis=1, keepdims=True) for name, one in shares.items()}
        classes = _patternless(_CLASSES, seed)
        return cls(domain, classes / classes.sum(), shares)

    def counts(self, clique: Clique) -> FloatArray:
        tables = []
        for one in range(_CLASSES):
            shares = (self.shares[name][one] for name in clique)
            tables.append(reduce(np.multiply.outer, shares, _MADE_UP * self.classes[one]))
        return np.asarray(sum(tables))

    def variances(self, clique: Clique) -> FloatArray:
        return np.zeros(tuple(self.domain.size(name) for name in clique))

    def occupied(self, clique: Clique) -> Occupied:
        return occupied_of(self.counts(clique))

    def source(self, clique: Clique) -> Clique:
        self.domain.axes(clique)
        return tuple(clique)
