"""Replicated uniques: combinations that exactly one original and exactly one synthetic record have.

A unique original record whose combination is unique in the synthetic data too looks as if that person
were in it. Raab (PSD 2022) prints the number divided by the number of table cells, but her tables divide
by the number of original records, as is done here.

``unique_free`` replaces such rows by others. Whoever knows psi and the seed could draw the rows again
and see which are missing: exactly the records that were to be hidden. So the seed of such rows must
remain secret, and the number of replaced rows is not released. A row that remains still shows that no
record is alone with its combination.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.core.types import IntArray
from gencard.measures.privacy.records import combination_numbers


@dataclass(frozen=True, slots=True)
class ReplicatedUniques:
    """Number of combinations of the keys that are unique, and their places.

    Args:
        records: Number of original records.
        synthetic_records: Number of synthetic records.
        in_original: UiO: combinations of exactly one original record.
        in_synthetic: UiS: combinations of exactly one synthetic record.
        matched: UiOiS: those of ``in_original`` that some synthetic record has.
        present: Those of ``in_synthetic`` that some original record has.
        replicated: repU: those that are unique in both.
    """

    records: int
    synthetic_records: int
    in_original: int
    in_synthetic: int
    matched: int
    present: int
    replicated: int

    @property
    def share(self) -> float | None:
        """Replicated uniques by original records; None without one."""
        return _share(self.replicated, self.records)

    @property
    def named(self) -> dict[str, float | None]:
        """The measures under their names in the literature, in shares of the original records.

        UiS is a share of the synthetic ones. A share of no records is None.
        """
        return {
            "UiO": _share(self.in_original, self.records),
            "UiS": _share(self.in_synthetic, self.synthetic_records),
            "UiOiS": _share(self.matched, self.records),
            "repU": self.share,
        }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def replicated_uniques(
    original: Dataset, synthetic: Dataset, keys: Clique | None = None
) -> ReplicatedUniques:
    """Count uniques on some attributes, or on all; a missing value is a level like any other.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidCliqueError: The keys are none, or repeat.
        UnknownAttributeError: A key is not in the domain.
    """
    ours, theirs, _ = _count_combinations(original, synthetic, keys)
    return uniques_among(ours, theirs, theirs, records=len(original), synthetic_records=len(synthetic))


def replicated_rows(
    original: Dataset, synthetic: Dataset, keys: Clique | None = None
) -> NDArray[np.intp]:
    """Return the places of replicated uniques in the synthetic data, ascending; raise as the count does.

    To remove them means to read the original again: the rest is no longer made from psi alone, and their
    absence discloses something too.
    """
    ours, theirs, combinations = _count_combinations(original, synthetic, keys)
    return np.flatnonzero(((ours == 1) & (theirs == 1))[combinations])


def uniques_among(
    ours: IntArray, theirs: IntArray, among: IntArray, *, records: int, synthetic_records: int
) -> ReplicatedUniques:
    """Count uniques among combinations that were counted already.

    Args:
        ours: Original records of each combination, shape ``(k,)``.
        theirs: Synthetic records of each.
        among: Synthetic records that an original unique is looked for among; ``theirs``, or more.
        records: Number of original records to take shares of.
        synthetic_records: Number of synthetic ones.
    """
    unique, twin = ours == 1, theirs == 1
    return ReplicatedUniques(
        records=records,
        synthetic_records=synthetic_records,
        in_original=int(unique.sum()),
        in_synthetic=int(twin.sum()),
        matched=int((unique & (among > 0)).sum()),
        present=int((twin & (ours > 0)).sum()),
        replicated=int((unique & twin).sum()),
    )


def _count_combinations(
    original: Dataset, synthetic: Dataset, keys: Clique | None
) -> tuple[IntArray, IntArray, NDArray[np.int64]]:
    """Original and synthetic records of each combination, and that of each synthetic record."""
    check_same_domain(original.domain, synthetic.domain)
    domain = original.domain
    columns = (
        (np.concatenate([original.column(name), synthetic.column(name)]), domain.size(name))
        for name in domain.canonical(domain.attributes if keys is None else keys)
    )
    numbers = combination_numbers(len(original) + len(synthetic), columns)
    first, second = numbers[: len(original)], numbers[len(original) :]
    ours = np.bincount(first, minlength=numbers.max(initial=0) + 1)
    return ours, np.bincount(second, minlength=len(ours)), second


def unique_free(original: Dataset, drawn: Dataset, rows: int) -> Dataset:
    """Return ``rows`` of the drawn rows, none of them a replicated unique (see ``replicated_rows``).

    Args:
        drawn: Synthetic rows. The first ``rows`` are kept if possible; the others replace rejected rows.

    Raises:
        ComputationError: The other rows did not suffice.
        DomainMismatchError: The domains differ.
        InvalidNumberError: Fewer were drawn than are wanted.
    """
    if not 0 <= rows <= len(drawn):
        raise InvalidNumberError(field="The number of rows", expected="at most those drawn")
    positions, ahead = np.arange(rows), rows
    while len(vacant := replicated_rows(original, drawn.take(positions))):
        if ahead + len(vacant) > len(drawn):
            raise ComputationError(problem="too many rows replicate a unique record")
        positions[vacant] = np.arange(ahead, ahead + len(vacant))
        ahead += len(vacant)
    return drawn.take(positions)
