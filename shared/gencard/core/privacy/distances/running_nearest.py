"""The nearest and second nearest records so far, during a search."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.distances import Matrix, Positions, Row


@dataclass(frozen=True, slots=True, eq=False)
class RunningNearest:
    """Best distances of each record; infinite, with position -1, where there is none yet.

    Args:
        second: None where only the closest is looked for.
    """

    distance: Row
    second: Row | None
    position: NDArray[np.int64]

    @classmethod
    def nothing(cls, rows: int, *, second: bool) -> "RunningNearest":
        distances = np.full((2, rows), np.inf)
        return cls(distances[0], distances[1] if second else None, np.full(rows, -1))

    def reach(self, rows: Positions) -> float:
        """What is farther than this changes nothing for these records."""
        return float((self.distance if self.second is None else self.second)[rows].max())

    def open(self, rows: Positions, bound: float) -> Positions:
        """Those of some records for which something as far as this may change something."""
        return rows[(self.distance if self.second is None else self.second)[rows] >= bound]

    def add(self, rows: Positions, positions: Positions, apart: Matrix) -> None:
        """Take in the distances of some records to some others, whose positions ascend."""
        lines, columns = np.arange(len(rows)), apart.argmin(axis=1)
        first, position = apart[lines, columns], positions[columns]
        if self.second is None:
            self.note(rows, first, None, position)
            return
        apart[lines, columns] = np.inf
        self.note(rows, first, apart.min(axis=1), position)

    def note(self, rows: Positions, first: Row, others: Row | None, position: Positions) -> None:
        """Take in the closest of further records, where it is, and how near the others are.

        Args:
            others: Needed where the second is looked for.
        """
        before, place = self.distance[rows], self.position[rows]
        if self.second is not None and others is not None:
            others = np.minimum(self.second[rows], others)
            self.second[rows] = np.minimum(np.maximum(first, before), others)
        better = (first < before) | ((first == before) & (position < place))
        self.distance[rows] = np.minimum(first, before)
        self.position[rows] = np.where(better, position, place)

    def join(self, other: "RunningNearest") -> None:
        """Take in what was found among all, if that is nowhere nearer than what was found by now."""
        rows = np.arange(len(self.distance))
        if other.second is None:
            self.note(rows, other.distance, None, other.position)
            return
        known = self.position == other.position
        first = np.where(known, other.second, other.distance)
        self.note(rows, first, np.where(known, np.inf, other.second), other.position)

    def at(self, rows: Positions, kept: Positions) -> "RunningNearest":
        """The same for a table that these records are taken from, and the others of another one.

        Args:
            rows: For each record of the table, the one that it equals.
            kept: Positions of the others.
        """
        second = None if self.second is None else self.second[rows]
        return RunningNearest(self.distance[rows], second, np.append(kept, -1)[self.position[rows]])
