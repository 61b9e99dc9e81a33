"""Measurements: everything that a generator may see; exact counts are checked and rounded before."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.privacy import Transform
from gencard.core.card.sums import Sum
from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidPsiError, MeasurementRefusedError
from gencard.core.json_codecs import ScalarCodec, written
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.marginals import Attributes, check_subsets, project, subsets, sum_out, total
from gencard.core.types import Counts, FloatArray


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
            where = ", ".join(one.sum.attributes)
            _check_stddevs(where, one.stddev, one.counts_stddev)
            self.domain.axes(one.sum.attributes)
            cells = self.domain.project(one.sum.by).cells
            if len(one.values) != cells or len(one.counts) not in (0, cells):
                raise InvalidPsiError(problem=f"({where}) needs one sum for each cell")
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
            _check_stddevs(where, measurement.stddev)

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
    marginals = tuple(Measurement(m.clique, rounded(m.values, base), stddev) for m in psi.measurements)
    pairs = ((one.attribute, rounded(np.array(one.counts), base).tolist()) for one in psi.histograms)
    histograms = tuple(HistogramMeasurement(name, tuple(counts), stddev) for name, counts in pairs)
    return Psi(psi.domain, marginals, histograms=histograms)


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


# Consistency of marginals: a check that one table could have them all, and its repair for noisy ones.
#
# ``check_consistent`` refuses a psi that contradicts itself; ``reconcile`` estimates marginals that
# agree from noisy ones, in closed form and with less noise, and then removes negative counts.

_RELATIVE = 1e-9
"""Largest difference of reconciled noisy marginals, as a share of the records: rounding of floats."""


def check_consistent(psi: Psi, *, may_be_empty: bool = False) -> None:
    """Refuse a psi that contradicts itself: two marginals must agree wherever they overlap.

    Exact counts must agree as integers; noisy ones, once reconciled, up to rounding. Of linear
    statistics only the number of records and the range of each sum are compared.

    Args:
        may_be_empty: Whether psi may count no record: before noise is added, an error would disclose
            that there is none.

    Raises:
        InvalidPsiError: A value is negative, an exact count is not an integer, psi counts no record,
            two marginals disagree on the attributes that they share (or on the total), or a sum is
            one of no records.
        TooLargeError: The cliques are too wide to compare.
    """
    for measurement in psi.measurements:
        where = ", ".join(measurement.clique)
        if np.any(measurement.values < 0):
            raise InvalidPsiError(problem=f"({where}) holds a negative value")
        exact_floats = measurement.stddev == 0 and measurement.values.dtype.kind == "f"
        if exact_floats and np.any(measurement.values != np.floor(measurement.values)):
            raise InvalidPsiError(problem=f"({where}) is exact and holds a value that is not an integer")
    total = float(psi.measurements[0].values.sum() if psi.measurements else psi.linear[0].values[0])
    if total <= 0 and not may_be_empty:
        raise InvalidPsiError(problem="it contains no records")
    # Exact counts come from one table, so any difference is an error. Reconciled marginals are sums of
    # floats in different orders and differ by rounding.
    slack = 0.0 if psi.exact else _RELATIVE * total
    for linear in psi.linear:
        _check_sums(linear, total, slack)
    first: dict[Attributes, tuple[Clique, Counts]] = {}
    check_subsets(psi.cliques)
    times = Counter(inside for clique in psi.cliques for inside in subsets(clique))
    for measurement in psi.measurements:
        for attributes in subsets(measurement.clique):
            if times[attributes] > 1:
                _check_agrees(measurement, attributes, first, slack)


def _check_sums(linear: LinearMeasurement, total: float, slack: float) -> None:
    """The first sum is the number of records, and each lies between so many least and largest values."""
    where = ", ".join(linear.statistic.clique)
    numerators = linear.statistic.numerators
    low, high = total * numerators.min(axis=1), total * numerators.max(axis=1)
    if abs(float(linear.values[0]) - total) > slack:
        raise InvalidPsiError(problem=f"({where}) disagrees on the number of records")
    room = slack * np.maximum(np.abs(low), np.abs(high))
    if np.any(linear.values < low - room) or np.any(linear.values > high + room):
        raise InvalidPsiError(problem=f"({where}) holds a sum that is out of range")


def _check_agrees(
    measurement: Measurement,
    attributes: Attributes,
    first: dict[Attributes, tuple[Clique, Counts]],
    slack: float,
) -> None:
    """Compare a sub-marginal with the first one seen on the same attributes."""
    clique = tuple(sorted(attributes))
    values = project(measurement.values, measurement.clique, clique)
    # Equality is transitive: comparing each marginal with the first one on these attributes covers all
    # pairs without comparing all pairs.
    other, expected = first.setdefault(attributes, (measurement.clique, values))
    if np.any(np.abs(values - expected) > slack):
        where = f"on ({', '.join(clique)})" if clique else "on the number of records"
        names = f"({', '.join(other)}) and ({', '.join(measurement.clique)})"
        raise InvalidPsiError(problem=f"{names} disagree {where}")


_ROUNDS = 300
"""Most times that negative counts are taken away and the marginals made to agree again."""

_LITTLE = 1e-3
"""Share of the uniform table that may be mixed in. On tables of many empty cells it would else be a
tenth, which is more error than the noise itself."""

_FEWEST = 1.0
"""Records that psi counts at least, where noise left fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class InteractionBlock:
    """Knowledge about the interaction of some attributes.

    Args:
        values: The part of their marginal that sums to zero along every axis, in records.
        variance: Variance of the noise along each direction of the block; 0 if the block is exact.
    """

    values: FloatArray
    variance: float


Blocks = dict[Clique, InteractionBlock]
"""By the set of attributes, in the order of the domain."""


def reconcile(psi: Psi) -> Psi:
    """Marginals that agree wherever they overlap, with one total and no negative count.

    First the least-squares estimate, without the interactions that drown in the noise (``shrunk``);
    then, round after round, negative counts are taken away from each marginal and the rest made to
    agree. The little that is still negative is lifted by mixing in as much of the uniform table as it
    needs, which every marginal shares. A function of psi alone.

    Returns:
        psi with the same cliques and stddevs; values are floats, in records.

    Raises:
        TooLargeError: The cliques have too many subsets.
    """
    consistent = shrunk(psi)
    # Noise may leave a total of 0 or less, for which no table without negative counts exists.
    records = max(total(consistent.measurements[0].values), _FEWEST)
    for _ in range(_ROUNDS):
        if _lift(consistent, records) <= _LITTLE:
            break
        # Alternating projections: onto tables without negative counts, then onto marginals that agree.
        tables = [on_simplex(m.values, records) for m in consistent.measurements]
        consistent = agreeing(_with(consistent, tables))
    # One share for all marginals, the largest that any of them needs: mixed with different shares,
    # marginals that agree would no longer agree. The maximum below removes rounding errors only.
    share = _lift(consistent, records)
    tables = []
    for measurement in consistent.measurements:
        values, size = measurement.values, measurement.values.size
        scaled = values + (records - total(values)) / size
        tables.append(np.maximum((1 - share) * scaled + share * records / size, 0.0))
    return _with(consistent, tables)


def agreeing(psi: Psi) -> Psi:
    r"""The weighted least-squares estimate of all marginals from all of them, in closed form.

    The blocks of interactions are orthogonal. A marginal on C with independent noise of stddev
    :math:`\sigma` on each count gives the block of S, a subset of C, with variance
    :math:`\sigma^2` times the cells of C outside S; each block's estimate is the mean of what its
    marginals say, weighted by inverse variance, and an exact one overrules all others.
    """
    blocks = interactions(psi)
    return _with(psi, [marginal_of(psi.domain, m.clique, blocks) for m in psi.measurements])


def shrunk(psi: Psi) -> Psi:
    r"""The least-squares estimate with each block :math:`b_S` drawn towards zero: James and Stein's.

    .. math:: b_S \max\left(0,\; 1 - (d_S - 2)\, v_S / \lVert b_S \rVert^2\right), \quad
       d_S = \prod_{i \in S} (n_i - 1)

    with the variance :math:`v_S` of the noise along each of its directions. From three directions up,
    the expected squared error is below that of ``agreeing`` whatever the truth, and most so where there
    is nothing but noise; smaller blocks and the total stay as they are.

    References:
        W. James, C. Stein, "Estimation with Quadratic Loss", 4th Berkeley Symposium, 1961; the positive
        part: A. Baranchik, Stanford, 1964. Normal noise is assumed; a test looks at Laplace noise too.
    """
    drawn = {}
    for inside, block in interactions(psi).items():
        freedom = prod(size - 1 for size in block.values.shape) - 2
        power = total(block.values**2)
        if freedom <= 0 or power == 0:
            drawn[inside] = block
        else:
            share = max(0.0, 1 - freedom * block.variance / power)
            drawn[inside] = InteractionBlock(block.values * share, block.variance)
    return _with(psi, [marginal_of(psi.domain, m.clique, drawn) for m in psi.measurements])


def on_simplex(values: FloatArray, records: float) -> FloatArray:
    """The nearest table, in Euclidean distance, of counts from zero up that sum to ``records``.

    Duchi et al., ICML 2008: every count falls by the same amount, down to zero.
    """
    descending = np.sort(values, axis=None)[::-1]
    falls = (np.cumsum(descending) - records) / np.arange(1, descending.size + 1)
    # The last count that stays above zero fixes by how much all fall.
    last = int(np.flatnonzero(descending > falls)[-1])
    nearest: FloatArray = np.maximum(values - falls[last], 0.0)
    return nearest


def interactions(psi: Psi) -> Blocks:
    """The least-squares estimate of every interaction inside a clique, as in ``agreeing``.

    Estimates of different interactions are independent, and so are the directions of each.

    Raises:
        TooLargeError: The cliques have too many subsets.
    """
    return interactions_of(psi.domain, psi.measurements)


def interactions_of(domain: Domain, tables: Sequence[Measurement]) -> Blocks:
    """Return the blocks of some tables with independent noise, of counts or of sums."""
    check_subsets(one.clique for one in tables)
    sums: dict[Clique, FloatArray] = {}
    weights: dict[Clique, float] = {}
    exact = {clique for m in tables if m.stddev == 0 for clique in _subsets(domain, m)}
    for measurement in tables:
        for inside in _subsets(domain, measurement):
            # An exact marginal would have infinite weight: it alone decides its blocks.
            if inside in exact and measurement.stddev > 0:
                continue
            marginal = project(measurement.values, measurement.clique, inside)
            # Each count of the sub-marginal adds up `spread` independent noisy counts, so its variance
            # is stddev^2 times `spread`.
            spread = measurement.values.size / marginal.size
            weight = 1.0 if inside in exact else 1.0 / (measurement.stddev**2 * spread)
            weighted = weight * _pure(marginal)
            sums[inside] = sums[inside] + weighted if inside in sums else weighted
            weights[inside] = weights.get(inside, 0.0) + weight
    variances = {inside: 0.0 if inside in exact else 1 / weights[inside] for inside in sums}
    return {one: InteractionBlock(sums[one] / weights[one], variances[one]) for one in sums}


def _pure(marginal: NDArray[Any]) -> FloatArray:
    """Return the block of a marginal: the rest after its mean along each axis is taken away."""
    block = np.asarray(marginal, dtype=np.float64)
    for axis, size in enumerate(block.shape):
        # Means are removed axis by axis, so no table of contrasts is made: O(cells) for each axis.
        block = block - sum_out(block, (axis,)) / size
    return block


def marginal_of(domain: Domain, clique: Clique, blocks: Blocks) -> FloatArray:
    """The marginal whose blocks are the given ones inside the clique."""
    table = np.zeros(domain.project(clique).sizes)
    for inside in subsets(clique):
        names = tuple(name for name in clique if name in inside)
        ordered = tuple(name for name in domain.attributes if name in inside)
        part = project(blocks[ordered].values, ordered, names)
        sizes = [size if name in inside else 1 for name, size in zip(clique, table.shape, strict=True)]
        table += part.reshape(sizes) / (table.size // part.size)
    return table


def _lift(psi: Psi, records: float) -> float:
    """The smallest share of the uniform table that, mixed in, leaves no count below zero."""
    share = 0.0
    for measurement in psi.measurements:
        # The share s solves (1 - s) * lowest + s * uniform = 0.
        lowest, uniform = float(measurement.values.min()), records / measurement.values.size
        share = max(share, -lowest / (uniform - lowest) if lowest < 0 else 0.0)
    return share


def _subsets(domain: Domain, measurement: Measurement) -> Iterator[Clique]:
    for inside in subsets(measurement.clique):
        yield tuple(name for name in domain.attributes if name in inside)


def _with(psi: Psi, tables: list[FloatArray]) -> Psi:
    pairs = zip(psi.measurements, tables, strict=True)
    return Psi(psi.domain, tuple(Measurement(m.clique, table, m.stddev) for m, table in pairs))
