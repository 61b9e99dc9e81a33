"""Measurements: everything that a generator may see; exact counts are checked and rounded before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.mechanism import Transform
from gencard.core.card.sums import Sum
from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidPsiError, MeasurementRefusedError
from gencard.core.json_codecs import ScalarCodec, written
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.types import Counts


def stddev_text(stddev: float) -> str:
    """The shortest decimal that reads back as the same float; "0" for exact counts."""
    return "0" if stddev == 0 else repr(float(stddev))


_STDDEV = ScalarCodec(stddev_text, float, types=frozenset({str}))


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """One released marginal; its values are read-only.

    Args:
        clique: The attributes, in the order of the axes of ``values``.
        values: Counts, shape ``domain.project(clique).sizes``, in records (int64).
        stddev: Standard deviation of the noise on each count, in records; 0 for exact counts.
    """

    clique: Clique
    values: Counts
    stddev: float = 0.0

    def __post_init__(self) -> None:
        frozen = np.asarray(self.values).view()
        frozen.flags.writeable = False
        object.__setattr__(self, "values", frozen)


@dataclass(frozen=True, slots=True, eq=False)
class LinearMeasurement:
    """One released linear statistic; its values are read-only.

    Args:
        statistic: The functions.
        values: Sums of their numerators over all records, shape ``(functions,)``.
        stddevs: Standard deviation of the noise on each, shape ``(functions,)``; 0 for exact sums.
    """

    statistic: LinearStatistic
    values: Counts
    stddevs: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("values", "stddevs"):
            frozen = np.asarray(getattr(self, name)).view()
            frozen.flags.writeable = False
            object.__setattr__(self, name, frozen)

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean of each function over the records, in the functions' own unit."""
        means: NDArray[np.float64] = self.values / self.statistic.denominators / self.values[0]
        return means


@dataclass(frozen=True, slots=True)
class HistogramMeasurement:
    """One released histogram.

    Args:
        attribute: An attribute with a step.
        counts: Records in each cell of its scale, then those without a value if it can be missing.
        stddev: Standard deviation of the noise on each count, in records; 0 for exact counts.
    """

    attribute: str
    counts: tuple[int, ...]
    stddev: float = field(metadata=written(scalar=_STDDEV))


@dataclass(frozen=True, slots=True)
class SumMeasurement:
    """One released sum, by cells of ``sum.by``, of which the last attribute runs fastest.

    Args:
        sum: Definition of the sum: its numbers, groups and population.
        values: Sum of the products of units in each cell; of any size.
        stddev: Standard deviation of the noise on each, in products of units; 0 for exact sums.
        counts: Records of each cell that are in the population; empty if a marginal of psi has them.
        counts_stddev: Standard deviation of the noise on each count, in records.
    """

    sum: Sum = field(metadata=written(inline=True))
    values: tuple[int, ...]
    stddev: float = field(metadata=written(scalar=_STDDEV))
    counts: tuple[int, ...] = field(default=(), metadata=written(omit=True))
    counts_stddev: float = field(
        default=0.0, metadata=written("countsStddev", omit=True, scalar=_STDDEV)
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Psi:
    """All measurements of a card, in the card's order, over the domain of the attributes they name.

    Args:
        measurements: The marginals.
        linear: The linear statistics, which a card names after its marginals.
        histograms: Counts by the cells of a scale.
        sums: Sums of numbers, by groups.

    Raises:
        InvalidPsiError: No measurement, a wrong shape, values that are not finite numbers, or a
            negative stddev.
    """

    domain: Domain
    measurements: tuple[Measurement, ...]
    linear: tuple[LinearMeasurement, ...] = ()
    histograms: tuple[HistogramMeasurement, ...] = ()
    sums: tuple[SumMeasurement, ...] = ()

    def __post_init__(self) -> None:
        for histogram in self.histograms:
            self.domain.axis(histogram.attribute)
            _check_stddevs(histogram.attribute, histogram.stddev)
        for one in self.sums:
            _check_sum(one, self.domain)
        if not self.measurements and not self.linear:
            raise InvalidPsiError(problem="it contains no measurement")
        for linear in self.linear:
            _check_linear(linear, self.domain)
        for measurement in self.measurements:
            where = ", ".join(measurement.clique)
            if measurement.values.shape != self.domain.project(measurement.clique).sizes:
                raise InvalidPsiError(problem=f"({where}) has the wrong shape")
            if measurement.values.dtype.kind not in "iuf" or not np.all(np.isfinite(measurement.values)):
                raise InvalidPsiError(problem=f"({where}) holds values that are not finite numbers")
            if not (np.isfinite(measurement.stddev) and measurement.stddev >= 0):
                raise InvalidPsiError(problem=f"({where}) has a stddev that is negative or not a number")

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(measurement.clique for measurement in self.measurements)

    @property
    def exact(self) -> bool:
        stddevs = [one.stddev for one in self.measurements]
        stddevs += [one.stddev for one in self.histograms]
        stddevs += [one.stddev for one in self.sums]
        return not any(stddevs) and not any(linear.stddevs.any() for linear in self.linear)

    @property
    def fitted(self) -> "Psi":
        """The part that generators see: marginals and moments, over the attributes that they name."""
        if not self.histograms and not self.sums:
            return self
        cliques = (*self.cliques, *(one.statistic.clique for one in self.linear))
        return Psi(self.domain.covered_by(cliques), self.measurements, self.linear)

    def __repr__(self) -> str:
        counts = sum(measurement.values.size for measurement in self.measurements)
        sums = sum(linear.values.size for linear in self.linear)
        counts += sum(len(one.counts) for one in self.histograms)
        sums += sum(len(one.values) for one in self.sums)
        how = "exact" if self.exact else "with noise"
        return f"<Psi: {counts:,} counts in {len(self.measurements)} marginals, {sums:,} sums, {how}>"


def _check_linear(linear: LinearMeasurement, domain: Domain) -> None:
    where = ", ".join(linear.statistic.clique)
    linear.statistic.check_belongs(domain)
    for numbers in (linear.values, linear.stddevs):
        if numbers.shape != (len(linear.statistic.functions),):
            raise InvalidPsiError(problem=f"({where}) needs one value for each function")
        if numbers.dtype.kind not in "iuf" or not np.all(np.isfinite(numbers)):
            raise InvalidPsiError(problem=f"({where}) holds values that are not finite numbers")
    if np.any(linear.stddevs < 0):
        raise InvalidPsiError(problem=f"({where}) has a stddev that is negative or not a number")


def _check_sum(one: SumMeasurement, domain: Domain) -> None:
    where = ", ".join(one.sum.attributes)
    _check_stddevs(where, one.stddev, one.counts_stddev)
    domain.axes(one.sum.attributes)
    cells = domain.project(one.sum.by).cells
    if len(one.values) != cells or len(one.counts) not in (0, cells):
        raise InvalidPsiError(problem=f"({where}) needs one sum for each cell")


def _check_stddevs(where: str, *stddevs: float) -> None:
    if not all(np.isfinite(stddev) and stddev >= 0 for stddev in stddevs):
        raise InvalidPsiError(problem=f"({where}) has a stddev that is negative or not a number")


Mask = NDArray[np.bool_]


def transformed(psi: Psi, transform: Transform, zeros: Sequence[StructuralZeros] = ()) -> Psi:
    """Exact psi as the card agrees that it leaves: checked for disclosure control, and rounded.

    A histogram is a marginal on finer cells. Sums are never rounded.

    Each check follows from one count c alone, for every record adds 1 to its cell. The n largest
    contributions are min(n, c) of c records; without the two largest, c - 2 are left.

    Rounded counts carry the stddev of a rounding error that is uniform, so that what is fitted to
    them reconciles them first.

    Args:
        zeros: Cells that the schema declares impossible; they may be empty.

    Raises:
        MeasurementRefusedError: A cell fails a check. It says neither which cell nor which check.
    """
    if any(
        failing(m.values, transform, impossible_cells(psi.domain.project(m.clique), zeros)).any()
        for m in psi.measurements
    ):
        raise MeasurementRefusedError
    if any(failing(np.array(one.counts), transform).any() for one in psi.histograms):
        raise MeasurementRefusedError
    base = transform.rounding
    if base == 1:
        return psi
    stddev = rounding_stddev(base)
    return Psi(
        psi.domain,
        tuple(Measurement(m.clique, rounded(m.values, base), stddev) for m in psi.measurements),
        histograms=tuple(
            HistogramMeasurement(
                one.attribute, tuple(rounded(np.array(one.counts), base).tolist()), stddev
            )
            for one in psi.histograms
        ),
    )


def failing(counts: Counts, transform: Transform, allowed_empty: Mask | bool = False) -> Mask:
    """The cells that fail a check, as a mask of the marginal's shape."""
    some = counts > 0
    fails = some & (counts < transform.threshold)
    if transform.dominance_count:
        largest = np.minimum(counts, transform.dominance_count)
        fails |= some & (100 * largest > transform.dominance_percent * counts)
    fails |= some & (100 * np.maximum(counts - 2, 0) < transform.remainder_percent)
    if transform.zeros:
        fails |= ~some & ~np.asarray(allowed_empty)
    if int(counts.sum()) - counts.size < transform.freedom and transform.freedom:
        fails |= True
    return np.asarray(fails)


def rounded(counts: Counts, base: int) -> Counts:
    """The nearest multiples of ``base``, halves up.

    >>> rounded(np.array([0, 2, 3, 7, 8]), 5).tolist()
    [0, 0, 5, 5, 10]
    """
    return (2 * counts + base) // (2 * base) * base


def rounding_stddev(base: int) -> float:
    r"""Root mean square of the error over all remainders, in records: :math:`\sqrt{(b^2 - 1) / 12}`.

    For an even base, whose halves all go up, :math:`\sqrt{(b^2 + 2) / 12}`.
    """
    return sqrt((base**2 + (2 if base % 2 == 0 else -1)) / 12)
