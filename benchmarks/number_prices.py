"""Price and sum_sensitivity of histograms and sums beside brute force.

``python -m benchmarks.number_prices [--quick] [--json FILE]``

On every domain of one attribute or two of ``SHAPES``, and on some of three:

* The price of cards (each statistic alone, and ``SETS`` sets of several) is compared with the rank of
  all their functions on all possible records: never below it, and above it only on the scales for which
  the design accepts it, those on which exactly one level or cell holds two values.
* The sensitivity of each sum, alone and with its counts, and of histograms is compared with the largest
  change over all neighbours, in both relations, by persons of one to three records. It is never smaller,
  and larger only where the design says so: groups that no record can be in, the edge 24:00, which no
  value has, a single value, one cell with its counts. No person spends more than a whole card's budget.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement, product
from math import prod
from typing import NamedTuple

import numpy as np

from benchmarks import bench
from gencard.core.card.privacy import AddedNoise, gaussian, laplace
from gencard.core.card.sums import Sum, product_ends, scale_of
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.domain import Clique
from gencard.core.statistics.marginals import rank
from gencard.core.statistics.noise import sum_sensitivity
from gencard.core.types import FloatArray, IntArray
from tests.core.tiny_domains import (
    added_by,
    all_sums,
    functions_of,
    largest_change,
    number,
    one_holds_two,
    possible_records,
    rank_of,
)

SETS, QUICK_SETS = 60, 4
"""Sets of several statistics on each domain."""

MOST_KINDS = 16
"""Records of so many kinds, of which all persons with two records are made for a whole card."""

RELATIONS = ("add-remove", "replace-one")
_CELLS = (
    ([1, 1], [1, 1]),
    ([1, 1, 1], [1, 2]),
    ([1, 1, 1], [1, 1, 1]),
    ([2, 1], [1, 1]),
    ([2, 2], [1, 1]),
    ([3], [1]),
    ([1, 3, 2], [2, 1]),
)
"""Values of the cells of a histogram, then cells of the levels."""


class Shape(NamedTuple):
    """Sizes of the levels and cells of an attribute; ``cells`` is empty for labels."""

    labels: int = 0
    cells: Sequence[int] = ()
    levels: Sequence[int] = ()
    missing: bool = False
    until_midnight: bool = False

    def attribute(self, name: str) -> Attribute:
        if self.labels:
            return Attribute(name, Labels(tuple("xyz"[: self.labels]), missing=self.missing))
        made = list(self.cells), list(self.levels)
        return number(name, *made, missing=self.missing, until_midnight=self.until_midnight)


SHAPES = (
    *(Shape(labels, missing=missing) for labels, missing in ((1, True), (2, False), (2, True))),
    *(Shape(0, *made, missing) for made in _CELLS for missing in (False, True)),
    Shape(0, [2, 2], [1, 1], missing=True, until_midnight=True),
)


class Card(NamedTuple):
    """Statistics on a domain."""

    coding: Coding
    marginals: Sequence[Clique] = ()
    histograms: Sequence[str] = ()
    sums: Sequence[Sum] = ()


class Compared(NamedTuple):
    """Outcome of one comparison.

    Args:
        kind: What was compared.
        over: The price is below the rank, or a change above the sum_sensitivity.
        equal: Both are the same.
        excused: The design says that they need not be the same.
    """

    kind: str
    over: bool
    equal: bool
    excused: bool


def run(quick: bool) -> bench.Result:
    every = list(domains(quick))
    made = [entry for coding in every for entry in compared(coding, quick)]
    kinds: dict[str, list[Compared]] = {}
    for entry in made:
        kinds.setdefault(entry.kind, []).append(entry)
    rows = [_row(kind, some) for kind, some in kinds.items()]
    columns = ("beside brute force", "compared", "wrong side", "equal", "not, by design", "not equal")
    title = f"Prices and sensitivities on {len(every):,} domains"
    features = _features(card for coding in every for card in cards_on(coding, quick))
    targets = [
        bench.Target("price below rank, or change above sum_sensitivity", _total(rows, 2), 0, "at most"),
        bench.Target("not equal, and not by design", _total(rows, 5), 0, "at most"),
    ]
    tables = [bench.Table(title, columns, rows), bench.Table("Cards", ("cards with", "cards"), features)]
    return bench.Result(tables, targets, {"domains": len(every), "rows": rows, "cards": features})


def _features(every: Iterable[Card]) -> list[tuple[str, int]]:
    """Numbers of cards that were tried, by what they hold."""
    with_feature: dict[str, int] = {}
    for card in every:
        absent = {one.name for one in card.coding.attributes if one.coding.missing}
        sums = card.sums
        features = {
            "any statistic": True,
            "a histogram": bool(card.histograms),
            "squares": any(len({*one.of}) < len(one.of) for one in sums),
            "products of two numbers": any(len({*one.of}) == 2 for one in sums),
            "present": any(one.present for one in sums),
            "a population's counts alone": any(not one.of for one in sums),
            "groups with a missing level": any(absent & {*one.by} for one in sums),
            "counts measured with a sum": any(
                one.counts_beside(card.marginals, card.coding) for one in sums
            ),
        }
        for name, has in features.items():
            with_feature[name] = with_feature.get(name, 0) + has
    return list(with_feature.items())


def _row(kind: str, made: Sequence[Compared]) -> tuple[bench.Cell, ...]:
    other = [one for one in made if not one.equal]
    excused = sum(one.excused for one in other)
    counts = (len(made), sum(one.over for one in made), len(made) - len(other), excused)
    return (kind, *counts, len(other) - excused)


def _total(rows: Sequence[Sequence[bench.Cell]], place: int) -> int:
    return sum(int(str(row[place])) for row in rows)


def domains(quick: bool) -> Iterator[Coding]:
    """All of one and two attributes, with a number at least, and some of three."""
    shapes = SHAPES[::3] if quick else SHAPES
    triples = list(combinations(shapes, 3))[:: 5 if quick else 11]
    pairs = combinations_with_replacement(shapes, 2)
    for some in (*((one,) for one in shapes), *pairs, *triples):
        if any(one.cells for one in some):
            made = zip("abc", some, strict=False)
            yield Coding(tuple(shape.attribute(name) for name, shape in made))


def compared(coding: Coding, quick: bool) -> Iterator[Compared]:
    """All comparisons on one domain."""
    some = list(cards_on(coding, quick))
    yield from map(priced, some)
    if len(coding.attributes) == 3:  # too many persons
        return
    alone = Changes(coding)
    most = (1, 2, 3) if len(coding.attributes) == 1 else (1, 2)
    for most_records, one in product(most, all_sums(coding)):
        for privacy, counted in product(budgets(most_records), (False, True)):
            if one.of or not counted:
                yield alone.of_sum(one, privacy, counted=counted)
    for most_records, name in product((1, 2, 3), numbers_in(coding)):
        yield from (alone.of_histogram(name, privacy) for privacy in budgets(most_records))
    for card in some[-2:] if len(possible_records(coding)) <= MOST_KINDS else []:
        yield from (alone.of_card(card, privacy) for privacy in budgets(2))


def cards_on(coding: Coding, quick: bool) -> Iterator[Card]:
    """Each statistic alone, then sets of two to six, always the same."""
    random, sets = np.random.default_rng(5), QUICK_SETS if quick else SETS
    cliques = [one for size in (1, 2) for one in combinations(coding.domain.attributes, size)]
    statistics = [
        *(Card(coding, marginals=[one]) for one in cliques),
        *(Card(coding, histograms=[one]) for one in numbers_in(coding)),
        *(Card(coding, sums=[one]) for one in all_sums(coding)),
    ]
    yield from statistics
    for _ in range(sets):
        size = min(len(statistics), int(random.integers(2, 7)))
        some = [
            statistics[place] for place in sorted(random.choice(len(statistics), size, replace=False))
        ]
        parts = ([entry for one in some for entry in one[place]] for place in (1, 2, 3))
        yield Card(coding, *parts)


def numbers_in(coding: Coding) -> list[str]:
    return [one.name for one in coding.attributes if isinstance(one.coding, Edges)]


def priced(card: Card) -> Compared:
    """The price beside the rank over all records."""
    functions = functions_of(card.coding, [*card.marginals], [*card.histograms], [*card.sums])
    price, needed = rank(*card), rank_of(functions)
    kind = f"price, attributes: {len(card.coding.attributes)}"
    return Compared(kind, price < needed, price == needed, one_holds_two(card.coding))


def budgets(most_records: int) -> Iterator[AddedNoise]:
    """Noise for persons of at most k records: both mechanisms and relations."""
    for relation in RELATIONS:
        for privacy in (laplace(1, neighbouring=relation), gaussian(1, neighbouring=relation)):
            yield privacy.for_person(most_records) if most_records > 1 else privacy


class Changes:
    """Largest changes on one domain beside the sensitivities that noise is scaled by."""

    def __init__(self, coding: Coding) -> None:
        self.coding = coding
        self.records = possible_records(coding)

    def of_sum(self, one: Sum, privacy: AddedNoise, *, counted: bool) -> Compared:
        columns, bound = self._sum(one, privacy, counted=counted)
        kind = "sums with their counts" if counted else "sums"
        return _compared(kind, columns, bound, privacy, self._is_loose(one, privacy, counted=counted))

    def of_histogram(self, name: str, privacy: AddedNoise) -> Compared:
        columns = np.array(functions_of(self.coding, [], [name], []))
        one_cell = len(columns) == 1 and privacy.neighbouring == RELATIONS[1]
        return _compared("histograms", columns, float(privacy.moved), privacy, one_cell)

    def of_card(self, card: Card, privacy: AddedNoise) -> Compared:
        """A whole card: the part of the budget that the worst person spends of all statistics."""
        blocks = [(functions_of(self.coding, [one], [], []), privacy.moved) for one in card.marginals]
        blocks += [(functions_of(self.coding, [], [one], []), privacy.moved) for one in card.histograms]
        parts = [(np.array(rows), float(bound)) for rows, bound in blocks]
        for one in card.sums:
            counted = one.counts_beside(card.marginals, self.coding)
            parts.append(self._sum(one, privacy, counted=counted))
        share = 1 / len(parts)
        columns = np.concatenate([rows * (share / bound) ** (1 / privacy.norm) for rows, bound in parts])
        return _compared("whole cards", columns, 1.0, privacy, True)

    def _sum(self, one: Sum, privacy: AddedNoise, *, counted: bool) -> tuple[IntArray, float]:
        """Return what a record adds to a sum and its counts, in units of the largest product."""
        cells = list(product(*(range(self.coding.domain.size(name)) for name in one.by)))
        rows = [[added_by(one, one.of, cell, record) for record in self.records] for cell in cells]
        ends = product_ends(self.coding, one.of)
        if counted:
            largest = max(ends[1], -ends[0], 1)
            rows += [
                [largest * added_by(one, (), cell, record) for record in self.records] for cell in cells
            ]
        return np.array(rows), float(sum_sensitivity(ends, len(cells), privacy, counted=counted))

    def _is_loose(self, one: Sum, privacy: AddedNoise, *, counted: bool) -> bool:
        """Whether the design's sum_sensitivity of a sum may be above the largest change."""
        population, domain = one.population(self.coding), self.coding.domain
        cells = [domain.size(name) - (name in population) for name in one.by]
        one_cell = prod(cells) == 1 and privacy.neighbouring == RELATIONS[1]
        return (
            any(scale_of(self.coding, name).times for name in one.of)
            or product_ends(self.coding, one.of) == (0, 0)
            or (one_cell and (counted or bool(one.by)))
        )


def _compared(
    kind: str, columns: IntArray | FloatArray, bound: float, privacy: AddedNoise, excused: bool
) -> Compared:
    most, replaced = privacy.most_records or 1, privacy.neighbouring == RELATIONS[1]
    change = largest_change(columns, most, replaced=replaced, norm=privacy.norm)
    kind = f"{kind}, {privacy.neighbouring}, {most} records a person"
    return Compared(kind, change > bound * (1 + 1e-9), change == bound, excused)


if __name__ == "__main__":
    bench.main("number_prices", run)
