"""Attributes of few values: all records and sums on them, ranks and largest changes by brute force."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import prod

import numpy as np

from gencard.core.card.sums import Sum
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.scale import DAY, Scale
from gencard.core.statistics.linear import fine_cells
from gencard.core.types import FloatArray, IntArray

Record = dict[str, tuple[int, int, int | None]]
"""For each attribute level, cell of the histogram, and units, None if missing."""


def number(
    name: str,
    cells: list[int],
    levels: list[int],
    *,
    missing: bool,
    step: str = "1",
    until_midnight: bool = False,
) -> Attribute:
    """An attribute on a scale.

    Args:
        cells: Numbers of values of the histogram's cells.
        levels: Numbers of cells of the levels.
        until_midnight: The numbers are the last minutes of the day, so that the last edge is no value.
    """
    unit = Decimal(step)
    first = DAY - sum(cells) if until_midnight else 3 * unit
    starts = [first + sum(cells[:place]) * unit for place in range(len(cells))]
    last = Decimal(DAY) if until_midnight else first + (sum(cells) - 1) * unit
    firsts = [starts[sum(levels[:place])] for place in range(len(levels))]
    scale = Scale(unit, (*map(Decimal, starts), last), times=until_midnight)
    return Attribute(name, Edges.of_scale(firsts, scale, missing=missing))


def possible_records(coding: Coding) -> list[Record]:
    """Each record that a schema allows: level, cell of the histogram, and units, None if missing."""
    return [
        dict(zip(coding.domain.attributes, record, strict=True))
        for record in product(*(values_of(one) for one in coding.attributes))
    ]


def values_of(attribute: Attribute) -> list[tuple[int, int, int | None]]:
    """Return what a record of each value is: level, cell of the histogram, and units."""
    own = attribute.coding
    if isinstance(own, Labels):
        return [(code, code, None if code == len(own.labels) else 0) for code in range(own.size)]
    assert own.scale is not None
    (low, _), first = own.scale.unit_ends, own.scale.centre
    units = np.arange(low, own.scale.last - first + 1)
    values = [float(Fraction(own.scale.step) * (first + int(unit))) for unit in units]
    cells = [
        max(i for i, edge in enumerate(own.scale.cells[:-1]) if float(edge) <= one) for one in values
    ]
    levels = [max(i for i, edge in enumerate(own.edges[:-1]) if edge <= one) for one in values]
    missing = [(len(own.edges) - 1, len(own.scale.cells) - 1, None)] if own.missing else []
    return [*zip(levels, cells, units.tolist(), strict=True), *missing]


def functions_of(
    coding: Coding, marginals: list[tuple[str, ...]], histograms: list[str], sums: list[Sum]
) -> list[list[int]]:
    """Each released number as a row: what one record of each possible kind adds to it."""
    records = possible_records(coding)
    size = {one.name: one.coding.size for one in coding.attributes}
    rows = [
        [
            int(all(record[name][0] == code for name, code in zip(clique, cell, strict=True)))
            for record in records
        ]
        for clique in marginals
        for cell in product(*(range(size[name]) for name in clique))
    ]
    for name in histograms:
        rows += [
            [int(one[name][1] == cell) for one in records] for cell in range(fine_cells(coding, name))
        ]
    for one in sums:
        for of in {(), one.of}:
            for cell in product(*(range(size[name]) for name in one.by)):
                rows.append([added_by(one, of, cell, record) for record in records])
    return rows


def added_by(one: Sum, of: tuple[str, ...], cell: tuple[int, ...], record: Record) -> int:
    """Return what a record adds to a cell of a sum, or to its count if ``of`` is empty."""
    if any(record[name][2] is None for name in (*one.of, *one.present)):
        return 0
    inside = all(record[name][0] == code for name, code in zip(one.by, cell, strict=True))
    return inside * prod(record[name][2] or 0 for name in of)


def rank_of(rows: list[list[int]]) -> int:
    """Over the field of a large prime, which is the rank over the rationals for numbers so small."""
    prime = 2**61 - 1
    matrix, found = [[entry % prime for entry in row] for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(found, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            continue
        matrix[found], matrix[pivot] = matrix[pivot], matrix[found]
        inverse = pow(matrix[found][column], -1, prime)
        matrix[found] = [entry * inverse % prime for entry in matrix[found]]
        for i, row in enumerate(matrix):
            if i != found and row[column]:
                matrix[i] = [
                    (x - row[column] * y) % prime for x, y in zip(row, matrix[found], strict=True)
                ]
        found += 1
    return found


def one_holds_two(coding: Coding) -> bool:
    """Whether on some scale exactly one level, or one cell, holds two values and the others one."""
    for one in coding.attributes:
        if isinstance(one.coding, Edges):
            records = [entry for entry in values_of(one) if entry[2] is not None]
            for place in (0, 1):
                parts = sorted(np.unique([entry[place] for entry in records], return_counts=True)[1])
                if parts[-1] == 2 and parts[:-1] == [1] * (len(parts) - 1):
                    return True
    return False


def all_sums(coding: Coding) -> Iterator[Sum]:
    """Every sum that a schema allows, by at most one attribute."""
    names, absent = (
        coding.domain.attributes,
        {one.name for one in coding.attributes if one.coding.missing},
    )
    numbers = [one.name for one in coding.attributes if isinstance(one.coding, Edges)]
    products = [(), *((name,) for name in numbers), *combinations_with_replacement(numbers, 2)]
    for of in products:
        conditions = sorted(absent - {*of})
        some = (one for size in range(len(conditions) + 1) for one in combinations(conditions, size))
        for present, by in product(list(some), [(), *((name,) for name in names if name not in of)]):
            if of or present:
                yield Sum(of, by, present).in_order_of(coding.domain)


def largest_change(
    columns: IntArray | FloatArray, most_records: int, *, replaced: bool, norm: int
) -> float:
    """The largest norm (1), or squared norm (2), by which one person moves released numbers.

    Args:
        columns: What each possible record adds, of shape ``(numbers, records)``.
        most_records: Of a person.
        replaced: A person takes the place of another; else they come or go.
    """
    kinds = np.unique(columns, axis=1)
    persons = [
        kinds[:, list(records)].sum(axis=1)
        for count in range(most_records + 1)
        for records in combinations_with_replacement(range(kinds.shape[1]), count)
    ]
    moved = np.unique(np.array(persons), axis=0)
    others = moved if replaced else np.zeros_like(moved[:1])
    return max(float((np.abs(moved - one) ** norm).sum(axis=1).max()) for one in others)
