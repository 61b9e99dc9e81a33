"""All that psi says, as mean values of functions: marginals and linear statistics alike."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import TooLargeError
from gencard.core.statistics.closure import maximal
from gencard.core.statistics.counting import cell_numbers
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray

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
        stddevs: Of the noise on each mean.
    """

    means: FloatArray
    stddevs: FloatArray

    @classmethod
    def of(cls, psi: Psi) -> "TargetMeans":
        """What psi says, in the order of ``values_on``."""
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
        raise TooLargeError(
            what="The number of functions of psi times cells of the model", limit=most_values
        )


def number_of_functions(psi: Psi) -> int:
    """How many there are, before any is written out."""
    return sum(m.values.size for m in informative_marginals(psi)) + sum(
        len(m.values) for m in psi.linear
    )


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
    totals, variances = np.array(list(_totals(psi))).T
    weights = 1 / np.maximum(variances, _EXACT)
    return max(float(weights @ totals) / float(weights.sum()), _FEWEST)


def every_cell(domain: Domain) -> Dataset:
    """One record for each cell of a domain, the last attribute running fastest."""
    cells = np.stack(np.unravel_index(np.arange(domain.cells), domain.sizes), axis=1)
    return Dataset(domain, cells)


def _totals(psi: Psi) -> Iterator[tuple[float, float]]:
    for marginal in psi.measurements:
        yield float(marginal.values.sum()), marginal.stddev**2 * marginal.values.size
    for linear in psi.linear:
        yield float(linear.values[0]), float(linear.stddevs[0]) ** 2


def _cells(points: Dataset, clique: Clique) -> NDArray[np.intp]:
    columns = [points.column(name) for name in clique]
    return cell_numbers(columns, points.domain.project(clique).sizes).astype(np.intp)
