"""Measurements: everything that a generator may see."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidPsiError

Counts = NDArray[Any]


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
class Psi:
    """All measurements of a card, in the card's order, over the domain of the attributes they name.

    Raises:
        InvalidPsiError: No measurement, a wrong shape, values that are not finite numbers, or a
            negative stddev.
    """

    domain: Domain
    measurements: tuple[Measurement, ...]

    def __post_init__(self) -> None:
        if not self.measurements:
            raise InvalidPsiError(problem="it holds no measurement")
        for measurement in self.measurements:
            where = ", ".join(measurement.clique)
            if measurement.values.shape != self.domain.project(measurement.clique).sizes:
                raise InvalidPsiError(problem=f"({where}) has the wrong shape")
            if measurement.values.dtype.kind not in "iuf" or not np.all(np.isfinite(measurement.values)):
                raise InvalidPsiError(problem=f"({where}) holds values that are not finite numbers")
            if not (np.isfinite(measurement.stddev) and measurement.stddev >= 0):
                raise InvalidPsiError(problem=f"({where}) has a stddev that is not zero or more")

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(measurement.clique for measurement in self.measurements)

    @property
    def exact(self) -> bool:
        return all(measurement.stddev == 0 for measurement in self.measurements)
