"""Each measure of table utility against its definition, record by record, and its laws."""

from math import log2, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.measures.utility.table_utility import table_utilities, table_utility

counts = st.integers(0, 12)
tables = st.lists(st.tuples(counts, counts), min_size=1, max_size=8).filter(
    lambda cells: all(map(any, zip(*cells, strict=True)))
)

REPEATED = ("S_VW", "S_FT", "S_JSD", "S_WMabsDD", "S_G")


def arrays(cells):
    original, synthetic = (np.array(column) for column in zip(*cells, strict=True))
    return original, synthetic


def scores(cells):
    """Return the synthetic share of its cell for each original and for each synthetic record."""
    each = [(ours, theirs, theirs / (ours + theirs)) for ours, theirs in cells if ours + theirs]
    return (
        [score for ours, _, score in each for _ in range(ours)],
        [score for _, theirs, score in each for _ in range(theirs)],
    )


class TestScores:
    @given(tables)
    def test_pairs_one_by_one(self, cells):
        ours, theirs = scores(cells)
        wins = sum((high > low) + (high == low) / 2 for high in theirs for low in ours)
        found = table_utility(*arrays(cells)).mann_whitney
        assert found == wins == stats.mannwhitneyu(theirs, ours).statistic
        assert found >= len(ours) * len(theirs) / 2

    @given(tables)
    def test_total_variation_is_the_distance_of_the_scores(self, cells):
        distance = stats.ks_2samp(*scores(cells)).statistic
        assert table_utility(*arrays(cells)).total_variation == pytest.approx(distance, abs=1e-12)

    @given(tables)
    def test_guesses_record_by_record(self, cells):
        """The guess is "synthetic" where the cell holds more of the synthetic share."""
        original, synthetic = arrays(cells)
        right = sum(
            theirs if theirs * original.sum() > ours * synthetic.sum() else ours
            for ours, theirs in cells
        )
        found = table_utility(original, synthetic).over_half_right
        assert found == pytest.approx(right / (original.sum() + synthetic.sum()) - 0.5)

    @given(st.permutations([0, 1, 2, 3, 4, 5]), st.permutations([1, 2, 3, 0, 0, 7]))
    def test_guesses_at_equal_sizes_are_half_of_total_variation(self, ours, theirs):
        original, synthetic = np.array(ours) * 13, np.array(theirs) * 15
        found = table_utility(original, synthetic)
        assert original.sum() == synthetic.sum()
        assert found.over_half_right == pytest.approx(found.total_variation / 2)


class TestShares:
    @given(tables)
    def test_the_definitions_cell_by_cell(self, cells):
        original, synthetic = arrays(cells)
        shares = list(zip(original / original.sum(), synthetic / synthetic.sum(), strict=True))
        divergence = sum(
            part * log2(2 * part / (p + q)) / 2 for p, q in shares for part in (p, q) if part
        )
        overlap = sum(sqrt(p * q) for p, q in shares)
        found = table_utility(original, synthetic)
        assert found.jensen_shannon == pytest.approx(divergence, abs=1e-12)
        assert found.bhattacharyya**2 == pytest.approx(1 - overlap, abs=1e-12)
        assert found.total_variation == pytest.approx(sum(max(p - q, 0) for p, q in shares), abs=1e-12)

    @given(tables)
    def test_either_table_may_come_first(self, cells):
        original, synthetic = arrays(cells)
        one, other = table_utility(original, synthetic), table_utility(synthetic, original)
        for distance in ("total_variation", "jensen_shannon", "bhattacharyya"):
            assert getattr(one, distance) == pytest.approx(getattr(other, distance), abs=1e-12)

    @given(tables)
    def test_they_bound_each_other(self, cells):
        """Hellinger's distance squared <= total variation <= root two times it; JSD <= TV (Lin 1991)."""
        found = table_utility(*arrays(cells))
        assert found.bhattacharyya**2 <= found.total_variation + 1e-12
        assert found.total_variation <= sqrt(2) * found.bhattacharyya + 1e-12
        assert found.jensen_shannon <= found.total_variation + 1e-12

    @given(st.integers(1, 30), st.integers(1, 30))
    def test_nothing_in_common_is_one(self, ours, theirs):
        found = table_utility(np.array([ours, 0]), np.array([0, theirs]))
        distances = (found.total_variation, found.jensen_shannon, found.bhattacharyya)
        assert distances == pytest.approx((1, 1, 1))
        assert (found.likelihood_ratio, found.likelihood_freedom) == (None, 0)
        assert found.named["G"] is None
        assert found.named["S_G"] is None


class TestStatistics:
    @given(tables)
    def test_the_definitions_cell_by_cell(self, cells):
        original, synthetic = arrays(cells)
        ratio = synthetic.sum() / original.sum()
        share = synthetic.sum() / (original.sum() + synthetic.sum())
        held = [(ours, theirs) for ours, theirs in cells if ours + theirs]
        roots = sum((sqrt(theirs) - sqrt(ratio * ours)) ** 2 for ours, theirs in held)
        absolute = sum(
            abs(theirs - ratio * ours) / sqrt((ours + theirs) * share) for ours, theirs in held
        )
        found = table_utility(original, synthetic)
        assert found.freeman_tukey == pytest.approx(4 * roots, abs=1e-9)
        assert found.weighted_differences == pytest.approx(absolute / sqrt(2 / np.pi), abs=1e-9)

    @given(tables)
    def test_the_likelihood_ratio_is_pearsons_relative(self, cells):
        """Twice the synthetic records times the divergence of the shares in the cells that both hold."""
        original, synthetic = arrays([cell for cell in cells if all(cell)] or [(1, 1)])
        divergence = stats.entropy(synthetic, original)
        found = table_utility(*arrays(cells))
        assert found.likelihood_freedom == max(len(original) - 1, 0)
        if found.likelihood_freedom or not found.freedom:
            assert found.likelihood_ratio == pytest.approx(2 * synthetic.sum() * divergence, abs=1e-9)
        else:
            assert found.likelihood_ratio is None

    @given(tables)
    def test_freeman_tukey_is_the_bhattacharyya_distance_squared(self, cells):
        original, synthetic = arrays(cells)
        found = table_utility(original, synthetic)
        squared = 8 * synthetic.sum() * found.bhattacharyya**2
        assert found.freeman_tukey == pytest.approx(squared, abs=1e-9)

    @given(tables, st.integers(2, 9))
    def test_equal_shares_differ_by_nothing(self, cells, times):
        original, _ = arrays(cells)
        found = table_utility(original, original * times).named
        pairs = times * original.sum() ** 2 / 2
        assert found.pop("U") == pytest.approx(pairs)
        assert found.pop("PO50") == pytest.approx(50 - 100 * times / (1 + times))
        if np.count_nonzero(original) > 1:
            assert all(value == pytest.approx(0, abs=1e-6) for value in found.values())
        else:
            undefined = {name for name, value in found.items() if value is None}
            assert undefined == {name for name in found if name.startswith("S_")}

    @pytest.mark.parametrize("drawn", [4_000, 10_000, 30_000])
    def test_resampling_the_original_is_one_whatever_the_sizes(self, drawn):
        """Means of 400 tables of 20 cells, whose standard error is about 0.02."""
        rng = np.random.default_rng(2)
        original = rng.multinomial(10_000, rng.dirichlet(np.full(20, 5.0)))
        again = rng.multinomial(drawn, original / 10_000, size=400)
        each = [table_utility(original, counts).named for counts in again]
        for name in REPEATED:
            expected = 19.5 / 19 if name == "S_WMabsDD" else 1
            assert np.mean([named[name] for named in each]) == pytest.approx(expected, abs=0.06), name


class TestHardTables:
    def test_one_cell_holds_all(self):
        found = table_utility(np.array([3, 0]), np.array([5, 0])).named
        assert all(found[name] == 0 for name in ("VW", "FT", "G", "JSD", "dBhatt", "SPECKS"))
        assert all(value is None for name, value in found.items() if name.startswith("S_"))

    def test_counts_beyond_32_bits(self):
        found = table_utility(np.array([2**40, 2**41]), np.array([2**41, 2**40]))
        assert found.total_variation == pytest.approx(1 / 3)
        assert found.voas_williamson == pytest.approx(2**42 / 3)

    def test_six_hundred_levels(self):
        domain = Domain.of({"wide": 600, "constant": 1})
        codes = np.column_stack([np.arange(600), np.zeros(600, dtype=int)])
        found = table_utilities(Dataset(domain, codes), Dataset(domain, codes[:300]), 2)
        assert found["wide", "constant"].total_variation == pytest.approx(0.5)
        assert found["wide", "constant"].freedom == 599
