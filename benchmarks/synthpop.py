"""Reimplementation of the R package synthpop 1.7-1 for categorical data, for comparison only.

Its noise is no privacy: floating-point Laplace draws from a seed, sized for a sensitivity of 1 for each
marginal although the exact number of records is used. With that number public, neighbours differ by
replacing a record, the sensitivity is 2, and what is claimed as epsilon is truly 2 epsilon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import lcm, prod
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.generators.contract import TargetMarginal, quotient
from gencard.core.generators.family import saturated
from gencard.core.generators.models import TableModel
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Table

Array = NDArray[np.float64]

_PRIOR = 1.0
"""Records spread over the cells of every table (``priorn``)."""

_LEAST = 1e-6
"""Count that noisy counts below it become."""

_MOST_SWEEPS = 5_000

_TOLERANCE = 1e-4
"""Largest change of a cell over one sweep at which the fit ends, in records."""

_BLOCK_CELLS = 4_000

_LOOK = 10
"""Sweeps from one look at what changed to the next."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table, and whether the fit ended before the most sweeps that it may take."""

    model: TableModel
    converged: bool = True


def catall(dataset: Dataset) -> Fitted:
    """``syn.catall`` by our saturated model: every cell's count with the prior."""
    domain = dataset.domain
    psi = measure_dataset(dataset, [domain.attributes])
    return Fitted(saturated(alpha=_PRIOR / domain.cells).fit_table(psi, domain))


def psi_with_prior(dataset: Dataset) -> Psi:
    """All two-way marginals with the prior, times a number that makes all of them whole."""
    exact = measure_dataset(dataset, pairs(dataset.domain)).measurements
    times = lcm(*(m.values.size for m in exact))
    whole = (Measurement(m.clique, times * m.values + times // m.values.size) for m in exact)
    return Psi(dataset.domain, tuple(whole))


def margins(dataset: Dataset) -> list[Array]:
    """All two-way marginals with the prior, in records."""
    return [with_prior(counts) for counts in count_all(dataset, pairs(dataset.domain))]


def with_laplace(tables: Sequence[Array], epsilon: float, rng: np.random.Generator) -> list[Array]:
    """``addlapl``: noise of scale M / epsilon on each of M tables. It protects nobody."""
    scale = len(tables) / epsilon
    return [table + rng.laplace(0, scale, table.shape) for table in tables]


def made_positive(tables: Sequence[Array], records: int) -> list[Array]:
    """Lift what is below 1e-6 to it, then scale to the exact number of records."""
    lifted = [np.maximum(table, _LEAST) for table in tables]
    return [records * table / table.sum() for table in lifted]


def ipf(tables: Sequence[Array], domain: Domain) -> Fitted:
    """``mipfp::Ipfp`` on all two-way marginals in their order, starting from a table of ones.

    Neighbours in the order that lie inside one small attribute set are met on its own table: the same
    products of the same factors, for less work.
    """
    records = float(tables[0].sum())
    runs = _runs(domain, tables)
    table = np.full(domain.sizes, 1.0 / domain.cells)
    change = np.inf
    for sweep in range(1, _MOST_SWEEPS + 1):
        before = table.copy() if sweep % _LOOK == 0 else None
        for run in runs:
            run.scale(table)
        if before is not None:
            change = records * float(np.abs(table - before).max())
        if change < _TOLERANCE:
            break
    return Fitted(TableModel(domain, table), change < _TOLERANCE)


def pairs(domain: Domain) -> list[Clique]:
    """All pairs of attributes, in R's order."""
    return list(combinations(domain.attributes, 2))


def with_prior(counts: NDArray[Any]) -> Array:
    """Counts with one record spread over all cells."""
    return counts.astype(np.float64) + _PRIOR / counts.size


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Targets that follow each other inside one attribute set; the sum over all axes outside it."""

    targets: tuple[TargetMarginal, ...]
    sums: str
    shape: tuple[int, ...]

    def scale(self, table: Table) -> None:
        # Faster than sums over axes, where few cells lie beside each other.
        summed: Table = np.einsum(self.sums, table).reshape(self.shape)
        fitted = summed.copy()
        for target in self.targets:
            target.scale(fitted)
        table *= quotient(fitted, summed)


def _runs(domain: Domain, tables: Sequence[Array]) -> list[_Run]:
    runs: list[list[tuple[Clique, Array]]] = []
    for clique, table in zip(pairs(domain), tables, strict=True):
        together = {*clique, *(name for inside, _ in (runs[-1] if runs else []) for name in inside)}
        if runs and prod(domain.size(name) for name in together) <= _BLOCK_CELLS:
            runs[-1].append((clique, table))
        else:
            runs.append([(clique, table)])
    return [_run(domain, run) for run in runs]


def _run(domain: Domain, run: Sequence[tuple[Clique, Any]]) -> _Run:
    targets = tuple(TargetMarginal.of(clique, table, domain.attributes) for clique, table in run)
    axes = domain.axes(domain.canonical({name for clique, _ in run for name in clique}))
    letters = ascii_lowercase[: len(domain)]
    sums = f"{letters}->{''.join(letters[axis] for axis in axes)}"
    shape = tuple(size if axis in axes else 1 for axis, size in enumerate(domain.sizes))
    return _Run(targets, sums, shape)
