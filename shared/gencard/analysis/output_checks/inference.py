r"""Intervals of small cells that all outputs together leave open, as an attacker can compute them.

Rounded numbers still bound the counts of a few cells, all the more if many populations overlap. As in
the auditing of suppressed tables [1]_, a count below the threshold is protected if other whole counts
agree with every output, and differ in this one by enough. Linear programs prove that there are none;
integer programs search for them. The search ends after a bounded amount of work that does not depend on
the machine, and says so if it has neither a proof nor other counts.

Cells that no output tells apart have one count together, so the programs have one variable for all of
them. Their records may be in any of these cells: a small count that shares such a class of cells with
cells outside it is between the records of its own classes and these with the shared ones.

References:
    .. [1] M. Fischetti, J.-J. Salazar-González, "Models and algorithms for optimizing cell suppression
       in tabular data with linear constraints", JASA 95, 2000.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gencard.analysis.output_checks.lattice import WIDTH, CountFacts, Lattice, LinearProgram
from gencard.core.types import FloatArray, IntArray


class SearchOutcome(IntEnum):
    """Result of a search; the larger one decides among several."""

    OPEN = 0
    """Every small count that was open before may still be another one."""
    UNDECIDED = 1
    """The search ended without a proof: a steward has to decide."""
    DISCLOSED = 2
    """Some small count that was open before is known to within ``WIDTH`` records."""


_ROUNDS = 200
"""Programs that move many sums at once."""

_TURNS = 8
"""One in so many of these programs moves all classes, and not those of a box alone."""

_BOX = 240
"""Most classes of a box."""

_BOXES = 12
"""Boxes in which one sum is tried to be moved."""

_FIRST = 8
"""Sums, those that change least, that are tried to be proven known before any program moves them."""

_PROOFS = 20
"""Sums that are tried to be proven known after one of which nothing is proven."""

_FEW_SUMS = 10
"""Sums that are soon moved one at a time."""

_MOST_IDLE = 30
"""Programs in a row that move no sum far enough, until sums are moved one at a time."""

_FEW_CLASSES = 100
"""Classes of a program that is soon solved without this bound."""

_MOST_PAIRS = 1_000_000_000
"""Sums times pairs of classes up to which records are moved between every two classes first."""

_CHUNK = 1_024
"""Sums whose rows are held at once: at most 32 MiB with 4,096 classes."""

_ZERO = 1e-7
_DEPENDENT = 1e-13
"""Ratio to the largest eigenvalue below which an eigenvalue is a rounding error."""

_CLEAR = 1e-6
"""The same ratio above which a function of an eigenvector is orthogonal to the others, to ten digits."""

MOST_WHOLE = 100
"""Classes of which counts are searched in whole records; with more, linear programs decide."""

_ENOUGH = WIDTH - 0.5
"""Change of a sum in fractions of records that leaves it open where there are more classes."""

_FRACTIONS = 120
"""Linear programs that move many sums at once."""

_FRACTIONS_FIRST = 30
"""The same before whole records are searched for."""

_INTERIOR = 20
"""The first of these programs, of many classes, are solved by interior points: five times faster."""

_MANY_CLASSES = 1_000
"""Classes from which on that is so."""

_FRACTIONS_IDLE = 5
"""Linear programs in a row without progress, after which sums are judged one at a time."""

_SINGLE = 400
"""Sums that are judged one at a time; if more are left, nothing is proven."""


def tells_small_counts(new: CountFacts, earlier: CountFacts, lattice: Lattice) -> SearchOutcome:
    """Decide if a new output leaves too little open about a small count that earlier ones left open.

    First records move inside a class of cells that no output tells apart, and between two classes. Then
    programs move many sums up or down, and at last one after the other.
    """
    classes = _Classes.of(CountFacts.together([earlier, new], len(lattice.changing)), lattice)
    before, after = classes.facts(earlier), classes.facts(new)
    known = _basis(before)
    # A linear function of what is known already discloses nothing new, so no program is needed.
    if np.all(_is_spanned(after.rows, known)):
        return SearchOutcome.OPEN
    codes = lattice.cells.codes[lattice.changing[classes.first]]
    ranges = _Ranges(classes.closed_sums(lattice, known), codes, classes.counts)
    program = LinearProgram(CountFacts.together([before, after], len(classes.counts)), classes.counts)
    if len(ranges.low) * len(classes.counts) ** 2 <= _MOST_PAIRS:
        ranges.stretch_by_pairs(_moves(program.facts, classes.counts))
    then = LinearProgram(before, classes.counts)
    if len(classes.counts) > MOST_WHOLE:
        return _in_fractions(ranges, program, then)
    if any(_is_told(place, ranges, program, then) for place in ranges.closed[:_FIRST]):
        return SearchOutcome.DISCLOSED
    # Whole records are searched for where fractions leave little room, and nowhere else.
    low, high = ranges.low.copy(), ranges.high.copy()
    for turn in range(_FRACTIONS_FIRST):
        if not program.is_spent:
            _move_in_fractions(ranges, program, turn, WIDTH + 1.0)
    near = ranges.closed_below(WIDTH + 1.0)
    ranges.low[near], ranges.high[near] = low[near], high[near]
    if len(ranges.closed) > _FEW_SUMS:
        _move_together(ranges, program)
    return _search(ranges, program, then)


def _unique_rows(rows: FloatArray) -> tuple[IntArray, IntArray]:
    """The first place of each different row, and for each row the number of its like."""
    if not rows.size:
        return np.zeros(min(len(rows), 1), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    packed = np.ascontiguousarray(rows + 0.0)  # so that -0.0 and 0.0 have the same bytes
    keys = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1]))).ravel()
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), number.reshape(-1).astype(np.int64)


def _basis(facts: CountFacts) -> FloatArray:
    """An orthonormal basis of the functions that exact facts determine, one a row."""
    exact = facts.rows[facts.low == facts.high]
    rows = np.vstack([exact, np.ones(facts.rows.shape[1])])
    largest = np.abs(rows).max(axis=1, initial=0.0)
    rows = rows[largest > 0] / largest[largest > 0, None]
    # Of many classes and few rows: the products of the rows have all that is needed, in little time.
    sizes, vectors = np.linalg.eigh(rows @ rows.T)
    largest_size = sizes.max(initial=0.0)
    clear = sizes > _CLEAR * largest_size
    basis = (vectors[:, clear] / np.sqrt(sizes[clear])).T @ rows
    # The few functions with small eigenvalues are not orthogonal to the others, nor to each other.
    rest = vectors[:, (sizes > _DEPENDENT * largest_size) & ~clear].T @ rows
    for _ in range(2):  # the first time leaves errors as large as what is left of a function
        rest = rest - (rest @ basis.T) @ basis
    return np.vstack([basis, np.linalg.qr(rest.T)[0].T])


def _is_spanned(rows: FloatArray, basis: FloatArray) -> NDArray[np.bool_]:
    """Return the functions that are linear combinations of a basis."""
    rest = np.abs(rows - (rows @ basis.T) @ basis).max(axis=1, initial=0.0)
    return np.asarray(rest < _ZERO * (1.0 + np.abs(rows).max(axis=1, initial=0.0)))


def _may_be_spanned(rows: scipy.sparse.csr_array, basis: FloatArray) -> NDArray[np.bool_]:
    """Return the sparse functions that are as long as their projections: a coarse, cheap test."""
    lengths = rows.power(2).sum(axis=1)
    projected = np.square(rows @ basis.T).sum(axis=1)
    return np.asarray(lengths - projected < 1e-6 * (1.0 + lengths))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Small counts, as sums over classes.

    Args:
        touched: The classes with a cell in each sum, shape ``(sums, classes)``.
        within: The classes whose cells all lie in each sum, same shape.
        values: Value of each sum, in records.
    """

    touched: scipy.sparse.csr_array
    within: scipy.sparse.csr_array
    values: FloatArray

    def take(self, places: NDArray[np.bool_] | IntArray) -> "_Sums":
        places = np.arange(len(self.values))[places]
        return _Sums(self.touched[places], self.within[places], self.values[places])

    def chunks(self) -> Iterator["_Sums"]:
        """The sums in parts whose rows may be held in memory."""
        for start in range(0, len(self.values), _CHUNK):
            yield self.take(np.arange(start, min(start + _CHUNK, len(self.values))))


@dataclass(frozen=True, slots=True)
class _Classes:
    """Cells that may change, in classes that no fact tells apart.

    Args:
        group: The class of each cell, shape ``(changing,)``.
        first: A cell of each class, shape ``(classes,)``.
        counts: Records in each class.
    """

    group: IntArray
    first: IntArray
    counts: IntArray

    @classmethod
    def of(cls, facts: CountFacts, lattice: Lattice) -> "_Classes":
        first, group = _unique_rows(facts.rows.T)
        counts = np.bincount(group, lattice.counts[lattice.changing], minlength=len(first))
        return cls(group, first, counts.astype(np.int64))

    def facts(self, facts: CountFacts) -> CountFacts:
        """The same facts about the counts of classes, each function once."""
        rows = facts.rows[:, self.first]
        first, number = _unique_rows(rows)
        low, high = np.full(len(first), -np.inf), np.full(len(first), np.inf)
        np.maximum.at(low, number, facts.low)
        np.minimum.at(high, number, facts.high)
        return CountFacts(rows[first], low, high)

    def closed_sums(self, lattice: Lattice, known: FloatArray) -> _Sums:
        """The small counts that do not change enough inside classes, and were not known before."""
        touched, within, values = list[IntArray](), list[IntArray](), [np.zeros(0)]
        offset = 0
        for one in lattice.small:
            numbers, size = lattice.numbers(one.clique)
            group, number = np.divmod(np.unique(self.group * size + numbers), size)
            inside = np.bincount(group, minlength=len(self.counts))[group] == 1
            shared = np.bincount(number[~inside], self.counts[group[~inside]], minlength=size)
            closed = shared[one.places] < WIDTH
            place = np.full(size, -1)
            place[one.places[closed]] = offset + np.arange(closed.sum())
            entries = np.stack([place[number], group])
            touched.append(entries[:, entries[0] >= 0])
            within.append(entries[:, (entries[0] >= 0) & inside])
            values.append(one.values[closed].astype(np.float64))
            offset += int(closed.sum())
        shape = (offset, len(self.counts))
        incidence = []
        for entries_of in (touched, within):
            rows, columns = np.concatenate([np.zeros((2, 0), dtype=np.int64), *entries_of], axis=1)
            ones = np.ones(len(rows))
            incidence.append(scipy.sparse.csr_array((ones, (rows, columns)), shape=shape))
        return _unknown(_Sums(incidence[0], incidence[1], np.concatenate(values)), known)


def _unknown(sums: _Sums, known: FloatArray) -> _Sums:
    """The sums that no exact facts determine, each once; moves inside a class change them."""
    # Many marginals have cells with the same records.
    keys = [
        np.packbits(np.hstack([part.touched.toarray(), part.within.toarray()]) > 0, axis=1)
        for part in sums.chunks()
    ]
    if keys:
        _, first = np.unique(np.concatenate(keys), axis=0, return_index=True)
        sums = sums.take(first)
    near = np.flatnonzero(_may_be_spanned(sums.touched, known) & _may_be_spanned(sums.within, known))
    parts = [
        _is_spanned(part.touched.toarray(), known) & _is_spanned(part.within.toarray(), known)
        for part in sums.take(near).chunks()
    ]
    is_known = np.zeros(len(sums.values), dtype=bool)
    is_known[near] = np.concatenate([np.zeros(0, dtype=bool), *parts])
    return sums.take(~is_known)


class _Ranges:
    """The least and the largest change of each sum that is known to agree with all facts.

    Args:
        codes: Codes of one cell of each class, shape ``(classes, attributes)``.
        counts: Records in each class.
    """

    def __init__(self, sums: _Sums, codes: IntArray, counts: IntArray) -> None:
        self.sums, self.codes, self.counts = sums, codes, counts
        self.low = sums.within @ counts - sums.values
        self.high = sums.touched @ counts - sums.values
        self.least, self.most = self.low.copy(), self.high.copy()  # inside the classes alone

    @property
    def closed(self) -> IntArray:
        """The sums that do not change enough yet, those that change least first."""
        return self.closed_below(WIDTH)

    def closed_below(self, width: float) -> IntArray:
        """The sums that change less than so much, those that change least first."""
        left = np.flatnonzero(self.high - self.low < width - _ZERO)
        return left[np.argsort((self.high - self.low)[left], kind="stable")]

    @property
    def progress(self) -> float:
        """Return the joint change of all sums, each as far as that matters."""
        return float(np.minimum(self.high - self.low, WIDTH).sum())

    def is_open(self, place: int) -> bool:
        return bool(self.high[place] - self.low[place] >= WIDTH)

    def span(self, place: int, program: LinearProgram) -> float:
        """By how much a sum changes at most by a program, fractions of records allowed."""
        touched, within = self.rows(place)
        return program.span(touched, within) + float(self.most[place] - self.least[place])

    def rows(self, place: int) -> FloatArray:
        """The classes that a sum touches, and those within it, shape ``(2, classes)``."""
        one = self.sums.take(np.array([place]))
        return np.concatenate([one.touched.toarray(), one.within.toarray()])

    def stretch(self, changes: IntArray | FloatArray) -> None:
        """Take account of a change of all classes that agrees, if there is one."""
        for change in changes:
            self.low = np.minimum(self.low, self.least + self.sums.within @ change)
            self.high = np.maximum(self.high, self.most + self.sums.touched @ change)

    def stretch_by_pairs(self, moves: NDArray[np.int8]) -> None:
        """Take account of records that move from one class (rows) to one other (columns)."""
        start = 0
        for part in self.sums.chunks():
            touched, within = (one.toarray().astype(np.float32) for one in (part.touched, part.within))
            own = slice(start, start + len(part.values))
            for number in range(1, WIDTH + 1):
                may = (moves >= number).astype(np.float32)
                up = np.any((1 - touched) @ may * touched, axis=1)
                down = np.any(within @ may * (1 - within), axis=1)
                self.high[own] = np.maximum(self.high[own], self.most[own] + number * up)
                self.low[own] = np.minimum(self.low[own], self.least[own] - number * down)
            start += len(part.values)


def _moves(facts: CountFacts, counts: IntArray) -> NDArray[np.int8]:
    """Most records that may move, from each class (rows) to each class (columns), up to ``WIDTH``."""
    most = np.zeros((len(counts), len(counts)), dtype=np.int8)
    exact = (facts.low == 0) & (facts.high == 0)
    _, alike = _unique_rows(facts.rows[exact].T)
    rows, low, high = facts.rows[~exact], facts.low[~exact, None], facts.high[~exact, None]
    for one in np.flatnonzero(counts):
        others = np.flatnonzero(alike == alike[one])
        change = rows[:, others] - rows[:, [one]]
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(change > 0, high, low) / change
        room = np.where(change == 0, WIDTH, np.floor(room + _ZERO)).min(axis=0, initial=WIDTH)
        most[one, others] = np.minimum(room, counts[one])
    np.fill_diagonal(most, 0)
    return most


def _move_together(ranges: _Ranges, program: LinearProgram) -> None:
    """Move many sums with each program, until none is left or many programs in a row move none.

    In each round every sum that is left moves up or down, by signs and weights that differ each time, so
    that any two are soon moved apart. A sum of few records moves up alone.
    """
    # A fixed seed: with a random one, an analyst could repeat a question until the search gives another
    # verdict.
    rng, idle = np.random.Generator(np.random.PCG64(0)), 0
    for turn in range(_ROUNDS):
        left = ranges.closed
        if not len(left) or idle == _MOST_IDLE or program.is_spent:
            break
        before = ranges.progress
        up = (rng.random(len(left)) < 0.5) | (ranges.sums.values[left] < WIDTH)
        weight = rng.random(len(left))
        touched, within = ranges.sums.touched[left], ranges.sums.within[left]
        weights = touched.T @ (weight * up) - within.T @ (weight * ~up)
        if turn % _TURNS == 0:
            ranges.stretch(program.mended(weights))
        target = int(rng.integers(len(left)))
        sign = 1.0 if up[target] else -1.0
        _move_in_box(ranges, program, int(left[target]), sign, weights, rng)
        idle = idle + 1 if ranges.progress == before else 0


def _move_in_box(
    ranges: _Ranges,
    program: LinearProgram,
    place: int,
    sign: float,
    weights: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Move one sum, and others with it, by the classes that have a few levels of each attribute.

    So few classes are soon moved in whole records, even if many exact tables have to stay as they are.
    """
    own = ranges.rows(place)[0 if sign > 0 else 1]
    if not own.any():
        return
    free = _box(ranges.codes, ranges.counts, int(rng.choice(np.flatnonzero(own))), rng)
    heavy = 1.0 + weights.max(initial=0.0) / 2
    ranges.stretch(program.boxed(weights + sign * heavy * own, free))


def _box(codes: IntArray, counts: IntArray, centre: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The classes with some levels of each attribute: those of one class, and others that many have."""
    order = []
    for axis, column in enumerate(codes.T):
        sizes = np.bincount(column, counts) + 1.0
        sizes[column[centre]] = 0.0
        others = np.flatnonzero(sizes)
        if len(others):
            chosen = rng.choice(others, len(others), replace=False, p=sizes[others] / sizes.sum())
            order += [(place + rng.random(), axis, level) for place, level in enumerate(chosen)]
    chosen_levels = [column == column[centre] for column in codes.T]
    free = np.logical_and.reduce(chosen_levels)
    for _, axis, level in sorted(order):
        chosen_levels[axis] = chosen_levels[axis] | (codes[:, axis] == level)
        wider = np.logical_and.reduce(chosen_levels)
        if wider.sum() > _BOX:
            break
        free = wider
    return np.asarray(free)


def _move_in_fractions(ranges: _Ranges, program: LinearProgram, turn: int, width: float) -> None:
    """Move the sums that change less than a width, up or down, by one linear program."""
    left = ranges.closed_below(width)
    if not len(left):
        return
    # Two sequences that fill the unit square evenly: weights and signs that differ in each round.
    weight, side = (left * 0.7549 + turn * 0.6180) % 1.0, (left * 0.5698 + turn * 0.4142) % 1.0
    touched, within = ranges.sums.touched[left], ranges.sums.within[left]
    up = side < 0.5
    weights = touched.T @ (weight * up) - within.T @ (weight * ~up)
    interior = turn < _INTERIOR and len(weights) > _MANY_CLASSES
    change = program.fraction(weights, interior=interior)
    if change is not None:
        ranges.stretch(change[None])


def _in_fractions(ranges: _Ranges, program: LinearProgram, before: LinearProgram) -> SearchOutcome:
    """Judge many classes by linear programs alone.

    Whole records are not searched for: with so many classes, counts in fractions that agree have whole
    ones near by, and a search would take minutes. A sum that changes by ``_ENOUGH`` has at least three
    whole numbers in its range.
    """
    left, idle = len(ranges.closed_below(_ENOUGH)), 0
    for turn in range(_FRACTIONS):
        if not left or idle == _FRACTIONS_IDLE:
            break
        _move_in_fractions(ranges, program, turn, _ENOUGH)
        before_it, left = left, len(ranges.closed_below(_ENOUGH))
        idle = idle + 1 if left == before_it else 0
    for number, place in enumerate(ranges.closed_below(_ENOUGH)):
        if ranges.high[place] - ranges.low[place] >= _ENOUGH - _ZERO:
            continue
        # Fail closed: sums that are left undecided wait for a steward.
        if number == _SINGLE:
            return SearchOutcome.UNDECIDED
        for weights in ranges.rows(place) * np.array([[1.0], [-1.0]]):
            change = program.fraction(weights, most=np.inf)
            if change is None:
                return SearchOutcome.UNDECIDED
            ranges.stretch(change[None])
            if is_open := ranges.high[place] - ranges.low[place] >= _ENOUGH - _ZERO:
                break
        if not is_open and ranges.span(place, before) >= _ENOUGH - _ZERO:
            return SearchOutcome.DISCLOSED
    return SearchOutcome.OPEN


def _search(ranges: _Ranges, program: LinearProgram, before: LinearProgram) -> SearchOutcome:
    """Prove or refute for one sum after the other that it is known; one that is known decides."""
    outcome, proofs = SearchOutcome.OPEN, _PROOFS
    for place in ranges.closed:
        if ranges.is_open(place):
            continue
        proofs -= outcome is SearchOutcome.UNDECIDED
        if program.is_spent or not proofs:
            return SearchOutcome.UNDECIDED
        if _is_told(place, ranges, program, before):
            return SearchOutcome.DISCLOSED
        if outcome is SearchOutcome.OPEN:  # one undecided sum is enough
            outcome = _searched(place, ranges, program, before)
        if outcome is SearchOutcome.DISCLOSED:
            break
    return outcome


def _is_told(place: int, ranges: _Ranges, program: LinearProgram, before: LinearProgram) -> bool:
    """Whether no fractions of records leave a sum open that was open before."""
    is_closed = ranges.span(place, program) < WIDTH - _ZERO
    return is_closed and ranges.span(place, before) >= WIDTH - _ZERO


def _searched(
    place: int, ranges: _Ranges, program: LinearProgram, before: LinearProgram
) -> SearchOutcome:
    """The same in whole records, as far as programs of a few nodes decide it."""
    if ranges.span(place, before) < WIDTH - _ZERO:  # known before
        return SearchOutcome.OPEN
    _open(place, ranges, program)
    if ranges.is_open(place):
        return SearchOutcome.OPEN
    shared = float(ranges.most[place] - ranges.least[place])
    # By how much the sum changes at most in whole records, as far as a search can bound that.
    span = 0.0
    for weights in ranges.rows(place) * np.array([[1.0], [-1.0]]):
        change, most = program.bounded(weights)
        ranges.stretch(change)
        span += most
    is_closed = span + shared < WIDTH
    if ranges.is_open(place):
        return SearchOutcome.OPEN
    return SearchOutcome.DISCLOSED if is_closed else SearchOutcome.UNDECIDED


def _open(place: int, ranges: _Ranges, program: LinearProgram) -> None:
    """Search for changes in whole records that move one sum far enough."""
    touched, within = ranges.rows(place)
    for weights in (touched, -within):
        ranges.stretch(program.mended(weights))
    if len(touched) <= _FEW_CLASSES:
        return
    rng, nothing = np.random.Generator(np.random.PCG64(place)), np.zeros(len(touched))
    for turn in range(_BOXES):
        if ranges.is_open(place):
            return
        _move_in_box(ranges, program, place, 1.0 if turn % 3 < 2 else -1.0, nothing, rng)
    up = float(ranges.low[place] - ranges.most[place] + WIDTH)
    down = float(ranges.high[place] - ranges.least[place] - WIDTH)
    for bound in ((touched, up, np.inf), (within, -np.inf, down)):
        if not ranges.is_open(place):
            ranges.stretch(program.within(bound))
