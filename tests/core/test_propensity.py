"""Propensity scores against R's synthpop, tables, brute force, and what is expected by chance."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, mannwhitneyu

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidInputError,
    InvalidNumberError,
    TooLargeError,
    UnknownAttributeError,
)
from gencard.core.statistics.marginals import count
from gencard.measures.utility import propensity as propensity_regression
from gencard.measures.utility.prediction import cells_of
from gencard.measures.utility.propensity import (
    TreeSettings,
    _Tree,
    regression_propensity,
    tree_propensity,
    tree_scores,
)
from gencard.measures.utility.table_utility import score_ranks, table_utility
from tests.core.oracles import read
from tests.core.strategies import datasets
from tests.shared_data import oracle_file

NUMBERS = ("age", "income")
SYNTHESES = tuple(f"syn{number}" for number in range(1, 6))
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
LEAVES = {5: TreeSettings(), 20: TreeSettings(leaf=20)}


def named(found):
    """Every measure under its name in synthpop; PO50 is in per cent."""
    return {
        "pMSE": found.pmse,
        "S_pMSE": found.standardised,
        "SPECKS": found.specks,
        "PO50": 100 * found.over_half_right,
        "U": found.mann_whitney,
    }


def tree_pmse(original, synthetic, values):
    cells = cells_of(original, synthetic, values)
    return cells.pmse(tree_scores(cells, cells.synthetic_counts(), TreeSettings()))


def rng():
    return np.random.default_rng(1)


def survey(*syntheses):
    """1,000 records, as many synthetic ones each time, of six attributes; two of them are numbers."""
    files = [read(f"synthpop/pairD_mixed_{part}.csv") for part in ("orig", *syntheses)]
    names = tuple(files[0][0])
    levels = {name: sorted({row[name] for file in files for row in file}) for name in names}
    values = {name: tuple(float(text) if text else np.nan for text in levels[name]) for name in NUMBERS}
    domain = Domain.of({name: len(levels[name]) for name in names})
    codes = ([[levels[name].index(row[name]) for name in names] for row in file] for file in files)
    return *(Dataset(domain, np.array(table)) for table in codes), values


@pytest.fixture(scope="module")
def oracle():
    return json.loads(oracle_file("synthpop/pairD_mixed.json").read_text())


@pytest.mark.shared
class TestSynthpopSaysTheSame:
    def test_of_regressions(self, oracle):
        original, synthetic, values = survey("syn1")
        cases = [
            case
            for case in oracle["utility_gen"]
            if case["options"]["method"] == "logit" and "resamp.method" not in case["options"]
        ]
        assert len(cases) == 4
        for case in cases:
            names = tuple(case["options"].get("vars", original.domain.attributes))
            found = regression_propensity(
                original.project(names),
                synthetic.project(names),
                {name: values[name] for name in NUMBERS if name in names},
                order=case["options"]["maxorder"] + 1,
            )
            assert found.parameters == case["df"] + 1
            assert found.pmse == pytest.approx(case["pMSE"][0], rel=1e-9)
            for name, value in named(found).items():
                assert value == pytest.approx(case[name][0], rel=1e-9, abs=1e-9), name

    def test_of_a_regression_beside_permutations(self, oracle):
        """Ours is beside what is expected; the mean of 50 permutations is within 5 % of it, mostly."""
        (case,) = (case for case in oracle["utility_gen"] if "resamp.method" in case["options"])
        found = regression_propensity(*survey("syn1"), order=1)
        for name in ("pMSE", "SPECKS", "PO50", "U"):
            assert named(found)[name] == pytest.approx(case[name][0], rel=1e-9, abs=1e-9), name
        assert found.standardised == pytest.approx(case["S_pMSE"][0], rel=0.2)

    @pytest.mark.parametrize("synthesis", range(5))
    def test_of_every_synthesis(self, oracle, synthesis):
        """Regression and tree; the trees are rpart's, leaf by leaf."""
        original, synthetic, values = survey(SYNTHESES[synthesis])
        found = regression_propensity(original, synthetic, values, order=1)
        grown = tree_propensity(original, synthetic, values, rng=rng(), permutations=1)
        for measures, case in zip((found, grown), oracle["utility_gen_m5"], strict=False):
            for name in ("pMSE", "SPECKS", "PO50", "U"):
                value = case[name][synthesis]
                assert named(measures)[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
        expected = oracle["utility_gen_m5"][0]["S_pMSE"][synthesis]
        assert found.standardised == pytest.approx(expected, rel=1e-9)

    def test_of_pairs_of_syntheses(self, oracle):
        """In one of ten pairs two cuts are equally good, and R takes another one than we do."""
        original, *syntheses, values = survey(*SYNTHESES)
        tree, regression = oracle["utility_gen_m5"][1:]
        assert tree["options"]["resamp.method"] == regression["options"]["resamp.method"] == "pairs"

        def by_tree(one, other):
            return tree_pmse(one, other, values)

        def by_regression(one, other):
            return regression_propensity(one, other, values, order=1).pmse

        for pmse, case, apart in ((by_tree, tree, 0.003), (by_regression, regression, 1e-9)):
            expected = np.mean([pmse(*pair) for pair in combinations(syntheses, 2)]) / 2
            found = [pmse(original, synthesis) / expected for synthesis in syntheses]
            assert found == pytest.approx(case["S_pMSE"], rel=apart)

    @pytest.mark.parametrize("leaf", [5, 20])
    def test_of_trees_beside_chance(self, oracle, leaf):
        """Permutations are R's there: 5 % apart at most."""
        (case,) = (
            case
            for case in oracle["utility_gen"]
            if case["options"].get("minbucket", 5) == leaf
            and case["options"]["method"] == "cart"
            and "tree.method" not in case["options"]
        )
        found = tree_propensity(*survey("syn1"), rng=rng(), settings=LEAVES[leaf])
        assert found.pmse == pytest.approx(case["pMSE"][0], rel=1e-9)
        assert found.standardised == pytest.approx(case["S_pMSE"][0], rel=0.05)


class TestLaws:
    @given(datasets(DOMAIN, fewest=1), datasets(DOMAIN, fewest=1))
    @settings(max_examples=60)
    def test_a_saturated_regression_is_the_whole_table(self, original, synthetic):
        """The two agree as closely as fits allow if cells hold one kind of records alone."""
        table = table_utility(*(count(each, DOMAIN.attributes) for each in (original, synthetic)))
        found = regression_propensity(original, synthetic, {}, order=3)
        assert found.pmse == pytest.approx(table.pmse, abs=1e-6)
        assert found.expected == pytest.approx(
            table.freedom * found.synthetic_share * (1 - found.synthetic_share) ** 2 / found.records
        )

    @given(datasets(DOMAIN, fewest=1), datasets(DOMAIN, fewest=1))
    @settings(max_examples=30)
    def test_pmse_is_within_its_bounds(self, original, synthetic):
        for order in (1, 2):
            found = regression_propensity(original, synthetic, {}, order=order)
            assert 0 <= found.pmse <= found.synthetic_share * (1 - found.synthetic_share) + 1e-12

    @given(datasets(DOMAIN, fewest=2))
    def test_the_same_records_cannot_be_told_apart(self, dataset):
        again = dataset.take(np.arange(len(dataset))[::-1])
        assert regression_propensity(dataset, again, {}).pmse == pytest.approx(0, abs=1e-12)
        assert tree_propensity(dataset, again, {}, rng=rng(), permutations=1).pmse == 0

    @given(st.integers(0, 99))
    @settings(max_examples=20)
    def test_order_of_records_and_names_of_levels_say_nothing(self, seed):
        one, other = (drawn(seed + k, 60, (0.2, 0.3, 0.5)) for k in (1, 2))
        moved = [
            Dataset(each.domain, (each.codes[::-1] + np.array([1, 1, 1])) % np.array([2, 3, 2]))
            for each in (one, other)
        ]
        for order in (1, 2):
            found = [
                regression_propensity(*pair, {}, order=order).pmse for pair in ((one, other), moved)
            ]
            assert found[0] == pytest.approx(found[1], rel=1e-4)

    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=6))
    def test_ranks_record_by_record(self, cells):
        """Any scores, ties among them; at a half the guess is "original"."""
        ours, theirs = 1 + np.array(cells).T
        scores = np.resize([0.5, 0.2, 0.8, 0.5, 0.1 + 0.2, 0.3], len(ours))
        each = [np.repeat(np.round(scores, 12), counts) for counts in (ours, theirs)]
        specks, right, pairs = score_ranks(scores, ours, theirs)
        assert specks == pytest.approx(ks_2samp(*each, method="asymp").statistic)
        assert pairs == mannwhitneyu(each[1], each[0]).statistic
        hits = np.sum(each[0] <= 0.5) + np.sum(each[1] > 0.5)
        assert right == pytest.approx(hits / (ours.sum() + theirs.sum()) - 0.5)

    def test_steps_that_make_a_fit_worse_are_halved(self):
        """These records can be told apart entirely; plain least squares end far from that, as in R."""
        domain = Domain.of({"n": 12, "a": 3, "b": 4})
        values = {"n": (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 22.0, 45.0, 70.0, 178.0)}
        random = np.random.default_rng(282)
        original = Dataset(domain, random.integers(0, (12, 3, 4), (40, 3)))
        synthetic = Dataset(domain, random.integers((0, 1, 0), (9, 2, 2), (4, 3)))
        found = regression_propensity(original, synthetic, values, order=1)
        assert found.pmse == pytest.approx(40 * 4 / 44**2, abs=1e-8)
        assert (found.specks, found.mann_whitney) == (1, 160)

    def test_a_missing_number_is_one_more_attribute(self):
        """0 or missing: the one is told from the other only by the indicator."""
        domain = Domain.of({"n": 2})
        original = Dataset(domain, np.array([[0]] * 30 + [[1]] * 10))
        synthetic = Dataset(domain, np.array([[0]] * 10 + [[1]] * 30))
        found = regression_propensity(original, synthetic, {"n": (0.0, np.nan)})
        as_levels = regression_propensity(original, synthetic, {})
        assert found.parameters == as_levels.parameters == 2
        assert found.pmse == pytest.approx(as_levels.pmse, rel=1e-9)

    @pytest.mark.parametrize("scale", [1e-320, 1e-300, 1.0, 1e9])
    def test_the_unit_of_a_number_says_nothing(self, scale):
        one, other = (drawn(seed, 200, (0.3, 0.3, 0.4)) for seed in (1, 2))
        values = {"b": (0.0, 1.0, 3.0)}
        scaled = {"b": tuple(scale * value for value in values["b"])}
        for order in (1, 3):
            found, same = (
                regression_propensity(one, other, each, order=order) for each in (scaled, values)
            )
            assert found.parameters == same.parameters
            assert found.pmse == pytest.approx(same.pmse, rel=1e-6)

    def test_columns_that_others_determine_are_left_out(self):
        one, other = (drawn(seed, 200, (0.3, 0.3, 0.4)).codes for seed in (1, 2))
        domain = Domain.of({"a": 2, "b": 3, "same": 3})
        twice = [Dataset(domain, codes[:, [0, 1, 1]]) for codes in (one, other)]
        once = [Dataset(DOMAIN.project(("a", "b")), codes[:, :2]) for codes in (one, other)]
        found, expected = (regression_propensity(*pair, {}) for pair in (twice, once))
        assert found.parameters == expected.parameters == 6
        assert found.pmse == pytest.approx(expected.pmse, rel=1e-9)


class TestTree:
    @given(st.integers(0, 99))
    @settings(max_examples=40)
    def test_the_best_split_of_all(self, seed):
        """No other subset of the levels of any attribute leaves less impurity."""
        random = np.random.default_rng(seed)
        codes = random.integers((3, 4), size=(40, 2))
        synthetic = random.random(40) < 0.2 + 0.1 * codes[:, 1]
        synthetic[:2] = True, False
        cells = _cells(codes, synthetic)
        tree = _Tree(cells, cells.synthetic_counts(), TreeSettings(leaf=1))
        side = tree._best_split(np.arange(len(cells.totals)))
        impurities = [
            _impurity(np.isin(codes[:, axis], levels), synthetic)
            for axis, size in ((0, 3), (1, 4))
            for k in range(size)
            for levels in combinations(range(size), k)
        ]
        stacked = np.concatenate([np.ones(synthetic.sum()), np.zeros((~synthetic).sum())])
        chosen = np.zeros(40, dtype=bool) if side is None else side[cells.places]
        assert _impurity(chosen, stacked) == pytest.approx(min(impurities))

    def test_levels_of_equal_shares_are_taken_in_the_order_of_rpart(self):
        """The tree has the leaves (6, 3) and (2, 5): b and d, equally synthetic, are not parted."""
        domain = Domain.of({"x": 4})
        original, synthetic = (
            Dataset(domain, np.repeat(np.arange(4), counts)[:, None])
            for counts in ((3, 1, 2, 2), (0, 1, 5, 2))
        )
        pmse = (9 * (3 / 9 - 1 / 2) ** 2 + 7 * (5 / 7 - 1 / 2) ** 2) / 16
        assert tree_pmse(original, synthetic, {}) == pytest.approx(pmse)

    def test_leaves_hold_enough_records(self):
        one, other = drawn(3, 300, (0.2, 0.3, 0.5)), drawn(4, 300, (0.4, 0.3, 0.3))
        cells = cells_of(one, other, {})
        scores = tree_scores(cells, cells.synthetic_counts(), TreeSettings(leaf=50, price=0.0))
        records = np.bincount(np.unique(scores, return_inverse=True)[1], cells.totals)
        assert records.min() >= 50

    def test_a_high_price_buys_nothing(self):
        one, other = drawn(3, 300, (0.2, 0.3, 0.5)), drawn(4, 300, (0.4, 0.3, 0.3))
        found = tree_propensity(
            one, other, {}, rng=rng(), settings=TreeSettings(price=0.9), permutations=2
        )
        assert found.pmse == found.expected == 0
        assert found.standardised is None

    def test_deep_chains_end(self):
        """600 levels of a number, every other one synthetic: at most 30 splits above any leaf."""
        domain = Domain.of({"n": 600})
        values = {"n": tuple(map(float, range(600)))}
        original = Dataset(domain, np.repeat(np.arange(0, 600, 2), 5)[:, None])
        synthetic = Dataset(domain, np.repeat(np.arange(1, 600, 2), 5)[:, None])
        found = tree_propensity(original, synthetic, values, rng=rng(), permutations=1)
        assert 0 <= found.pmse <= 0.25


class TestCalibration:
    """Synthetic records drawn from the original ones are worth 1; means over seeds."""

    def test_of_regressions(self):
        original = drawn(0, 800, (0.2, 0.3, 0.5))
        found = [
            regression_propensity(original, resampled(original, seed, rows), {}, order=2).standardised
            for seed in range(150)
            for rows in (800, 400)
        ]
        # chi-squared with 9 degrees of freedom each: a standard error of sqrt(2 / 9 / 300).
        assert np.mean(found) == pytest.approx(1, abs=4 * np.sqrt(2 / 9 / 300))

    def test_of_trees(self):
        """Half of the permutations' mean, nearly: the law for the exact factor holds for regressions."""
        domain = Domain.of({"a": 4, "b": 3, "n": 40})
        random = np.random.default_rng(0)
        original = Dataset(domain, random.integers(domain.sizes, size=(500, 3)))
        values = {"n": tuple(map(float, range(40)))}
        found = [
            tree_propensity(
                original, resampled(original, seed, 500), values, rng=rng(), permutations=4
            ).standardised
            for seed in range(20)
        ]
        assert 0.8 < np.mean(found) < 1.5

    def test_another_sample_of_the_same_people_is_two(self):
        """The original is random then too; this is where permutations and samples are alike."""
        domain = Domain.of({"a": 4, "b": 3, "n": 40})
        values = {"n": tuple(map(float, range(40)))}
        random = np.random.default_rng(3)
        pairs = [
            [Dataset(domain, random.integers(domain.sizes, size=(300, 3))) for _ in range(2)]
            for _ in range(40)
        ]
        linear = [regression_propensity(*pair, values).standardised for pair in pairs]
        trees = [
            tree_propensity(*pair, values, rng=rng(), permutations=4).standardised for pair in pairs
        ]
        # chi-squared with 17 degrees of freedom, and a little more where samples are small.
        assert np.mean(linear) == pytest.approx(2, abs=5 * 2 * np.sqrt(2 / 17 / 40))
        assert np.mean(trees) == pytest.approx(2, abs=0.25)

    def test_bad_records_stand_out(self):
        original, flat = drawn(0, 800, (0.1, 0.3, 0.6)), drawn(1, 800, (0.4, 0.3, 0.3))
        assert regression_propensity(original, flat, {}).standardised > 5
        assert tree_propensity(original, flat, {}, rng=rng(), permutations=10).standardised > 5


class TestBadInput:
    def test_domains_must_agree(self):
        one, other = drawn(1, 5, (0.2, 0.3, 0.5)), drawn(1, 5, (0.2, 0.3, 0.5)).project(("a", "b"))
        with pytest.raises(DomainMismatchError):
            regression_propensity(one, other, {})
        with pytest.raises(DomainMismatchError):
            tree_propensity(one, other, {}, rng=rng())

    def test_there_must_be_records(self):
        one = drawn(1, 5, (0.2, 0.3, 0.5))
        with pytest.raises(InvalidInputError, match="no record"):
            regression_propensity(one, one.take(np.arange(0)), {})

    def test_values_must_fit(self):
        one = drawn(1, 5, (0.2, 0.3, 0.5))
        with pytest.raises(InvalidInputError, match=r"values\.b"):
            regression_propensity(one, one, {"b": (1.0, 2.0)})
        with pytest.raises(InvalidInputError, match=r"values\.b"):
            regression_propensity(one, one, {"b": (1.0, 2.0, np.inf)})
        with pytest.raises(UnknownAttributeError):
            regression_propensity(one, one, {"z": (1.0,)})

    def test_parameters_have_a_bound(self):
        one = drawn(1, 200, (0.2, 0.3, 0.5))
        with pytest.raises(TooLargeError, match="parameters"):
            regression_propensity(one, one, {}, order=2, most_parameters=9)
        assert regression_propensity(one, one, {}, order=2, most_parameters=10).parameters == 10

    def test_many_attributes_of_a_high_order_are_refused_at_once(self):
        domain = Domain.of({f"a{axis}": 2 for axis in range(40)})
        one = Dataset(domain, np.random.default_rng(1).integers(2, size=(50, 40)))
        with pytest.raises(TooLargeError, match="parameters"):
            regression_propensity(one, one, {}, order=20)
        constant = Dataset(domain, np.zeros((5, 40), dtype=int))
        assert regression_propensity(constant, constant, {}, order=20).parameters == 1

    def test_entries_have_a_bound(self, monkeypatch):
        monkeypatch.setattr(propensity_regression, "MOST_ENTRIES", 100)
        one = drawn(1, 200, (0.2, 0.3, 0.5))
        assert regression_propensity(one, one, {}, order=1).parameters == 5
        with pytest.raises(TooLargeError, match="regression"):
            regression_propensity(one, one, {}, order=2)

    @pytest.mark.parametrize("order", [0, -1])
    def test_orders_start_at_one(self, order):
        one = drawn(1, 5, (0.2, 0.3, 0.5))
        with pytest.raises(InvalidNumberError):
            regression_propensity(one, one, {}, order=order)

    @pytest.mark.parametrize(
        "wrong",
        [{"permutations": 0}, {"settings": TreeSettings(leaf=0)}, {"settings": TreeSettings(price=1.0)}],
    )
    def test_tree_settings(self, wrong):
        one = drawn(1, 5, (0.2, 0.3, 0.5))
        with pytest.raises(InvalidNumberError):
            tree_propensity(one, one, {}, rng=rng(), **wrong)

    def test_one_record_each_and_constant_attributes(self):
        one = Dataset(DOMAIN, np.array([[0, 0, 0]]))
        for found in (
            regression_propensity(one, one, {}),
            tree_propensity(one, one, {}, rng=rng(), permutations=2),
        ):
            assert found.pmse == 0
            assert found.standardised is None


def drawn(seed, records, shares):
    random = np.random.default_rng(seed)
    return Dataset.of_columns(
        DOMAIN,
        [
            random.integers(2, size=records),
            random.choice(3, size=records, p=shares),
            random.integers(2, size=records),
        ],
    )


def resampled(original, seed, rows):
    return original.take(np.random.default_rng(1_000 + seed).integers(len(original), size=rows))


def _cells(codes, synthetic):
    domain = Domain.of({"x": 3, "y": 4})
    parts = [Dataset(domain, codes[synthetic == kind]) for kind in (0, 1)]
    return cells_of(*parts, {})


def _impurity(side, synthetic):
    """The sum of n p (1 - p) over both sides."""
    parts = [part for part in (synthetic[side], synthetic[~side]) if len(part)]
    return sum(part.sum() * (len(part) - part.sum()) / len(part) for part in parts)
