"""Confident guesses from tables that were not released, and their cells that certainly hold somebody.

A guess is that of the maximum-entropy distribution with the released marginals inside key and target,
fitted as the generator ``ipf`` fits it; where key and target were released together, their own shares.
"""

from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.maximum_entropy.block_table import PlainTable
from gencard.core.generators.maximum_entropy.fitting import relax
from gencard.core.generators.targets import TargetMarginal
from gencard.core.statistics.counting import count
from gencard.core.types import Counts, FloatArray, Table
from gencard.measures.psi_risk.released import Margins, ReleasedTables

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
    """Count the confident guesses by all tables that are small enough to be bounded.

    Args:
        records: Records that the tables count.
        width: Attributes of a key, 1 or 2.
    """
    total = TableGuesses(width)
    for names in combinations(records.domain.attributes, width + 1):
        if released.fits(names):
            counts = count(records, names)
            fitted_table = maximum_entropy(counts.shape, released.within(names), len(records))
            for axis in range(width + 1):
                total += _about(axis, counts, fitted_table)
            if not released.releases(names):
                total += _held(width, counts, released.bounds(names).lower)
    return total


def _about(axis: int, counts: Counts, fitted: FloatArray) -> TableGuesses:
    """Guesses of one attribute from the others."""
    away = tuple(other for other in range(counts.ndim) if other != axis)
    keys = fitted.sum(axis=axis, keepdims=True)
    confident = (fitted > CONFIDENT * keys) & (_share(counts, axis) < RARE)
    have_key = counts.sum(axis=axis, keepdims=True)
    return TableGuesses(len(away), int(np.sum(have_key * confident)), int(np.sum(counts[confident])))


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
