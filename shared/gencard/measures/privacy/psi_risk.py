r"""Disclosure about the records by psi itself: for the steward, before a signature.

All tables that leave under a card are taken together with those granted before on the same records, as
exact counts of :math:`n` records, and asked four questions: which counts are small, which attributes are
certain for somebody who knows others of a person, which cells certainly hold somebody though their table
was not released, and which attributes can be guessed with confidence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.privacy import AS_COUNTED, Transform
from gencard.core.card.sums import scale_of
from gencard.core.coding import Coding, Edges, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.psi import failing
from gencard.core.typed_json import PLAIN
from gencard.core.types import Counts, FloatArray, Progress, ignore_progress
from gencard.measures.privacy.released_tables import (
    WIDEST_KEY,
    Combination,
    KeyFacts,
    ReleasedTables,
    certain_facts,
)
from gencard.measures.privacy.wide_tables import TableGuesses, WideTables, confident_guesses, wide_tables

THRESHOLD = 10
"""Counts below it are called small."""

WORST_TABLES = 10

REFUSED = "The measurement of this card would be refused."


@dataclass(frozen=True, slots=True)
class SmallTableCells:
    """Small cells of one released table, or of several together.

    Args:
        clique: The table; empty for several.
        cells: Cells with at least one record.
        single: Cells of one record.
        small: Cells of 1 to ``threshold - 1`` records.
        records: Records in the small ones; of several tables, each counted in each.
    """

    clique: Clique
    cells: int
    single: int
    small: int
    records: int


@dataclass(frozen=True, slots=True)
class FailingTable:
    """A table that fails the checks of its own card, so that the measurement would be refused.

    Args:
        checks: Names of the checks that it fails, such as ``threshold``.
        cells: Number of cells that fail.
        levels: Levels of the failing cell with the fewest records, in the order of ``clique``.
        records: Records in that cell.
        statistic: Words of the histogram or sum; empty for a table. A sum may fail as a whole: then no
            cell does.
    """

    clique: Clique
    checks: tuple[str, ...]
    cells: int
    levels: tuple[str, ...]
    records: int
    statistic: str = field(default="", metadata=written(omit=True))

    @property
    def name(self) -> str:
        """The statistic in words, or the attributes of the table."""
        return self.statistic or " × ".join(self.clique)

    def __str__(self) -> str:
        """One line, for a steward."""
        pairs = zip(self.clique, self.levels, strict=False)
        cell = ", ".join(f"{name} = {level}" for name, level in pairs) or "all"
        table, checks = self.name, " and ".join(self.checks)
        if not self.cells:
            return f"{table}: it fails {checks}"
        cells = "1 cell fails" if self.cells == 1 else f"{self.cells:,} cells fail"
        records = "1 record" if self.records == 1 else f"{self.records:,} records"
        return f"{table}: {cells} {checks}; fewest in {cell}: {records}"


_CHECKS = {
    "threshold": ("threshold",),
    "freedom": ("freedom",),
    "dominance": ("dominance_count", "dominance_percent"),
    "remainder": ("remainder_percent",),
    "zeros": ("zeros",),
}
"""Fields of a transform, by the name of the check."""


def failing_tables(
    records: Dataset, cliques: Sequence[Clique], transform: Transform, coding: Coding
) -> tuple[FailingTable, ...]:
    """Tables of a card that fail its checks, each with the cell of fewest records that fails."""
    if not transform.checks or not cliques:
        return ()
    tables = (
        failing_counts(
            clique,
            counts,
            transform,
            [coding.attribute(name).coding.level_names for name in clique],
            impossible_cells(records.domain.project(clique), coding.structural_zeros),
        )
        for clique, counts in zip(cliques, count_all(records, cliques), strict=True)
    )
    return tuple(filter(None, tables))


def failing_counts(
    clique: Clique,
    counts: Counts,
    transform: Transform,
    names: Sequence[Sequence[str]],
    may_be_empty: NDArray[np.bool_] | bool = False,
    statistic: str = "",
) -> FailingTable | None:
    """Judge one table by a card's checks; None if it passes.

    Args:
        names: Names of the levels on each axis.
        may_be_empty: Cells that cannot hold a record.
        statistic: As in ``FailingTable``.
    """
    fails = failing(counts, transform, may_be_empty)
    if not fails.any():
        return None
    checks = tuple(
        name
        for name, parts in _CHECKS.items()
        if failing(
            counts,
            replace(AS_COUNTED, **{part: getattr(transform, part) for part in parts}),
            may_be_empty,
        ).any()
    )
    return failing_table(clique, checks, fails, counts, names, statistic)


def failing_table(
    clique: Clique,
    checks: Sequence[str],
    fails: NDArray[np.bool_],
    counts: Counts,
    names: Sequence[Sequence[str]],
    statistic: str = "",
) -> FailingTable:
    """Describe a table by its cells that fail, of the shape of ``counts``; see ``failing_counts``."""
    if not fails.any():
        return FailingTable(clique, tuple(checks), 0, (), 0, statistic)
    lowest = int(np.argmin(np.where(fails, counts, np.iinfo(np.int64).max)))
    cell = np.unravel_index(lowest, counts.shape)
    levels = tuple(own[int(code)] for own, code in zip(names, cell, strict=True))
    return FailingTable(clique, tuple(checks), int(fails.sum()), levels, int(counts[cell]), statistic)


def small_cells(clique: Clique, counts: Counts, threshold: int) -> SmallTableCells:
    """Count the small cells of one table.

    >>> small_cells(("sex",), np.array([1, 4, 0, 12]), 10)
    SmallTableCells(clique=('sex',), cells=3, single=1, small=2, records=5)
    """
    below = (counts > 0) & (counts < threshold)
    return SmallTableCells(
        clique,
        int(np.count_nonzero(counts)),
        int(np.sum(counts == 1)),
        int(below.sum()),
        int(counts[below].sum()),
    )


@dataclass(frozen=True, slots=True)
class LongTail:
    """A number of which one record moves the means of many groups by more than the policy's limit.

    Args:
        least: Records below which a group that may hold the most distant value waits for a steward.
        edge: Largest last edge, as values are written, with which a tenth of the records is enough;
            None if no edge of a cell is one.
        with_edge: ``least`` with it.
    """

    name: str
    least: int
    edge: str | None
    with_edge: int

    def __str__(self) -> str:
        """One sentence, for a steward."""
        remedy = (
            f'; with a last edge of {self.edge} and above = "highest", of fewer than {self.with_edge:,}'
            if self.edge
            else ""
        )
        return (
            f"One record moves means of {self.name} by more than analyses.influence permits in groups "
            f"of fewer than about {self.least:,} records, and they wait for a steward{remedy}."
        )


@dataclass(frozen=True, slots=True)
class PsiRisk:
    """Risk of exact tables.

    Args:
        tables: Number of released tables, those inside others not counted.
        small: Small counts of all of them together.
        worst_tables: The ten tables with the most records in small cells.
        facts: Certain facts from keys of one attribute, of up to two, of up to three.
        worst: The ten keys that determine an attribute of the most records.
        certain: By attribute of the key, then by target: share of the records for which the one alone
            determines the other; in the order of ``attributes``.
        small_pairs: By attribute and attribute: cells of fewer than ``threshold`` records in the table
            of the two that the released ones give, 0 where none holds both; of one attribute on the
            diagonal.
        guesses: Confident guesses and cells that certainly hold somebody, for keys of one and two.
        wide: What tables of four attributes give, and what only integer programs prove.
        failing: Tables of the card that fail its checks, and sums that fail the rules: the measurement
            would be refused.
        histograms: Fine cells of each histogram that is released.
        tails: Numbers that the exact terms name of which groups of a tenth of the records wait.
    """

    attributes: Clique
    records: int
    threshold: int
    tables: int
    small: SmallTableCells
    worst_tables: tuple[SmallTableCells, ...]
    facts: tuple[KeyFacts, ...]
    worst: tuple[Combination, ...]
    certain: tuple[tuple[float, ...], ...] = field(repr=False)
    small_pairs: tuple[tuple[int, ...], ...] = field(repr=False)
    guesses: tuple[TableGuesses, ...]
    wide: WideTables
    failing: tuple[FailingTable, ...] = field(default=(), metadata=written(omit=True))
    histograms: tuple[SmallTableCells, ...] = field(default=(), metadata=written(omit=True))
    tails: tuple[LongTail, ...] = field(default=(), metadata=written(omit=True))

    @property
    def wrong(self) -> int:
        """Claims of certainty that the records contradict; always 0 for tables of these records."""
        facts = self.facts[-1].wrong if self.facts else 0
        return facts + self.wide.wrong + sum(guesses.wrong for guesses in self.guesses)

    @property
    def failing_lines(self) -> tuple[str, ...]:
        """Sentences for a steward about tables that fail the card's checks; empty if all pass."""
        if not self.failing:
            return ()
        advice = "Leave these statistics out, or reject the card:"
        return (f"{REFUSED} {advice}", *map(str, self.failing))

    @property
    def histogram_lines(self) -> tuple[str, ...]:
        """Sentences for a steward about fine cells with few records."""
        return tuple(
            f"Histogram of {', '.join(one.clique)}: {one.small:,} of {one.cells:,} occupied cells have "
            f"fewer than {self.threshold} records, {one.single:,} of them one."
            for one in self.histograms
        )

    @property
    def tail_lines(self) -> tuple[str, ...]:
        """Sentences for a steward about numbers whose answers will wait by the influence rule."""
        return tuple(map(str, self.tails))

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Sentences about claims that were not examined or not decided, and may be certain too."""
        skipped = self.wide.skipped + (self.facts[-1].skipped if self.facts else 0)
        sentences = (
            (skipped, "Not examined: {:,} combinations of attributes whose tables are too large."),
            (self.wide.open, "Not decided: {:,} claims about three known attributes may hold too."),
        )
        return tuple(sentence.format(number) for number, sentence in sentences if number)

    def json(self) -> dict[str, Any]:
        """The report as a JSON object; levels are codes."""
        document: dict[str, Any] = PLAIN.write(self)
        return document


def psi_risk(
    records: Dataset,
    cliques: Sequence[Clique],
    *,
    threshold: int = THRESHOLD,
    progress: Progress = ignore_progress,
) -> PsiRisk:
    """The risk of exact tables of some records.

    Time grows with the number of records times that of keys of three attributes, memory with the
    cells of all tables of three attributes.

    Args:
        cliques: Cliques of the tables; a clique inside another adds nothing.
        threshold: Counts below it are called small, at least 2.

    Raises:
        InvalidInputError: There is no table.
        InvalidNumberError: The threshold is below 2.
        UnknownAttributeError, TooLargeError: As for counting.
    """
    if not cliques:
        raise InvalidInputError(field="cliques", problem="must name at least one table")
    if threshold < 2:
        raise InvalidNumberError(field="threshold", expected="at least 2")
    domain = records.domain.covered_by(cliques)
    records = records.project(domain.attributes)
    progress("tables", 0.0)
    released_tables = ReleasedTables.of(records, cliques)
    small = tuple(
        small_cells(clique, counts, threshold) for clique, counts in released_tables.tables.items()
    )
    widths = range(1, min(2, len(domain) - 1) + 1)
    guesses = []
    for width in widths:
        progress("guesses", 0.05 * width)
        guesses.append(confident_guesses(records, released_tables, width))
    progress("facts", 0.2)
    facts = certain_facts(
        records, released_tables, widest=min(WIDEST_KEY, len(domain) - 1), progress=progress
    )
    wide = wide_tables(
        records,
        released_tables,
        facts.known,
        progress=lambda step, share: progress(step, 0.5 + share / 2),  # the second half of the work
    )
    worst = sorted(small, key=lambda table: (-table.records, table.clique))[:WORST_TABLES]
    return PsiRisk(
        attributes=domain.attributes,
        records=len(records),
        threshold=threshold,
        tables=len(small),
        small=SmallTableCells(
            (),
            sum(table.cells for table in small),
            sum(table.single for table in small),
            sum(table.small for table in small),
            sum(table.records for table in small),
        ),
        worst_tables=tuple(worst),
        facts=facts.by_width,
        worst=facts.worst,
        certain=tuple(tuple(map(float, row)) for row in facts.share),
        small_pairs=small_pairs(released_tables, threshold),
        guesses=tuple(guesses),
        wide=wide,
    )


def small_pairs(released: ReleasedTables, threshold: int) -> tuple[tuple[int, ...], ...]:
    """Small cells of each pair of attributes that some table holds; see ``PsiRisk``."""
    names = released.domain.attributes
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    for (row, one), (column, other) in combinations_with_replacement(enumerate(names), 2):
        if released.releases((one, other)):
            pair = (one,) if one == other else (one, other)
            small = small_cells(pair, released.marginal(pair), threshold).small
            counts[row, column] = counts[column, row] = small
    return tuple(tuple(map(int, row)) for row in counts)


_SHARE = 10
"""A number is named if a group of this part of the records would wait because of it."""


def long_tails(
    coding: Coding, fine: Mapping[str, Counts], records: int, limit: float | None
) -> tuple[LongTail, ...]:
    """Return the numbers of which groups of a tenth of the records wait by the influence rule.

    Args:
        fine: Counts of the fine cells of attributes with a step, by name.
        limit: Largest influence that the policy permits; None for any.
    """
    if limit is None:
        return ()
    tails = []
    for name, every_cell in fine.items():
        own = cast("Edges", coding.attribute(name).coding)
        edges = np.array(list(map(float, scale_of(coding, name).cells)))
        counts = every_cell[: len(edges) - 1]
        values, held = (edges[1:] + edges[:-1]) / 2, np.flatnonzero(counts)
        values[held[-1:]] = edges[held[-1:] + 1]
        least = least_group(values, counts, limit)
        tail = LongTail(name, least, None, least)
        for edge in edges[-2:0:-1].tolist():  # the largest last edge that helps
            with_edge = least_group(np.minimum(values, edge), counts, limit)
            if _SHARE * with_edge <= counts.sum():
                tail = LongTail(name, least, own.text(edge), with_edge)
                break
        tails.append(tail)
    return tuple(one for one in tails if _SHARE * one.least > records)


def least_group(values: FloatArray, counts: NDArray[np.number], limit: float) -> int:
    """Return how many records, nearly, a mean needs that may hold the most distant value of a column.

    With a distance of z standard deviations of the column, the figure of a group of n is nearly
    z / sqrt(n).

    Args:
        values: Ascending, shape ``(m,)``.
        counts: Records of each.
    """
    values, counts = values[counts > 0], counts[counts > 0]
    if not len(values):
        return 0
    mean = float(np.average(values, weights=counts))
    spread = float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
    away = max(values[-1] - mean, mean - values[0])
    return int(np.ceil((away / spread / limit) ** 2)) if spread > 0 else 0
