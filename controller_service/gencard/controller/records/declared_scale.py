"""The scale of an attribute as a schema file declares it, and its levels and cells."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any

from gencard.core.card.budget import decimal_text
from gencard.core.coding import Edges, date_of_days, time_text
from gencard.core.domain import LARGEST_SIZE
from gencard.core.scale import CLAMPS, Scale, problem_of_steps, shortest, steps_of

TEN_A_DECADE = "ten-a-decade"
"""Word for cells with ten first numbers in each power of ten."""

_RUNGS = tuple(map(Decimal, ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")))


SCALE_KEYS = ("edges", "dates", "step", "points", "fine", "fine_points", *CLAMPS)
"""Keys of a schema file that declare levels and cells of numbers."""

Fine = str | Decimal | tuple[Decimal, ...] | None
"""Cells of a histogram inside the levels: ``TEN_A_DECADE``, a width, or a list of edges."""


@dataclass(frozen=True, slots=True)
class DeclaredScale:
    """Declaration of an attribute whose values are multiples of a step, as in a schema file.

    Args:
        edges: Edges of the levels.
        points: Values that are levels of their own.
        fine: Cells of the histogram; None if they are the levels.
        fine_points: Values that are cells of their own.
        above: Larger values count as the last edge.
        below: Smaller values count as the first edge.
        times: Values are times of day, in minutes.
    """

    step: Decimal
    edges: tuple[Decimal, ...]
    points: tuple[Decimal, ...] = ()
    fine: Fine = None
    fine_points: tuple[Decimal, ...] = ()
    above: bool = False
    below: bool = False
    times: bool = False

    def edges_of(self, *, missing: bool, dates: bool) -> Edges:
        """Return the levels.

        Raises:
            ValueError: The declaration makes no scale; its text says why.
        """
        if problem := self._of_edges.problem():
            raise ValueError(problem)
        if not all(low < high for low, high in pairwise(self.edges)):
            raise ValueError("edges must increase")
        if not all(map(Decimal.is_finite, (*self.points, *self.fine_points))):
            raise ValueError("a point is not finite")
        self._check_points("points", self.points)
        self._check_points("fine_points", self.fine_points, self.points)
        fine = self._fine()
        self._check_fine(fine)
        starts = self._starts(self.edges, self.points)
        cells = self._starts(sorted({*self.edges, *fine}), (*self.points, *self.fine_points))
        if len(cells) > LARGEST_SIZE:
            raise ValueError(f"fine makes more than {LARGEST_SIZE:,} cells")
        scale = Scale(self.step, (*cells, self.edges[-1]), self.above, self.below, self.times)
        return Edges.of_scale(starts, scale, missing=missing, dates=dates)

    def keys(self, *, dates: bool) -> dict[str, Any]:
        """Return the declaration as a schema file states it; times of day as HH:MM."""
        stated: Callable[[Decimal], Any] = time_text if self.times else _stated
        keys: dict[str, Any] = {"edges": list(map(stated, self.edges))}
        if dates:
            keys = {"dates": [date_of_days(float(edge)).isoformat() for edge in self.edges]}
        keys["step"] = int(self.step) if self.step == int(self.step) else decimal_text(self.step)
        keys |= {"points": list(map(stated, self.points))} if self.points else {}
        match self.fine:
            case str():
                keys["fine"] = self.fine
            case Decimal():
                keys["fine"] = _stated(self.fine)
            case tuple():
                keys["fine"] = list(map(stated, self.fine))
        keys |= {"fine_points": list(map(stated, self.fine_points))} if self.fine_points else {}
        flags = {"above": self.above, "below": self.below}
        return keys | {name: CLAMPS[name] for name, flag in flags.items() if flag}

    def reaching(self, first: Decimal, last: Decimal) -> "DeclaredScale":
        """Return the declaration with other ends, rounded outwards to the step."""
        ends = floor(first / self.step) * self.step, ceil(last / self.step) * self.step
        fine = self.fine
        if isinstance(fine, tuple):
            fine = (ends[0], *fine[1:-1], ends[1])
        return replace(self, edges=(ends[0], *self.edges[1:-1], ends[1]), fine=fine)

    @property
    def _of_edges(self) -> Scale:
        """Scale whose cells are the declared intervals."""
        return Scale(self.step, self.edges, times=self.times)

    def _text(self, number: Decimal) -> str:
        return time_text(number) if self.times else decimal_text(number)

    def _check_points(
        self, key: str, points: Sequence[Decimal], others: Collection[Decimal] = ()
    ) -> None:
        if problem := problem_of_steps(self.step, points, f"one of {key}"):
            raise ValueError(problem)
        for number, point in enumerate(points):
            if not self.edges[0] <= point <= self._of_edges.last * self.step:
                raise ValueError(f"one of {key} lies outside the edges: {self._text(point)}")
            if point in points[:number]:
                raise ValueError(f"{key} has a value twice: {self._text(point)}")
            if point in others:
                raise ValueError(f"{key} has a value that points has too: {self._text(point)}")

    def _fine(self) -> tuple[Decimal, ...]:
        first, last = self.edges[0], self.edges[-1]
        if self.fine is None:
            return ()
        if isinstance(self.fine, tuple):
            return self.fine
        if isinstance(self.fine, str):
            return ladder(self.edges, self.step)
        if not (self.fine.is_finite() and self.fine > 0):
            raise ValueError("fine must be a positive width")
        if problem := problem_of_steps(self.step, (self.fine,), "the width fine"):
            raise ValueError(problem)
        if (last - first) / self.fine > LARGEST_SIZE:
            raise ValueError(f"fine makes more than {LARGEST_SIZE:,} cells")
        return widths(first, last, self.fine)

    def _check_fine(self, fine: tuple[Decimal, ...]) -> None:
        if not fine:
            return
        if not all(map(Decimal.is_finite, fine)):
            raise ValueError("an edge of fine is not finite")
        if problem := problem_of_steps(self.step, fine, "an edge of fine"):
            raise ValueError(problem)
        if not all(low < high for low, high in pairwise(fine)):
            raise ValueError("the edges of fine must increase, each once")
        if (fine[0], fine[-1]) != (self.edges[0], self.edges[-1]):
            raise ValueError("fine must begin with the first and end with the last of the edges")

    def _starts(self, edges: Sequence[Decimal], points: Sequence[Decimal]) -> tuple[Decimal, ...]:
        in_edges, single = ([steps_of(one, self.step) for one in part] for part in (edges, points))
        starts = starts_of(in_edges, single, self._of_edges.last)
        return tuple(start * self.step for start in starts)


def _stated(number: Decimal) -> int | float:
    return int(number) if number == int(number) else float(number)


def declared_scale(coding: Edges, scale: Scale) -> DeclaredScale:
    """Return a declaration of the same levels and cells: levels of one number are points."""
    step = scale.step
    *starts, end = (steps_of(shortest(edge), step) for edge in coding.edges)
    *cells, _ = (steps_of(cell, step) for cell in scale.cells)
    edges, points = declared_of(starts, end, scale.last)
    fine, single = declared_of(cells, end, scale.last) if cells != starts else ((), ())
    own = (number for number in single if number not in points)
    numbers = (tuple(one * step for one in part) for part in (edges, points, fine, own))
    in_edges, as_points, in_fine, alone = numbers
    flags = (scale.above, scale.below, scale.times)
    return DeclaredScale(step, in_edges, as_points, in_fine or None, alone, *flags)


def starts_of(edges: Sequence[int], points: Iterable[int], last: int) -> tuple[int, ...]:
    """Return the first number of each cell that edges and points make, in whole numbers of steps.

    A point is a cell of its own and splits the interval in which it lies; a cell without a number is
    none.

    Args:
        last: Largest number: the last edge, or the one before it.

    >>> starts_of((0, 1, 2, 5), (0, 1), 5)
    (0, 1, 2)
    >>> starts_of((0, 10, 45), (40,), 45)
    (0, 10, 40, 41)
    """
    beside = {number for point in points for number in (point, point + 1)}
    return tuple(sorted({*edges[:-1], *(number for number in beside if number <= last)}))


def declared_of(starts: Sequence[int], end: int, last: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return edges and points that make cells with these first numbers: the inverse of ``starts_of``.

    Args:
        end: Last edge.

    >>> declared_of((0, 1, 2), 5, 5)
    ((0, 5), (0, 1))
    """
    ends = [*(start - 1 for start in starts[1:]), last]
    points = tuple(start for start, end in zip(starts, ends, strict=True) if start == end)
    beside = {number for point in points for number in (point, point + 1)}
    inner = (start for start in starts[1:] if start not in beside)
    return (starts[0], *inner, end), points


def ladder(edges: Sequence[Decimal], step: Decimal) -> tuple[Decimal, ...]:
    """Return edges of cells, ten a decade, from a tenth of the smallest edge but 0 on.

    Args:
        edges: First and last one are those of the cells.
        step: Edges are rounded to it.
    """
    first, last = edges[0], edges[-1]
    least = max(step, min((abs(edge) for edge in edges if edge), default=step) / 10)
    powers = range(least.adjusted(), max(first.copy_abs(), last.copy_abs()).adjusted() + 1)
    rungs = [rung.scaleb(power) for power in powers for rung in _RUNGS]
    above = {Decimal(0), *(on_step(rung, step) for rung in rungs if rung >= least)}
    both = {*above, *(-rung for rung in above)}
    return (first, *sorted(rung for rung in both if first < rung < last), last)


def widths(first: Decimal, last: Decimal, width: Decimal) -> tuple[Decimal, ...]:
    """Return edges of cells of one width, of which the last one may be narrower."""
    number = ceil(Fraction(last - first) / Fraction(width))
    return (*(first + width * count for count in range(number)), last)


def on_step(number: Decimal, step: Decimal) -> Decimal:
    """Return the multiple of the step nearest to a number, half up."""
    return floor(Fraction(number) / Fraction(step) + Fraction(1, 2)) * step
