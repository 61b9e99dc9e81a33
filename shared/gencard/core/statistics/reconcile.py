"""Noisy marginals made to agree: the best linear estimate in closed form, then without negatives."""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.statistics.closure import check_subsets, subsets
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.statistics.table import others, project, sum_out, total

FloatArray = NDArray[np.float64]
Blocks = dict[Clique, FloatArray]
"""The part of each attribute set's marginal that sums to zero along every axis; by ordered set."""

_ROUNDS = 20
"""Times that negative counts are taken away and the marginals made to agree again."""

_FEWEST = 1.0
"""Records that psi counts at least, where noise left fewer."""


def reconcile(psi: Psi) -> Psi:
    """Marginals that agree wherever they overlap, with one total and no negative count.

    First the least-squares estimate (``agreeing``); then, a few rounds, negative counts are taken away
    from each marginal and the rest made to agree; what is still negative is lifted by mixing in as much
    of the uniform table as it needs, which every marginal shares. A function of psi alone.

    Returns:
        psi with the same cliques and stddevs; values are floats, in records.

    Raises:
        TooLargeError: The cliques have too many subsets.
    """
    agreed = agreeing(psi)
    records = max(total(agreed.measurements[0].values), _FEWEST)
    for _ in range(_ROUNDS):
        if min(m.values.min() for m in agreed.measurements) >= 0:
            break
        agreed = agreeing(_with(agreed, [on_simplex(m.values, records) for m in agreed.measurements]))
    return _lifted(agreed, records)


def agreeing(psi: Psi) -> Psi:
    r"""The weighted least-squares estimate of all marginals from all of them, in closed form.

    The blocks of interactions are orthogonal. A marginal on C with independent noise of stddev
    :math:`\sigma` on each count gives the block of S, a subset of C, with variance
    :math:`\sigma^2` times the cells of C outside S; each block's estimate is the mean of what its
    marginals say, weighted by inverse variance, and an exact one overrules all others.

    Raises:
        TooLargeError: The cliques have too many subsets.
    """
    check_subsets(psi.cliques)
    blocks = _mean_blocks(psi)
    return _with(psi, [_table(psi.domain, m.clique, blocks) for m in psi.measurements])


def on_simplex(values: FloatArray, records: float) -> FloatArray:
    """The nearest table, in Euclidean distance, of counts from zero up that sum to ``records``.

    Duchi et al., ICML 2008: every count falls by the same amount, down to zero.
    """
    descending = np.sort(values, axis=None)[::-1]
    falls = (np.cumsum(descending) - records) / np.arange(1, descending.size + 1)
    last = int(np.flatnonzero(descending > falls)[-1])
    nearest: FloatArray = np.maximum(values - falls[last], 0.0)
    return nearest


def _mean_blocks(psi: Psi) -> Blocks:
    sums: Blocks = {}
    weights: dict[Clique, float] = {}
    exact = {clique for m in psi.measurements if m.stddev == 0 for clique in _subsets(psi.domain, m)}
    for measurement in psi.measurements:
        for inside in _subsets(psi.domain, measurement):
            if inside in exact and measurement.stddev > 0:
                continue
            spread = measurement.values.size / prod(psi.domain.project(inside).sizes)
            weight = 1.0 if inside in exact else 1.0 / (measurement.stddev**2 * spread)
            found = weight * _pure(project(measurement.values, measurement.clique, inside))
            sums[inside] = sums[inside] + found if inside in sums else found
            weights[inside] = weights.get(inside, 0.0) + weight
    return {inside: sums[inside] / weights[inside] for inside in sums}


def _pure(marginal: NDArray[Any]) -> FloatArray:
    """What is left of a marginal when its mean along each axis is taken away: its own block."""
    block = np.asarray(marginal, dtype=np.float64)
    for axis, size in enumerate(block.shape):
        block = block - sum_out(block, (axis,)) / size
    return block


def _table(domain: Domain, clique: Clique, blocks: Blocks) -> FloatArray:
    """The marginal whose blocks are the given ones inside the clique."""
    table = np.zeros(domain.project(clique).sizes)
    for inside in subsets(clique):
        names = tuple(name for name in clique if name in inside)
        ordered = tuple(name for name in domain.attributes if name in inside)
        part = project(blocks[ordered], ordered, names)
        outside = others(clique, names)
        table += np.expand_dims(part, outside) / prod(table.shape[axis] for axis in outside)
    return table


def _lifted(psi: Psi, records: float) -> Psi:
    """Mix in the smallest share of the uniform table that leaves no count below zero."""
    share = 0.0
    for measurement in psi.measurements:
        lowest, uniform = float(measurement.values.min()), records / measurement.values.size
        share = max(share, -lowest / (uniform - lowest) if lowest < 0 else 0.0)
    return _with(
        psi,
        [
            np.maximum((1 - share) * _scaled(m.values, records) + share * records / m.values.size, 0.0)
            for m in psi.measurements
        ],
    )


def _scaled(values: FloatArray, records: float) -> FloatArray:
    """Shift to the common total."""
    return values + (records - total(values)) / values.size


def _subsets(domain: Domain, measurement: Measurement) -> Iterator[Clique]:
    for inside in subsets(measurement.clique):
        yield tuple(name for name in domain.attributes if name in inside)


def _with(psi: Psi, tables: list[FloatArray]) -> Psi:
    pairs = zip(psi.measurements, tables, strict=True)
    return Psi(psi.domain, tuple(Measurement(m.clique, table, m.stddev) for m, table in pairs))
