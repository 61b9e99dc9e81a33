"""Coding of values: declared labels, declared edges, a level for "missing".

Dates are numbers here: days since 1970-01-01.

Nothing here is ever taken from records at run time: the schema is public by declaration.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import code_dtype, key_of, steps_reached
from gencard.core.domain import LARGEST_SIZE, Clique, Domain
from gencard.core.errors import InvalidCodingError, UndeclaredLevelError
from gencard.core.json_codecs import written
from gencard.core.scale import Places, Scale, shortest, steps_of
from gencard.core.types import IntArray
from gencard.core.values import EXACT, is_plain, is_whole, number_of, plain_numbers

MISSING, MISSING_BESIDE = "missing", "(missing)"
"""Names of the level of missing values, for people: the latter if a label is the former."""

BOOLEANS = ("false", "true")
"""Labels of an attribute of truth values."""

MOST_DECIMALS = 9
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Labels:
    """A categorical attribute. Code ``i`` is ``labels[i]``; with ``missing``, the last code is it.

    Args:
        integer: The labels are whole numbers and are given back as such.
        boolean: The labels are "false" and "true" and are given back as truth values.
        text: Texts are compared with the labels as texts, so that 01 and 1 are two labels. Stored
            numbers are compared by value, here too.
    """

    labels: tuple[str, ...]
    integer: bool = False
    ordered: bool = False
    missing: bool = False
    boolean: bool = False
    text: bool = field(default=False, metadata=written(omit=True))

    def problem(self) -> str | None:
        names = {*self.labels}
        wrong = {
            "it has no labels": not self.labels,
            "labels repeat": len(names) != len(self.labels),
            f"labels have the names '{MISSING}' and '{MISSING_BESIDE}' of the missing level": (
                self.missing and {MISSING, MISSING_BESIDE} <= names
            ),
            "a label is not a whole number": self.integer and not all(map(_is_integer, self.labels)),
            "boolean needs the labels false and true, in this order": (
                self.boolean and self.labels != BOOLEANS
            ),
            "text excludes integer and boolean, whose values are no texts": (
                self.text and (self.integer or self.boolean)
            ),
        }
        return next((problem for problem, is_so in wrong.items() if is_so), None)

    @property
    def by_value(self) -> bool:
        """Whether texts are compared with the labels as numbers, of which no two are equal."""
        numbers = set(map(number_of, self.labels))
        return not self.text and None not in numbers and len(numbers) == len(self.labels)

    @property
    def size(self) -> int:
        return len(self.labels) + self.missing

    @property
    def level_names(self) -> tuple[str, ...]:
        """Name of each code, for people."""
        name = MISSING_BESIDE if MISSING in self.labels else MISSING
        return self.labels + ((name,) if self.missing else ())


@dataclass(frozen=True, slots=True)
class Edges:
    """A numeric attribute. Code ``i`` is ``[edges[i], edges[i+1])``, the last interval closed.

    With ``missing``, the last code is "missing".

    Args:
        decimals: Values have at most so many decimals and are given back with so many; 0 stands for
            whole numbers. None: any real number.
        dates: The values are dates, and the edges days since 1970-01-01.
        scale: The values are multiples of its step. Then the edges are the first number of each level
            and the last edge, which may be a level of its own, and ``decimals`` are those of the step.
    """

    edges: tuple[float, ...]
    missing: bool = False
    decimals: int | None = None
    dates: bool = False
    scale: Scale | None = field(default=None, metadata=written(omit=True))

    @classmethod
    def of_scale(
        cls, starts: Sequence[Decimal], scale: Scale, *, missing: bool = False, dates: bool = False
    ) -> "Edges":
        """Return levels on a scale, given the first number of each, ascending."""
        edges = tuple(map(float, (*starts, scale.cells[-1])))
        return cls(edges, missing, scale.decimals, dates, scale)

    def problem(self) -> str | None:
        if len(self.edges) < 2:
            return "it has fewer than two edges"
        if not all(isfinite(edge) for edge in self.edges):
            return "an edge is not finite"
        if self.scale is not None and (problem := self._problem_of_scale(self.scale)):
            return problem
        may_end_so = self.scale is not None and len(self.edges) > 2
        increasing = self.edges[:-1] if may_end_so and self.edges[-2] == self.edges[-1] else self.edges
        if not all(low < high for low, high in pairwise(increasing)):
            return "edges must increase"
        return self._problem_of_type()

    def _problem_of_scale(self, scale: Scale) -> str | None:
        if problem := scale.problem():
            return problem
        *cells, last = map(float, scale.cells)
        if not set(self.edges[:-1]) <= set(cells) or (cells[0], last) != (self.edges[0], self.edges[-1]):
            return "a level does not begin with a cell of the histogram, or the two have other ends"
        if self.decimals != scale.decimals:
            return "decimals must be those of the step"
        return None

    def _problem_of_type(self) -> str | None:
        decimals = self.decimals if self.scale is None else None  # a scale was checked before
        if decimals is not None and not 0 <= decimals <= MOST_DECIMALS:
            return f"decimals must be from 0 to {MOST_DECIMALS}"
        if self.dates and self.decimals != 0:
            return "dates must be whole days"
        if self.dates and self.times:
            return "dates are no times of day"
        unit = 10 ** (decimals or 0)
        if decimals is not None and not all(
            abs(edge) * unit < 2**52 and round(edge * unit) / unit == edge for edge in self.edges
        ):
            return f"an edge has more than {decimals} decimals, or is too large for them"
        first, last = days_of_date(date.min), days_of_date(date.max)
        if self.dates and not all(first <= edge <= last for edge in self.edges):
            return "a date lies outside the years 1 to 9999"
        return None

    @property
    def times(self) -> bool:
        """Whether the values are times of day, and the edges minutes since midnight."""
        return self.scale is not None and self.scale.times

    @property
    def largest(self) -> float:
        """Largest number that has a level: the last edge, or 23:59 if that is 24:00."""
        return float(self.scale.last) if self.scale is not None and self.times else self.edges[-1]

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + self.missing

    @property
    def text(self) -> Callable[[float], str]:
        """Function that writes a number as the values are written: dates, times of day, decimals."""
        if self.dates:
            return lambda days: date_of_days(days).isoformat()
        return time_text if self.times else _plain

    @property
    def level_names(self) -> tuple[str, ...]:
        """Name of each code, for people; on a scale, a level of one number is named by the number."""
        last, text = len(self.edges) - 2, self.text
        closed = "]" if self.largest == self.edges[-1] else ")"
        intervals = [
            f"[{text(low)}, {text(high)}{closed if i == last else ')'}"
            for i, (low, high) in enumerate(pairwise(self.edges))
        ]
        if self.scale is not None:
            for code, (least, largest) in enumerate(self.ends):
                if least == largest:
                    intervals[code] = text(self.edges[code])
        return (*intervals, *((MISSING,) if self.missing else ()))

    @property
    def grid(self) -> Fraction:
        """Difference between neighbouring values; 0 where any real number is allowed."""
        if self.scale is not None:
            return Fraction(self.scale.step)
        return Fraction() if self.decimals is None else Fraction(1, 10**self.decimals)

    @property
    def ends(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Least and largest number of each level, without "missing", as their shortest decimals say.

        Where any real number is allowed, the largest one is the upper edge.
        """
        step = self.grid
        if self.scale is not None:
            edges = [steps_of(shortest(edge), self.scale.step) * step for edge in self.edges]
        else:
            edges = [Fraction(repr(float(edge))) for edge in self.edges]
        highs = [*(edge - step for edge in edges[1:-1]), edges[-1]]
        if self.scale is not None:
            highs[-1] = self.scale.last * step
        return tuple(zip(edges, highs, strict=False))

    @property
    def midpoints(self) -> tuple[float, ...]:
        """The mean of the values that each interval can hold, without "missing"."""
        if self.scale is not None:
            return tuple(float((low + high) / 2) for low, high in self.ends)
        step = 0.0 if self.decimals is None else 10.0**-self.decimals
        last = len(self.edges) - 2
        return tuple(
            low / 2 + (high if i == last else high - step) / 2
            for i, (low, high) in enumerate(pairwise(self.edges))
        )


MOST_CELLS = 100_000
"""Cells of the attributes that one is derived from: the schema names a code for each."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """Derivation of an attribute from stored ones.

    Args:
        sources: Stored attributes; what is derived is derived from them alone.
        codes: For each cell of the sources, in C order, the code of the attribute; with ``per_person``,
            1 where a record in the cell counts, else 0.
        per_person: The level is that of the number of the person's records that count: of its interval,
            the last of which holds all above, or for truth values whether there is any.
    """

    sources: Clique
    codes: tuple[int, ...]
    per_person: bool = False

    def problem(self, stored: Domain, size: int, *, of_number: bool) -> str | None:
        """Return what is wrong with this derivation; None if nothing is."""
        if not self.sources or len(set(self.sources)) < len(self.sources):
            return "it needs sources, each once"
        if not set(self.sources) <= set(stored.attributes):
            return "it is derived from an attribute that is not stored"
        cells = stored.project(self.sources).cells
        most = 2 if self.per_person else size
        wrong = {
            f"its sources have more than {MOST_CELLS} cells": cells > MOST_CELLS,
            "it needs one code for each cell of its sources": len(self.codes) != cells,
            "a code lies outside its levels": not all(0 <= code < most for code in self.codes),
            "as an attribute of a person, it must be true or false or have whole-number edges "
            "from 0, and must not be missing": (self.per_person and not of_number),
        }
        return next((problem for problem, is_so in wrong.items() if is_so), None)

    def of_records(self, columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> IntArray:
        """The entry of ``codes`` for each record.

        Args:
            columns: Codes of the sources, one array of shape ``(n,)`` each.

        Returns:
            Shape ``(n,)``.
        """
        cells = np.zeros(len(columns[0]), dtype=np.int64)
        for column, size in zip(columns, sizes, strict=True):
            cells = cells * size + column
        return np.array(self.codes, dtype=np.int64)[cells]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of the public schema.

    Args:
        drafted: Source from which its levels were drafted, such as "records"; empty if declared.

    Raises:
        InvalidCodingError: No name, no level, repeated labels, edges that do not increase, or too
            many levels.
    """

    name: str
    coding: Labels | Edges
    description: str = ""
    derivation: Derivation | None = field(default=None, metadata=written(omit=True))
    drafted: str = field(default="", metadata=written(omit=True))

    def __post_init__(self) -> None:
        problem = "it has no name" if not self.name else self.coding.problem()
        if problem is None and self.coding.size > LARGEST_SIZE:
            problem = f"it has more than {LARGEST_SIZE} levels"
        if problem:
            raise InvalidCodingError(attribute=self.name, problem=problem)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading of stored values as levels, besides labels and edges.

    Args:
        absent: Values that stand for "missing" beside empty ones.
        age_at: Values are dates of birth; the level is that of the age in completed years on this day.
        other: The label of all values that are not declared.
        zone: Values are instants; their date, or time of day, is that in this zone.
        time_of: Attribute of whose column the values are; the level is that of the time of day.
    """

    absent: tuple[str, ...] = ()
    age_at: date | None = None
    other: str | None = None
    zone: str = ""
    time_of: str = ""


PLAIN = Reading()


@dataclass(frozen=True, slots=True)
class StructuralZeros:
    """Cells of the marginal on ``clique`` that cannot occur, each one code per attribute."""

    clique: Clique
    cells: tuple[tuple[int, ...], ...]

    def places(self, attributes: Clique) -> Iterator[tuple[int | slice, ...]]:
        """The index of each cell in a table with these axes, which the clique is a part of."""
        for cell in self.cells:
            code = dict(zip(self.clique, cell, strict=True))
            yield tuple(code.get(name, slice(None)) for name in attributes)


def zeros_inside(zeros: Sequence[StructuralZeros], domain: Domain) -> tuple[StructuralZeros, ...]:
    """The structural zeros that speak of the domain's attributes alone; the others say nothing."""
    return tuple(zero for zero in zeros if set(zero.clique) <= set(domain.attributes))


def impossible_cells(domain: Domain, zeros: Sequence[StructuralZeros]) -> NDArray[np.bool_]:
    """Whether each cell of the table on a domain cannot occur; shape ``domain.sizes``."""
    impossible = np.zeros(domain.sizes, dtype=np.bool_)
    for zero in zeros_inside(zeros, domain):
        for place in zero.places(domain.attributes):
            impossible[place] = True
    return impossible


def impossible_records(
    domain: Domain, codes: NDArray[Any], zeros: Sequence[StructuralZeros]
) -> NDArray[np.bool_]:
    """Whether each record lies in a cell that cannot occur.

    Args:
        codes: Shape ``(n, attributes)``.
    """
    impossible = np.zeros(len(codes), dtype=np.bool_)
    for zero in zeros_inside(zeros, domain):
        sizes = domain.project(zero.clique).sizes
        zero_cells = np.array(zero.cells, dtype=np.int64).reshape(-1, len(sizes))
        columns = codes[:, list(domain.axes(zero.clique))]
        keys = key_of(np.concatenate([zero_cells, columns]).T, sizes)
        impossible |= np.isin(keys[len(zero_cells) :], keys[: len(zero_cells)])
    return impossible


@dataclass(frozen=True, slots=True)
class Coding:
    """The public schema: attributes in order, and combinations that cannot occur.

    Raises:
        InvalidCodingError: A structural zero names cells outside the domain.
        InvalidDomainError: Attribute names repeat.
    """

    attributes: tuple[Attribute, ...]
    structural_zeros: tuple[StructuralZeros, ...] = field(default=())

    def __post_init__(self) -> None:
        domain = self.domain
        for zeros in self.structural_zeros:
            domain.canonical(zeros.clique)  # refuses unknown and repeated attributes
            sizes = domain.project(zeros.clique).sizes
            if not all(
                len(cell) == len(sizes)
                and all(0 <= code < size for code, size in zip(cell, sizes, strict=True))
                for cell in zeros.cells
            ):
                problem = "a structural zero lies outside the domain"
                raise InvalidCodingError(attribute=", ".join(zeros.clique), problem=problem)
        stored_domain = domain.project(self.stored)
        for one in self.attributes:
            how, own = one.derivation, one.coding
            # Every number of records has a level: whether there are any, or whole numbers from 0.
            numbers = own.boolean if isinstance(own, Labels) else own.edges[0] == own.decimals == 0
            of_number = numbers and not own.missing
            wrong = how.problem(stored_domain, own.size, of_number=of_number) if how else None
            if wrong:
                raise InvalidCodingError(attribute=one.name, problem=wrong)

    @property
    def stored(self) -> Clique:
        """Attributes that records hold; the others are derived from them."""
        return tuple(one.name for one in self.attributes if one.derivation is None)

    @property
    def with_step(self) -> Clique:
        """Attributes that records hold and whose numbers are whole multiples of a step."""
        return tuple(
            one.name
            for one in self.attributes
            if one.derivation is None and isinstance(one.coding, Edges) and one.coding.scale is not None
        )

    @property
    def domain(self) -> Domain:
        return Domain(
            tuple(attribute.name for attribute in self.attributes),
            tuple(attribute.coding.size for attribute in self.attributes),
        )

    def attribute(self, name: str) -> Attribute:
        return self.attributes[self.domain.axis(name)]

    def over(self, attributes: Clique) -> "Coding":
        """Return levels of some attributes, without derivations and cells that cannot occur.

        A derived attribute may be among them while its sources are not.
        """
        return Coding(tuple(replace(self.attribute(name), derivation=None) for name in attributes))


def codes_by_number(coding: Labels, texts: Iterable[str]) -> list[int | None]:
    """Return the code of each text that is not one of the labels, if it is the same number as one."""
    labels = coding.labels
    plain = {} if coding.text or coding.boolean else plain_numbers(labels)
    own = {float(label): code for code, label in enumerate(labels)} if coding.by_value else plain

    def code(text: str) -> int | None:
        number = number_of(text)
        if number is None or not (coding.by_value or is_plain(text)):
            return None
        return None if abs(number) >= EXACT and is_whole(text) else own.get(number)

    return list(map(code, texts))


def codes_of_numbers(name: str, coding: Edges, values: NDArray[np.float64]) -> NDArray[np.integer]:
    """Codes of numbers, NaN being "missing"; raises UndeclaredLevelError outside the edges.

    On a scale, numbers are rounded and clamped first.
    """
    values = adjusted(coding, values)
    if not np.all(is_declared(coding, values)):
        raise UndeclaredLevelError(attribute=name)
    return intervals_of(coding.edges, values).astype(code_dtype(coding.size), copy=False)


def intervals_of(edges: Sequence[float], values: NDArray[np.float64]) -> NDArray[np.integer]:
    """Position of the interval of each number that lies between the first and the last edge.

    NaN has the position after the last interval, of which there is one less than there are edges.
    """
    _, *inner, _ = edges
    places = steps_reached(values, inner).astype(code_dtype(len(edges)))
    places[np.isnan(values)] = len(inner) + 1
    return places


def adjusted(coding: Edges, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers as they count: on a scale rounded and clamped, else as they are."""
    return values if coding.scale is None else coding.scale.adjusted(values)


def is_declared(coding: Edges, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each number that is already adjusted has a level, NaN being "missing"."""
    inside = (values >= coding.edges[0]) & (values <= coding.largest)
    return np.asarray(inside | (np.isnan(values) & coding.missing))


def numbers_of_codes(
    coding: Edges, codes: NDArray[np.integer], words: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """A number inside each code's interval, NaN being "missing"; ``codes_of_numbers`` turns it back.

    Args:
        words: One for each code; its 53 leading bits say where in the interval, so that uniform words
            give uniform numbers.
    """
    edges = np.asarray(coding.edges, dtype=np.float64)
    absent = codes == len(edges) - 1
    interval = np.where(absent, 0, codes)
    part = (words >> np.uint64(11)) * 2.0**-53
    if coding.decimals is None:
        low, high = edges[interval], edges[interval + 1]
        numbers = np.clip(low * (1 - part) + high * part, low, np.nextafter(high, low))
    else:
        # Counted in whole units, so that a number is the double nearest to its decimal text.
        units = np.rint(edges * 10**coding.decimals)
        counts = np.diff(units)
        counts[-1] += 1  # the last interval is closed
        steps = np.minimum(np.floor(part * counts[interval]), counts[interval] - 1)
        numbers = (units[interval] + steps) / 10**coding.decimals
    return np.where(absent, np.nan, numbers)


def scaled_numbers(
    coding: Edges,
    scale: Scale,
    codes: NDArray[np.integer],
    words: NDArray[np.uint64],
    places: Places | None = None,
) -> NDArray[np.float64]:
    """A number inside each code's level, NaN being "missing"; whole numbers of steps only.

    Args:
        codes: Shape ``(n,)``.
        words: Shape ``(2 n,)``.
        places: Where numbers lie inside the levels; else each is equally frequent for uniform words.
    """
    if places is None:
        step, ends = Fraction(scale.step), coding.ends
        counts = [int((high - low) / step) + 1 for low, high in ends]
        places = Places.uniform([int(low / step) for low, _ in ends], counts)
    steps = places.steps(codes, words)
    return np.where(codes == len(coding.edges) - 1, np.nan, scale.numbers(steps))


def date_of_days(days: float) -> date:
    """The date that is so many days after 1970-01-01."""
    return _EPOCH + timedelta(days=int(days))


def days_of_date(day: date) -> int:
    return (day - _EPOCH).days


def _plain(edge: float) -> str:
    """The shortest text that reads back as the same number, so that no two intervals share a name."""
    return repr(float(edge)).removesuffix(".0")


def time_text(minutes: float | Decimal) -> str:
    """Return minutes since midnight as HH:MM; the end of the day is 24:00."""
    hour, minute = divmod(int(minutes), 60)
    return f"{hour:02}:{minute:02}"


def minutes_of_time(text: str) -> int:
    """The inverse of ``time_text``; raises ValueError if the text is no time of day, such as 24:00."""
    if not _TIME.fullmatch(text):
        raise ValueError("no time of day")
    return 60 * int(text[:2]) + int(text[3:])


def _is_integer(label: str) -> bool:
    try:
        return str(int(label)) == label
    except ValueError:
        return False
