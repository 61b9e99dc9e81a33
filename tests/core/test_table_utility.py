"""Table utility against R's synthpop, another program, and its own laws."""

import json
from itertools import combinations
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError, TooLargeError
from gencard.core.statistics.marginals import count
from gencard.measures.utility.table_utility import expected_jensen_shannon, table_utility
from tests.core.mixed import mean_table_utility
from tests.core.oracles import coded
from tests.core.strategies import datasets
from tests.shared_data import oracle_file

tables = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=12).filter(
    lambda cells: all(map(any, zip(*cells, strict=True)))
)


def synthpop_factor(found):
    """Return S_JSD of synthpop over ours: (n1 + n2) / (4 ln(2)**2 n2), for any two sizes."""
    return 1 / (4 * log(2) ** 2 * found.synthetic_share)


def check_against_synthpop(found, case):
    """All that it prints, S_JSD by its own constant."""
    assert (found.freedom, found.likelihood_freedom) == (case["df"], case["dfG"])
    names = case.keys() - {"vars", "df", "dfG", "nempty"}
    assert names == found.named.keys()
    theirs = {**found.named, "S_JSD": found.named["S_JSD"] * synthpop_factor(found)}
    for name in names:
        assert theirs[name] == pytest.approx(case[name], rel=1e-9, abs=1e-9), name


@pytest.mark.shared
@pytest.mark.parametrize("width", ["oneway", "twoway", "threeway"])
def test_synthpop_says_the_same(width):
    """Tables of 300 records on 4 attributes."""
    cases = json.loads(oracle_file("synthpop/pairA_300x4.json").read_text())[f"utility_{width}"]
    original, synthetic = coded("synthpop/pairA_300x4_orig.csv", "synthpop/pairA_300x4_syn.csv")
    for case in cases:
        clique = tuple(case["vars"])
        check_against_synthpop(table_utility(count(original, clique), count(synthetic, clique)), case)
    mean = np.mean([case["S_pMSE"] for case in cases])
    attributes = len(cases[0]["vars"])
    assert mean_table_utility(original, synthetic, attributes) == pytest.approx(mean, rel=1e-12)


@pytest.mark.shared
def test_missing_values_are_a_level():
    """1,000 records; only the attributes that are categories in the file."""
    oracle = json.loads(oracle_file("synthpop/pairD_mixed.json").read_text())
    cases = oracle["utility_oneway_syn1"] + oracle["utility_twoway_syn1"]
    original, synthetic = coded("synthpop/pairD_mixed_orig.csv", "synthpop/pairD_mixed_syn1.csv")
    cases = [case for case in cases if not {"age", "income"} & set(case["vars"])]
    assert len(cases) == 10
    for case in cases:
        clique = tuple(case["vars"])
        check_against_synthpop(table_utility(count(original, clique), count(synthetic, clique)), case)


@pytest.mark.shared
def test_sizes_may_differ():
    """Census income: the first so many records beside as many, and beside 5,000."""
    oracle = json.loads(oracle_file("metrics/utility_tables_adult.json").read_text())["tables"]
    train, holdout, synthetic = coded(
        *(f"metrics/adult_clearbox_{part}.csv" for part in ("train", "holdout", "synthetic"))
    )
    sizes = {(case["n_orig"], case["n_syn"]) for case in oracle}
    assert sizes == {(32_561, 32_561), (16_281, 16_281), (32_561, 5_000)}
    for case in oracle:
        other = holdout if "holdout" in case["kind"] else synthetic
        clique = tuple(case["vars"])
        ours = count(train.take(np.arange(case["n_orig"])), clique)
        theirs = count(other.take(np.arange(case["n_syn"])), clique)
        found = table_utility(ours, theirs)
        assert found.freedom == case["df"] == case["cells_nonempty"] - 1
        for name in ("VW", "pMSE", "S_pMSE", "FT", "S_FT", "SPECKS", "PO50", "MabsDD", "dBhatt"):
            assert found.named[name] == pytest.approx(case[name], rel=1e-9)
        assert found.jensen_shannon == pytest.approx(case["JSD_bits"], rel=1e-9)
        assert found.total_variation == pytest.approx(case["tvd"], rel=1e-9)


class TestLaws:
    @given(tables)
    def test_the_definition_record_by_record(self, cells):
        """pMSE is the mean square of (share of synthetic records in my cell) - (share in all)."""
        original, synthetic = (np.array(counts) for counts in zip(*cells, strict=True))
        records, share = (original + synthetic).sum(), synthetic.sum() / (original + synthetic).sum()
        squares = sum(
            (ours + theirs) * (theirs / (ours + theirs) - share) ** 2
            for ours, theirs in cells
            if ours + theirs
        )
        assert table_utility(original, synthetic).pmse == pytest.approx(squares / records, abs=1e-12)

    @given(tables, st.integers(2, 9))
    def test_equal_shares_differ_by_nothing(self, cells, times):
        original = np.array([ours for ours, _ in cells])
        assert table_utility(original, original * times).voas_williamson == pytest.approx(0, abs=1e-9)

    @given(tables, st.integers(0, 5))
    def test_cells_that_nobody_is_in_say_nothing(self, cells, more):
        original, synthetic = (np.array(counts) for counts in zip(*cells, strict=True))
        padded = (np.pad(counts, (0, more)) for counts in (original, synthetic))
        assert table_utility(*padded) == table_utility(original, synthetic)

    def test_resampling_the_original_is_one_and_another_sample_two(self):
        """At equal sizes; means of 400 tables of 20 cells, so the standard error is about 0.02."""
        rng = np.random.default_rng(1)
        shares = rng.dirichlet(np.full(20, 5.0))
        original = rng.multinomial(10_000, shares)
        again = rng.multinomial(10_000, original / 10_000, size=400)
        others = rng.multinomial(10_000, shares, size=(2, 400))
        resampled = [table_utility(original, drawn).standardised for drawn in again]
        sampled = [table_utility(*pair).standardised for pair in zip(*others, strict=True)]
        assert np.mean(resampled) == pytest.approx(1, abs=0.1)
        assert np.mean(sampled) == pytest.approx(2, abs=0.2)

    @given(datasets(Domain.of({"a": 2, "b": 3, "c": 2}), fewest=1))
    def test_the_mean_is_over_all_tables_of_so_many_attributes(self, dataset):
        other = Dataset(dataset.domain, dataset.codes[:, ::-1] % np.array([2, 3, 2]))
        each = [
            table_utility(count(dataset, pair), count(other, pair)).standardised
            for pair in combinations("abc", 2)
        ]
        known = [value for value in each if value is not None]
        expected = pytest.approx(np.mean(known)) if known else None
        assert mean_table_utility(dataset, other, 2) == expected

    def test_one_cell_holds_all(self):
        assert table_utility(np.array([3, 0]), np.array([5, 0])).standardised is None


class TestBadInput:
    def test_shapes_must_agree(self):
        with pytest.raises(DomainMismatchError):
            table_utility(np.ones((2, 3), dtype=int), np.ones((3, 2), dtype=int))

    @pytest.mark.parametrize("empty", [0, 1])
    def test_both_tables_need_records(self, empty):
        counts = [np.ones(2, dtype=int), np.ones(2, dtype=int)]
        counts[empty] = np.zeros(2, dtype=int)
        with pytest.raises(InvalidInputError, match="no record"):
            table_utility(*counts)

    @pytest.mark.parametrize("width", [-1, 0, 3])
    def test_widths_need_tables(self, width):
        dataset = Dataset(Domain.of({"a": 2, "b": 2}), np.array([[0, 1]]))
        with pytest.raises(InvalidNumberError, match="width"):
            mean_table_utility(dataset, dataset, width)

    def test_tables_have_a_bound(self):
        """All triples of 200 attributes would take hours."""
        domain = Domain.of({f"a{axis}": 2 for axis in range(200)})
        dataset = Dataset(domain, np.zeros((1, 200), dtype=int))
        with pytest.raises(TooLargeError, match="number of tables"):
            mean_table_utility(dataset, dataset, 3)

    def test_domains_must_agree(self):
        one, other = (Dataset(Domain.of({"a": size}), np.array([[0]])) for size in (2, 3))
        with pytest.raises(DomainMismatchError):
            mean_table_utility(one, other, 1)


class TestStandardisedJensenShannon:
    """At any two sizes; a4e800e gave the constant for equal ones only."""

    SHARES = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])

    @pytest.mark.parametrize(("first", "second"), [(1_000, 800), (800, 1_000), (4_000, 500)])
    def test_resamples_of_the_records_have_the_expected_value(self, first, second):
        """The mean S_JSD of 4,000 resamples is 1 within four standard errors and the next term."""
        rng = np.random.default_rng(first)
        original = np.rint(first * self.SHARES).astype(int)
        drawn = rng.multinomial(second, self.SHARES, size=4_000)
        utilities = [table_utility(original, table) for table in drawn]
        found = np.array([utility.named["S_JSD"] for utility in utilities])
        next_term = np.sum(1 / self.SHARES) / second
        assert abs(found.mean() - 1) <= 4 * found.std() / np.sqrt(len(found)) + next_term / 8
        jsd = np.mean([utility.jensen_shannon for utility in utilities])
        assert jsd == pytest.approx(found.mean() * 7 / (8 * log(2) * second), rel=1e-9)

    @pytest.mark.parametrize(("first", "second"), [(1_000, 800), (500, 4_000)])
    def test_two_samples_of_one_population_add_their_variances(self, first, second):
        rng = np.random.default_rng(second)
        tables = [rng.multinomial(size, self.SHARES, size=4_000) for size in (first, second)]
        pairs = zip(*tables, strict=True)
        found = np.array([table_utility(one, other).jensen_shannon for one, other in pairs])
        expected = expected_jensen_shannon(7, second, first)
        next_term = np.sum(1 / self.SHARES) * (1 / first + 1 / second)
        margin = 4 * found.std() / np.sqrt(len(found)) / expected + next_term / 8
        assert abs(found.mean() / expected - 1) <= margin

    @pytest.mark.parametrize(
        ("first", "second", "factor"),
        [(1_000, 1_000, 1.0407), (1_000, 800, 1.1708), (800, 1_000, 0.9366)],
    )
    def test_the_constant_of_synthpop_is_off_by_what_is_said(self, first, second, factor):
        found = table_utility(first * self.SHARES, np.roll(second * self.SHARES, 1))
        theirs = found.jensen_shannon * 2 * (first + second) / (found.freedom * log(2))
        assert theirs / found.named["S_JSD"] == pytest.approx(factor, abs=1e-4)
        assert synthpop_factor(found) == pytest.approx(factor, abs=1e-4)
