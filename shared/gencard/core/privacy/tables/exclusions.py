"""Records that disclosure measures leave out, since to guess them does no harm or is no news."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCliqueError, InvalidInputError, InvalidNumberError


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
    """What is left out.

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
        found = np.zeros(len(next(iter(columns.values()))), dtype=bool)
        for one in self.named:
            for cell in one.cells:
                agrees = [columns[name] == code for name, code in zip(one.clique, cell, strict=True)]
                found |= np.logical_and.reduce(agrees)
        return found


NOTHING = Exclusions()
"""Nothing is left out."""


def _inside(cell: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return len(cell) == len(sizes) and all(
        0 <= code < size for code, size in zip(cell, sizes, strict=True)
    )
