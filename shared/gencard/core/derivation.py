"""Attributes that are computed from the codes of stored ones, by a declared table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.types import IntArray

MOST_CELLS = 100_000
"""Cells of the attributes that one is derived from: the schema names a code for each."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How an attribute follows from stored ones.

    Args:
        sources: Stored attributes; what is derived is derived from them alone.
        codes: For each cell of the sources, in C order, the code of the attribute; with ``per_person``,
            1 where a record in the cell counts, else 0.
        per_person: The level is that of the number of the person's records that count: of its interval,
            the last of which holds all above, or for truth values whether there is any.
    """

    sources: Clique
    codes: tuple[int, ...]
    per_person: bool = False

    def problem(self, stored: Domain, size: int, *, of_number: bool) -> str | None:
        """What is wrong with it.

        Args:
            stored: Attributes that records hold.
            size: Levels of the attribute.
            of_number: Every number of records has a level.
        """
        if not self.sources or len(set(self.sources)) < len(self.sources):
            return "it needs sources, each once"
        if not set(self.sources) <= set(stored.attributes):
            return "it is derived from an attribute that is not stored"
        cells = stored.project(self.sources).cells
        most = 2 if self.per_person else size
        wrong = {
            f"its sources have more than {MOST_CELLS} cells": cells > MOST_CELLS,
            "it needs one code for each cell of its sources": len(self.codes) != cells,
            "a code lies outside its levels": not all(0 <= code < most for code in self.codes),
            "as an attribute of a person, it must be true or false or have whole-number edges "
            "from 0, and must not be missing": (self.per_person and not of_number),
        }
        return next((problem for problem, is_so in wrong.items() if is_so), None)

    def of_records(self, columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> IntArray:
        """The entry of ``codes`` for each record.

        Args:
            columns: Codes of the sources, one array of shape ``(n,)`` each.
            sizes: Of the sources.

        Returns:
            Shape ``(n,)``.
        """
        cells = np.zeros(len(columns[0]), dtype=np.int64)
        for column, size in zip(columns, sizes, strict=True):
            cells = cells * size + column
        return np.array(self.codes, dtype=np.int64)[cells]
