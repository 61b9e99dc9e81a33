"""Narrower marginals that follow from those of psi."""

from collections.abc import Iterable
from itertools import combinations

from gencard.core.domain import Clique, Domain
from gencard.core.statistics.closure import maximal
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.statistics.table import project


def implied(psi: Psi, cliques: Iterable[Clique]) -> list[Measurement]:
    """The marginals on cliques that lie inside those of psi, each from the smallest that holds it.

    psi must agree with itself. The stddev is that of the wider marginal, summed over its other cells.
    """
    smallest = sorted(psi.measurements, key=lambda measurement: measurement.values.size)
    return [_projected(_holding(smallest, clique), clique) for clique in cliques]


def pairs(psi: Psi) -> tuple[Clique, ...]:
    """Every pair of attributes inside some clique of psi, in the domain's order."""
    return pairs_inside(psi.cliques, psi.domain)


def pairs_inside(cliques: Iterable[Clique], domain: Domain) -> tuple[Clique, ...]:
    """Every pair of attributes inside some clique, in the domain's order."""
    found = {pair for clique in cliques for pair in combinations(domain.canonical(clique), 2)}
    return tuple(sorted(found, key=domain.axes))


def inside(psi: Psi, cliques: Iterable[Clique]) -> list[Measurement]:
    """What psi says inside the given cliques: each marginal's part of each, if no wider one says it."""
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
    named = {name for clique in chosen for name in clique}
    alone = [(name,) for name in psi.domain.covered_by(psi.cliques).attributes if name not in named]
    return Psi(psi.domain, tuple(implied(psi, [*chosen, *alone])))


def _holding(measurements: Iterable[Measurement], clique: Clique) -> Measurement:
    return next(m for m in measurements if set(clique) <= set(m.clique))


def _projected(measurement: Measurement, clique: Clique) -> Measurement:
    values = project(measurement.values, measurement.clique, clique)
    spread = measurement.values.size / values.size
    return Measurement(clique, values, measurement.stddev * float(spread**0.5))
