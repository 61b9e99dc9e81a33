"""Exact histograms and sums beside marginals: what records give agrees, and what is changed does not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.card.sums import Histogram, Sum
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import InvalidPsiError
from gencard.core.statistics.linear import UnitSums
from gencard.core.statistics.measure import measure
from gencard.core.statistics.numbers import NumberAgreement, check_numbers_agree
from gencard.core.statistics.psi import Psi
from tests.core.test_sums import columns_of, numbers_in, one_sum
from tests.core.tiny_domains import added_by, number, possible_records


@dataclass(frozen=True)
class Records:
    """Some records as a ``NumberSource``."""

    coding: Coding
    records: Sequence[dict]

    def count(self, cliques):
        codes, _ = columns_of(self.coding, self.records)
        sizes = [self.coding.domain.project(clique).sizes for clique in cliques]
        tables = [np.zeros(size, dtype=np.int64) for size in sizes]
        for clique, table in zip(cliques, tables, strict=True):
            np.add.at(table, tuple(codes[name] for name in clique), 1)
        return tables

    def summed(self, sums, histograms):
        adding = UnitSums(self.coding, sums, histograms)
        adding.add(*columns_of(self.coding, self.records))
        return adding


@st.composite
def measured(draw: st.DrawFn) -> tuple[Records, Psi]:
    from tests.core.test_sums import codings

    coding = draw(codings())
    records = draw(st.lists(st.sampled_from(possible_records(coding)), min_size=1, max_size=12))
    names = coding.domain.attributes
    sets = st.sets(st.sampled_from(names), min_size=1, max_size=3)
    cliques = [coding.domain.canonical(one) for one in draw(st.lists(sets, min_size=1, max_size=2))]
    sums = dict.fromkeys(draw(st.lists(one_sum(coding), max_size=4)))
    source = Records(coding, records)
    statistics = [*dict.fromkeys(cliques), *map(Histogram, numbers_in(coding)), *sums]
    return source, measure(source, statistics, coding.domain)


class TestRecords:
    @settings(max_examples=200)
    @given(measured())
    def test_numbers_of_records_agree(self, drawn):
        source, psi = drawn
        check_numbers_agree(psi, source.coding)

    @settings(max_examples=200)
    @given(measured())
    def test_records_of_a_population_are_those_of_brute_force(self, drawn):
        source, psi = drawn
        for one in psi.sums:
            counts = NumberAgreement(psi, source.coding).counts(one)
            assert counts is not None
            for place in np.ndindex(counts.shape):
                assert counts[place] == sum(added_by(one.sum, (), place, r) for r in source.records)

    @settings(max_examples=200)
    @given(measured(), st.data())
    def test_a_histogram_with_a_record_more_or_in_another_level_does_not(self, drawn, data):
        source, psi = drawn
        for place, one in enumerate(psi.histograms):
            cell = data.draw(st.integers(0, len(one.counts) - 1))
            counts = tuple(count + (at == cell) for at, count in enumerate(one.counts))
            with pytest.raises(InvalidPsiError):
                check_numbers_agree(with_histogram(psi, place, counts), source.coding)


def with_histogram(psi: Psi, place: int, counts: tuple[int, ...]) -> Psi:
    histograms = list(psi.histograms)
    histograms[place] = replace(histograms[place], counts=counts)
    return Psi(psi.domain, psi.measurements, psi.linear, tuple(histograms), psi.sums)


AGE = number("age", [2, 3, 2], [1, 2], missing=True)
SEX = Attribute("sex", Labels(("f", "m")))
WORK = Attribute("work", Labels(("a", "b"), missing=True))
CODING = Coding((AGE, SEX, WORK))
SUMS = (
    Sum((), ("sex",), ("age", "work")),
    Sum(("age",)),
    Sum(("age",), ("sex",)),
    Sum(("age",), ("sex",), ("work",)),
    Sum(("age",), ("sex", "work"), ("work",)),
    Sum(("age", "age")),
    Sum(("age", "age"), ("sex",)),
)


def of_card(cliques=(("age", "sex"), ("sex",)), sums=SUMS) -> Psi:
    rng = np.random.default_rng(2)
    possible = possible_records(CODING)
    records = [possible[place] for place in rng.integers(0, len(possible), 60)]
    return measure(Records(CODING, records), [*cliques, Histogram("age"), *sums], CODING.domain)


def changed(psi: Psi, place: int, **parts: tuple[int, ...]) -> Psi:
    sums = list(psi.sums)
    sums[place] = replace(sums[place], **parts)
    return Psi(psi.domain, psi.measurements, psi.linear, psi.histograms, tuple(sums))


class TestChanges:
    """One number of psi is another one: whoever holds psi sees it."""

    def test_the_histogram_refines_the_marginal(self):
        psi = of_card()
        low, high, *rest = psi.histograms[0].counts
        with pytest.raises(InvalidPsiError, match="levels of a marginal"):
            check_numbers_agree(with_histogram(psi, 0, (low - 1, high + 1, *rest)), CODING)
        inner = psi.histograms[0].counts
        moved = (inner[0], inner[1] - 1, inner[2] + 1, inner[3])
        check_numbers_agree(with_histogram(of_card(sums=()), 0, moved), CODING)  # inside a level
        with pytest.raises(InvalidPsiError, match="negative"):
            check_numbers_agree(with_histogram(psi, 0, (-1, high + low + 1, *rest)), CODING)

    @pytest.mark.parametrize("place", range(len(SUMS)))
    def test_sums_agree_with_each_other_and_with_marginals(self, place):
        psi = of_card()
        values = psi.sums[place].values
        with pytest.raises(InvalidPsiError):
            check_numbers_agree(changed(psi, place, values=(values[0] + 1, *values[1:])), CODING)

    def test_counts_of_a_population_are_one_table(self):
        psi = of_card()
        (by_sex,) = (place for place, one in enumerate(psi.sums) if len(one.sum.by) == 2)
        counts = psi.sums[by_sex].counts
        assert counts
        for other in ((counts[0] + 1, *counts[1:]), (-1, *counts[1:]), (999, *counts[1:])):
            with pytest.raises(InvalidPsiError):
                check_numbers_agree(changed(psi, by_sex, counts=other), CODING)
        missing = (*counts[:2], counts[2] + 1, *counts[3:])
        with pytest.raises(InvalidPsiError):
            check_numbers_agree(changed(psi, by_sex, counts=missing), CODING)

    def test_a_sum_alone_is_within_its_levels_and_cells(self):
        for cliques in ((("sex",),), (("age", "sex"),)):
            psi = of_card(cliques, (Sum(("age",)),))
            for value in (10**6, -(10**6)):
                with pytest.raises(InvalidPsiError, match="range"):
                    check_numbers_agree(changed(psi, 0, values=(value,)), CODING)
        psi = of_card((("age", "sex"),), (Sum(("age",), ("sex",)),))
        men, women = psi.sums[0].values
        with pytest.raises(InvalidPsiError, match="range"):
            check_numbers_agree(changed(psi, 0, values=(men + 200, women - 200)), CODING)

    def test_squares_are_at_least_what_the_mean_says(self):
        sums = (Sum(("age",), ("sex",)), Sum(("age", "age"), ("sex",)))
        psi = of_card((("age", "sex"),), sums)
        with pytest.raises(InvalidPsiError, match="mean"):
            check_numbers_agree(changed(psi, 1, values=(0, psi.sums[1].values[1])), CODING)

    def test_a_source_whose_numbers_contradict_its_counts_is_refused(self):
        possible = possible_records(CODING)

        class Other(Records):
            def summed(self, sums, histograms):
                return Records(self.coding, self.records[1:]).summed(sums, histograms)

        with pytest.raises(InvalidPsiError):
            measure(Other(CODING, possible), [("sex",), Histogram("age")], CODING.domain)
