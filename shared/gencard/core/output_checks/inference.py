r"""What all outputs together leave open about small cells: intervals that an attacker can compute.

Rounded numbers still bound the counts of a few cells, all the more when many populations overlap. As in
the auditing of suppressed tables [1]_, a count below the threshold is protected where other whole counts
agree with everything that was told, and differ in this one by enough. Such counts are looked for by
integer programs. Where they are not found, the count is taken as known: too careful is the safe side.

References:
    .. [1] M. Fischetti, J.-J. Salazar-González, "Models and algorithms for optimizing cell suppression
       in tabular data with linear constraints", JASA 95, 2000.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from gencard.core.output_checks.lattice import WIDTH, Facts, Lattice, Sums
from gencard.core.types import FloatArray, IntArray

_MOST_SEARCHED = 60
"""Sums that are looked at one by one; where more are left, they count as known."""

_ROUNDS = 20
"""Programs that move many sums at once."""

_NODES = 100
"""Of the search for one sum: a bound that is the same on every machine."""

_FEW_NODES = 20
"""The same where many sums are moved at once."""

_MOST_MOVED = 5
"""Records by which one cell changes in a search for whole numbers, which this makes far shorter."""

_FEW_CELLS = 100
"""Cells of a lattice that is searched again without this bound."""

_ZERO = 1e-7


def tells_small_counts(new: Facts, earlier: Facts, lattice: Lattice) -> bool:
    """Whether a new output leaves too little open about a small count that earlier ones left open.

    First records move between two cells. Then many sums are moved up or down by one program; then those
    left, one by one.
    """
    sums = lattice.small
    if lattice.narrow:
        if np.all(_determined(new.rows, earlier)):
            return False
        sums = sums.take(~_determined(sums.rows, earlier))
    program = _Program(Facts.together([earlier, new], len(lattice.changing)), lattice)
    low, high = _moved(sums, program.facts, lattice.counts[lattice.changing])
    low, high = _moved_together(sums, program, low, high)
    left = np.flatnonzero(high - low < WIDTH)
    if len(left) > _MOST_SEARCHED:
        return True
    before = _Program(earlier, lattice)
    for place in left:
        if high[place] - low[place] < WIDTH:
            row = sums.rows[place]
            changes = program.opened(row)
            if not len(changes) and (not lattice.narrow or before.leaves_open(row)):
                return True
            low, high = _stretched(sums, changes, low, high)
    return False


def _determined(functions: FloatArray, facts: Facts) -> NDArray[np.bool_]:
    """Which functions of the counts are linear combinations of exact facts."""
    exact = facts.low == facts.high
    rows = np.vstack([facts.rows[exact], np.ones(facts.rows.shape[1])])
    weights = np.linalg.lstsq(rows.T, functions.T, rcond=None)[0]
    close = _ZERO * (1.0 + np.abs(functions.T).max(axis=0, initial=0.0))
    result: NDArray[np.bool_] = np.all(np.abs(rows.T @ weights - functions.T) < close, axis=0)
    return result


def _moved_together(
    sums: Sums, program: "_Program", low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Changes of sums as far as programs find them that move many, until few enough are left.

    In each round a sum moves up or down by a binary digit of its place among those left, so that any two
    are soon moved apart.
    """
    for turn in range(_ROUNDS):
        left = np.flatnonzero(high - low < WIDTH)
        if len(left) <= _MOST_SEARCHED:
            break
        up = (np.arange(len(left)) >> turn // 2 & 1) == turn % 2
        sign = np.where(up, 1.0, np.where(sums.values[left] >= WIDTH, -1.0, 0.0))
        low, high = _stretched(sums, program.moved(sign @ sums.rows[left]), low, high)
    return low, high


def _stretched(
    sums: Sums, changes: IntArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least and largest changes of sums with some more that agree, one a row."""
    values = sums.rows @ changes.T
    return np.minimum(low, values.min(axis=1, initial=0)), np.maximum(
        high, values.max(axis=1, initial=0)
    )


def _moved(sums: Sums, facts: Facts, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Least and largest changes of sums where records move from one cell to one other."""
    most = _moves(facts, counts)
    inside = sums.rows.astype(np.float32)
    low, high = np.zeros(len(inside)), np.zeros(len(inside))
    for number in range(1, WIDTH + 1):
        moves = (most >= number).astype(np.float32)
        high[np.any((1 - inside) @ moves * inside, axis=1)] = number
        low[np.any(inside @ moves * (1 - inside), axis=1)] = -number
    return low, high


def _moves(facts: Facts, counts: IntArray) -> IntArray:
    """Most records that may move, from each cell (rows) to each cell (columns), up to ``WIDTH``."""
    most = np.zeros((len(counts), len(counts)), dtype=np.int64)
    exact = (facts.low == 0) & (facts.high == 0)
    _, alike = np.unique(facts.rows[exact], axis=1, return_inverse=True)
    rows, low, high = facts.rows[~exact], facts.low[~exact, None], facts.high[~exact, None]
    for cell in np.flatnonzero(counts):
        others = np.flatnonzero(alike == alike[cell])
        change = rows[:, others] - rows[:, [cell]]
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(change > 0, high, low) / change
        room = np.where(change == 0, WIDTH, np.floor(room + _ZERO)).min(axis=0, initial=WIDTH)
        most[cell, others] = np.minimum(room, counts[cell])
    np.fill_diagonal(most, 0)
    return most


@dataclass(frozen=True, slots=True)
class _Program:
    """Changes of the counts of a lattice that agree with facts, as rows."""

    facts: Facts
    lattice: Lattice

    def moved(self, weights: FloatArray) -> IntArray:
        """A change in whole records that makes a weighted sum large, where one is soon found."""
        return self._whole(self._solved(weights, [], whole=1, nodes=_FEW_NODES))

    def opened(self, row: FloatArray) -> IntArray:
        """A change in whole records of a sum by ``WIDTH``; none where none is found."""
        for most in (_MOST_MOVED, np.inf) if len(row) <= _FEW_CELLS else (_MOST_MOVED,):
            for low, high in ((WIDTH, np.inf), (-np.inf, -WIDTH)):
                changes = self._within((row, low, high), most)
                if len(changes):
                    return changes
        return self._whole(None)

    def _within(self, bound: tuple[FloatArray, float, float], most: float) -> IntArray:
        """A change within one more bound; where no fractions agree, no whole numbers do."""
        nothing, change = np.zeros(len(bound[0])), None
        for whole in (0, 1):
            change = self._solved(nothing, [bound], whole=whole, nodes=_NODES, most=most)
            if change is None:
                break
        return self._whole(change)

    def leaves_open(self, row: FloatArray) -> bool:
        """Whether a sum may change by ``WIDTH``, fractions of records allowed: else it is certain."""
        changes = [self._solved(sign * row, [], whole=0, nodes=_NODES) for sign in (1.0, -1.0)]
        most = [np.inf if change is None else abs(float(row @ change)) for change in changes]
        return sum(most) >= WIDTH - _ZERO

    def _solved(
        self,
        weights: FloatArray,
        more: Sequence[tuple[FloatArray, float, float]],
        *,
        whole: int,
        nodes: int,
        most: float = np.inf,
    ) -> FloatArray | None:
        """The change that makes a weighted sum largest, or one that is large, in whole records."""
        facts, counts = self.facts, self.lattice.counts[self.lattice.changing]
        rows, low, high = zip((np.ones(len(counts)), 0.0, 0.0), *more, strict=True)
        agreement = scipy.optimize.LinearConstraint(
            scipy.sparse.csc_array(np.vstack([facts.rows, *rows])),
            [*facts.low, *low],
            [*facts.high, *high],
        )
        solution = scipy.optimize.milp(
            -weights,
            integrality=np.full(len(counts), whole),
            bounds=scipy.optimize.Bounds(np.maximum(-counts, -most), most),
            constraints=[agreement],
            options={"node_limit": nodes, "mip_rel_gap": whole},
        )
        change: FloatArray | None = solution.x
        return change

    def _whole(self, change: FloatArray | None) -> IntArray:
        """A change without its last digits, where it then still agrees."""
        facts, cells = self.facts, self.facts.rows.shape[1]
        whole = np.zeros((0, cells)) if change is None else np.round(change)[None]
        values = whole @ facts.rows.T
        slack = _ZERO * (1.0 + np.abs(whole) @ np.abs(facts.rows).T)
        agree = np.all((facts.low - slack <= values) & (values <= facts.high + slack), axis=1)
        return whole[agree].astype(np.int64)
