"""Programs over the counts of classes of cells: changes that agree with all facts and move a sum far.

Linear programs allow fractions of records, and prove how far a sum can move. Integer programs search for
whole records, with bounds on their work that do not depend on the machine. Both are solved by HiGHS. A
linear program goes on from the last one's solution, of which only the sum to move is another. One that
moves very many sums at once has little of the last one's solution: an interior point is found sooner.
"""

from typing import Any

import highspy
import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from gencard.analysis.output_checks.small_counts.lattice import WIDTH, CountFacts
from gencard.core.types import FloatArray, IntArray

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
    """Changes of the counts of classes that agree with facts, as rows.

    Args:
        facts: About classes.
        counts: Records in each class.
    """

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
        agree = np.all((facts.low - slack <= values) & (values <= facts.high + slack), axis=1)
        return whole[agree].astype(np.int64)


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
        low: Their least values.
        high: Their largest values.
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
        """The change that makes a weighted sum largest; None if the solver finds none.

        Args:
            low: The least change of each class.
            most: The largest of any.
            interior: See ``Program.fraction``.
        """
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
