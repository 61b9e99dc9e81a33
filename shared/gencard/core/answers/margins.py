"""Where an analysis finds its counts: in psi, or in records; everything else about it is the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, key_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, LackingMarginalsError, TooLargeError
from gencard.core.statistics.counting import MOST_CELLS
from gencard.core.statistics.marginals import project
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray

Mask = NDArray[np.bool_]


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

    @property
    def domain(self) -> Domain:
        """The attributes that may be asked for."""
        ...

    def counts(self, clique: Clique) -> FloatArray:
        """Counts in records, axes in the clique's order; of the empty clique, the number of records.

        Raises:
            LackingMarginalsError: They are not determined.
            TooLargeError: The table has more than ``MOST_CELLS`` cells.
        """
        ...

    def variances(self, clique: Clique) -> FloatArray:
        """Variance of the noise on each of these counts, in records squared; zeros where exact."""
        ...

    def occupied(self, clique: Clique) -> Occupied:
        """The cells of a clique with a count other than 0; raises as ``counts`` does."""
        ...

    def source(self, clique: Clique) -> Clique:
        """The measured marginal that the counts of a clique rest on; raises as ``counts`` does."""
        ...


def records_of(margins: Margins) -> float:
    """The number of records."""
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
class PsiMargins:
    """Margins of released statistics.

    Exact counts are summed out of the smallest marginal that holds the clique. Of noisy ones, all that
    hold it are combined by inverse variance; ``shares`` gives their weights.

    >>> psi = Psi(Domain.of({"a": 2}), (Measurement(("a",), np.array([3, 4])),))
    >>> PsiMargins.of(psi).counts(("a",)).tolist()
    [3.0, 4.0]
    """

    psi: Psi
    _shares: dict[frozenset[str], tuple[tuple[int, float], ...]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(cls, psi: Psi) -> "PsiMargins":
        return cls(psi.fitted)

    @property
    def domain(self) -> Domain:
        return self.psi.domain

    def shares(self, clique: Clique) -> tuple[tuple[int, float], ...]:
        """Positions in ``psi.measurements`` and weights, which sum to 1: how a count is made of them.

        Raises:
            LackingMarginalsError: No measurement holds the clique.
        """
        names = frozenset(clique)
        if names not in self._shares:
            self._shares[names] = self._weighted(clique)
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

    def occupied(self, clique: Clique) -> Occupied:
        return occupied_of(self.counts(clique))

    def source(self, clique: Clique) -> Clique:
        place, _ = max(self.shares(clique), key=lambda pair: pair[1])
        return self._measured(place).clique

    def _measured(self, place: int) -> Measurement:
        return self.psi.measurements[place]

    def _variance(self, measurement: Measurement, clique: Clique) -> float:
        """Of the noise on a count of the clique, from one measurement that holds it."""
        summed = self.domain.project(measurement.clique).cells
        cells = self.domain.project(clique).cells if clique else 1
        return measurement.stddev**2 * (summed // cells)

    def _weighted(self, clique: Clique) -> tuple[tuple[int, float], ...]:
        names = frozenset(clique)
        holders = [i for i, m in enumerate(self.psi.measurements) if names <= {*m.clique}]
        if not holders:
            raise LackingMarginalsError.of([clique])
        exact = [i for i in holders if not self._measured(i).stddev]
        if exact:
            return ((min(exact, key=lambda i: self._measured(i).values.size), 1.0),)
        weights = [1 / self._variance(self._measured(i), clique) for i in holders]
        return tuple((i, weight / sum(weights)) for i, weight in zip(holders, weights, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class RecordMargins:
    """Margins of records, counted when they are asked for.

    Args:
        dataset: The coded records.
        weights: One for each record, from 0 up; None where each counts once.
    """

    dataset: Dataset
    weights: FloatArray | None = None
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
            sizes = tuple(self.domain.size(name) for name in clique)
            _check_cells(self.domain, clique)
            keys = key_of((self.dataset.column(name) for name in clique), sizes)
            keys = keys if clique else np.zeros(len(self.dataset), dtype=np.int64)
            cells = int(np.prod(sizes, dtype=np.int64))
            sums = np.bincount(keys, weights=self.weights, minlength=cells)
            self._counted[clique] = sums.astype(np.float64).reshape(sizes)
        return self._counted[clique]

    def variances(self, clique: Clique) -> FloatArray:
        return np.zeros(tuple(self.domain.size(name) for name in clique))

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
        whole: The margins of all records.
        attributes: What the part is chosen by.
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

    def _wider(self, clique: Clique) -> Clique:
        return tuple(clique) + tuple(name for name in self.attributes if name not in clique)

    def _part(self, table: FloatArray, clique: Clique) -> FloatArray:
        wider = self._wider(clique)
        _check_cells(self.domain, wider)
        order = sorted(range(len(self.attributes)), key=lambda i: wider.index(self.attributes[i]))
        mask = np.transpose(self.chosen, order)
        outside = tuple(axis for axis, name in enumerate(wider) if name not in self.attributes)
        part: FloatArray = project(table * np.expand_dims(mask, outside), wider, tuple(clique))
        return part


def within(margins: Margins, attributes: Clique, chosen: Mask) -> Margins:
    """Margins of the records whose levels of some attributes are chosen; see ``Within``."""
    if not isinstance(margins, RecordMargins):
        return Within(margins, attributes, chosen)
    dataset = margins.dataset
    places = np.flatnonzero(chosen[tuple(dataset.column(name) for name in attributes)])
    weights = None if margins.weights is None else margins.weights[places]
    return RecordMargins(dataset.take(places), weights)


def _check_cells(domain: Domain, clique: Clique) -> None:
    if clique and domain.project(clique).cells > MOST_CELLS:
        raise TooLargeError(what="The number of cells of a table of the analysis", limit=MOST_CELLS)


def occupied_of(table: FloatArray) -> Occupied:
    """The cells of a table with a count other than 0."""
    return Occupied(np.argwhere(table), table[table != 0])
