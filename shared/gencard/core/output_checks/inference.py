r"""What all outputs together leave open about small cells: intervals that an attacker can compute.

Rounded numbers still bound the counts of a few cells, all the more when many populations overlap. As in
the auditing of suppressed tables [1]_, a cell of fewer records than the threshold is protected where
other whole counts agree with everything that was told, and differ in this cell by enough. Such counts
are looked for by moving records from one cell to another, then by integer programs. Where they are not
found, the cell counts as known: too careful is the safe side.

References:
    .. [1] M. Fischetti, J.-J. Salazar-González, "Models and algorithms for optimizing cell suppression
       in tabular data with linear constraints", JASA 95, 2000.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from gencard.core.card.mechanism import Transform
from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.output_checks.populations import Kept, cell_numbers
from gencard.core.types import FloatArray, IntArray

MOST_CELLS = 512
"""Of a lattice whose cells are looked at."""

_MOST_SEARCHED = 40
"""Cells that are looked at by integer programs; where more are left, they count as known."""

_NODES = 500
"""Of one integer program: a bound that is the same on every machine."""

WIDTH = 3
"""Least difference, in records, between the least and the largest count that a small cell may have."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """All cells of a few attributes, and how many records each holds.

    Args:
        cells: One row for each cell.
        counts: In records.
        possible: False for structural zeros, which everybody knows to be empty.
    """

    cells: Dataset
    counts: IntArray
    possible: Kept

    @classmethod
    def of(
        cls, dataset: Dataset, attributes: Clique, impossible: Sequence[StructuralZeros] = ()
    ) -> "Lattice":
        """Of records; what is impossible is so by the schema."""
        domain = dataset.domain.project(attributes)
        codes = np.indices(domain.sizes).reshape(len(attributes), -1).T
        cells = Dataset(domain, codes)
        numbers, size = cell_numbers(dataset, attributes)
        possible = np.ones(size, dtype=bool)
        for zeros in impossible:
            if {*zeros.clique} <= {*attributes}:
                own = codes[:, [attributes.index(name) for name in zeros.clique]]
                possible &= ~(own[:, None] == np.array(zeros.cells)[None]).all(axis=2).any(axis=1)
        return cls(cells, np.bincount(numbers, minlength=size), possible)

    @property
    def domain(self) -> Domain:
        return self.cells.domain

    def indicators(self, clique: Sequence[str], kept: Kept) -> FloatArray:
        """Which cells each cell of a marginal sums, of some cells; shape ``(marginal, cells)``."""
        numbers, size = cell_numbers(self.cells, clique)
        rows: FloatArray = ((numbers == np.arange(size)[:, None]) & kept).astype(np.float64)
        return rows

    @cached_property
    def sums(self) -> NDArray[np.bool_]:
        """Cells of all marginals, the largest excepted that sums all; as ``indicators``, each once."""
        everything = np.ones(len(self.counts), dtype=bool)
        names = self.domain.attributes
        rows = [
            self.indicators(clique, everything) > 0
            for size in range(1, len(names) + 1)
            for clique in combinations(names, size)
        ]
        return np.unique(np.concatenate(rows), axis=0)


def lattice_size(domain: Domain, attributes: Sequence[str]) -> int:
    """How many cells some attributes have together."""
    return int(np.prod([float(domain.size(name)) for name in attributes]))


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Linear functions of the counts of a lattice, and between which numbers an output says they are.

    Args:
        rows: Shape ``(facts, cells)``.
        low: Shape ``(facts,)``.
        high: The same.
    """

    rows: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def near(cls, rows: FloatArray, counts: IntArray, apart: FloatArray | float) -> "Facts":
        """That some functions are where they are, but for so much."""
        values = rows @ counts
        return cls(rows, values - apart, values + apart)

    @classmethod
    def rounded(cls, rows: FloatArray, counts: IntArray, base: int, least: int = 0) -> "Facts":
        """That some counts have certain nearest multiples of a base, and pass a threshold."""
        values = rows @ counts
        nearest = np.round(values / base) * base
        passed = np.where(values >= least, least, 0)
        low = np.maximum(np.ceil(nearest - base / 2), passed)
        return cls(rows, np.minimum(low, values), np.maximum(np.floor(nearest + base / 2), values))

    @classmethod
    def together(cls, parts: Sequence["Facts"], cells: int) -> "Facts":
        """All facts of several outputs."""
        rows = np.concatenate([np.empty((0, cells)), *(part.rows for part in parts)])
        low = np.concatenate([np.empty(0), *(part.low for part in parts)])
        high = np.concatenate([np.empty(0), *(part.high for part in parts)])
        return cls(rows, low, high)


def tells_small_cells(new: Facts, earlier: Facts, lattice: Lattice, checks: Transform) -> bool:
    """Whether a new output leaves too little open about a cell that earlier ones left open.

    Cells of all marginals of the lattice are looked at, one by one.

    Args:
        checks: Cells of fewer records than the threshold are small; empty ones where zeros are, unless
            they are impossible.
    """
    sums = lattice.sums
    counts = sums @ lattice.counts
    small = (counts < checks.threshold) & (checks.zeros | (counts > 0)) & (sums @ lattice.possible > 0)
    both = Facts.together([earlier, new], len(lattice.counts))
    return any(
        _other_counts(known, earlier, lattice) is not None
        for known in _known(sums[small], both, lattice)
    )


def _known(sums: NDArray[np.bool_], facts: Facts, lattice: Lattice) -> Iterator[NDArray[np.bool_]]:
    """Sums of cells of which too little is left open."""
    left = sums[_moved(sums, facts, lattice) < WIDTH]
    if len(left) > _MOST_SEARCHED:
        yield from left
        return
    low = high = left @ lattice.counts
    for place, inside in enumerate(left):
        if high[place] - low[place] < WIDTH:
            counts = _other_counts(inside, facts, lattice)
            if counts is None:
                yield inside
            else:
                low, high = np.minimum(low, left @ counts), np.maximum(high, left @ counts)


def _moved(sums: NDArray[np.bool_], facts: Facts, lattice: Lattice) -> IntArray:
    """By how much each sum can change, up and down together, where records move between two cells."""
    amounts = _moves(facts, lattice)
    up, down = (np.zeros(len(sums), dtype=np.int64) for _ in range(2))
    inside = sums.astype(np.float32)
    for amount in range(1, WIDTH + 1):
        moves = (amounts >= amount).astype(np.float32)
        up += ((1 - inside) @ moves * inside).any(axis=1)
        down += (inside @ moves * (1 - inside)).any(axis=1)
    return up + down


def _moves(facts: Facts, lattice: Lattice) -> IntArray:
    """Most records that may move, from each cell (rows) to each cell (columns), up to ``WIDTH``."""
    values = facts.rows @ lattice.counts
    up, down = facts.high - values + 1e-9, values - facts.low + 1e-9
    size = len(lattice.counts)
    amounts = np.empty((size, size), dtype=np.int64)
    for cell in range(size):
        change = facts.rows[:, [cell]] - facts.rows
        room = np.where(change > 0, up[:, None], down[:, None])
        with np.errstate(divide="ignore"):
            most = np.where(change == 0, WIDTH, np.floor(room / np.abs(change)))
        amounts[:, cell] = np.minimum(most, WIDTH).min(axis=0, initial=WIDTH)
    amounts[:, ~lattice.possible] = 0
    return np.minimum(amounts, lattice.counts[:, None])


def _other_counts(inside: NDArray[np.bool_], facts: Facts, lattice: Lattice) -> IntArray | None:
    """Counts that agree with all that was told and differ enough in a sum of cells; None if none are."""
    present = int(lattice.counts[inside].sum())
    for low, high in ((present + WIDTH, np.inf), (-np.inf, present - WIDTH)):
        if high < 0:
            continue
        agreement = scipy.optimize.LinearConstraint(
            np.vstack([facts.rows, np.ones(len(inside)), inside]),
            [*facts.low, lattice.counts.sum(), low],
            [*facts.high, lattice.counts.sum(), high],
        )
        for whole in (0, 1):  # where no fractions agree, no whole numbers do, and that is found at once
            solution = scipy.optimize.milp(
                np.zeros(len(inside)),
                integrality=np.full(len(inside), whole),
                bounds=scipy.optimize.Bounds(0, np.where(lattice.possible, np.inf, 0.0)),
                constraints=[agreement],
                options={"node_limit": _NODES},
            )
            if solution.x is None:
                break
        else:
            counts: IntArray = np.round(np.asarray(solution.x)).astype(np.int64)
            return counts
    return None
