"""Sums and histograms of records, their price, and what a person moves, beside brute force."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import bench, number_prices
from gencard.core.card.privacy import gaussian, laplace
from gencard.core.card.sums import Sum, product_ends
from gencard.core.coding import Attribute, Coding, Derivation, Edges, Labels
from gencard.core.errors import InvalidCodingError, InvalidInputError, UnknownAttributeError
from gencard.core.scale import Scale
from gencard.core.statistics.linear import UnitSums, fine_cells
from gencard.core.statistics.marginals import dimension, rank
from gencard.core.statistics.noise import LARGEST_SCALE, sum_noise, sum_sensitivity
from gencard.core.types import IntArray
from tests.core.seeded_noise import SeededNoise
from tests.core.tiny_domains import (
    added_by,
    functions_of,
    largest_change,
    number,
    one_holds_two,
    possible_records,
    rank_of,
)

RELATIONS = ("add-remove", "replace-one")


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


class TestEveryTinyDomain:
    """Prices and changes by brute force on each domain of a benchmark, in its small part."""

    def test_no_price_is_below_the_rank_and_no_change_above_the_sensitivity(self):
        result = number_prices.run(quick=True)
        bench.show(result.tables)
        assert all(target.met for target in result.targets)
        (_, *features) = result.figures["cards"]
        assert all(number > 10 for _, number in features), features

    @pytest.mark.parametrize(
        ("name", "less"),
        [
            ("rank", lambda *card: rank(*card) - 1),
            ("sum_sensitivity", lambda *how, counted: sum_sensitivity(*how, counted=counted) / 2),
        ],
    )
    def test_one_less_would_be_noticed(self, monkeypatch, name, less):
        monkeypatch.setattr(number_prices, name, less)
        coding = Coding((number("a", [1, 2], [1, 1], missing=True), Attribute("b", Labels(("x", "y")))))
        assert any(one.over for one in number_prices.compared(coding, quick=True))


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
                sum(added_by(one, one.of, place, r) for r in some) for place in places
            ]
            assert list(cells.counts) == [
                sum(added_by(one, (), place, r) for r in some) for place in places
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
            bound = sum_sensitivity(ends, cells, privacy, counted=counted)
            moved = units_and_counts(products, cells, largest if counted else 0)
            worst = largest_change(moved, most_records, replaced=relation == "replace-one", norm=norm)
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


def units_and_counts(products: tuple[int, ...], cells: int, largest: int) -> IntArray:
    """Return what each record adds to the cells' sums, then to their counts, in units of ``largest``."""
    kinds = list(product(range(cells), products))
    sums = [[value * (cell == own) for own, value in kinds] for cell in range(cells)]
    return np.array(sums + [[largest * (cell == own) for own, _ in kinds] for cell in range(cells)])


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
