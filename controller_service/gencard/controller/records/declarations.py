"""Declarations of a schema file beside plain levels: scales of numbers, and derived attributes.

Derived attributes are recoded, cut, compared, or counted for each person:

[[attributes]]
name = "work"                # the level of another attribute, by a list of its levels for each label
of = "occupation"
recode = { "manual" = ["farmer", "cook"], "office" = ["teacher"] }
other = "office"             # the label of levels that are not listed

[[attributes]]
name = "adult"               # edges that the other attribute has too, or between whole numbers
of = "age"
edges = [0, 18, 120]

[[attributes]]
name = "moved"               # of ordered attributes less, equal or greater; of others same or different
compare = ["region", "region_at_birth"]

[[attributes]]
name = "any_asthma"          # whether any record of the person has one of these levels
any = { diagnosis = ["asthma"] }

[[attributes]]
name = "visits"              # the number of such records; with {} of all. The last interval has no end
number = { kind = ["visit"] }
edges = [0, 1, 3, 10]
integer = true

A missing level of the other attribute is missing, if ``missing = true``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, floor, isnan
from typing import Any

from pydantic import Field

from gencard.controller.base.files import Section
from gencard.core.card.budget import decimal_text
from gencard.core.card.sums import level_values
from gencard.core.coding import (
    BOOLEANS,
    MOST_DECIMALS,
    Attribute,
    Coding,
    Derivation,
    Edges,
    Labels,
    date_of_days,
    time_text,
)
from gencard.core.domain import LARGEST_SIZE, Clique
from gencard.core.errors import InvalidCodingError
from gencard.core.scale import CLAMPS, Scale, problem_of_steps, shortest, steps_of

Levels = Mapping[str, tuple[str, ...]]
"""Names -> names of levels."""


_ORDERS = ("less", "equal", "greater")
_SAME = ("same", "different")


class DerivedTable(Section):
    """The keys of an attribute's table that say how it follows from others; see above.

    Jobs get the last three: sources, the code of each of their cells, and whether these are of a person.
    """

    of: str = ""
    recode: Levels = Field(default_factory=dict)
    compare: tuple[str, ...] = ()
    any: Levels | None = None
    number: Levels | None = None
    sources: Clique = ()
    codes: tuple[int, ...] = ()
    per_person: bool = False

    def derived(
        self, name: str, stored: Coding, coding: Labels | Edges | None, other: str | None, missing: bool
    ) -> Attribute:
        """Return the derived attribute; InvalidCodingError for keys that contradict each other.

        Args:
            other: Label of levels that are not listed.
        """
        ways = [self.of, self.compare, self.any is not None, self.number is not None, self.sources]
        if sum(map(bool, ways)) != 1 or (self.recode and not self.of):
            problem = "it needs one of: of (with recode or edges), compare, any, number"
            raise _refusal(name, problem)
        sources = (*self.compare, *([self.of] if self.of else ()))
        if absent := [source for source in sources if source not in stored.domain]:
            raise _refusal(name, f"'{absent[0]}' is not stored")
        if self.sources and coding is not None:
            derivation = Derivation(self.sources, self.codes, self.per_person)
            return Attribute(name, coding, derivation=derivation)
        edges = coding if isinstance(coding, Edges) else None
        if self.any is not None:
            return of_person(name, stored, self.any, None)
        if self.compare:
            if len(self.compare) != 2:
                raise _refusal(name, "it compares two attributes")
            return compared(name, *map(stored.attribute, self.compare), missing=missing)
        if self.of and not edges:
            return recoded(name, stored.attribute(self.of), self.recode, other, missing=missing)
        if edges is None or self.recode:
            raise _refusal(name, "it needs edges, and cannot also have recode")
        if self.of:
            return cut(name, stored.attribute(self.of), edges.edges, missing=missing)
        return of_person(name, stored, self.number or {}, edges)


def recoded(
    name: str, source: Attribute, recode: Levels, other: str | None, *, missing: bool
) -> Attribute:
    """Return an attribute whose labels group levels of the source.

    Args:
        other: Label of levels that are not listed.
        missing: Whether the source's missing level is missing here, unless it is listed.
    """
    labels = tuple(dict.fromkeys((*recode, *([other] if other else []))))
    codes = {level: labels.index(label) for label, levels in recode.items() for level in levels}
    if len(codes) < sum(map(len, recode.values())):
        raise _refusal(name, "it lists a level twice")
    _check_levels(name, source, codes)
    of_level = dict.fromkeys(source.coding.level_names, labels.index(other)) if other else {}
    if missing:  # the name of the source's missing level, if there is one
        of_level |= dict.fromkeys(source.coding.level_names[len(_values(source)) :], len(labels))
    of_level |= codes
    if unplaced := [level for level in source.coding.level_names if level not in of_level]:
        raise _refusal(name, f"it has no label for '{unplaced[0]}'")
    derivation = Derivation((source.name,), tuple(map(of_level.__getitem__, source.coding.level_names)))
    return Attribute(name, Labels(labels, missing=missing), derivation=derivation)


def cut(name: str, source: Attribute, edges: Sequence[float], *, missing: bool) -> Attribute:
    """Return an attribute with wider intervals of the source's numbers."""
    numbers = level_values(Coding((replace(source, derivation=None),))).get(source.name)
    if numbers is None:
        raise _refusal(name, f"'{source.name}' is not a number, so it cannot be cut into intervals")
    like = source.coding if isinstance(source.coding, Edges) else Edges((0.0, 1.0), decimals=0)
    if like.times:
        problem = f"'{source.name}' is a time of day, which cannot be cut into intervals: use recode"
        raise _refusal(name, problem)
    if like.scale is not None:  # what is derived has neither histogram nor sums
        like = replace(like, scale=None, decimals=min(like.decimals or 0, MOST_DECIMALS))
    if isinstance(source.coding, Edges) and not set(edges) <= set(source.coding.edges):
        raise _refusal(name, f"an edge is not one of '{source.name}'")
    coding = replace(like, edges=tuple(edges), missing=missing)
    last = len(edges) - 1
    if not all(missing if isnan(one) else edges[0] <= one <= edges[last] for one in numbers):
        raise _refusal(name, f"a level of '{source.name}' lies outside the edges")
    codes = tuple(
        last if isnan(one) else min(sum(edge <= one for edge in edges), last) - 1 for one in numbers
    )
    return Attribute(name, coding, derivation=Derivation((source.name,), codes))


def compared(name: str, one: Attribute, other: Attribute, *, missing: bool) -> Attribute:
    """Return an attribute that says which of two is greater, or if without order, whether they agree."""
    if _values(one) != _values(other):
        raise _refusal(name, "it compares attributes with different levels")
    if not missing and (one.coding.missing or other.coding.missing):
        raise _refusal(name, "it compares attributes that may be missing, so it may be missing too")
    ordered = isinstance(one.coding, Edges) or one.coding.ordered
    labels, values = (_ORDERS if ordered else _SAME), len(_values(one))

    def level(first: int, second: int) -> int:
        if max(first, second) >= values:
            return len(labels)
        return (first > second) - (first < second) + 1 if ordered else int(first != second)

    cells = product(range(one.coding.size), range(other.coding.size))
    derivation = Derivation((one.name, other.name), tuple(level(*cell) for cell in cells))
    return Attribute(name, Labels(labels, ordered=ordered, missing=missing), derivation=derivation)


def of_person(name: str, stored: Coding, levels: Levels, edges: Edges | None) -> Attribute:
    """Return an attribute that counts a person's records with these levels; any, without edges."""
    sources: Clique = tuple(one for one in stored.domain.attributes if one in levels)
    if unknown := set(levels) - set(sources):
        raise _refusal(name, f"'{min(unknown)}' is not stored")
    sources = sources or stored.domain.attributes[:1]
    rows = []
    for source in map(stored.attribute, sources):
        names = levels.get(source.name, source.coding.level_names)
        _check_levels(name, source, names)
        rows.append([int(level in names) for level in source.coding.level_names])
    derivation = Derivation(sources, tuple(map(min, product(*rows))), per_person=True)
    return Attribute(name, edges or Labels(BOOLEANS, boolean=True), derivation=derivation)


def _refusal(name: str, problem: str) -> InvalidCodingError:
    return InvalidCodingError(attribute=name, problem=problem)


def _check_levels(name: str, source: Attribute, levels: "Mapping[str, int] | Sequence[str]") -> None:
    if unknown := [level for level in levels if level not in source.coding.level_names]:
        raise _refusal(name, f"'{unknown[0]}' is not a level of '{source.name}'")


def _values(one: Attribute) -> tuple[object, ...]:
    coding = one.coding
    return coding.labels if isinstance(coding, Labels) else tuple(pairwise(coding.edges))


# Scales: levels and cells of numbers that are multiples of a step.


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
        points: Values that are levels of their own.
        fine: Cells of the histogram; None if they are the levels.
        fine_points: Values that are cells of their own.
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
        """Return the levels; ValueError says why the declaration makes no scale."""
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

    def _check_points(self, key: str, points: Sequence[Decimal], others: Sequence[Decimal] = ()) -> None:
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
        """Return the edges of the histogram's cells; none if they are the levels."""
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
        number = ceil(Fraction(last - first) / Fraction(self.fine))  # the last cell may be narrower
        return (*(first + self.fine * count for count in range(number)), last)

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

    >>> declared_of((0, 1, 2), 5, 5)
    ((0, 5), (0, 1))
    """
    ends = [*(start - 1 for start in starts[1:]), last]
    points = tuple(start for start, end in zip(starts, ends, strict=True) if start == end)
    beside = {number for point in points for number in (point, point + 1)}
    inner = (start for start in starts[1:] if start not in beside)
    return (starts[0], *inner, end), points


def ladder(edges: Sequence[Decimal], step: Decimal) -> tuple[Decimal, ...]:
    """Return edges of cells, ten a decade, from a tenth of the smallest edge but 0 on, on the step."""
    first, last = edges[0], edges[-1]
    least = max(step, min((abs(edge) for edge in edges if edge), default=step) / 10)
    powers = range(least.adjusted(), max(first.copy_abs(), last.copy_abs()).adjusted() + 1)
    rungs = [rung.scaleb(power) for power in powers for rung in _RUNGS]
    # the multiples of the step nearest to the rungs, half up
    half = Fraction(1, 2)
    on_step = (floor(Fraction(rung) / Fraction(step) + half) * step for rung in rungs if rung >= least)
    above = {Decimal(0), *on_step}
    both = {*above, *(-rung for rung in above)}
    return (first, *sorted(rung for rung in both if first < rung < last), last)
