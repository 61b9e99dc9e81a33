"""Facts that somebody who knows some attributes of a record learns for certain about another one.

A key is a combination of levels of up to three attributes. A **fact** is a pair of a record and an
attribute outside the key that has a single possible level there, and more than one among all records.
Possible is what the released tables do
not exclude: for keys of one and two attributes by the bounds of the cells, for keys of three by those of
all tables of three attributes inside. So every fact is true; others may follow from all tables together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.counting import cell_numbers
from gencard.core.types import Progress, ignore_progress
from gencard.measures.psi_risk.released import ReleasedTables

WIDEST_KEY = 3


@dataclass(frozen=True, slots=True)
class Combination:
    """A key that determines an attribute.

    Args:
        levels: Codes of the key's attributes.
        level: The one possible code of the target.
        records: That have the key.
    """

    keys: Clique
    levels: tuple[int, ...]
    target: str
    level: int
    records: int


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """Facts from keys of at most so many attributes.

    Args:
        width: Attributes of a key, at most.
        facts: Different pairs of record and attribute, those from smaller keys too.
        guessed: Facts that the most frequent level of the attribute gives as well.
        wrong: Facts that the records contradict; above 0 only if the tables are of other records.
        skipped: Keys and targets that were not looked at, because their tables are too large.
    """

    width: int
    facts: int
    guessed: int
    wrong: int
    skipped: int


@dataclass(frozen=True, slots=True)
class CertainFacts:
    """All that is certain.

    Args:
        by_width: Facts from keys of one attribute, of up to two, of up to three.
        worst: Keys with the most records that no smaller key determines, largest first.
        share: Shape (attributes, attributes): share of the records of which the attribute of the row
            alone gives the attribute of the column for certain; 0 on the diagonal.
        known: By attribute that has more than one level: records for which it is certain, shape (n,).
    """

    by_width: tuple[KeyFacts, ...]
    worst: tuple[Combination, ...]
    share: NDArray[np.float64]
    known: Mapping[str, NDArray[np.bool_]]


def certain_facts(
    records: Dataset,
    released: ReleasedTables,
    *,
    widest: int = WIDEST_KEY,
    progress: Progress = ignore_progress,
) -> CertainFacts:
    """Facts about the records from the released tables, each compared with the records.

    Args:
        records: Records that the tables count.
        widest: Largest number of attributes of a key, from 1 to 3.
    """
    search, by_width = _Search(records, released), list[KeyFacts]()
    for width in range(1, widest + 1):
        progress("facts", 0.2 + 0.1 * width)
        by_width.append(search.widened(width))
    return CertainFacts(tuple(by_width), search.worst, search.share / max(len(records), 1), search.known)


class _Search:
    """Known facts, from narrow keys to wide ones."""

    def __init__(self, records: Dataset, released: ReleasedTables) -> None:
        self._records, self._released = records, released
        names = records.domain.attributes
        counts = {name: np.bincount(records.column(name), minlength=1) for name in names}
        self.known = {
            name: np.zeros(len(records), dtype=bool)
            for name in names
            if np.count_nonzero(counts[name]) > 1
        }
        self._mode = {name: int(counts[name].argmax()) for name in names}
        self._wrong = self._skipped = 0
        self.worst: tuple[Combination, ...] = ()
        self.share = np.zeros((len(names), len(names)))

    def widened(self, width: int) -> KeyFacts:
        """Facts from keys of one more attribute than before."""
        for keys in combinations(self._records.domain.attributes, width):
            sizes = self._records.domain.project(keys).sizes
            cells = cell_numbers([self._records.column(name) for name in keys], sizes)
            _, first, rows, counts = np.unique(
                cells, return_index=True, return_inverse=True, return_counts=True
            )
            for target in (name for name in self.known if name not in keys):
                self._look(_Keys(keys, rows, first, counts), target)
        known = self.known
        correct = sum(
            int(np.sum(known[name] & (self._records.column(name) == self._mode[name]))) for name in known
        )
        facts = sum(int(facts.sum()) for facts in known.values())
        return KeyFacts(width, facts, correct, self._wrong, self._skipped)

    def _look(self, keys: "_Keys", target: str) -> None:
        parts = self._released.parts(keys.names, target)
        self._skipped += not parts
        if not parts:
            return
        possible = self._possible(keys, target, parts)
        single = possible.sum(axis=1) == 1
        if not single.any():
            return
        level = possible.argmax(axis=1)
        certain = single[keys.rows]
        column = self._records.column(target)
        self._wrong += int(np.sum(certain & (level[keys.rows] != column)))
        new = certain & ~self.known[target]
        if new.any():
            self._rank(keys, target, np.bincount(keys.rows[new], minlength=len(single)), level)
        self.known[target] |= certain
        if len(keys.names) == 1:
            self.share[self._records.domain.axes((*keys.names, target))] = certain.sum()

    def _possible(self, keys: "_Keys", target: str, parts: list[Clique]) -> NDArray[np.bool_]:
        """For each key that occurs, which levels the target may have: shape (keys, levels)."""
        possible = np.ones((len(keys.first), self._records.domain.size(target)), dtype=bool)
        for part in parts:
            codes = tuple(self._records.column(name)[keys.first] for name in part)
            possible &= self._released.possible(part, target)[codes]
        return possible

    def _rank(self, keys: "_Keys", target: str, new: NDArray[np.intp], level: NDArray[np.intp]) -> None:
        """Keep the ten keys with most records that were not known before."""
        largest = np.argsort(-new, kind="stable")[:10]
        ranked = [*self.worst, *self._combinations(keys, target, largest[new[largest] > 0], level)]
        self.worst = tuple(sorted(ranked, key=lambda one: -one.records)[:10])

    def _combinations(
        self, keys: "_Keys", target: str, places: NDArray[np.intp], level: NDArray[np.intp]
    ) -> Iterator[Combination]:
        for place in places:
            row = keys.first[place]
            codes = tuple(int(self._records.column(name)[row]) for name in keys.names)
            yield Combination(keys.names, codes, target, int(level[place]), int(keys.counts[place]))


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """The keys of some attributes that occur.

    Args:
        rows: Number of each record's key among them, shape (n,).
        first: A record of each.
        counts: Records of each.
    """

    names: Clique
    rows: NDArray[np.intp]
    first: NDArray[np.intp]
    counts: NDArray[np.intp]
