r"""Gower's distance between records of numbers and levels, with ranges that are fixed once.

.. math:: d(x, y) = \frac{\sum_k w_k \delta_k d_k}{\sum_k w_k \delta_k}, \quad
   d_k = \min\Big(\frac{|x_k - y_k|}{R_k}, 1\Big) \text{ for numbers}, \quad
   d_k = [x_k \ne y_k] \text{ for levels}

Where the range R of an attribute is 0, equal numbers are 0 apart and different ones 1.

Ranges taken anew from each pair of tables make distances to train and to holdout two different
measures; here one ``Gower`` serves all tables that are compared.

References:
    J. C. Gower, "A General Coefficient of Similarity and Some of Its Properties", Biometrics 27, 1971.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidNumberError, UnknownAttributeError
from gencard.measures.privacy.records import Records, check_same_kinds


class Missing(StrEnum):
    """Treatment of missing values."""

    PAIRWISE = "pairwise"
    """Gower's rule: an attribute that either record misses does not count, delta is 0."""
    CATEGORY = "category"
    """A value of its own: missing and missing are 0 apart, missing and a value 1."""


@dataclass(frozen=True, slots=True)
class Gower:
    """The distance: 0 between equal records, at most 1, without a unit.

    Args:
        attributes: Their names, in order.
        ranges: In each attribute's own unit; None for an attribute of levels.
        weights: One for each attribute; only their proportions matter.

    Raises:
        InvalidInputError: Not one range and one weight for each attribute.
        InvalidNumberError: A range or a weight is negative or not finite, or all weights are 0.
    """

    attributes: tuple[str, ...]
    ranges: tuple[float | None, ...]
    weights: tuple[float, ...]
    missing: Missing = Missing.CATEGORY

    def __post_init__(self) -> None:
        if not len(self.attributes) == len(self.ranges) == len(self.weights):
            raise InvalidInputError(
                field="gower", problem="each attribute needs one range and one weight"
            )
        ranges = [value for value in self.ranges if value is not None]
        if not all(isfinite(value) and value >= 0 for value in ranges):
            raise InvalidNumberError(field="A range", expected="finite and at least 0")
        if not all(isfinite(weight) and weight >= 0 for weight in self.weights):
            raise InvalidNumberError(field="A weight", expected="finite and at least 0")
        if not any(self.weights):
            raise InvalidNumberError(field="At least one weight", expected="above 0")

    def check(self, records: Records) -> None:
        """Refuse records of other attributes.

        Raises:
            DomainMismatchError: The attributes, their order or their kinds differ.
        """
        kinds = zip(self.attributes, (value is not None for value in self.ranges), strict=True)
        check_same_kinds(records.kinds, tuple(kinds))

    def project(self, clique: Clique) -> "Gower":
        """The distance by some of the attributes, in the clique's order.

        Raises:
            InvalidNumberError: All of their weights are 0.
        """
        axes = [self.attributes.index(name) for name in clique]
        ranges, weights = (
            tuple(self.ranges[axis] for axis in axes),
            tuple(self.weights[axis] for axis in axes),
        )
        return Gower(clique, ranges, weights, self.missing)

    @property
    def proportions(self) -> tuple[float, ...]:
        """The weights, the largest being 1."""
        return tuple(weight / max(self.weights) for weight in self.weights)


def gower_of(
    *tables: Records, weights: Mapping[str, float] | None = None, missing: Missing = Missing.CATEGORY
) -> Gower:
    """The distance with the ranges of some tables together, as train and holdout.

    Args:
        weights: Of some attributes; the others weigh 1.

    Raises:
        DomainMismatchError: The tables differ in attributes.
        InvalidNumberError: A weight is negative or not finite, or all are 0.
        UnknownAttributeError: A weight is for no attribute.
    """
    if not tables:
        raise InvalidInputError(
            field="tables", problem="at least one table is needed to take ranges from"
        )
    first = tables[0]
    for table in tables[1:]:
        check_same_kinds(first.kinds, table.kinds)
    own_weights = dict(weights or {})
    for name in own_weights:
        if name not in first.attributes:
            raise UnknownAttributeError(attribute=name)
    both = [np.concatenate(columns) for columns in zip(*(t.columns for t in tables), strict=True)]
    return Gower(
        first.attributes,
        tuple(
            _range(column) if numeric else None
            for column, (_, numeric) in zip(both, first.kinds, strict=True)
        ),
        tuple(float(own_weights.get(name, 1.0)) for name in first.attributes),
        missing,
    )


def _range(column: NDArray[np.float64]) -> float:
    """Largest less smallest number; 0 where there is none."""
    present = column[~np.isnan(column)]
    return float(present.max() - present.min()) if len(present) else 0.0
