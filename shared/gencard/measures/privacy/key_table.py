"""Counts of original and synthetic records by keys and target, for measures of disclosure.

The *keys* are attributes that an intruder knows; the *target* is the sensitive attribute. A cell is a
combination of keys and a level of the target; all measures of disclosure follow from the counts of the
cells. ``Exclusions`` leave out records whose disclosure does no harm or is common knowledge.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCliqueError, InvalidInputError, InvalidNumberError
from gencard.measures.privacy.records import combination_numbers


@dataclass(frozen=True, slots=True)
class Excluded:
    """Records that agree with one of these cells, each one code per attribute of the clique.

    With the target alone: levels that nobody minds, ``Excluded(("illness",), ((0,),))``. With a key
    alone: its missing level. With both: what anybody would guess, as that children are single.
    """

    clique: Clique
    cells: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Records and cells that are left out.

    Args:
        named: Records, by what they are.
        most: Cells that hold more records than this one does not learn much from; None for no bound.

    Raises:
        InvalidNumberError: ``most`` is below 1.
    """

    named: tuple[Excluded, ...] = ()
    most: int | None = None

    def __post_init__(self) -> None:
        if self.most is not None and self.most < 1:
            raise InvalidNumberError(field="most", expected="at least 1")

    def check(self, domain: Domain) -> None:
        """That a domain has what is named.

        Raises:
            InvalidCliqueError: A clique is empty, repeats or names an attribute that is not there.
            InvalidInputError: A cell lies outside the domain.
        """
        for one in self.named:
            if not set(one.clique) <= set(domain.attributes):
                problem = "an exclusion names neither a key nor the target"
                raise InvalidCliqueError(clique=", ".join(one.clique), problem=problem)
            domain.canonical(one.clique)
            sizes = domain.project(one.clique).sizes
            if not all(_inside(cell, sizes) for cell in one.cells):
                raise InvalidInputError(field="exclusions", problem="a cell lies outside the domain")

    def names(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Which records are named; shape ``(n,)``.

        Args:
            columns: The codes of n records, by attribute.
        """
        mask = np.zeros(len(next(iter(columns.values()))), dtype=bool)
        for one in self.named:
            for cell in one.cells:
                agrees = [columns[name] == code for name, code in zip(one.clique, cell, strict=True)]
                mask |= np.logical_and.reduce(agrees)
        return mask


NOTHING = Exclusions()
"""Exclusions that leave nothing out."""


def _inside(cell: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return len(cell) == len(sizes) and all(
        0 <= code < size for code, size in zip(cell, sizes, strict=True)
    )


Cells = NDArray[np.int64]
"""A number for each cell that holds any record; shape ``(k,)``."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Counts of the k cells that hold any record.

    Args:
        original: Original records, shape ``(k,)``.
        synthetic: Synthetic records.
        keys: The number of the cell's combination of keys, from 0.
        level: The cell's level of the target, a code.
        named: Whether the cell is excluded by what it is.
        most: Cells that hold more records than this are excluded too.
    """

    original: Cells
    synthetic: Cells
    keys: Cells
    level: Cells
    named: Mask
    most: int | None

    def kept(self, counts: Cells) -> Cells:
        """The counts with 0 in the cells that are excluded, those of too many such records too."""
        excluded = self.named if self.most is None else self.named | (counts > self.most)
        return np.where(excluded, 0, counts)

    def by_keys(self, counts: Cells) -> Cells:
        """Sums over the levels of the target, one for each combination of keys."""
        sums = np.zeros(int(self.keys.max()) + 1, dtype=np.int64)
        np.add.at(sums, self.keys, counts)
        return sums

    def around(self, counts: Cells) -> Cells:
        """The same sums, one for each cell: all records with its keys."""
        return self.by_keys(counts)[self.keys]


def key_table(
    original: Dataset, synthetic: Dataset, keys: Clique, target: str, exclusions: Exclusions = NOTHING
) -> KeyTable:
    """Count the records of both datasets.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidCliqueError: The keys are none, repeat or hold the target, or an exclusion names others.
        InvalidInputError: A dataset holds no record, or an exclusion names a cell outside the domain.
        UnknownAttributeError: An attribute is not in the domain.
    """
    check_same_domain(original.domain, synthetic.domain)
    known = original.domain.canonical(keys)
    original.domain.canonical((*known, target))  # refuses a target among the keys
    exclusions.check(original.domain.project((*known, target)))
    if not (len(original) and len(synthetic)):
        raise InvalidInputError(field="dataset", problem="contains no records")
    columns = {
        name: np.concatenate([original.column(name), synthetic.column(name)])
        for name in (*known, target)
    }
    keyed = [(columns[name], original.domain.size(name)) for name in known]
    combinations = combination_numbers(len(columns[target]), keyed)
    return _counted(combinations, columns, target, exclusions, originals=len(original))


def _counted(
    combinations: Cells,
    columns: Mapping[str, NDArray[Any]],
    target: str,
    exclusions: Exclusions,
    *,
    originals: int,
) -> KeyTable:
    levels = columns[target]
    both = [(combinations, int(combinations.max()) + 1), (levels, int(levels.max()) + 1)]
    cell = combination_numbers(len(levels), both)
    cells = int(cell.max()) + 1
    return KeyTable(
        original=np.bincount(cell[:originals], minlength=cells),
        synthetic=np.bincount(cell[originals:], minlength=cells),
        keys=_shared(combinations, cell, cells),
        level=_shared(levels, cell, cells),
        named=_shared(exclusions.names(columns), cell, cells),
        most=exclusions.most,
    )


def _shared(values: NDArray[Any], cell: Cells, cells: int) -> NDArray[Any]:
    """Return the value that all records of a cell share; shape ``(cells,)``."""
    shared = np.empty(cells, dtype=values.dtype)
    shared[cell] = values
    return shared
