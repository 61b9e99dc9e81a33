"""Conditional inference trees against permutations, matrices, R's party, and what chance alone does."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.utility.propensity.conditional_tree import (
    ConditionalTreeSettings,
    _levels,
    conditional_tree_scores,
)
from gencard.core.utility.propensity.propensity import tree_pmse, tree_propensity
from gencard.core.utility.propensity.propensity_cells import cells_of

DOMAIN = Domain.of({"a": 2, "b": 5, "c": 9, "n": 60})
VALUES = {"n": tuple(map(float, range(60)))}
USUAL = ConditionalTreeSettings(leaf=7, node=20, confidence=0.95)


class TestTheTest:
    @given(st.integers(0, 999), st.booleans())
    @settings(max_examples=60)
    def test_is_the_quadratic_form(self, seed, numeric):
        """E and covariance written out, the pseudo-inverse and its rank."""
        codes, synthetic = drawn(seed, 40, 4)
        values = (1.0, 2.5, -3.0, 10.0)
        levels = np.unique(codes)
        g = np.array(values)[codes][:, None] if numeric else np.equal.outer(codes, levels) * 1.0
        excess, covariance = moments(g, synthetic)
        inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
        statistic = excess @ inverse @ excess
        confidence = chi2.cdf(statistic, np.linalg.matrix_rank(covariance, tol=1e-9))
        found = node(codes, synthetic, values if numeric else None).test()
        assert found == pytest.approx((confidence, statistic), abs=1e-8)

    @pytest.mark.parametrize(("values", "freedom"), [(None, 2), ((0.0, 1.0, 5.0), 1)])
    def test_is_its_freedom_on_average_over_all_permutations(self, values, freedom):
        codes = np.array([0, 0, 0, 1, 1, 2, 2, 2])
        statistics = [
            node(codes, np.isin(np.arange(8), chosen), values).test()[1]
            for chosen in combinations(range(8), 3)
        ]
        assert np.mean(statistics) == pytest.approx(freedom)

    @given(st.integers(0, 999), st.integers(2, 8))
    @settings(max_examples=60)
    def test_a_number_is_cut_where_the_sides_differ_most(self, seed, leaf):
        codes, synthetic = drawn(seed, 40, 12)
        strengths = {
            tuple(np.unique(codes[codes <= last])): strength(codes <= last, synthetic)
            for last in np.unique(codes)
            if min((codes <= last).sum(), (codes > last).sum()) >= leaf
        }
        cut = node(codes, synthetic, tuple(range(12))).cut(ConditionalTreeSettings(leaf=leaf))
        best = max(strengths.values(), default=0.0)
        if best < 1e-12:
            assert cut is None
        else:
            assert strengths[tuple(cut)] == pytest.approx(best)

    @given(st.integers(0, 999))
    @settings(max_examples=60)
    def test_levels_are_cut_in_the_order_of_their_statistics(self, seed):
        codes, synthetic = drawn(seed, 60, 6)
        cut = node(codes, synthetic).cut(ConditionalTreeSettings(leaf=1))
        standing = {level: standardised(codes == level, synthetic) for level in np.unique(codes)}
        order = sorted(standing, key=standing.__getitem__)
        best = max(strength(np.isin(codes, order[:k]), synthetic) for k in range(1, len(order)))
        if len({round(each, 9) for each in standing.values()}) == len(standing) and best > 1e-12:
            assert strength(np.isin(codes, cut), synthetic) == pytest.approx(best)


class TestParty:
    """What ``ctree`` makes of these records, in R."""

    @pytest.mark.parametrize(
        ("tree", "pmse"),
        [
            (USUAL, 0.0208737467522564),
            (ConditionalTreeSettings(leaf=20, node=60, confidence=0.5), 0.0228565818388552),
            (ConditionalTreeSettings(leaf=40, node=80), 0.0346421736122868),
        ],
    )
    def test_says_the_same(self, tree, pmse):
        """Five leaves, six, and nineteen."""
        assert tree_pmse(*survey(), VALUES, settings=tree) == pytest.approx(pmse, rel=1e-12)


class TestTree:
    def test_a_sharp_attribute_with_too_few_records_gives_way(self):
        """Four records of a second level, all synthetic; the weaker attribute can be cut."""
        rare = np.array([1] * 4 + [0] * 96)
        weak = np.array([0] * 27 + [1] * 23 + [0] * 23 + [1] * 27)
        synthetic = np.arange(100) < 50
        assert strength(rare == 1, synthetic) > strength(weak == 1, synthetic)
        found = scores_of(np.column_stack([rare, weak]), synthetic, ConditionalTreeSettings(leaf=30))
        assert set(found) == {27 / 50, 23 / 50}

    def test_but_a_third_attribute_is_not_tried(self):
        rare = np.array([1] * 4 + [0] * 96)
        weak = np.array([0] * 27 + [1] * 23 + [0] * 23 + [1] * 27)
        synthetic = np.arange(100) < 50
        codes = np.column_stack([rare, rare, weak])
        assert set(scores_of(codes, synthetic, ConditionalTreeSettings(leaf=30))) == {0.5}

    def test_leaves_hold_one_record_more_than_a_hundredth(self):
        """Five of 500 do not do, six do."""
        synthetic = np.arange(500) < 250
        for records, leaves in ((5, 1), (6, 2)):
            rare = np.where(np.arange(500) < records, 1, 0)[:, None]
            assert len(set(scores_of(rare, synthetic, ConditionalTreeSettings(leaf=1)))) == leaves

    def test_nodes_and_leaves_hold_enough_records(self):
        one, other = survey()
        cells = cells_of(one, other, VALUES)
        tree = ConditionalTreeSettings(leaf=15, node=100)
        scores = conditional_tree_scores(cells, cells.synthetic_counts(), tree)
        records = np.bincount(np.unique(scores, return_inverse=True)[1], cells.totals)
        assert records.min() >= 15
        too_small = ConditionalTreeSettings(node=1001)
        assert tree_pmse(one, other, VALUES, settings=too_small) == 0

    @given(st.integers(0, 99))
    @settings(max_examples=15)
    def test_order_of_records_names_of_levels_and_units_say_nothing(self, seed):
        random = np.random.default_rng(seed)
        pair = [Dataset(DOMAIN, random.integers(DOMAIN.sizes, size=(150, 4))) for _ in range(2)]
        turned = [
            Dataset(DOMAIN, (each.codes[::-1] + np.array([1, 2, 4, 0])) % DOMAIN.sizes) for each in pair
        ]
        scaled = {"n": tuple(1e-300 * value for value in VALUES["n"])}
        tree = ConditionalTreeSettings(leaf=20)
        found, same = (
            tree_pmse(*each, values, settings=tree)
            for each, values in ((pair, VALUES), (turned, scaled))
        )
        assert found == pytest.approx(same)

    def test_a_missing_number_is_one_more_attribute(self):
        domain = Domain.of({"n": 2})
        original, synthetic = (
            Dataset(domain, np.repeat([0, 1], counts)[:, None]) for counts in ((30, 10), (10, 30))
        )
        found = tree_pmse(original, synthetic, {"n": (0.0, np.nan)}, settings=USUAL)
        assert found == pytest.approx(1 / 16)

    def test_the_same_records_cannot_be_told_apart(self):
        one, _ = survey()
        assert tree_pmse(one, one, VALUES, settings=ConditionalTreeSettings()) == 0


class TestCalibration:
    def test_a_test_errs_as_often_as_it_says(self):
        """300 pairs of samples of one population, at 0.95, adjusted for four attributes."""
        splits = sum(tree_pmse(*samples(seed, 150), VALUES, settings=USUAL) > 0 for seed in range(300))
        assert binom.ppf(0.0005, 300, 0.05) <= splits <= binom.ppf(0.9995, 300, 0.05)

    def test_another_sample_of_the_same_people_is_two(self):
        found = [
            tree_propensity(
                *samples(seed, 150),
                VALUES,
                rng=np.random.default_rng(seed),
                settings=ConditionalTreeSettings(),
                permutations=4,
            ).standardised
            for seed in range(20)
        ]
        assert np.mean(found) == pytest.approx(2, abs=0.25)


def survey():
    """1,000 records of either kind, some of whose attributes tell which."""
    random = np.random.default_rng(7)
    codes = random.integers(DOMAIN.sizes, size=(1000, 4))
    a, b, c, n = codes.T
    synthetic = random.random(1000) < 0.3 + 0.3 * (b % 3 == 0) * a - 0.2 * (c > 6) + 0.003 * n
    return Dataset(DOMAIN, codes[~synthetic]), Dataset(DOMAIN, codes[synthetic])


def samples(seed, records):
    random = np.random.default_rng(seed)
    return [Dataset(DOMAIN, random.integers(DOMAIN.sizes, size=(records, 4))) for _ in range(2)]


def drawn(seed, records, size):
    """Levels of one attribute, and which records are synthetic; both kinds and two levels occur."""
    random = np.random.default_rng(seed)
    codes = random.integers(size, size=records)
    synthetic = random.random(records) < 0.2 + 0.5 * codes / size
    codes[:2], synthetic[:2] = (0, 1), (True, False)
    return np.unique(codes, return_inverse=True)[1].reshape(-1), synthetic


def cells_of_codes(codes, synthetic, values=None):
    domain = Domain.of({f"x{axis}": int(column.max()) + 1 for axis, column in enumerate(codes.T)})
    parts = [Dataset(domain, codes[synthetic == kind]) for kind in (False, True)]
    return cells_of(*parts, {"x0": values[: domain.sizes[0]]} if values else {})


def node(codes, synthetic, values=None):
    """All records as one node, by one attribute."""
    cells = cells_of_codes(codes[:, None], synthetic, tuple(map(float, values)) if values else None)
    places = np.arange(len(cells.totals))
    return _levels(cells.columns[0], places, (cells.totals, cells.synthetic_counts()))


def scores_of(codes, synthetic, tree):
    cells = cells_of_codes(codes, synthetic)
    return conditional_tree_scores(cells, cells.synthetic_counts(), tree)


def moments(g, synthetic):
    """T - E, and the covariance, from the definitions; g has shape (records, dimensions)."""
    records, mean = len(g), synthetic.mean()
    total = g.sum(axis=0)
    factor = mean * (1 - mean) / (records - 1)
    covariance = factor * (records * g.T @ g - np.outer(total, total))
    return g.T @ synthetic - mean * total, covariance


def standardised(side, synthetic):
    excess, covariance = moments(side[:, None] * 1.0, synthetic)
    return float(excess[0] / np.sqrt(covariance[0, 0])) if covariance[0, 0] > 0 else 0.0


def strength(side, synthetic):
    return abs(standardised(side, synthetic))
