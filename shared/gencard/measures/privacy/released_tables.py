"""Facts that somebody who knows some attributes of a record learns for certain about another one.

A key is a combination of levels of up to three attributes. A **fact** is a pair of a record and an
attribute outside the key that has a single possible level there, and more than one among all records.
Possible is what the released tables do
not exclude: for keys of one and two attributes by the bounds of the cells, for keys of three by those of
all tables of three attributes inside. So every fact is true; others may follow from all tables together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.marginals import cell_numbers, count_all, maximal, project
from gencard.core.types import Counts, Progress, ignore_progress

# The released tables, and what they say about tables that were not released: bounds of each cell.
#
# Every table of counts with the same marginals has its cells between these bounds. For two marginals
# :math:`n_{ac}, n_{bc}` that share :math:`c` the bounds are those of Fréchet,
#
# .. math:: \max(0, n_{ac} + n_{bc} - n_c) \le n_{abc} \le \min(n_{ac}, n_{bc}),
#
# which are sharp wherever the released tables are decomposable [1]_. For others the **generalised
# shuttle** [2]_ goes on: with bounds :math:`L \le n \le U`, the rest of each released sum bounds a part,
#
# .. math:: U \gets \min(U, n_S - \sum_{others} L), \quad L \gets \max(L, n_S - \sum_{others} U),
#
# until nothing changes. Of 3,389 open cells of random tables of three attributes with all pairs
# released, integer programs tightened none (``tests/core/test_psi_risk.py`` has the referee), so none
# are run.
#
# References:
#     .. [1] A. Dobra, S. Fienberg, "Bounds for cell entries in contingency tables given marginal totals
#        and decomposable graphs", PNAS 97(22), 2000.
#     .. [2] L. Buzzigoli, A. Giusti, "An algorithm to calculate the lower and upper bounds of the
#        elements of an array given its marginals", Statistical Data Protection, 1998.


Axes = tuple[int, ...]
"""Places of some attributes in a table, ascending."""

Margins = Mapping[Axes, Counts]
"""Released marginals of a table, by the axes they keep."""

_MOST_ROUNDS = 100
"""Far above what is needed: a bound that still moves is a valid bound too."""


@dataclass(frozen=True, slots=True, eq=False)
class CellBounds:
    """Least and largest count of each cell, both of the table's shape, in records."""

    lower: Counts
    upper: Counts


def cell_bounds(shape: tuple[int, ...], margins: Margins) -> CellBounds:
    """Bounds of each cell by the generalised shuttle algorithm.

    >>> bounds = cell_bounds((2, 2), {(0,): np.array([3, 1]), (1,): np.array([2, 2])})
    >>> bounds.lower.tolist(), bounds.upper.tolist()
    ([[1, 1], [0, 0]], [[2, 2], [1, 1]])

    Args:
        margins: At least one; together they must name every axis.
    """
    lower, upper = np.zeros(shape, dtype=np.int64), np.full(shape, np.iinfo(np.int64).max)
    spread = {axes: np.expand_dims(margin, _others(shape, axes)) for axes, margin in margins.items()}
    for margin in spread.values():
        np.minimum(upper, margin, out=upper)
    for _ in range(_MOST_ROUNDS):
        before = int(upper.sum() - lower.sum())
        for axes, margin in spread.items():
            away = _others(shape, axes)
            np.maximum(lower, margin - (upper.sum(axis=away, keepdims=True) - upper), out=lower)
            np.minimum(upper, margin - (lower.sum(axis=away, keepdims=True) - lower), out=upper)
        if int(upper.sum() - lower.sum()) == before:
            break
    return CellBounds(lower, upper)


def _others(shape: tuple[int, ...], axes: Axes) -> Axes:
    return tuple(axis for axis in range(len(shape)) if axis not in axes)


MOST_CELLS = 2_000_000
"""Cells of a table that is bounded: 16 MB of counts."""

MOST_KEPT = 10_000_000
"""Cells of all tables whose bounds are kept: 160 MB."""

WIDEST = 3
"""Attributes of a table that is bounded cell by cell; wider ones by the tables inside them."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedTables:
    """Exact tables over a domain; their counts are those of one set of records.

    Args:
        tables: By clique, in the domain's order of attributes, none inside another one.
    """

    domain: Domain
    tables: dict[Clique, Counts]
    _bounds: dict[Clique, CellBounds] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, records: Dataset, cliques: Sequence[Clique]) -> "ReleasedTables":
        """Count the tables of some records."""
        wide = maximal(map(records.domain.canonical, cliques))
        return cls(records.domain, dict(zip(wide, count_all(records, wide), strict=True)))

    def within(self, attributes: Clique) -> Margins:
        """The widest released tables inside a set of attributes, by the places of theirs in it."""
        inside = maximal(tuple(name for name in attributes if name in clique) for clique in self.tables)
        return {tuple(map(attributes.index, names)): self.marginal(names) for names in inside if names}

    def releases(self, attributes: Iterable[str]) -> bool:
        """Whether a table holds all these attributes."""
        names = set(attributes)
        return any(names <= set(clique) for clique in self.tables)

    def bounds(self, attributes: Clique) -> CellBounds:
        """Bounds of each cell of a table, kept once they are known; sharp where it was released."""
        if attributes not in self._bounds:
            if sum(bounds.lower.size for bounds in self._bounds.values()) > MOST_KEPT:
                self._bounds.clear()
            shape = self.domain.project(attributes).sizes
            self._bounds[attributes] = cell_bounds(shape, self.within(attributes))
        return self._bounds[attributes]

    def fits(self, attributes: Clique) -> bool:
        """Whether a table is small enough to be bounded."""
        return self.domain.project(attributes).cells <= MOST_CELLS

    def possible(self, keys: Clique, target: str) -> NDArray[np.bool_]:
        """Return the levels of the target that a record with certain keys can have, by the tables.

        Returns:
            Shape (sizes of the keys..., size of the target).
        """
        names = self.domain.canonical((*keys, target))
        upper = self.bounds(names).upper
        return np.moveaxis(upper > 0, names.index(target), -1)

    def parts(self, keys: Clique, target: str) -> list[Clique]:
        """The widest sets of the keys whose table with the target is bounded."""
        width = min(len(keys), WIDEST - 1)
        return [part for part in combinations(keys, width) if self.fits((*part, target))]

    def marginal(self, names: Clique) -> Counts:
        """The counts of some attributes that a released table holds, from the smallest that does."""
        wider = (clique for clique in self.tables if set(names) <= set(clique))
        wide = min(wider, key=lambda clique: self.tables[clique].size)
        return project(self.tables[wide], wide, names)


WIDEST_KEY = 3


@dataclass(frozen=True, slots=True)
class Combination:
    """A key that determines an attribute.

    Args:
        levels: Codes of the key's attributes.
        level: The one possible code of the target.
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
                self._look(keys, target, rows, first, counts)
        known = self.known
        correct = sum(
            int(np.sum(known[name] & (self._records.column(name) == self._mode[name]))) for name in known
        )
        facts = sum(int(facts.sum()) for facts in known.values())
        return KeyFacts(width, facts, correct, self._wrong, self._skipped)

    def _look(
        self,
        keys: Clique,
        target: str,
        rows: NDArray[np.intp],
        first: NDArray[np.intp],
        counts: NDArray[np.intp],
    ) -> None:
        """Take in what the keys of some attributes that occur say of a target.

        Args:
            rows: Number of each record's key among them, shape (n,).
            first: A record of each; ``counts`` its records.
        """
        parts = self._released.parts(keys, target)
        self._skipped += not parts
        if not parts:
            return
        # For each key that occurs, the levels that the target may have: shape (keys, levels).
        possible = np.ones((len(first), self._records.domain.size(target)), dtype=bool)
        for part in parts:
            codes = tuple(self._records.column(name)[first] for name in part)
            possible &= self._released.possible(part, target)[codes]
        single = possible.sum(axis=1) == 1
        if not single.any():
            return
        level = possible.argmax(axis=1)
        certain = single[rows]
        column = self._records.column(target)
        self._wrong += int(np.sum(certain & (level[rows] != column)))
        new = certain & ~self.known[target]
        if new.any():  # keep the ten keys with most records that were not known before
            fresh = np.bincount(rows[new], minlength=len(single))
            largest = np.argsort(-fresh, kind="stable")[:10]
            ranked = [*self.worst]
            for place in largest[fresh[largest] > 0]:
                levels = tuple(int(self._records.column(name)[first[place]]) for name in keys)
                number = int(counts[place])
                ranked.append(Combination(keys, levels, target, int(level[place]), number))
            self.worst = tuple(sorted(ranked, key=lambda one: -one.records)[:10])
        self.known[target] |= certain
        if len(keys) == 1:
            self.share[self._records.domain.axes((*keys, target))] = certain.sum()
