"""The declared levels of an attribute, by name and by value."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import (
    Attribute,
    Coding,
    Edges,
    Labels,
    codes_by_number,
    numbers_of_codes,
    scaled_numbers,
)
from gencard.core.dataset import Dataset, NumbersOf
from gencard.core.derived_cells import invented_words, same_numbers
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.scale import WORDS_A_NUMBER, Places
from gencard.core.values import plain_numbers

UNDECLARED = -1


def names_of(attribute: Attribute) -> tuple[str, ...]:
    """Return the names of the levels in a file, without "missing"."""
    coding = attribute.coding
    return coding.level_names[: coding.size - coding.missing]


def is_ordered(attribute: Attribute) -> bool:
    return not isinstance(attribute.coding, Labels) or attribute.coding.ordered


def is_integer(attribute: Attribute) -> bool:
    return isinstance(attribute.coding, Labels) and attribute.coding.integer


def is_boolean(attribute: Attribute) -> bool:
    return isinstance(attribute.coding, Labels) and attribute.coding.boolean


def code_of(attribute: Attribute) -> dict[Any, int]:
    """Code of each level by its name, and by its number or truth value where it has one.

    None is "missing", and so is empty text where it is no label; UNDECLARED where that is not declared.
    """
    names = names_of(attribute)
    absent = len(names) if attribute.coding.missing else UNDECLARED
    codes = {name: code for code, name in enumerate(names)}
    numbers: dict[Any, int] = {}
    if is_integer(attribute):
        numbers = {int(name): code for name, code in codes.items()}
    elif is_boolean(attribute):
        numbers = {False: 0, True: 1}
    elif isinstance(attribute.coding, Labels) and attribute.coding.by_value:
        numbers = {float(name): code for name, code in codes.items()}
    elif isinstance(attribute.coding, Labels):
        numbers = {**plain_numbers(names)}
    return {"": absent, None: absent, **codes, **numbers}


def codes_of_values(attribute: Attribute, codes: Mapping[Any, int], values: Iterable[Any]) -> list[int]:
    """Return the code of each value by ``codes``, of a text also by its number; else UNDECLARED."""
    # a number that is none is missing
    every = [None if value != value else value for value in values]  # noqa: PLR0124
    known = {value: codes.get(value, UNDECLARED) for value in every}
    others = [value for value, code in known.items() if code == UNDECLARED]
    if isinstance(attribute.coding, Labels):
        texts = [value for value in others if isinstance(value, str)]
        by_number = zip(texts, codes_by_number(attribute.coding, texts), strict=True)
        known |= {text: code for text, code in by_number if code is not None}
    return [known[value] for value in every]


@dataclass(frozen=True, slots=True, eq=False)
class NumberedRows:
    """Rows as codes, and the numbers that they have of attributes with edges.

    Args:
        columns: Names of all columns of the file, read or not; None if they are not known.
    """

    dataset: Dataset
    numbers: NumbersOf
    columns: tuple[str, ...] | None = None


UNKNOWN_NUMBER = np.inf
"""In place of a number of which only the level is known."""


def level_numbers(coding: Edges) -> NDArray[np.float64]:
    """Return the number of each code: unknown unless its level holds only one; NaN for "missing"."""
    numbers = [float(low) if low == high else UNKNOWN_NUMBER for low, high in coding.ends]
    return np.array([*numbers, np.nan])


class Values(Protocol):
    """Values that stand in place of the intervals of attributes with edges."""

    def of(self, name: str, coding: Edges, codes: NDArray[Any], /) -> NDArray[np.float64]:
        """The next rows of an attribute; NaN is "missing"."""
        ...

    def is_value(self, name: str, /) -> bool:
        """Whether they are values that the attribute can have; else places inside its intervals."""
        ...


class Midpoints:
    """The midpoint of each interval."""

    def is_value(self, _name: str) -> bool:
        """A midpoint need not be one."""
        return False

    def of(self, _name: str, coding: Edges, codes: NDArray[Any]) -> NDArray[np.float64]:
        return np.take(np.array([*coding.midpoints, np.nan]), codes)


class Stored(Midpoints):
    """Numbers as the records have them where they are given, for all rows; else midpoints."""

    def __init__(self, numbers: Mapping[str, NDArray[np.float64]]) -> None:
        self._numbers = numbers

    def is_value(self, name: str) -> bool:
        return name in self._numbers

    def of(self, name: str, coding: Edges, codes: NDArray[Any]) -> NDArray[np.float64]:
        """All rows of an attribute; NaN is "missing"."""
        return self._numbers[name] if name in self._numbers else super().of(name, coding, codes)


ValueForm = Literal["numbers", "levels", "midpoints"]
"""Form of attributes with edges: numbers drawn inside the intervals, the intervals
themselves, or their midpoints. As "levels", whole numbers and truth values are categoricals too.
"""


PlacesOf = Callable[[], Mapping[str, Places]]
"""Returns where numbers lie inside levels, by attribute: of those that psi has a histogram of."""


def values_of(
    form: str,
    seed: int,
    rows: Dataset | None = None,
    coding: Coding | None = None,
    places: PlacesOf = dict,
) -> Values | None:
    """Return the values that stand in place of intervals in one form; None if nothing does.

    Args:
        rows: Those that are written, where numbers of derived attributes are those of their sources.
        places: Called for "numbers" alone.

    Raises:
        InvalidInputError: The form is not one of ``ValueForm``.
    """
    match form:
        case "numbers":
            if rows is None or coding is None:
                return Numbers(seed, places=places())
            return Numbers.of_rows(seed, rows, coding, places())
        case "levels":
            return None
        case "midpoints":
            return Midpoints()
    problem = f"must be one of {', '.join(get_args(ValueForm))}"
    raise InvalidInputError(field="values", problem=problem)


class Numbers:
    """Draws a number inside each interval; the same seed gives the same numbers.

    Row ``i`` of an attribute depends on the seed, the attribute's name and ``i`` alone, as long as the
    rows come in their order, in whatever batches. Attributes on a scale have another version of the
    stream, with two words a row; their numbers lie where psi says, and all others uniformly.

    Args:
        sources: By name, the attribute whose numbers a derived one has, and the codes of its rows.
        places: By name, where psi says that numbers lie inside levels.
    """

    def __init__(
        self,
        seed: int,
        sources: Mapping[str, tuple[Attribute, NDArray[Any]]] | None = None,
        places: Mapping[str, Places] | None = None,
    ) -> None:
        self._seed, self._sources, self._places = seed, sources or {}, places or {}
        self._streams: dict[str, np.random.PCG64] = {}
        self._done: dict[str, int] = {}

    @classmethod
    def of_rows(
        cls, seed: int, rows: Dataset, coding: Coding, places: Mapping[str, Places] | None = None
    ) -> "Numbers":
        """For rows in which a derived number is the one that it is derived from."""
        sources = same_numbers(coding, rows.domain.attributes)
        return cls(
            seed,
            {name: (coding.attribute(source), rows.column(source)) for name, source in sources.items()},
            places,
        )

    def invented(self, coding: Coding, attributes: Clique) -> str:
        """Say of which attributes the numbers are invented; empty if of none, or if none has a step."""
        codings = [coding.attribute(name).coding for name in attributes]
        on_scale = any(isinstance(one, Edges) and one.scale is not None for one in codings)
        return invented_words(coding, attributes, tuple(self._places)) if on_scale else ""

    def is_value(self, _name: str) -> bool:
        """Return True: the numbers drawn here are on the declared grid."""
        return True

    def of(self, name: str, coding: Edges, codes: NDArray[Any]) -> NDArray[np.float64]:
        if name not in self._sources:
            return self._drawn(name, name, coding, codes)
        # Its numbers are those of another attribute.
        (source, all_codes), begin = self._sources[name], self._done.get(name, 0)
        self._done[name] = begin + len(codes)
        own_codes, own = all_codes[begin : begin + len(codes)], source.coding
        if isinstance(own, Labels):
            return np.take(np.array([*map(float, own.labels), np.nan]), own_codes)
        return self._drawn(name, source.name, own, own_codes)

    def _drawn(self, place: str, name: str, coding: Edges, codes: NDArray[Any]) -> NDArray[np.float64]:
        scale = coding.scale
        if place not in self._streams:
            version = "v1" if scale is None else "v2"
            digest = hashlib.sha256(f"gencard.numbers.{version}\x00{self._seed}\x00{name}".encode())
            self._streams[place] = np.random.PCG64(int.from_bytes(digest.digest(), "big"))
        stream = self._streams[place]
        if scale is None:
            return numbers_of_codes(coding, codes, stream.random_raw(len(codes)))
        words = stream.random_raw(WORDS_A_NUMBER * len(codes))
        return scaled_numbers(coding, scale, codes, words, self._places.get(name))


def by_levels(coding: Coding, attributes: Clique, columns: Collection[str]) -> Clique:
    """Return the attributes with edges that a program does not get as recorded, beside ``columns``."""
    return tuple(
        name
        for name in attributes
        if name not in columns and isinstance(coding.attribute(name).coding, Edges)
    )


def drawn_numbers(
    rows: Dataset,
    coding: Coding,
    names: Iterable[str],
    seed: int,
    places: Mapping[str, Places] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """In place of stored numbers, for synthetic rows: numbers drawn inside the intervals.

    Raises:
        InvalidInputError: An attribute is not in the rows, or has no intervals.
    """
    numbers, columns = Numbers(seed, places=places), {}
    for name in names:
        edges = coding.attribute(name).coding if name in rows.domain.attributes else None
        if not isinstance(edges, Edges):
            problem = f"names '{name}', which has no intervals here"
            raise InvalidInputError(field="stored", problem=problem)
        columns[name] = numbers.of(name, edges, rows.column(name))
    return columns
