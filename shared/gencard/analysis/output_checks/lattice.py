"""Cells of a few attributes, the marginal counts to protect there, and programs over these counts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import highspy
import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from gencard.analysis.output_checks.differencing import Kept, cell_numbers
from gencard.core.card.privacy import Transform
from gencard.core.coding import StructuralZeros, impossible_records
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.types import FloatArray, IntArray

MOST_CELLS = 4_096
"""Most cells of a lattice. All of them are listed, and all their marginals are protected."""

WIDTH = 3
"""Least difference, in records, between the least and the largest value that a small count may have."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Marginal counts, as sums over cells of a lattice.

    Args:
        rows: Which of the cells that may change each sums, shape ``(sums, changing)``.
        values: In records, shape ``(sums,)``.
    """

    rows: FloatArray
    values: IntArray

    def take(self, places: NDArray[np.bool_] | IntArray) -> "Sums":
        return Sums(self.rows[places], self.values[places])


@dataclass(frozen=True, slots=True, eq=False)
class SmallCounts:
    """Counts to protect in one marginal.

    Args:
        places: Numbers of its cells with a small count, shape ``(small,)``.
        values: These counts, in records.
    """

    clique: Clique
    places: IntArray
    values: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """All cells of a few attributes, and how many records each holds.

    Args:
        changing: Places of the cells whose counts may be others, as far as an attacker knows; never
            structural zeros, which everybody knows to be empty.
        small: The marginal counts to protect, of all marginals.
        told_apart: The attributes of which no levels are merged.
    """

    cells: Dataset
    counts: IntArray
    changing: IntArray
    small: tuple[SmallCounts, ...]
    told_apart: frozenset[str]

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        attributes: Clique,
        checks: Transform,
        impossible: Sequence[StructuralZeros] = (),
        exact: Sequence[Clique] = (),
        merged: Iterable[str] = (),
    ) -> "Lattice":
        """Count records in the cells of some attributes, and list the counts to protect.

        Args:
            checks: Counts below the threshold are small; 0 where zeros are.
            exact: Marginals that everybody may know: what they tell alone needs no protection.
            merged: Attributes of which several levels have one code.
        """
        domain = dataset.domain.project(attributes)
        codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1).T
        numbers, size = cell_numbers(dataset, domain.attributes)
        counts = np.bincount(numbers, minlength=size)
        possible = ~impossible_records(domain, codes, impossible)
        small = _small_counts(domain, counts, possible, checks, exact)
        told_apart = frozenset(attributes).difference(merged)
        return cls(Dataset(domain, codes), counts, np.flatnonzero(possible), tuple(small), told_apart)

    def numbers(self, clique: Sequence[str]) -> tuple[IntArray, int]:
        """The cell of a marginal that each cell which may change is in, and how many cells it has."""
        numbers, size = cell_numbers(self.cells, clique)
        return numbers[self.changing], size

    def sums(self, clique: Sequence[str], kept: Kept) -> Sums:
        """A marginal of the records in some cells, all its cells in their order."""
        numbers, size = cell_numbers(self.cells, clique)
        values = np.bincount(numbers[kept], self.counts[kept], minlength=size).astype(np.int64)
        inside = (numbers[self.changing] == np.arange(size)[:, None]) & kept[self.changing]
        return Sums(inside.astype(np.float64), values)


def lattice_size(domain: Domain, attributes: Sequence[str]) -> int:
    """Count the cells that some attributes have together."""
    return prod(domain.size(name) for name in attributes)


def _small_counts(
    domain: Domain,
    counts: IntArray,
    possible: NDArray[np.bool_],
    checks: Transform,
    exact: Sequence[Clique],
) -> Iterator[SmallCounts]:
    """List the small counts of every marginal that can hold a record.

    An attribute with one level adds nothing: the marginals with it are those without.
    """
    table, can_hold = counts.reshape(domain.sizes), possible.reshape(domain.sizes)
    wide = [name for name in domain.attributes if domain.size(name) > 1]
    for length in range(1, len(wide) + 1):
        for clique in combinations(wide, length):
            away = tuple(axis for axis, name in enumerate(domain.attributes) if name not in clique)
            marginal = table.sum(axis=away)
            small = _is_small(clique, marginal, checks, exact) & can_hold.any(axis=away)
            places = np.flatnonzero(small)
            if len(places):
                yield SmallCounts(clique, places, marginal.ravel()[places])


def _is_small(
    clique: Clique, counts: IntArray, checks: Transform, exact: Sequence[Clique]
) -> NDArray[np.bool_]:
    """Mark the cells of a marginal that are small, except those that exact marginals tell."""
    shared = {frozenset(clique) & frozenset(other) for other in exact}
    if frozenset(clique) in shared:
        return np.zeros(counts.shape, dtype=bool)
    small = (counts < checks.threshold) & (checks.zeros | (counts > 0))
    for inside in shared:
        others = tuple(axis for axis, name in enumerate(clique) if name not in inside)
        # If everybody may know that the group has fewer records than `WIDTH`, no output can leave that
        # many values open, and every answer would be refused.
        small &= counts.sum(axis=others, keepdims=True) >= WIDTH
    return np.asarray(small)


@dataclass(frozen=True, slots=True)
class CountFacts:
    """Linear functions of the counts of a lattice, and by how much an output lets them be others.

    Args:
        rows: Shape ``(facts, changing)``.
        low: The least change that agrees with the output, at most 0; shape ``(facts,)``.
        high: The largest, at least 0.
    """

    rows: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def near(cls, rows: FloatArray, apart: FloatArray | float) -> "CountFacts":
        """That some functions are where they are, but for so much."""
        return cls.between(rows, 0.0 - np.asarray(apart), np.asarray(apart))

    @classmethod
    def between(cls, rows: FloatArray, low: FloatArray, high: FloatArray) -> "CountFacts":
        """With bounds that rounding errors may have moved beyond 0."""
        zeros = np.zeros(len(rows))
        return cls(rows, np.minimum(zeros, low), np.maximum(zeros, high))

    @classmethod
    def rounded(cls, sums: Sums, base: int, least: int = 0) -> "CountFacts":
        """That some counts have certain nearest multiples of a base, and pass a threshold."""
        nearest = np.round(sums.values / base) * base
        passed = np.where(sums.values >= least, least, 0)
        low = np.maximum(np.ceil(nearest - base / 2), passed)
        return cls.between(sums.rows, low - sums.values, np.floor(nearest + base / 2) - sums.values)

    @classmethod
    def together(cls, parts: Iterable["CountFacts"], changing: int) -> "CountFacts":
        parts_list = list(parts)
        rows = np.concatenate([np.empty((0, changing)), *(part.rows for part in parts_list)])
        low = np.concatenate([np.empty(0), *(part.low for part in parts_list)])
        return cls(rows, low, np.concatenate([np.empty(0), *(part.high for part in parts_list)]))


# Programs over the counts of classes of cells: changes that agree with all facts and move a sum far.
#
# Linear programs allow fractions of records, and prove how far a sum can move. Integer programs search
# for whole records, with bounds on their work that do not depend on the machine. Both are solved by
# HiGHS. A linear program goes on from the last one's solution, of which only the sum to move is another.
# One that moves very many sums at once has little of the last one's solution: an interior point is found
# sooner.


_GAP = 0.3
"""Relative difference from the best change of a box at which the search in it ends."""

_MOST_WORK = 1_500_000
"""Entries of all programs of one search, each counted once for every node that it may visit."""

_NODES = 100
"""Most nodes of the search for one sum: a bound that is the same on every machine."""

_FEW_NODES = 20
"""The same for programs that move many sums at once."""

_MOST_MOVED = 5
"""Records by which one class changes in a search for whole numbers, which this makes far shorter."""

_MENDING = 60
"""Classes whose counts make a change agree that is nearly in whole records."""

_ZERO = 1e-7

_OPTIONS: dict[str, str | int] = {
    "threads": 1,
    "parallel": "off",
    "simplex_strategy": 4,  # primal: the last solution still agrees where only the sum to move is new
    "run_crossover": "off",  # of an interior point, no vertex is needed
}
"""Options of the solver."""


class LinearProgram:
    """Changes of the counts of classes that agree with facts, as rows."""

    def __init__(self, facts: CountFacts, counts: IntArray) -> None:
        self.facts = facts
        self._counts = counts
        # Each row in units of its largest entry: the solver's tolerance is absolute.
        largest = np.abs(facts.rows).max(axis=1, initial=0.0)
        some = largest > 0
        scale = largest[some]
        rows = np.vstack([facts.rows[some] / scale[:, None], np.ones(len(counts))])
        self._rows = scipy.sparse.csc_array(rows)
        self._low = np.append(facts.low[some] / scale, 0.0)
        self._high = np.append(facts.high[some] / scale, 0.0)
        self._work = 0
        self._linear: _Linear | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the search has had its share of work."""
        return self._work > _MOST_WORK

    def span(self, up: FloatArray, down: FloatArray) -> float:
        """By how much a sum changes at most, fractions of records allowed: below ``WIDTH`` is proof."""
        changes = [self.fraction(weights, most=np.inf) for weights in (up, -down)]
        pairs = zip((up, -down), changes, strict=True)
        return sum(np.inf if change is None else float(one @ change) for one, change in pairs)

    def fraction(
        self, weights: FloatArray, most: float = WIDTH, *, interior: bool = False
    ) -> FloatArray | None:
        """The change in fractions of records that makes a weighted sum largest.

        Args:
            most: Records by which one class changes.
            interior: Whether by an interior point, which is nearly as far, and no proof.
        """
        self._work += self._rows.nnz + len(self._counts)
        if self._linear is None:
            self._linear = _Linear(self._rows, self._low, self._high)
        low = np.maximum(-self._counts, -most)
        return self._linear.largest(weights, low, most, interior=interior)

    def mended(self, weights: FloatArray) -> IntArray:
        """A change in whole records that makes a weighted sum large, if one is soon found.

        Few classes of the best change in fractions change by no whole number. These and the classes
        with the most records change once more so that the facts hold.
        """
        change = self.fraction(weights)
        if change is None:
            return self._rounded(None)
        free = np.abs(change - np.round(change)) > _ZERO
        free[np.argsort(-self._counts, kind="stable")[:_MENDING]] = True
        fixed = (free, np.round(change))
        return self._rounded(self._solved(weights, whole=1, nodes=_NODES, fixed=fixed))

    def boxed(self, weights: FloatArray, free: NDArray[np.bool_]) -> IntArray:
        """The same by a change of some classes alone."""
        fixed = (free, np.zeros(len(free)))
        return self._rounded(self._solution(weights, whole=1, nodes=_FEW_NODES, gap=_GAP, fixed=fixed).x)

    def within(self, bound: tuple[FloatArray, float, float]) -> IntArray:
        """A change within one more bound; if no fractions agree, no whole numbers do."""
        change, nothing = None, np.zeros(len(self._counts))
        for whole in (0, 1):
            nodes = _NODES * whole
            change = self._solved(nothing, whole=whole, nodes=nodes, most=_MOST_MOVED, bound=bound)
            if change is None:
                break
        return self._rounded(change)

    def bounded(self, weights: FloatArray) -> tuple[IntArray, float]:
        """A change in whole records that makes a whole-numbered sum large, and how large it can be."""
        solution = self._solution(weights, whole=1, nodes=_NODES, gap=0.0)
        bound = solution.mip_dual_bound
        most = np.inf if bound is None or not np.isfinite(bound) else np.floor(-bound + _ZERO)
        return self._rounded(solution.x), float(most)

    def _solved(self, weights: FloatArray, *, whole: int, **more: Any) -> FloatArray | None:
        """The change that makes a weighted sum largest, or one that is large, in whole records."""
        change: FloatArray | None = self._solution(weights, whole=whole, gap=float(whole), **more).x
        return change

    def _solution(
        self,
        weights: FloatArray,
        *,
        whole: int,
        nodes: int,
        gap: float,
        most: float = np.inf,
        bound: tuple[FloatArray, float, float] | None = None,
        fixed: tuple[NDArray[np.bool_], FloatArray] | None = None,
    ) -> Any:
        """The solver's result.

        Args:
            gap: Relative difference from the best solution at which the solver stops.
            fixed: Of which classes the change may differ from a given one, and that one.
        """
        free, given = fixed or (np.ones(len(self._counts), dtype=bool), np.zeros(len(self._counts)))
        rows, counts = self._rows[:, free], self._counts[free]
        shift = self._rows @ np.where(free, 0.0, given)
        self._work += (rows.nnz + len(counts)) * (1 + nodes)
        touched = np.diff(rows.tocsr().indptr) > 0
        if not touched.all():  # a function of no free class agrees, or nothing does
            rows = rows[np.flatnonzero(touched)]
        low, high = (self._low - shift)[touched], (self._high - shift)[touched]
        conditions = [scipy.optimize.LinearConstraint(rows, low, high)]
        if bound is not None:
            row, low, high = bound
            conditions.append(scipy.optimize.LinearConstraint(row[None], low, high))
        solution = scipy.optimize.milp(
            -weights[free],
            integrality=np.full(len(counts), whole),
            bounds=scipy.optimize.Bounds(np.maximum(-counts, -most), most),
            constraints=conditions,
            # A limit of nodes, not of seconds: with a time limit the verdict would depend on the load of
            # the machine.
            options={"node_limit": max(nodes, 1), "mip_rel_gap": gap},
        )
        if solution.x is not None:
            change = np.array(given, dtype=np.float64)
            change[free] = solution.x
            solution.x = change
        return solution

    def _rounded(self, change: FloatArray | None) -> IntArray:
        """A change without its last digits, if it then still agrees."""
        facts = self.facts
        whole = np.zeros((0, len(self._counts))) if change is None else np.round(change)[None]
        values = whole @ facts.rows.T
        slack = _ZERO * (1.0 + np.abs(whole) @ np.abs(facts.rows).T)
        # The solver's integers are exact up to a tolerance only: a change counts if it agrees after
        # rounding, else it is dropped. Dropping is safe, as it leaves a count looking disclosed.
        agree = np.all((facts.low - slack <= values) & (values <= facts.high + slack), axis=1)
        return whole[agree].astype(np.int64)


# Workaround: HiGHS writes its banner with its first call (ERGO-Code/HiGHS#1932), and the constructor of
# highspy makes that call before output_flag can be set.
class _Silent(highspy.Highs):
    """A solver that writes nothing to standard output; others begin with two lines there."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library says no types

    def enableCallbacks(self) -> None:  # noqa: N802  # the library's name, called when it is made
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]  # the same


class _Linear:
    """Linear programs with the same conditions, each of which starts where the last one ended.

    Args:
        rows: Conditions, shape ``(conditions, classes)``.
    """

    def __init__(self, rows: scipy.sparse.csc_array, low: FloatArray, high: FloatArray) -> None:
        size = rows.shape[1]
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = size, rows.shape[0]
        model.col_cost_, model.col_lower_, model.col_upper_ = np.zeros((3, size))
        model.row_lower_, model.row_upper_ = low, high
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_ = rows.indptr, rows.indices
        model.a_matrix_.value_ = rows.data
        self._rows, self._low, self._high = rows, low, high
        self._solver = _Silent()
        for name, value in _OPTIONS.items():
            self._solver.setOptionValue(name, value)
        self._solver.passModel(model)
        self._classes = np.arange(size, dtype=np.int32)

    def largest(
        self, weights: FloatArray, low: FloatArray, most: float, *, interior: bool
    ) -> FloatArray | None:
        """The change, from ``low`` to ``most``, that makes a weighted sum largest, if one is found."""
        self._solver.setOptionValue("solver", "ipm" if interior else "simplex")
        size = len(self._classes)
        high = np.full(size, highspy.kHighsInf if np.isinf(most) else most)
        self._solver.changeColsBounds(size, self._classes, low.astype(np.float64), high)
        self._solver.changeColsCost(size, self._classes, -np.asarray(weights, dtype=np.float64))
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        change = np.array(self._solver.getSolution().col_value)
        if not interior:
            return change
        change = np.clip(change, low, high)
        values = self._rows @ change
        agrees = (self._low - _ZERO <= values) & (values <= self._high + _ZERO)
        return change if agrees.all() else None
