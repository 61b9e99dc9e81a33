"""Sums and histograms of records, their price, and what a person moves, beside brute force."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.card.noise import gaussian, laplace
from gencard.core.card.sums import Sum, product_ends
from gencard.core.coding import Attribute, Coding, Derivation, Edges, Labels
from gencard.core.errors import InvalidCodingError, InvalidInputError, UnknownAttributeError
from gencard.core.scale import DAY, Scale
from gencard.core.statistics.marginals import dimension
from gencard.core.statistics.rank import rank
from gencard.core.statistics.sum_noise import LARGEST_SCALE, sensitivity, sum_noise
from gencard.core.statistics.unit_sums import UnitSums, fine_cells
from tests.core.seeded_noise import SeededNoise

RELATIONS = ("add-remove", "replace-one")


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


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    missing = draw(st.booleans())
    if draw(st.booleans()):
        labels = tuple("abc"[: draw(st.integers(1, 3))])
        return Attribute(name, Labels(labels, missing=missing))
    cells = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4).filter(lambda one: sum(one) > 1))
    levels = []
    while sum(levels) < len(cells):
        levels.append(draw(st.integers(1, len(cells) - sum(levels))))
    return number(name, cells, levels, missing=missing, until_midnight=draw(st.booleans()))


@st.composite
def codings(draw: st.DrawFn) -> Coding:
    return Coding(tuple(draw(attributes(name)) for name in ("a", "b", "c")[: draw(st.integers(1, 3))]))


def numbers_in(coding: Coding) -> list[str]:
    return [one.name for one in coding.attributes if isinstance(one.coding, Edges)]


@st.composite
def cards(draw: st.DrawFn) -> tuple[Coding, list[tuple[str, ...]], list[str], list[Sum]]:
    coding = draw(codings())
    names = coding.domain.attributes
    sets = st.sets(st.sampled_from(names), min_size=1, max_size=2)
    marginals = [coding.domain.canonical(one) for one in draw(st.lists(sets, min_size=1, max_size=2))]
    numbers = numbers_in(coding)
    histograms = draw(st.lists(st.sampled_from(numbers), max_size=2)) if numbers else []
    return coding, marginals, histograms, draw(st.lists(one_sum(coding), max_size=4))


@st.composite
def one_sum(draw: st.DrawFn, coding: Coding) -> Sum:
    names, numbers = coding.domain.attributes, numbers_in(coding)
    absent = [one.name for one in coding.attributes if one.coding.missing]
    of = draw(st.lists(st.sampled_from(numbers), max_size=2)) if numbers else []
    rest = [name for name in names if name not in of]
    by = draw(st.sets(st.sampled_from(rest), max_size=2)) if rest else set()
    conditions = [name for name in absent if name not in of]
    present = draw(st.sets(st.sampled_from(conditions))) if conditions else set()
    if not of and not present:
        by, of = set(), numbers[:1]
        present = set()
        if not of:
            return draw(st.nothing()) if not absent else Sum((), (), tuple(absent))
    return Sum(tuple(of), tuple(by), tuple(present)).in_order_of(coding.domain)


def possible_records(coding: Coding) -> list[dict[str, tuple[int, int, int | None]]]:
    """Each record that a schema allows: level, cell of the histogram, and units, None if missing."""
    return [
        dict(zip(coding.domain.attributes, record, strict=True))
        for record in product(*(_values(one) for one in coding.attributes))
    ]


def _values(attribute: Attribute) -> list[tuple[int, int, int | None]]:
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
    found = list(zip(levels, cells, units.tolist(), strict=True))
    return [*found, (len(own.edges) - 1, len(own.scale.cells) - 1, None)] if own.missing else found


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
                rows.append([_adds(one, of, cell, record) for record in records])
    return rows


def _adds(one: Sum, of: tuple[str, ...], cell: tuple[int, ...], record: dict) -> int:
    if any(record[name][2] is None for name in (*one.of, *one.present)):
        return 0
    inside = all(record[name][0] == code for name, code in zip(one.by, cell, strict=True))
    return inside * prod(record[name][2] for name in of)


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
            records = [entry for entry in _values(one) if entry[2] is not None]
            for place in (0, 1):
                parts = sorted(np.unique([entry[place] for entry in records], return_counts=True)[1])
                if parts[-1] == 2 and parts[:-1] == [1] * (len(parts) - 1):
                    return True
    return False


class TestPrice:
    @settings(max_examples=400)
    @given(cards())
    def test_it_is_the_rank_of_all_functions(self, card):
        coding, marginals, histograms, sums = card
        expected = rank_of(functions_of(coding, marginals, histograms, sums))
        price = rank(coding, marginals, histograms, sums)
        assert price >= expected
        if not one_holds_two(coding):
            assert price == expected

    def test_of_marginals_alone_it_is_their_dimension(self):
        coding = Coding(
            (number("a", [2, 2, 2], [1, 1, 1], missing=True), Attribute("b", Labels(("x", "y"))))
        )
        for cliques in ([("a",)], [("a", "b")], [("a",), ("b",)]):
            assert rank(coding, cliques) == dimension(coding.domain, cliques)

    def test_what_a_marginal_or_a_histogram_determines_costs_nothing(self):
        digits = Coding(
            (
                number("digit", [1] * 10, [1] * 10, missing=False),
                number("wide", [1] * 9, [3, 6], missing=False),
            )
        )
        sums = [Sum(("digit",)), Sum(("digit", "digit"))]
        assert rank(digits, [("digit",)], (), sums) == 10
        wide = [Sum(("wide",)), Sum(("wide", "wide"))]
        assert rank(digits, [("wide",)], (), wide) == 2 + 2
        assert rank(digits, [("wide",)], ["wide"], wide) == 9
        by_digit = [Sum(("wide",), ("digit",)), Sum(("wide",))]
        assert rank(digits, [("digit",)], (), by_digit) == 10 + 10


@st.composite
def records(draw: st.DrawFn) -> tuple[Coding, list[Sum], list[dict[str, tuple[int, int, int | None]]]]:
    coding = draw(codings())
    possible = possible_records(coding)
    some = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=20))
    return coding, draw(st.lists(one_sum(coding), max_size=3)), some


class TestRecords:
    @settings(max_examples=200)
    @given(records())
    def test_in_batches_they_are_sums_over_records(self, drawn):
        coding, sums, some = drawn
        adding = UnitSums(coding, sums, numbers_in(coding))
        for batch in (some[:7], some[7:]):
            if batch:
                adding.add(*columns_of(coding, batch))
        for one, cells in zip(sums, adding.totals(), strict=True):
            places = list(product(*(range(coding.domain.size(name)) for name in one.by)))
            assert list(cells.values) == [
                sum(_adds(one, one.of, place, r) for r in some) for place in places
            ]
            assert list(cells.counts) == [
                sum(_adds(one, (), place, r) for r in some) for place in places
            ]
        for name, counts in zip(numbers_in(coding), adding.fine_counts(), strict=True):
            assert counts.tolist() == [
                sum(r[name][1] == cell for r in some) for cell in range(fine_cells(coding, name))
            ]

    def test_products_of_61_bits_do_not_overflow(self):
        last = 2**31 - 1
        scale = Scale(Decimal("0.01"), (Decimal(0), Decimal(last) / 100))
        coding = Coding((Attribute("wage", Edges.of_scale([Decimal(0)], scale)),))
        adding = UnitSums(coding, [Sum(("wage", "wage")), Sum(("wage",))])
        wages = np.full(2_000_000, last / 100)
        adding.add({}, {"wage": wages})
        squares, units = adding.totals()
        assert squares.values == (2_000_000 * (2**30) ** 2,)
        assert units.values == (2_000_000 * 2**30,)


def columns_of(coding, some):
    codes = {name: np.array([record[name][0] for record in some]) for name in coding.domain.attributes}
    numbers = {}
    for name in numbers_in(coding):
        scale = coding.attribute(name).coding.scale
        steps = [
            np.nan if record[name][2] is None else scale.centre + record[name][2] for record in some
        ]
        numbers[name] = scale.numbers(np.array(steps))
    return codes, numbers


class TestNoise:
    @pytest.mark.parametrize("relation", RELATIONS)
    @pytest.mark.parametrize("most_records", [1, 2])
    @pytest.mark.parametrize("cells", [1, 2, 3])
    @pytest.mark.parametrize(
        "products", [(-2, -1, 0, 1, 2), (-1, 0, 1, 2), (0, 1, 4), (0, 1), (-3, 0, 1)]
    )
    def test_it_covers_the_largest_change(self, relation, most_records, cells, products):
        """Compare with all persons of at most k records; without counts the bound is reached."""
        ends = min(products), max(products)
        largest = max(-ends[0], ends[1])
        for counted, norm in product((False, True), (1, 2)):
            privacy = (laplace if norm == 1 else gaussian)(1, neighbouring=relation)
            privacy = privacy.for_person(most_records) if most_records > 1 else privacy
            bound = sensitivity(ends, cells, privacy, counted=counted)
            worst = worst_change(
                products, cells, most_records, relation, largest if counted else 0, norm
            )
            assert worst <= bound
            if not counted:
                assert worst == bound

    @given(st.integers(2**40, 2**61), st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=4))
    def test_a_sum_that_is_too_wide_for_the_samplers_loses_its_last_digits(self, largest, values):
        privacy = laplace("0.001", neighbouring="add-remove")
        found = sum_noise((-largest, largest), len(values), privacy, Fraction(1, 1000), counted=False)
        assert found.scale <= LARGEST_SCALE
        exact = Fraction(largest) * 1000
        if found.divisor > 1:
            assert 2 * (Fraction(largest, found.divisor) + 1) * 1000 > LARGEST_SCALE * 0.999
        released = found.added(values, privacy, SeededNoise(3))
        assert all(one % found.divisor == 0 for one in released)
        spread = 60 * float(exact) + found.divisor
        assert all(abs(one - value) < spread for one, value in zip(released, values, strict=True))

    def test_counts_share_the_budget_with_their_sum(self):
        privacy = gaussian("0.5", neighbouring="replace-one")
        alone = sum_noise((-10, 10), 2, privacy, Fraction(1, 2), counted=False)
        both = sum_noise((-10, 10), 2, privacy, Fraction(1, 2), counted=True)
        assert both.scale == pytest.approx(alone.scale, rel=1e-9)  # max(20^2, 2 x 10^2) and 4 x 10^2
        assert both.counts_scale == pytest.approx(both.scale / 10, rel=1e-9)
        assert alone.counts_scale == 0


def worst_change(products, cells, most_records, relation, largest, norm):
    """The largest norm, or squared norm, of a change; counts are in units of ``largest``, if not 0."""
    kinds = list(product(range(cells), products))
    persons = set()
    for some in range(most_records + 1):
        for records_of_one in combinations_with_replacement(kinds, some):
            moved = [0] * (2 * cells)
            for cell, value in records_of_one:
                moved[cell] += value
                moved[cells + cell] += largest
            persons.add(tuple(moved))
    changes = np.array(sorted(persons))
    if relation == "replace-one":
        changes = (changes[:, None] - changes[None]).reshape(-1, 2 * cells)
    return int((np.abs(changes) ** norm).sum(axis=1).max())


class TestNames:
    def test_what_is_no_sum_is_refused(self):
        for of, by, present in (
            (("a", "b", "c"), (), ()),
            (("a",), ("a",), ()),
            (("a",), (), ("a",)),
            (("a",), ("b", "b"), ()),
            ((), ("b",), ()),
        ):
            with pytest.raises(InvalidInputError):
                Sum(of, by, present)

    def test_what_the_schema_has_no_numbers_for_is_refused(self):
        half = number("half", [1, 1], [1, 1], missing=False)
        derived = Attribute("older", half.coding, derivation=Derivation("cut", ("half",), ((0,), (1,))))
        coding = Coding(
            (half, Attribute("sex", Labels(("x", "y"))), Attribute("plain", Edges((0.0, 1.0))))
        )
        for one in (Sum(("sex",)), Sum(("plain",)), Sum(("half",), (), ("sex",))):
            with pytest.raises(InvalidCodingError):
                one.check(coding)
        with pytest.raises(UnknownAttributeError):
            Sum(("half",), ("unknown",)).check(coding)
        Sum(("half", "half"), ("sex", "plain")).check(coding)
        assert derived.derivation is not None

    def test_the_order_is_that_of_the_design(self):
        coding = Coding(tuple(number(name, [1, 1], [1, 1], missing=True) for name in "abc"))
        ordered = [
            Sum((), ("a",), ("b",)),
            Sum(("a",)),
            Sum(("a",), (), ("b",)),
            Sum(("a",), ("b",)),
            Sum(("a",), ("b", "c")),
            Sum(("b",)),
            Sum(("a", "a")),
            Sum(("a", "b")),
        ]
        shuffled = [ordered[place] for place in (5, 2, 7, 0, 3, 6, 1, 4)]
        assert sorted(shuffled, key=lambda one: one.place(coding.domain)) == ordered
        assert Sum(("b", "a"), ("c",)).in_order_of(coding.domain).of == ("a", "b")
        assert Sum(("a",), ("b",), ("c",)).population(coding) == ("a", "c")

    def test_ends_of_products(self):
        coding = Coding((number("a", [4], [1], missing=False), number("b", [3], [1], missing=False)))
        assert product_ends(coding, ("a",)) == (-1, 2)
        assert product_ends(coding, ("a", "a")) == (0, 4)
        assert product_ends(coding, ("a", "b")) == (-2, 2)
        assert product_ends(coding, ()) == (0, 1)
