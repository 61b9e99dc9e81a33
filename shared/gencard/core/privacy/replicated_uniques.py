"""Replicated uniques: combinations that one original and one synthetic record have, and no other.

A record that is unique on some keys in the original, and whose combination is unique in the synthetic
data too, looks as if that person were in there. Raab (PSD 2022) prints the number divided by the number
of table cells, but her tables divide by the number of original records, as is done here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique

_LARGEST = 2**62
"""Numbers of combinations below fit into 64 bits together with one more attribute."""


@dataclass(frozen=True, slots=True)
class ReplicatedUniques:
    """How many combinations of the keys are unique, and where.

    Args:
        records: Number of original records.
        in_original: Combinations of exactly one original record.
        in_synthetic: Combinations of exactly one synthetic record.
        present: Those of ``in_synthetic`` that some original record has.
        replicated: Those that are unique in both.
    """

    records: int
    in_original: int
    in_synthetic: int
    present: int
    replicated: int

    @property
    def share(self) -> float:
        """Replicated uniques by original records."""
        return self.replicated / self.records if self.records else 0.0


def replicated_uniques(
    original: Dataset, synthetic: Dataset, keys: Clique | None = None
) -> ReplicatedUniques:
    """Count uniques on some attributes, or on all; a missing value is a level like any other.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidCliqueError: The keys are none, or repeat.
        UnknownAttributeError: A key is not in the domain.
    """
    check_same_domain(original.domain, synthetic.domain)
    chosen = original.domain.canonical(original.domain.attributes if keys is None else keys)
    combinations = _combinations(original.project(chosen), synthetic.project(chosen))
    ours = np.bincount(combinations[: len(original)], minlength=combinations.max(initial=0) + 1)
    theirs = np.bincount(combinations[len(original) :], minlength=len(ours))
    return ReplicatedUniques(
        records=len(original),
        in_original=int(np.sum(ours == 1)),
        in_synthetic=int(np.sum(theirs == 1)),
        present=int(np.sum((theirs == 1) & (ours > 0))),
        replicated=int(np.sum((theirs == 1) & (ours == 1))),
    )


def _combinations(original: Dataset, synthetic: Dataset) -> NDArray[np.int64]:
    """The number of each record's combination, counted from 0; original records first."""
    numbers = np.zeros(len(original) + len(synthetic), dtype=np.int64)
    levels = 1
    for axis, size in enumerate(original.domain.sizes):
        if levels * size > _LARGEST:
            numbers, levels = _ranks(numbers)
        column = np.concatenate([original.codes[:, axis], synthetic.codes[:, axis]])
        numbers, levels = numbers * size + column, levels * size
    return _ranks(numbers)[0]


def _ranks(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The same numbers without holes between them, and how many there are."""
    found, ranks = np.unique(numbers, return_inverse=True)
    return ranks, max(len(found), 1)
