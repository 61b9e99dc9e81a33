r"""Tables of four attributes: cells that certainly hold somebody, and what integer programs prove.

The bounds of a cell come from the released tables inside and from the bounds of tables of three. They
are sharp where the released tables are decomposable. Elsewhere they may stop short, and for the cells
that matter an integer program decides: is there any table of counts with the released marginals

* in which a record with a key of three attributes has another level than all records with it do, or
* in which a cell is empty that holds somebody, though nobody would guess so?

Where there is none, the claim is certain. The programs are those of ``Generate-then-verify`` [1]_, whose
claims are verified likewise, for a fixed number of claims: those that are nearest to being certain.

References:
    .. [1] T. Liu, E. Xiao, P. Thaker, A. Smith, Z. S. Wu, "Generate-then-Verify: Reconstructing Data
       from Limited Published Statistics", arXiv 2504.21199, 2025.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from heapq import nsmallest
from itertools import combinations
from operator import attrgetter

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.generators.contract import TargetMarginal
from gencard.core.generators.fitting import PlainTable, relax
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.statistics.marginals import count
from gencard.core.types import Counts, FloatArray, Progress, Table, ignore_progress
from gencard.measures.privacy.released_tables import (
    MOST_CELLS,
    CellBounds,
    Margins,
    ReleasedTables,
    cell_bounds,
)

# Confident guesses from tables that were not released, and their cells that certainly hold somebody.
#
# A guess is that of the maximum-entropy distribution with the released marginals inside key and target,
# fitted as the generator ``ipf`` fits it; where key and target were released together, their own shares.


CONFIDENT = 0.9
"""Least probability of a confident guess."""

RARE = 0.5
"""A guess tells something where fewer records than this share have its level."""

UNEXPECTED = 0.5
"""Expected records of a cell below which nobody would be guessed there."""

_SWEEPS, _TOLERANCE = 200, 1e-6


@dataclass(frozen=True, slots=True)
class TableGuesses:
    """Confident guesses by tables over so many attributes, released or not.

    Args:
        width: Attributes of a key: the tables have one more.
        guesses: Records with a key that makes a level likely which few have, once for each such target.
        right: Guessed records that have this level.
        held: Cells of unreleased tables that certainly hold somebody.
        unexpected: Held cells that would be empty if attributes were independent.
        wrong: Held cells that the records contradict; above 0 only if the tables are of other records.
    """

    width: int
    guesses: int = 0
    right: int = 0
    held: int = 0
    unexpected: int = 0
    wrong: int = 0

    def __add__(self, other: "TableGuesses") -> "TableGuesses":
        return TableGuesses(
            self.width,
            self.guesses + other.guesses,
            self.right + other.right,
            self.held + other.held,
            self.unexpected + other.unexpected,
            self.wrong + other.wrong,
        )


def confident_guesses(records: Dataset, released: ReleasedTables, width: int) -> TableGuesses:
    """Count confident guesses by keys of ``width`` 1 or 2, by all tables small enough to be bounded."""
    total = TableGuesses(width)
    for names in combinations(records.domain.attributes, width + 1):
        if released.fits(names):
            counts = count(records, names)
            fitted_table = maximum_entropy(counts.shape, released.within(names), len(records))
            for axis in range(width + 1):
                away = tuple(other for other in range(counts.ndim) if other != axis)
                keys = fitted_table.sum(axis=axis, keepdims=True)
                confident = (fitted_table > CONFIDENT * keys) & (_share(counts, axis) < RARE)
                have_key = counts.sum(axis=axis, keepdims=True)
                total += TableGuesses(
                    len(away), int(np.sum(have_key * confident)), int(np.sum(counts[confident]))
                )
            if not released.releases(names):
                total += _held(width, counts, released.bounds(names).lower)
    return total


def _share(counts: Counts, axis: int) -> FloatArray:
    """Share of the records at each level of one attribute; of the table's number of axes."""
    away = tuple(other for other in range(counts.ndim) if other != axis)
    share: FloatArray = counts.sum(axis=away, keepdims=True) / max(int(counts.sum()), 1)
    return share


def _held(width: int, counts: Counts, lower: Counts) -> TableGuesses:
    occupied = lower > 0
    shares = [_share(counts, axis).ravel() for axis in range(counts.ndim)]
    expected = counts.sum() * reduce(np.multiply.outer, shares)
    unexpected = int(np.sum(occupied & (expected < UNEXPECTED)))
    wrong = int(np.sum(occupied & (counts < lower)))
    return TableGuesses(width, held=int(occupied.sum()), unexpected=unexpected, wrong=wrong)


def maximum_entropy(shape: tuple[int, ...], margins: Margins, records: int) -> Table:
    """The table of largest entropy with these marginals, by the generators' proportional fitting.

    Unlike a generator, a guess needs no exact fit: one that converges slowly is taken as it is.

    Returns:
        Expected counts, as near to the marginals as ``_SWEEPS`` sweeps come.
    """
    domain = Domain(tuple(map(str, range(len(shape)))), shape)
    cliques = {tuple(map(str, axes)): margin for axes, margin in margins.items()}
    table = PlainTable(domain, list(cliques), [])
    targets = [
        [
            TargetMarginal.of(clique, margin, block)
            for clique, margin in cliques.items()
            if set(clique) <= set(block)
        ]
        for block in table.blocks
    ]
    if records:
        relax(table, targets, _TOLERANCE, _SWEEPS, steepest=np.inf)
    return table.expanded() * records


WIDTH = 4
MOST_PROGRAMS = 25
"""Most integer programs for each of the two kinds of claims."""

MOST_FREE = 500
"""Cells of a table that may hold somebody, beyond which no program is tried."""

_NODES = 200
"""Most nodes of branch and bound: a limit on work that is the same on every machine."""

_FEASIBLE, _INFEASIBLE = 0, 2

Known = Mapping[str, NDArray[np.bool_]]
"""By attribute: for which records it is known to be certain."""


@dataclass(frozen=True, slots=True)
class WideTables:
    """Disclosure through tables of four attributes that are not released.

    Args:
        skipped: Number of tables that were too large to examine.
        held: Cells that certainly hold somebody, by bounds.
        unexpected: Held cells that would be empty if attributes were independent.
        wrong: Cells whose count is outside its bounds; above 0 only if the tables are of other records.
        programs: Integer programs that were tried, of both kinds.
        undecided: Integer programs that ended without an answer.
        facts: Pairs of record and attribute that only programs prove.
        cells: Unexpected cells that certainly hold somebody, as only programs prove.
        untried: Claims that no program was tried on: their tables are too large, or others are nearer to
            being certain.
    """

    tables: int = 0
    skipped: int = 0
    held: int = 0
    unexpected: int = 0
    wrong: int = 0
    programs: int = 0
    undecided: int = 0
    facts: int = 0
    cells: int = 0
    untried: int = 0

    @property
    def open(self) -> int:
        """Claims of which nothing is known."""
        return self.untried + self.undecided


@dataclass(frozen=True, slots=True)
class ProvableClaim:
    """Claim that a program is to prove: all records of a key have one level, or a cell holds a record.

    Args:
        slack: How far bounds are from proving it, in records.
        cell: Codes, with the level that the records have.
        target: Axis of the attribute that the others determine; None for a cell that is held.
    """

    slack: int
    names: Clique
    cell: tuple[int, ...]
    target: int | None


def wide_tables(
    records: Dataset,
    released: ReleasedTables,
    known: Known,
    *,
    most_programs: int = MOST_PROGRAMS,
    progress: Progress = ignore_progress,
) -> WideTables:
    """Look at every set of four attributes that no released table holds.

    Args:
        known: Facts that smaller keys make certain; they are not counted again.
    """
    search = _WideSearch(records, released, known)
    sets = list(combinations(records.domain.attributes, WIDTH))
    for place, names in enumerate(sets):
        progress("tables of four", place / len(sets) / 2)
        if not released.releases(names):
            search.look(names)
    return search.proved(most_programs, progress)


class _WideSearch:
    """Bounds of each table, then programs for the claims that are nearest to being certain."""

    def __init__(self, records: Dataset, released: ReleasedTables, known: Known) -> None:
        self._records, self._released, self._known = records, released, known
        self._tables = self._skipped = self._held = self._unexpected = self._wrong = self._untried = 0
        self._claims: dict[bool, list[ProvableClaim]] = {True: [], False: []}

    def look(self, names: Clique) -> None:
        if self._records.domain.project(names).cells > MOST_CELLS:
            self._skipped += 1
            return
        self._tables += 1
        counts, bounds = count(self._records, names), bounds_of_four(self._released, names)
        occupied, surprising = bounds.lower > 0, _expected(counts) < UNEXPECTED
        self._held += int(occupied.sum())
        self._unexpected += int(np.sum(occupied & surprising))
        self._wrong += int(np.sum((counts < bounds.lower) | (counts > bounds.upper)))
        # Bounds are sharp where each clique of the triangulated graph is a released table.
        domain = self._records.domain.project(names)
        margins = [{names[axis] for axis in axes} for axes in self._released.within(names)]
        tree = JunctionTree.of(
            domain, [tuple(sorted(one, key=names.index)) for one in margins], MOST_CELLS
        )
        if all(any(set(clique) <= margin for margin in margins) for clique in tree.cliques):
            return
        is_large = bool(np.count_nonzero(bounds.upper) > MOST_FREE)
        for axis in range(WIDTH):
            self._keep(True, _key_claims(names, axis, counts, bounds), is_large)
        chosen = np.argwhere((counts > 0) & ~occupied & surprising)
        cells = (tuple(map(int, cell)) for cell in chosen)
        # The slack is by how much larger a cell could be.
        claims = (
            ProvableClaim(int(bounds.upper[cell] - counts[cell]), names, cell, None) for cell in cells
        )
        self._keep(False, claims, is_large)

    def _keep(self, of_key: bool, claims: Iterable[ProvableClaim], is_large: bool) -> None:
        """Keep the claims that are nearest to being certain, and count the others."""
        if is_large:
            self._untried += sum(1 for _ in claims)
            return
        both = [*self._claims[of_key], *claims]
        self._claims[of_key] = nsmallest(MOST_PROGRAMS, both, key=attrgetter("slack"))
        self._untried += len(both) - len(self._claims[of_key])

    def proved(self, most: int, progress: Progress) -> WideTables:
        claims = [*self._claims[True][:most], *self._claims[False][:most]]
        untried = self._untried + sum(map(len, self._claims.values())) - len(claims)
        proved: dict[str, NDArray[np.bool_]] = {}
        undecided = cells = 0
        for place, claim in enumerate(claims):
            progress("programs", (1 + place / len(claims)) / 2)
            answer = is_certain(self._released, claim)
            undecided += answer is None
            if answer and claim.target is None:
                cells += 1
            elif answer and claim.target is not None:
                target = claim.names[claim.target]
                proved.setdefault(target, np.zeros(len(self._records), dtype=bool))
                proved[target] |= self._unknown(claim)
        return WideTables(
            self._tables,
            self._skipped,
            self._held,
            self._unexpected,
            self._wrong,
            len(claims),
            undecided,
            sum(int(rows.sum()) for rows in proved.values()),
            cells,
            untried,
        )

    def _unknown(self, claim: ProvableClaim) -> NDArray[np.bool_]:
        """Records with a claim's key whose level is not certain yet; none where all have that level."""
        target = claim.names[claim.target] if claim.target is not None else ""
        if target not in self._known:
            return np.zeros(len(self._records), dtype=bool)
        keys = [
            (name, code) for name, code in zip(claim.names, claim.cell, strict=True) if name != target
        ]
        has_key = [self._records.column(name) == code for name, code in keys]
        rows: NDArray[np.bool_] = np.logical_and.reduce(has_key) & ~self._known[target]
        return rows


def bounds_of_four(released: ReleasedTables, names: Clique) -> CellBounds:
    """Bounds of a table of four attributes, by the released tables inside and all tables of three."""
    own = cell_bounds(released.domain.project(names).sizes, released.within(names))
    upper = own.upper
    for axes in combinations(range(WIDTH), WIDTH - 1):
        (away,) = {*range(WIDTH)} - {*axes}
        three = released.bounds(tuple(names[axis] for axis in axes))
        np.minimum(upper, np.expand_dims(three.upper, away), out=upper)
    return CellBounds(own.lower, upper)


def is_certain(released: ReleasedTables, claim: ProvableClaim) -> bool | None:
    """Whether a claim holds in every table with the released marginals; None where that stays open."""
    margins, bounds = released.within(claim.names), bounds_of_four(released, claim.names)
    free = np.flatnonzero(bounds.upper)
    lower, upper = bounds.lower.ravel()[free], bounds.upper.ravel()[free]
    fits, sums = equations(bounds.upper.shape, margins, free)
    conditions = [scipy.optimize.LinearConstraint(fits, sums, sums)]
    is_claimed = np.zeros(bounds.upper.shape, dtype=bool)
    if claim.target is None:
        is_claimed[claim.cell] = True
        upper = np.where(is_claimed.ravel()[free], 0, upper)  # the cell itself is to be empty
    else:  # a record of the key at another level
        key = list[int | slice](claim.cell)
        key[claim.target] = slice(None)
        is_claimed[tuple(key)] = True
        is_claimed[claim.cell] = False
        others = is_claimed.ravel()[free]
        conditions.append(scipy.optimize.LinearConstraint(others[None].astype(float), lb=1.0))
    if np.any(lower > upper):
        return True
    solution = scipy.optimize.milp(
        np.zeros(len(free)),
        constraints=conditions,
        bounds=scipy.optimize.Bounds(lower, upper),
        integrality=np.ones(len(free), dtype=np.int64),
        options={"node_limit": _NODES},
    )
    return {_FEASIBLE: False, _INFEASIBLE: True}.get(int(solution.status))


def equations(
    shape: tuple[int, ...], margins: Margins, free: NDArray[np.intp]
) -> "tuple[scipy.sparse.csr_array, Counts]":  # quoted: `scipy.sparse` is imported where it is used
    """Return the equations that make free cells sum to the released marginals: matrix and sums."""
    places = np.unravel_index(free, shape)
    rows, sums = [], []
    for axes, margin in margins.items():
        cells = np.ravel_multi_index(tuple(places[axis] for axis in axes), margin.shape)
        entries = (np.ones(len(free)), (cells, np.arange(len(free))))
        matrix = scipy.sparse.csr_array(entries, shape=(margin.size, len(free)))
        occupied = np.flatnonzero(margin)
        rows.append(matrix[occupied])
        sums.append(margin.ravel()[occupied])
    return scipy.sparse.vstack(rows, format="csr"), np.concatenate(sums)


def _expected(counts: Counts) -> Counts:
    """Counts of independent attributes."""
    axes = range(counts.ndim)
    margins = [counts.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    expected: Counts = reduce(np.multiply.outer, margins) / max(int(counts.sum()), 1) ** (len(axes) - 1)
    return expected


def _key_claims(names: Clique, axis: int, counts: Counts, bounds: CellBounds) -> Iterator[ProvableClaim]:
    """Keys all of whose records have one level, and for which bounds leave others open."""
    occupied = np.moveaxis(counts > 0, axis, -1)
    upper = np.moveaxis(bounds.upper, axis, -1)
    open_levels = np.where(occupied, 0, upper).sum(axis=-1)
    for key in np.argwhere((occupied.sum(axis=-1) == 1) & (open_levels > 0)):
        place = tuple(map(int, key))
        level = int(occupied[place].argmax())
        yield ProvableClaim(int(open_levels[place]), names, (*place[:axis], level, *place[axis:]), axis)
