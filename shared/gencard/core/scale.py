"""Numbers that are whole multiples of a step: rounding, clamping, levels, cells, places inside them.

A number is a whole number of steps. All cells are ranges of whole numbers of steps, ascending and
without gaps, so that a list of first numbers and the last edge says everything about them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from operator import add

import numpy as np
from numpy.typing import NDArray

from gencard.core.json_codecs import written

MOST_STEPS = 2**31
"""The steps between first and last edge are fewer, so that places inside a cell fit 64-bit products."""

LARGEST_STEPS = 2**51
"""Whole numbers of steps are smaller, so that their products with the step are exact floats."""

DAY = 24 * 60
"""Minutes of a day. As the last edge of times of day it is written 24:00, which no value is."""

CLAMPS = {"above": "highest", "below": "lowest"}
"""Words of schemas for values beyond the last and the first edge, which count as this edge."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Step, cells and clamps of the numbers of an attribute.

    A value is rounded half up to a multiple of the step, then clamped, then coded.

    Args:
        step: Distance of neighbouring numbers, positive.
        cells: First number of each cell of the attribute's histogram, ascending, then the last edge,
            which belongs to the last cell. The first number of each level is one of them.
        above: Numbers above the last edge count as the last edge.
        below: Numbers below the first edge count as the first edge.
        times: Numbers are times of day, in minutes since midnight; the last edge may be 24:00.
    """

    step: Decimal
    cells: tuple[Decimal, ...]
    above: bool = field(default=False, metadata=written(omit=True))
    below: bool = field(default=False, metadata=written(omit=True))
    times: bool = field(default=False, metadata=written(omit=True))

    def problem(self) -> str | None:
        if not (self.step.is_finite() and self.step > 0):
            return "step must be a positive decimal"
        if len(self.cells) < 2:
            return "it has fewer than two edges"
        if not all(number.is_finite() for number in self.cells):
            return "an edge is not finite"
        *inner, before, last = self.cells
        ascending = all(low < high for low, high in pairwise([*inner, before])) and before <= last
        problem = (
            problem_of_steps(self.step, self.cells)
            or problem_of_range(self.step, self.cells[0], last)
            or (None if ascending else "edges must increase")
        )
        if problem or not self.times:
            return problem
        if self.step != 1:
            return "the step of times of day is 1 minute"
        inside = all(0 <= start < DAY for start in self.cells[:-1]) and last <= DAY
        return None if inside else "a time lies outside the day: 24:00 may be the last edge only"

    @property
    def decimals(self) -> int:
        """Number of decimals with which the attribute's numbers are written."""
        exponent = self.step.normalize().as_tuple().exponent
        return max(0, -exponent) if isinstance(exponent, int) else 0

    @property
    def ends(self) -> tuple[int, int]:
        """First and last edge, in steps."""
        return steps_of(self.cells[0], self.step), steps_of(self.cells[-1], self.step)

    @property
    def last(self) -> int:
        """Largest number, in steps: the last edge, or 23:59 if that is 24:00."""
        _, last = self.ends
        return last - (self.times and last == DAY)

    @property
    def size(self) -> int:
        """Number of the numbers that values can be."""
        first, _ = self.ends
        return self.last - first + 1

    @property
    def centre(self) -> int:
        """The number, in steps, from which units count: first edge and half of the steps, floored."""
        first, last = self.ends
        return first + (last - first) // 2

    @property
    def unit_ends(self) -> tuple[int, int]:
        """First and last edge in units, which are steps from the centre."""
        first, last = self.ends
        return first - self.centre, last - self.centre

    def units(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return numbers that are already adjusted, and inside the edges, in units.

        Args:
            numbers: Shape ``(n,)``; what is not finite counts as 0.
        """
        finite = np.isfinite(numbers)
        return np.where(finite, self._steps(numbers) - self.centre, 0.0).astype(np.int64)

    @property
    def largest(self) -> float:
        """Bound below which floats tell each multiple of the step from its neighbours."""
        return LARGEST_STEPS * float(self.step)

    def adjustments(self, numbers: NDArray[np.float64]) -> "Adjustments":
        """Count the finite numbers that rounding or clamping changes."""
        finite = numbers[np.isfinite(numbers)]
        steps, (first, _), last = self._steps(finite), self.ends, self.last
        return Adjustments(
            int(np.count_nonzero((self.numbers(steps) != finite) & (np.abs(finite) < self.largest))),
            int(np.count_nonzero(steps > last)) if self.above else 0,
            int(np.count_nonzero(steps < first)) if self.below else 0,
        )

    def adjusted(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers rounded to the step, then clamped as declared.

        A float counts as its shortest decimal. What is not finite stays, and so does a number outside
        the edges where nothing is clamped, apart from the rounding.
        """
        (first, _), last = self.ends, self.last
        steps = self._steps(numbers)
        low = first if self.below else -np.inf
        high = last if self.above else np.inf
        rounded = self.numbers(np.clip(steps, low, high))
        return np.where(np.isfinite(numbers), rounded, numbers)

    def numbers(self, steps: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return numbers of steps as numbers: each the float nearest to the exact decimal."""
        over, under = map(float, self.step.as_integer_ratio())
        with np.errstate(invalid="ignore", over="ignore"):
            numbers: NDArray[np.float64] = np.asarray(steps, dtype=np.float64) * over / under
        return numbers

    def _steps(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Whole numbers of steps, ``floor(number / step + 1/2)``; garbage where a number is not finite.

        The quotient may be off by one unit in the last place, so both halves beside the result are
        compared with the number itself: a half of a step as a float is correctly rounded, as the
        numerator is an exact float.
        """
        over, under = map(float, self.step.as_integer_ratio())
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.floor(numbers * under / over + 0.5)
            steps -= numbers < (2 * steps - 1) * over / (2 * under)
            steps += numbers >= (2 * steps + 1) * over / (2 * under)
        return steps

    def bounds(self, starts: Sequence[float]) -> tuple[float, ...]:
        """Return the numbers that part values of levels with ascending starts, rounding included.

        Returns:
            One more than there are levels. A value belongs to a level if it is at least its bound and
            less than the next one; first and last are infinite if values beyond are clamped.
        """
        over, under = self.step.as_integer_ratio()
        steps = [steps_of(shortest(start), self.step) for start in starts]
        halves = [2 * step - 1 for step in steps] + [2 * self.last + 1]
        low, *inner, high = [half * over / (2 * under) for half in halves]
        return (-np.inf if self.below else low, *inner, np.inf if self.above else high)


@dataclass(frozen=True, slots=True)
class Adjustments:
    """Numbers of values that do not count as they are stored.

    Args:
        rounded: Values that are no multiple of the step.
        above: Values above the last edge, which count as it.
        below: Values below the first edge, which count as it.
        timed: Dates that have a time of day or an offset from UTC, and no zone.
        texts: Values of a text column that are compared with labels as numbers.
    """

    rounded: int = 0
    above: int = 0
    below: int = 0
    timed: int = 0
    texts: int = 0

    def __add__(self, other: "Adjustments") -> "Adjustments":
        return Adjustments(*map(add, astuple(self), astuple(other)))


WORDS_A_NUMBER = 2
"""Random words for each number on a scale: one for its cell, one for its place inside the cell."""

_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Places of the numbers of each level: its cells, of which each is one piece or two.

    The high half of a number's first word picks the cell in its level, the high half of the second
    word the piece, and the low half the place in it, each place equally often. A number is made of
    comparisons and one product of numbers below 2^32, so 64 bits hold all of it.

    Args:
        levels: Number of levels, without "missing".
        begins: Shape ``(cells,)``, ascending: ``2^32 x level`` and the least high half that picks the
            cell or one after it in the level.
        splits: Shape ``(cells,)``: high halves below it pick the first piece; 2^32 if that is all.
        firsts: Shape ``(2 x cells,)``: first number of both pieces of each cell, in steps.
        counts: Shape ``(2 x cells,)``: numbers of each piece, below 2^32.
    """

    levels: int
    begins: NDArray[np.uint64]
    splits: NDArray[np.uint64]
    firsts: NDArray[np.int64]
    counts: NDArray[np.uint64]

    @classmethod
    def uniform(cls, firsts: Sequence[int], counts: Sequence[int]) -> "Places":
        """Return levels whose numbers, from the first in steps on, are all equally frequent."""
        levels = len(firsts)
        return cls(
            levels,
            np.arange(levels, dtype=np.uint64) << _HALF,
            np.full(levels, 2**32, dtype=np.uint64),
            np.repeat(np.array(firsts, dtype=np.int64), 2),
            np.repeat(np.array(counts, dtype=np.uint64), 2),
        )

    def steps(self, codes: NDArray[np.integer], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return a number inside each code's level, in steps; of "missing", one of the first level.

        Args:
            codes: Shape ``(n,)``.
            words: Shape ``(2 n,)``.
        """
        cells = np.where(codes == self.levels, 0, codes)
        cell_words, place_words = words[::WORDS_A_NUMBER], words[1::WORDS_A_NUMBER]
        firsts, counts = self.firsts, self.counts
        if len(self.begins) > self.levels:
            picked = (cells.astype(np.uint64) << _HALF) | (cell_words >> _HALF)
            cells = self._cells(picked)
        if self.splits.min() == 2**32:  # no cell has a second piece
            pieces, firsts, counts = cells, firsts[::2], counts[::2]
        else:
            pieces = 2 * cells.astype(np.int64) + (place_words >> _HALF >= self.splits[cells])
        places = (place_words & _LOW) * counts[pieces] >> _HALF
        return firsts[pieces] + places.astype(np.int64)

    def _cells(self, picked: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The last cell that begins at or before each number of ``2^32 x level`` and a high half."""
        buckets = np.arange(self.levels << 8, dtype=np.uint64)
        if len(picked) < len(buckets):
            return np.searchsorted(self.begins, picked, side="right") - 1
        # Most of the 256 parts of a level lie in one cell, and a look is faster than a search.
        shift = np.uint64(24)
        first = np.searchsorted(self.begins, buckets << shift, side="right") - 1
        last = np.searchsorted(self.begins, (buckets + np.uint64(1)) << shift, side="left") - 1
        own = (picked >> shift).astype(np.int64)
        cells = first[own]
        divided = np.flatnonzero((first != last)[own])
        cells[divided] = np.searchsorted(self.begins, picked[divided], side="right") - 1
        return cells


def scale_near(numbers: NDArray[np.float64]) -> Scale:
    """Return a scale that holds some finite numbers to 15 digits of the largest one."""
    ends = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)
    largest = max(map(abs, ends)) or 1.0
    step = Decimal(10) ** (Decimal(repr(largest)).adjusted() - 14)
    low, high = (round(end / float(step)) * step for end in ends)
    return Scale(step, (low, max(high, low + step)))


def steps_of(number: Decimal, step: Decimal) -> int:
    """Return a multiple of a step as its number of steps."""
    return round(Fraction(number) / Fraction(step))


def problem_of_steps(step: Decimal, numbers: Iterable[Decimal], what: str = "an edge") -> str | None:
    """Return the problem if a number is no multiple of the step."""
    for number in numbers:
        if Fraction(number) % Fraction(step):
            return f"{what} is not a multiple of the step {step}: {number}"
    return None


def problem_of_range(step: Decimal, first: Decimal, last: Decimal) -> str | None:
    """Return the problem if there are too many steps between two edges, or from 0 to one of them."""
    over, _ = step.as_integer_ratio()
    if (last - first) / step >= MOST_STEPS:
        return f"there are {MOST_STEPS:,} steps or more between its edges: declare a larger step"
    if max(abs(first), abs(last)) / step * over >= LARGEST_STEPS:
        return "its edges are too large for the step: declare a larger step"
    return None


def shortest(number: float) -> Decimal:
    """Return the shortest decimal that reads as the float."""
    return Decimal(repr(float(number)))
