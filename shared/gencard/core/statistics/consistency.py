"""Whether the marginals of psi could all be marginals of one table."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from gencard.core.domain import Clique
from gencard.core.errors import InvalidPsiError
from gencard.core.statistics.closure import Attributes, check_subsets, subsets
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi
from gencard.core.statistics.table import project
from gencard.core.types import Counts

_RELATIVE = 1e-9
"""How far reconciled noisy marginals may differ, as a share of the records: rounding of floats."""


def check_consistent(psi: Psi) -> None:
    """Refuse a psi that contradicts itself: two marginals must agree wherever they overlap.

    Exact counts must agree as integers; noisy ones, once reconciled, up to rounding. Of linear
    statistics only the number of records and the range of each sum are looked at.

    Raises:
        InvalidPsiError: A value is negative, an exact count is not an integer, psi counts no record,
            two marginals disagree on the attributes that they share (or on the total), or a sum is
            one of no records.
        TooLargeError: The cliques are too wide to compare.
    """
    for measurement in psi.measurements:
        _check_values(measurement)
    total = float(psi.measurements[0].values.sum() if psi.measurements else psi.linear[0].values[0])
    if total <= 0:
        raise InvalidPsiError(problem="it contains no records")
    slack = 0.0 if psi.exact else _RELATIVE * total
    for linear in psi.linear:
        _check_sums(linear, total, slack)
    first: dict[Attributes, tuple[Clique, Counts]] = {}
    shared = _shared(psi.cliques)
    for measurement in psi.measurements:
        for attributes in _inside(measurement.clique, shared):
            _check_agrees(measurement, attributes, first, slack)


def _check_values(measurement: Measurement) -> None:
    where = ", ".join(measurement.clique)
    if np.any(measurement.values < 0):
        raise InvalidPsiError(problem=f"({where}) holds a negative value")
    exact_floats = measurement.stddev == 0 and measurement.values.dtype.kind == "f"
    if exact_floats and np.any(measurement.values != np.floor(measurement.values)):
        raise InvalidPsiError(problem=f"({where}) is exact and holds a value that is not an integer")


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


def _shared(cliques: tuple[Clique, ...]) -> frozenset[Attributes]:
    """The sets of attributes that lie inside more than one clique."""
    check_subsets(cliques)
    times = Counter(inside for clique in cliques for inside in subsets(clique))
    return frozenset(inside for inside, number in times.items() if number > 1)


def _inside(clique: Clique, shared: frozenset[Attributes]) -> Iterable[Attributes]:
    return (inside for inside in subsets(clique) if inside in shared)


def _check_agrees(
    measurement: Measurement,
    attributes: Attributes,
    first: dict[Attributes, tuple[Clique, Counts]],
    slack: float,
) -> None:
    """Compare a sub-marginal with the first one seen on the same attributes."""
    clique = tuple(sorted(attributes))
    values = project(measurement.values, measurement.clique, clique)
    other, expected = first.setdefault(attributes, (measurement.clique, values))
    if np.any(np.abs(values - expected) > slack):
        where = f"on ({', '.join(clique)})" if clique else "on the number of records"
        names = f"({', '.join(other)}) and ({', '.join(measurement.clique)})"
        raise InvalidPsiError(problem=f"{names} disagree {where}")
