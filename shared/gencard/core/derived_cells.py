"""Cells of derived attributes that contradict what these are derived from, and each other.

A generator that knows these cells makes no row in them. Nothing here is taken from records.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.terms import CardTerms
from gencard.core.coding import (
    Attribute,
    Coding,
    Derivation,
    Edges,
    Labels,
    StructuralZeros,
    codes_of_numbers,
    zeros_inside,
)
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain

MOST_ZEROS = 200_000
"""Cells of attributes that are derived from the same ones, of which the impossible ones are listed."""


def impossible(coding: Coding, domain: Domain) -> tuple[StructuralZeros, ...]:
    """Cells of some of the schema's attributes that cannot occur: as declared, or as derived."""
    cells = list(zeros_inside(coding.structural_zeros, domain))
    # The cells that contradict what is derived, if the attributes have at most MOST_ZEROS cells.
    attributes = map(coding.attribute, domain.attributes)
    derived = [_Derived(one, how) for one in attributes if (how := one.derivation)]
    for group in _tied(derived, domain):
        cells += _where_impossible(domain, *_possible_cells(coding, domain, group))
    for one, other in combinations(derived, 2):
        if one.how.per_person and one.how == other.how:
            table = _possible_of_both(one.attribute, other.attribute)
            cells += _where_impossible(domain, (one.name, other.name), table)
    return tuple(cells)


def zeros_for(card: CardTerms, coding: Coding) -> tuple[StructuralZeros, ...]:
    """Cells that the generator of a card leaves empty: controller and replay must agree on them."""
    domain = coding.domain.covered_by(card.terms.cliques)
    if card.derivations:
        return impossible(coding, domain)
    return zeros_inside(coding.structural_zeros, domain)


def computed_for(card: CardTerms, coding: Coding) -> dict[str, Derivation]:
    """Attributes of a card's rows that are computed from others of them."""
    attributes = coding.domain.covered_by(card.terms.cliques).attributes
    return computed_in(coding, attributes) if card.derivations else {}


def derived_in(coding: Coding, attributes: Clique) -> bool:
    """Whether any of these attributes is derived."""
    return any(coding.attribute(name).derivation is not None for name in attributes)


def computed_in(coding: Coding, attributes: Clique) -> dict[str, Derivation]:
    """Derivations of the attributes that follow from others of these, record by record."""
    derivations = {name: coding.attribute(name).derivation for name in attributes}
    return {
        name: how
        for name, how in derivations.items()
        if how is not None and not how.per_person and set(how.sources) <= set(attributes)
    }


def same_numbers(coding: Coding, attributes: Clique) -> dict[str, str]:
    """Source of each attribute that has wider intervals of another one's numbers: both have one."""
    return {
        name: how.sources[0]
        for name, how in computed_in(coding, attributes).items()
        if len(how.sources) == 1 and isinstance(coding.attribute(name).coding, Edges)
    }


def invented_in(coding: Coding, attributes: Clique, histograms: Clique = ()) -> Clique:
    """Return the attributes of which rows have invented values, inside levels of several.

    Args:
        histograms: Attributes whose numbers, and those derived from them, are placed by psi.
    """
    sources = same_numbers(coding, attributes)
    codings = {name: coding.attribute(name).coding for name in attributes}
    return tuple(
        name
        for name, one in codings.items()
        if isinstance(one, Edges)
        and sources.get(name, name) not in histograms
        and any(low < high for low, high in one.ends)
    )


def invented_words(coding: Coding, attributes: Clique, histograms: Clique = ()) -> str:
    """Say in words what ``invented_in`` returns; empty if nothing."""
    names = invented_in(coding, attributes, histograms)
    return f"values inside levels are invented: {', '.join(names)}" if names else ""


def with_computed(dataset: Dataset, derivations: Mapping[str, Derivation]) -> Dataset:
    """The records, with what follows from their other attributes computed from these."""
    domain = dataset.domain
    columns = {name: dataset.column(name) for name in domain.attributes}
    for name, how in derivations.items():
        sources = [columns[source] for source in how.sources]
        columns[name] = how.of_records(sources, domain.project(how.sources).sizes)
    return Dataset.of_columns(domain, list(columns.values())) if derivations else dataset


class _Derived(NamedTuple):
    """An attribute, and how it follows from others."""

    attribute: Attribute
    how: Derivation

    @property
    def name(self) -> str:
        return self.attribute.name

    @property
    def none(self) -> int | None:
        """The level of a person of whom no record counts, if it is that of no other person."""
        levels = [_level_of_number(self.attribute, number) for number in (0, 1)]
        return levels[0] if self.how.per_person and levels[0] != levels[1] else None


def _tied(derived: Sequence[_Derived], domain: Domain) -> list[list[_Derived]]:
    """Derived attributes in groups, each tied together by sources that the domain lacks."""
    groups: list[tuple[set[str], list[_Derived]]] = []
    for one in derived:
        lacking, members = {name for name in one.how.sources if name not in domain}, [one]
        for group in [group for group in groups if group[0] & lacking]:
            groups.remove(group)
            lacking, members = lacking | group[0], [*group[1], *members]
        groups.append((lacking, members))
    return [members for _, members in groups]


def _possible_cells(
    coding: Coding, domain: Domain, group: Sequence[_Derived]
) -> tuple[Clique, NDArray[np.bool_]]:
    """Return the cells of derived attributes and of their sources in the domain that can occur.

    The person of a record that counts has one that does.

    Returns:
        The attributes, none if they have too many cells; and the cells.
    """
    sources = coding.domain.covered_by([one.how.sources for one in group])
    of_persons = [one for one in group if one.how.per_person]
    names = [name for name in sources.attributes if name in domain]
    names += [one.name for one in group if one not in of_persons]
    attributes = (*names, *(one.name for one in of_persons))
    table_domain = domain.project(attributes)
    if max(sources.cells, table_domain.cells) > MOST_ZEROS:
        return (), np.ones((), dtype=np.bool_)
    cells = np.indices(sources.sizes).reshape(len(sources), -1)
    columns = dict(zip(sources.attributes, cells, strict=True))
    for one in group:
        own_columns = [columns[source] for source in one.how.sources]
        columns[one.name] = one.how.of_records(own_columns, sources.project(one.how.sources).sizes)
    possible = np.zeros(table_domain.sizes, dtype=np.bool_)
    known_sizes = table_domain.sizes[: len(names)]
    for without in product((False, True), repeat=len(of_persons)):  # whether none of theirs counts
        here, levels = np.ones(cells.shape[1], dtype=np.bool_), list[list[int]]()
        for one, is_none in zip(of_persons, without, strict=True):
            here &= (columns[one.name] == 0) | (not is_none)
            codes = range(table_domain.size(one.name))
            levels.append([code for code in codes if (code == one.none) is is_none])
        table = np.zeros(known_sizes, dtype=np.bool_)
        table[tuple(columns[name][here] for name in names)] = here.any()
        reshaped = table.reshape(*known_sizes, *[1] * len(levels))
        possible[np.ix_(*map(range, known_sizes), *levels)] = reshaped
    return attributes, possible


def _possible_of_both(one: Attribute, other: Attribute) -> NDArray[np.bool_]:
    """Return the cells of two attributes of the person that count the same records and can occur."""
    possible = np.zeros((one.coding.size, other.coding.size), dtype=np.bool_)
    codings = (one.coding, other.coding)
    edges = [edge for each in codings if isinstance(each, Edges) for edge in each.edges]
    for number in {0, 1, *edges, *(edge - 1 for edge in edges if edge)}:
        possible[_level_of_number(one, number), _level_of_number(other, number)] = True
    return possible


def _level_of_number(attribute: Attribute, number: float) -> int:
    """The level of a person with so many records that count; see ``Derivation``."""
    coding = attribute.coding
    if isinstance(coding, Labels):
        return min(int(number), 1)
    return int(codes_of_numbers(attribute.name, coding, np.array([min(number, coding.edges[-1])]))[0])


def _where_impossible(
    domain: Domain, attributes: Clique, possible: NDArray[np.bool_]
) -> Iterator[StructuralZeros]:
    """Yield the structural zeros, if there are any, with attributes in the domain's order."""
    if not attributes or possible.all():
        return
    clique = domain.canonical(attributes)
    cells = np.argwhere(~np.transpose(possible, [attributes.index(name) for name in clique]))
    yield StructuralZeros(clique, tuple(map(tuple, cells.tolist())))
