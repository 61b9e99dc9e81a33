"""Records that came out in each run: the tests keep their level, and their power is what they say."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gencard.core.audit import uniques as module
from gencard.core.audit.exploration import welch
from gencard.core.audit.uniques import Presence, best_single, findable_alone, one_in, present
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain


class TestPresent:
    @given(st.integers(0, 1_000), st.booleans())
    def test_it_is_membership(self, seed, large):
        rng = np.random.default_rng(seed)
        domain = Domain.of({"a": 3, "b": 4, "c": 2})
        output = Dataset(domain, rng.integers(0, domain.sizes, size=(9, 3)))
        records = np.unique(rng.integers(0, domain.sizes, size=(6, 3)), axis=0)
        rows = {tuple(row) for row in output.codes.tolist()}
        before = module._LARGEST_TABLE
        module._LARGEST_TABLE = 0 if large else before
        try:
            seen = present(records, output)
        finally:
            module._LARGEST_TABLE = before
        assert seen.tolist() == [tuple(record) in rows for record in records.tolist()]

    def test_watched_outputs_are_handed_on(self):
        domain = Domain.of({"a": 2})
        outputs = [Dataset(domain, np.array([[0]])), Dataset(domain, np.array([[1]]))]
        watching = Presence(np.array([[1]]))
        assert list(watching.watched(outputs)) == outputs
        assert watching.table.tolist() == [[False], [True]]


class TestBestSingle:
    def test_one_record_alone_is_fisher_s_exact_test(self):
        own, other = (np.arange(8)[:, None] < number for number in (7, 2))
        theirs = stats.fisher_exact([[7, 1], [2, 6]], alternative="greater").pvalue
        assert best_single(own, other) == pytest.approx(theirs)

    @given(st.integers(0, 10_000))
    def test_it_is_never_below_the_smallest_p_value_nor_above_bonferroni_s(self, seed):
        rng = np.random.default_rng(seed)
        shares = rng.random(12)
        own, other = (rng.random((5, 12)) < shares for _ in range(2))
        tables = [
            [[a, 5 - a], [b, 5 - b]] for a, b in zip(own.sum(axis=0), other.sum(axis=0), strict=True)
        ]
        smallest = min(stats.fisher_exact(table, alternative="greater").pvalue for table in tables)
        p_value = best_single(own, other)
        assert smallest * (1 - 1e-9) <= p_value <= min(1, 12 * smallest) * (1 + 1e-9)

    def test_it_keeps_the_level_over_all_ways_to_divide_the_runs(self):
        """Exact: of all 70 divisions of eight runs at most a share p has a p-value of p or less."""
        runs = np.random.default_rng(3).random((8, 30)) < np.linspace(0.02, 0.9, 30)
        p_values = []
        for chosen in combinations(range(8), 4):
            mine = np.isin(np.arange(8), chosen)
            p_values.append(best_single(runs[mine], runs[~mine]))
        for bound in (0.03, 0.1, 0.3, 0.5):
            assert np.mean(np.array(p_values) <= bound) <= bound

    def test_records_that_never_come_out_cost_nothing(self):
        own, other = np.zeros((10, 500), dtype=bool), np.zeros((10, 500), dtype=bool)
        own[:, 7] = True
        assert best_single(own, other) == pytest.approx(1 / 184_756)
        assert best_single(own[:, :0], other[:, :0]) == 1

    def test_what_could_be_found_alone_is_what_is_found(self):
        rng = np.random.default_rng(0)
        own, other = (rng.random((6, 20)) < 0.05 for _ in range(2))
        by_hand = 0
        for record in range(20):
            always = own.copy()
            always[:, record] = True
            by_hand += best_single(always, other) <= 0.005
        assert findable_alone(own, other, 0.005) == by_hand


class TestOneIn:
    @pytest.mark.parametrize("background", [0.0, 0.2])
    def test_copying_one_in_so_many_is_found_in_80_percent(self, background):
        """140 records on each side; honest rows hit each with the probability ``background``."""
        rng, level, runs, planted = np.random.default_rng(1), 0.005, 10, 140

        def surplus(share):
            own = rng.random((runs, planted)) < background + (1 - background) * share
            other = rng.random((runs, planted)) < background
            return own.sum(axis=1) - other.sum(axis=1).astype(float)

        numbers = [
            one_in(welch(-surplus(0), surplus(0)), runs, planted * (1 - background), 2, level)
            for _ in range(50)
        ]
        share = 1 / float(np.median(numbers))
        found = np.mean([welch(-surplus(share), surplus(share)).p_value <= level for _ in range(400)])
        assert found > 0.7

    def test_where_nothing_could_be_found_it_says_so(self):
        noisy = welch(np.array([0.0, 100, -100, 50]), np.array([10.0, -90, 90, -50]))
        assert one_in(noisy, 4, 20.0, 2, 0.01) == 0
        assert one_in(noisy, 4, 0.0, 2, 0.01) == 0
