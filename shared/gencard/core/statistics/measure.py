"""The door: the one function through which records become psi.

Nothing below this door (fit, sample, release, replay) may import it: see ``tests/test_imports.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from gencard.core.card.privacy import (
    AS_COUNTED,
    EXACT,
    Exact,
    InsideGenerator,
    Noise,
    Privacy,
    Transform,
)
from gencard.core.card.sums import Histogram, Sum, check_numbers
from gencard.core.coding import Coding, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidPsiError
from gencard.core.statistics.linear import LinearStatistic, Statistic, UnitSums, divided
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.noise import noisy
from gencard.core.statistics.numbers import check_numbers_agree
from gencard.core.statistics.psi import (
    HistogramMeasurement,
    LinearMeasurement,
    Measurement,
    Psi,
    SumMeasurement,
    check_consistent,
    transformed,
)
from gencard.core.types import Counts


class MarginalSource(Protocol):
    """Records that can be counted, wherever they are kept: only counts come out."""

    def count(self, cliques: Sequence[Clique]) -> Sequence[Counts]:
        """Integer counts, in records: one table per clique, axes in the clique's own order."""


@runtime_checkable
class NumberSource(MarginalSource, Protocol):
    """Records whose numbers can be summed: only sums and counts come out."""

    @property
    def coding(self) -> Coding:
        """Public schema of the records."""

    def summed(self, sums: Sequence[Sum], histograms: Sequence[str]) -> UnitSums:
        """Exact sums and histograms of all records."""


def with_numbers(psi: Psi, source: NumberSource, histograms: Sequence[str], sums: Sequence[Sum]) -> Psi:
    """Exact psi with histograms and sums of the same records.

    Raises:
        UnknownAttributeError, InvalidCodingError: The schema has no such numbers.
    """
    coding = source.coding
    check_numbers(coding, histograms, sums)
    summed = source.summed(sums, histograms)
    names = [psi.domain.attributes, tuple(histograms), *(one.attributes for one in sums)]
    pairs = zip(histograms, summed.fine_counts(), strict=True)
    exact_sums = []
    for one, cells in zip(sums, summed.totals(), strict=True):
        counts = cells.counts if one.counts_beside(psi.cliques, coding) else ()
        exact_sums.append(SumMeasurement(one, cells.values, 0.0, counts))
    return Psi(
        coding.domain.covered_by(names),
        psi.measurements,
        psi.linear,
        tuple(HistogramMeasurement(name, tuple(cells.tolist()), 0.0) for name, cells in pairs),
        tuple(exact_sums),
    )


def measure(
    source: MarginalSource | NumberSource,
    statistics: Sequence[Statistic | Histogram | Sum],
    domain: Domain,
    privacy: Privacy = EXACT,
    *,
    noise: Noise | None = None,
    weights: Sequence[int] = (),
    transform: Transform = AS_COUNTED,
    zeros: Sequence[StructuralZeros] = (),
) -> Psi:
    """Measure the marginals on cliques, and linear statistics, histograms and sums.

    Args:
        statistics: The card's marginals, linear statistics, histograms and sums, in the card's order;
            the last two need a ``NumberSource``.
        noise: Source of the noise; required if privacy is not exact.
        weights: Parts of the privacy budget, one for each statistic; empty for equal parts.
        zeros: Cells that the schema declares impossible.

    Returns:
        psi in the order of ``statistics``, over the part of the domain that all of them name.

    Raises:
        InvalidInputError: A noise source is required and missing, the noise is a generator's own, a
            linear statistic does not fit the domain, or it is combined with a transform of counts, or
            a sum with rounding.
        InvalidPsiError: The source gave numbers that cannot come from one set of records, or there
            is no record and no noise.
        MeasurementRefusedError: Exact counts do not pass the transform's checks.
        UnknownAttributeError: A clique names an attribute that is not declared.
    """
    if isinstance(privacy, InsideGenerator):
        problem = "is 'generator': a card of tier private measures no psi"
        raise InvalidInputError(field="privacy.mechanism", problem=problem)
    if not isinstance(privacy, Exact) and noise is None:
        raise InvalidInputError(field="noise", problem="a source of noise is required")
    histograms = [one.attribute for one in statistics if isinstance(one, Histogram)]
    sums = [one for one in statistics if isinstance(one, Sum)]
    # Linear statistics are counted as full tables first: their sums of whole numbers are then exact, and
    # the tables are checked for consistency with the marginals before they are dropped.
    cliques, linear = divided([one for one in statistics if not isinstance(one, Histogram | Sum)])
    if (linear and transform != AS_COUNTED) or (sums and transform.rounding > 1):
        raise InvalidInputError(field="transform", problem="is allowed only for counts")
    # Without noise an empty dataset is an error; with noise the error would disclose the last record.
    exact = _counted(source, cliques, linear, domain, may_be_empty=privacy.noisy)
    coding = None
    if histograms or sums:
        if not isinstance(source, NumberSource):
            raise InvalidInputError(field="source", problem="has no numbers that could be summed")
        exact, coding = with_numbers(exact, source, histograms, sums), source.coding
        check_numbers_agree(exact, coding)
    if noise is not None and not isinstance(privacy, Exact):
        return noisy(exact, privacy, noise, weights, coding)
    return transformed(exact, transform, zeros)


def _counted(
    source: MarginalSource,
    cliques: Sequence[Clique],
    linear: Sequence[LinearStatistic],
    domain: Domain,
    *,
    may_be_empty: bool,
) -> Psi:
    for statistic in linear:
        statistic.check_belongs(domain)
    counted_cliques = [*cliques, *(statistic.clique for statistic in linear)]
    public = domain.covered_by([domain.canonical(clique) for clique in counted_cliques])
    tables = source.count(counted_cliques)
    if len(tables) != len(counted_cliques):
        raise InvalidPsiError(problem="it does not hold one table for each clique")
    pairs = zip(counted_cliques, tables, strict=True)
    exact_psi = Psi(public, tuple(Measurement(tuple(clique), table) for clique, table in pairs))
    check_consistent(exact_psi, may_be_empty=may_be_empty)
    marginals, rest = exact_psi.measurements[: len(cliques)], exact_psi.measurements[len(cliques) :]
    sums = tuple(
        LinearMeasurement(one, one.sums(m.values), np.zeros(len(one.functions)))
        for one, m in zip(linear, rest, strict=True)
    )
    return Psi(public, marginals, sums)


def measure_dataset(dataset: Dataset, statistics: Sequence[Statistic]) -> Psi:
    """Measure a dataset held in memory; see ``measure``."""
    return measure(_InMemory(dataset), statistics, dataset.domain)


@dataclass(frozen=True, slots=True)
class _InMemory:
    dataset: Dataset

    def count(self, cliques: Sequence[Clique]) -> Sequence[Counts]:
        return count_all(self.dataset, cliques)
