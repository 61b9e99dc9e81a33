"""Measurements: everything that a generator may see."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidPsiError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.types import Counts


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Psi:
    """All measurements of a card, in the card's order, over the domain of the attributes they name.

    Args:
        measurements: The marginals.
        linear: The linear statistics, which a card names after its marginals.

    Raises:
        InvalidPsiError: No measurement, a wrong shape, values that are not finite numbers, or a
            negative stddev.
    """

    domain: Domain
    measurements: tuple[Measurement, ...]
    linear: tuple[LinearMeasurement, ...] = ()

    def __post_init__(self) -> None:
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
        return not any(m.stddev for m in self.measurements) and not any(
            linear.stddevs.any() for linear in self.linear
        )

    def __repr__(self) -> str:
        counts = sum(measurement.values.size for measurement in self.measurements)
        sums = sum(linear.values.size for linear in self.linear)
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
