"""The promise of the by-construction tier, made by a signature; and psi as the targets of a fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError, InvalidPsiError, TooLargeError, VerificationError
from gencard.core.statistics.marginals import cell_numbers, maximal, others, project, sum_out, total
from gencard.core.statistics.psi import Measurement, Psi, check_consistent, reconcile
from gencard.core.types import FloatArray, Table

# Targets of a fit: psi checked, its narrower marginals and scaling towards them.
#
# For fits of linear statistics too, all that psi says as mean values of functions on the cells.


def admitted(psi: Psi, domain: Domain) -> Psi:
    """Return the psi that is fitted: exact psi unchanged, noisy psi reconciled; its marginals agree.

    Raises:
        InvalidPsiError: psi does not belong to the domain, it is exact and contradicts itself, or it
            holds linear statistics, which most methods cannot take.
        TooLargeError: The cliques are too wide to compare.
    """
    if psi.linear:
        raise InvalidPsiError(problem="this generator accepts marginals only, no linear statistics")
    check_belongs(psi, domain)
    return psi if psi.exact else reconcile(psi)


def check_belongs(psi: Psi, domain: Domain) -> None:
    """Refuse a psi that is not one of the domain, or that is exact and contradicts itself.

    Raises:
        InvalidPsiError: See above; linear statistics are allowed.
        TooLargeError: The cliques are too wide to compare.
    """
    for name, size in zip(psi.domain.attributes, psi.domain.sizes, strict=True):
        if name not in domain or domain.size(name) != size:
            raise InvalidPsiError(problem=f"'{name}' does not match its declaration in the domain")
    if not all(measurement.clique for measurement in psi.measurements):
        raise InvalidPsiError(problem="a measurement names no attribute")
    if psi.exact:
        check_consistent(psi)


def check_settings(tolerance: float = 1.0, **bounds: int) -> None:
    """Raises InvalidNumberError where the tolerance is not positive or a bound is below 1."""
    if not tolerance > 0:
        raise InvalidNumberError(field="tolerance", expected="above zero")
    for name, bound in bounds.items():
        if bound < 1:
            raise InvalidNumberError(field=name, expected="at least 1")


_TINY = 1e-300
"""Divisor in place of zero: 0 / _TINY is 0, and no share divided by it overflows."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetMarginal:
    """A marginal in shares, laid out for one table.

    Args:
        shares: Shares that sum to 1, on as many axes as the table; axes outside the clique have size 1.
    """

    clique: Clique
    shares: Table
    others: tuple[int, ...]

    @classmethod
    def of(cls, clique: Clique, values: NDArray[Any], attributes: Clique) -> "TargetMarginal":
        """The target of a marginal for a table on ``attributes``; ``values`` has the clique's axes."""
        ascending = np.argsort([attributes.index(name) for name in clique])
        sizes = dict(zip(clique, values.shape, strict=True))
        shares = np.ascontiguousarray(np.transpose(values, ascending)) / total(values)
        own_sizes = [sizes.get(name, 1) for name in attributes]
        return cls(clique, shares.reshape(own_sizes), others(attributes, clique))

    def error(self, table: Table) -> float:
        """L1 distance between the table's marginal and the target, in shares."""
        return total(np.abs(self._marginal(table) - self.shares))

    def scale(self, table: Table) -> None:
        """Give the table this marginal, in place; cells that are zero stay zero."""
        table *= quotient(self.shares, self._marginal(table))

    def has_room(self, table: Table) -> bool:
        """Whether the table has a cell above zero wherever the target is above zero."""
        return not np.any((self.shares > 0) & (self._marginal(table) == 0))

    def _marginal(self, table: Table) -> Table:
        return sum_out(table, self.others)


def worst_error(table: Table, targets: Sequence[TargetMarginal]) -> float:
    """Largest L1 distance of any target, in shares; not a number where the table holds none."""
    return float(np.max([target.error(table) for target in targets], initial=0.0))


def quotient(one: Table, other: Table) -> Table:
    """Cell by cell, 0 / 0 being 0."""
    ratio: Table = one / np.maximum(other, _TINY)
    return ratio


def implied(psi: Psi, cliques: Iterable[Clique]) -> list[Measurement]:
    """The marginals on cliques that lie inside those of psi, each from the smallest that holds it.

    psi must agree with itself. The stddev is that of the wider marginal, summed over its other cells.
    """
    smallest = sorted(psi.measurements, key=lambda measurement: measurement.values.size)
    return [
        _projected(next(m for m in smallest if set(clique) <= set(m.clique)), clique)
        for clique in cliques
    ]


def pairs_inside(cliques: Iterable[Clique], domain: Domain) -> tuple[Clique, ...]:
    """Every pair of attributes inside some clique, in the domain's order."""
    chosen_pairs = {pair for clique in cliques for pair in combinations(domain.canonical(clique), 2)}
    return tuple(sorted(chosen_pairs, key=domain.axes))


def inside(psi: Psi, cliques: Iterable[Clique]) -> list[Measurement]:
    """Return the parts of psi inside the given cliques, without parts that a wider one contains."""
    parts: dict[Clique, Measurement] = {}
    for clique in cliques:
        for measurement in psi.measurements:
            part = tuple(name for name in measurement.clique if name in clique)
            if part:
                parts.setdefault(part, measurement)
    return [_projected(parts[part], part) for part in maximal(parts)]


def restricted(psi: Psi, cliques: Iterable[Clique]) -> Psi:
    """A psi of the marginals on the given cliques, and on each attribute that none of them names."""
    chosen = tuple(cliques)
    names = {name for clique in chosen for name in clique}
    alone = [(name,) for name in psi.domain.covered_by(psi.cliques).attributes if name not in names]
    return Psi(psi.domain, tuple(implied(psi, [*chosen, *alone])))


def _projected(measurement: Measurement, clique: Clique) -> Measurement:
    values = project(measurement.values, measurement.clique, clique)
    spread = measurement.values.size / values.size
    return Measurement(clique, values, measurement.stddev * float(spread**0.5))


_FEWEST = 1.0
"""Records that psi counts at least, where noise left fewer."""

_EXACT = 1e-30
"""The variance of exact counts, beside which that of any noise is without end."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetMeans:
    """The mean that each function should have over the records.

    Every function has values in [-1, 1] and reaches 1 in size: a cell of a marginal is 1 inside it, and
    the functions of a linear statistic are divided by their largest value.

    Args:
        means: Shape ``(functions,)``.
        stddevs: Standard deviation of the noise on each mean; shape ``(functions,)``.
    """

    means: FloatArray
    stddevs: FloatArray

    @classmethod
    def of(cls, psi: Psi) -> "TargetMeans":
        """Return the means that psi states, in the order of ``values_on``."""
        sums, stddevs = [], []
        for marginal in informative_marginals(psi):
            sums.append(marginal.values.ravel())
            stddevs.append(np.full(marginal.values.size, marginal.stddev))
        for linear in psi.linear:
            largest = np.array([float(function.largest) for function in linear.statistic.functions])
            sums.append(linear.values / largest)
            stddevs.append(linear.stddevs / largest)
        number = records(psi)
        return cls(np.concatenate(sums) / number, np.concatenate(stddevs) / number)


def informative_marginals(psi: Psi) -> list[Measurement]:
    """The marginals that say something of their own: of exact ones only the largest."""
    if not psi.exact:
        return list(psi.measurements)
    first: dict[Clique, Measurement] = {}
    for measurement in psi.measurements:
        first.setdefault(measurement.clique, measurement)
    return [first[clique] for clique in maximal(first)]


def check_functions(functions: int, points: int, most_functions: int, most_values: int) -> None:
    """Refuse what would be too large to hold or to solve; allocates nothing.

    Raises:
        TooLargeError: Too many functions, or too many of their values on so many points.
    """
    if functions > most_functions:
        raise TooLargeError(what="The number of functions of psi", limit=most_functions)
    if functions * points > most_values:
        what = "The number of functions of psi times cells of the model"
        raise TooLargeError(what=what, limit=most_values)


def number_of_functions(psi: Psi) -> int:
    """Number of the targets, before any is written out."""
    counts = sum(marginal.values.size for marginal in informative_marginals(psi))
    return counts + sum(len(linear.values) for linear in psi.linear)


def values_on(psi: Psi, points: Dataset) -> FloatArray:
    """The functions' values on records: shape ``(functions, len(points))``."""
    values = np.zeros((number_of_functions(psi), len(points)))
    row = 0
    for marginal in informative_marginals(psi):
        values[row + _cells(points, marginal.clique), np.arange(len(points))] = 1.0
        row += marginal.values.size
    for linear in psi.linear:
        scaled = linear.statistic.scaled[:, _cells(points, linear.statistic.clique)]
        values[row : row + len(scaled)] = scaled
        row += len(scaled)
    return values


def records(psi: Psi) -> float:
    """The number of records: what the measurements say, weighted by inverse variance; 1 at least."""
    measured = [(float(m.values.sum()), m.stddev**2 * m.values.size) for m in psi.measurements]
    measured += [(float(m.values[0]), float(m.stddevs[0]) ** 2) for m in psi.linear]
    totals, variances = np.array(measured).T
    weights = 1 / np.maximum(variances, _EXACT)
    return max(float(weights @ totals) / float(weights.sum()), _FEWEST)


def every_cell(domain: Domain) -> Dataset:
    """One record for each cell of a domain, the last attribute running fastest."""
    cells = np.stack(np.unravel_index(np.arange(domain.cells), domain.sizes), axis=1)
    return Dataset(domain, cells)


def _cells(points: Dataset, clique: Clique) -> NDArray[np.intp]:
    columns = [points.column(name) for name in clique]
    return cell_numbers(columns, points.domain.project(clique).sizes).astype(np.intp)


class Model(Protocol):
    """A fitted distribution over a domain."""

    @property
    def domain(self) -> Domain:
        """The attributes of the records that it draws."""

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw ``rows`` independent records; a function of (model, state of ``rng``) alone.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """


class Generator(Protocol):
    """A way to turn measured statistics into a distribution.

    There is no parameter through which a record could enter. That is the whole of the promise
    G(D) = S(psi(D)): it holds because this signature cannot say anything else.
    """

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """Refuse marginals to which no model may be fitted, whatever their counts are.

        It allocates no table and depends on what is public alone, so that a card can be refused before
        any record is read. ``fit`` does it too.

        Raises:
            ModelTooLargeError: Names the attribute sets whose tables are largest.
            InvalidInputError: The generator needs a marginal that is not there.
        """

    def fit(self, psi: Psi, domain: Domain) -> Model:
        """Fit a model to ``psi``; deterministic, so that all randomness is in ``sample``.

        Raises:
            ModelTooLargeError, InvalidInputError: See ``check``; before anything is allocated.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: No model was found within the tolerance.
        """


@runtime_checkable
class LinearGenerator(Generator, Protocol):
    """One that takes linear statistics besides marginals."""

    def check_functions(self, functions: int, domain: Domain) -> None:
        """Refuse too many functions, cells of marginals counted; see ``check``.

        Raises:
            TooLargeError: For themselves, or for the cells of the model.
        """


@runtime_checkable
class ApproximateGenerator(Generator, Protocol):
    """One whose fit may end far from exact psi: it is tried on made-up records (``trial_fit``)."""

    def reduced(self) -> "ApproximateGenerator":
        """Return the same method with a fraction of the work, and no better fit."""

    def __hash__(self) -> int:
        """Hash of the settings, so that the verdict of a trial can be kept."""


_SEEDS = 2**64


def rng_of(seed: int) -> np.random.Generator:
    """The random numbers of a release: PCG64, whose stream numpy keeps for ever.

    Raises:
        InvalidNumberError: The seed is outside 0..2**64-1.
    """
    if not 0 <= seed < _SEEDS:
        raise InvalidNumberError(field="seed", expected="from 0 to 2**64 - 1")
    return np.random.Generator(np.random.PCG64(seed))


def synthesise(generator: Generator, psi: Psi, domain: Domain, rows: int, seed: int) -> Dataset:
    """Fit psi and draw ``rows`` records; a function of its arguments, to the byte."""
    return generator.fit(psi, domain).sample(rows, rng=rng_of(seed))


def replay(
    generator: Generator, psi: Psi, domain: Domain, rows: int, seed: int, *, digest: str
) -> Dataset:
    """Make a release again and compare it with the digest on its receipt.

    Raises:
        VerificationError: Other rows came out: the release was not made from this psi, generator
            and seed alone.
    """
    dataset = synthesise(generator, psi, domain, rows, seed)
    if dataset.digest() != digest:
        raise VerificationError(problem="the replayed rows do not match the digest")
    return dataset
