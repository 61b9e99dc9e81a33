"""Attributes that a schema derives from others: recoded, cut, compared, or counted for each person.

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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import isnan
from typing import NamedTuple

from pydantic import Field

from gencard.controller.base.files import Section
from gencard.core.card.sums import level_values
from gencard.core.coding import BOOLEANS, MOST_DECIMALS, Attribute, Coding, Derivation, Edges, Labels
from gencard.core.domain import Clique
from gencard.core.errors import InvalidCodingError

Levels = Mapping[str, tuple[str, ...]]
"""Names -> names of levels."""


class UnlistedLevels(NamedTuple):
    """Label of levels that are not listed, and whether there is a missing level."""

    other: str | None = None
    missing: bool = False


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
        self, name: str, stored: Coding, coding: Labels | Edges | None, form: UnlistedLevels
    ) -> Attribute:
        """Return the derived attribute.

        Args:
            stored: The attributes that are not derived.
            coding: Labels or edges, if the table has them.
            form: Label of all other levels, and whether there is a missing level.

        Raises:
            InvalidCodingError: The keys contradict each other, or name attributes that are not stored.
        """
        ways = [self.of, self.compare, self.any is not None, self.number is not None, self.sources]
        if sum(map(bool, ways)) != 1 or (self.recode and not self.of):
            problem = "it needs one of: of (with recode or edges), compare, any, number"
            raise InvalidCodingError(attribute=name, problem=problem)
        for source in (*self.compare, *([self.of] if self.of else ())):
            if source not in stored.domain:
                raise InvalidCodingError(attribute=name, problem=f"'{source}' is not stored")
        if self.sources and coding is not None:
            derivation = Derivation(self.sources, self.codes, self.per_person)
            return Attribute(name, coding, derivation=derivation)
        edges = coding if isinstance(coding, Edges) else None
        if self.any is not None:
            return of_person(name, stored, self.any, None)
        return self._with_edges(name, stored, edges, form)

    def _with_edges(
        self, name: str, stored: Coding, edges: Edges | None, form: UnlistedLevels
    ) -> Attribute:
        if self.compare:
            if len(self.compare) != 2:
                raise InvalidCodingError(attribute=name, problem="it compares two attributes")
            one, other = map(stored.attribute, self.compare)
            return compared(name, one, other, missing=form.missing)
        if self.of and not edges:
            return recoded(name, stored.attribute(self.of), self.recode, form)
        if edges is None or self.recode:
            raise InvalidCodingError(
                attribute=name, problem="it needs edges, and cannot also have recode"
            )
        if self.of:
            return cut(name, stored.attribute(self.of), edges.edges, missing=form.missing)
        return of_person(name, stored, self.number or {}, edges)


def recoded(name: str, source: Attribute, recode: Levels, form: UnlistedLevels) -> Attribute:
    """Return an attribute whose labels group levels of the source.

    The source's missing level is missing here if the form has a missing level, unless it is listed.

    Raises:
        InvalidCodingError: A level is unknown, listed twice, or covered by no label.
    """
    other, missing = form
    labels = tuple(dict.fromkeys((*recode, *([other] if other else []))))
    codes = {level: labels.index(label) for label, levels in recode.items() for level in levels}
    if len(codes) < sum(map(len, recode.values())):
        raise InvalidCodingError(attribute=name, problem="it lists a level twice")
    _check_levels(name, source, codes)
    of_level = dict.fromkeys(source.coding.level_names, labels.index(other)) if other else {}
    if missing:  # the name of the source's missing level, if there is one
        of_level |= dict.fromkeys(source.coding.level_names[len(_values(source)) :], len(labels))
    of_level |= codes
    if unplaced := [level for level in source.coding.level_names if level not in of_level]:
        raise InvalidCodingError(attribute=name, problem=f"it has no label for '{unplaced[0]}'")
    derivation = Derivation((source.name,), tuple(map(of_level.__getitem__, source.coding.level_names)))
    return Attribute(name, Labels(labels, missing=missing), derivation=derivation)


def cut(name: str, source: Attribute, edges: Sequence[float], *, missing: bool) -> Attribute:
    """Return an attribute with wider intervals of the source's numbers.

    Raises:
        InvalidCodingError: The source has no numbers, an edge cuts through one of its levels, or a level
            lies outside.
    """
    numbers = level_values(Coding((replace(source, derivation=None),))).get(source.name)
    if numbers is None:
        raise InvalidCodingError(
            attribute=name,
            problem=f"'{source.name}' is not a number, so it cannot be cut into intervals",
        )
    like = source.coding if isinstance(source.coding, Edges) else Edges((0.0, 1.0), decimals=0)
    if like.times:
        problem = f"'{source.name}' is a time of day, which cannot be cut into intervals: use recode"
        raise InvalidCodingError(attribute=name, problem=problem)
    if like.scale is not None:  # what is derived has neither histogram nor sums
        like = replace(like, scale=None, decimals=min(like.decimals or 0, MOST_DECIMALS))
    if isinstance(source.coding, Edges) and not set(edges) <= set(source.coding.edges):
        raise InvalidCodingError(attribute=name, problem=f"an edge is not one of '{source.name}'")
    coding = replace(like, edges=tuple(edges), missing=missing)
    last = len(edges) - 1
    if not all(missing if isnan(one) else edges[0] <= one <= edges[last] for one in numbers):
        raise InvalidCodingError(
            attribute=name, problem=f"a level of '{source.name}' lies outside the edges"
        )
    codes = tuple(
        last if isnan(one) else min(sum(edge <= one for edge in edges), last) - 1 for one in numbers
    )
    return Attribute(name, coding, derivation=Derivation((source.name,), codes))


def compared(name: str, one: Attribute, other: Attribute, *, missing: bool) -> Attribute:
    """Return an attribute that says which of two is greater, or if without order, whether they agree.

    Raises:
        InvalidCodingError: Their levels differ, or one may be missing and no level stands for that.
    """
    if _values(one) != _values(other):
        raise InvalidCodingError(attribute=name, problem="it compares attributes with different levels")
    if not missing and (one.coding.missing or other.coding.missing):
        raise InvalidCodingError(
            attribute=name,
            problem="it compares attributes that may be missing, so it may be missing too",
        )
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
    """Return an attribute that counts a person's records with one of the levels of each named attribute.

    Args:
        edges: Edges of the number; None for whether there is any such record.

    Raises:
        InvalidCodingError: An attribute or a level is unknown.
    """
    sources: Clique = tuple(one for one in stored.domain.attributes if one in levels)
    if unknown := set(levels) - set(sources):
        raise InvalidCodingError(attribute=name, problem=f"'{min(unknown)}' is not stored")
    sources = sources or stored.domain.attributes[:1]
    rows = []
    for source in map(stored.attribute, sources):
        names = levels.get(source.name, source.coding.level_names)
        _check_levels(name, source, names)
        rows.append([int(level in names) for level in source.coding.level_names])
    derivation = Derivation(sources, tuple(map(min, product(*rows))), per_person=True)
    return Attribute(name, edges or Labels(BOOLEANS, boolean=True), derivation=derivation)


def _check_levels(name: str, source: Attribute, levels: "Mapping[str, int] | Sequence[str]") -> None:
    if unknown := [level for level in levels if level not in source.coding.level_names]:
        raise InvalidCodingError(
            attribute=name, problem=f"'{unknown[0]}' is not a level of '{source.name}'"
        )


def _values(one: Attribute) -> tuple[object, ...]:
    """Return the labels or intervals of an attribute, without "missing"."""
    coding = one.coding
    return coding.labels if isinstance(coding, Labels) else tuple(pairwise(coding.edges))
