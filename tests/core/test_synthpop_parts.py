"""The parts of sequential trees: options, rules, scales, the order of levels, pruning."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import box_named
from gencard.boxes.synthpop import CodeRule, Options, SynthPop, planned_steps
from gencard.boxes.synthpop_trees import LEAF, Growth, density_of, nominal, numeric, places_of
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError

NAN = float("nan")
DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})


def rng(seed=0):
    return np.random.default_rng(seed)


def records(count=400):
    a = rng().integers(3, size=count)
    return Dataset.of_columns(DOMAIN, [a, a % 2, (a + rng(1).integers(2, size=count)) % 4])


def box(**parameters):
    return box_named("synthpop", parameters, Surroundings())


class TestOptions:
    def test_words_become_options(self):
        rule = {"attribute": "b", "code": 1, "where": {"a": [0, 2]}}
        options = box(
            order='["c", "a", "b"]',
            predictors='{"b": ["a"]}',
            complexity="0.01",
            pruning="misclassification",
            smoothing="density",
            rules=json.dumps([rule]),
        ).options
        assert options == Options(
            ("c", "a", "b"),
            {"b": ("a",)},
            complexity=0.01,
            pruning="misclassification",
            smoothing="density",
            rules=(CodeRule("b", 1, (("a", (0, 2)),)),),
        )
        visits = planned_steps(options, DOMAIN)
        assert [(visit.attribute, visit.predictors) for visit in visits] == [
            ("c", ()), ("a", ("c",)), ("b", ("a",)),
        ]  # fmt: skip
        assert visits[2].rules == options.rules

    def test_fewest_levels_first(self):
        visits = planned_steps(Options(order="by-levels"), DOMAIN)
        assert [visit.attribute for visit in visits] == ["b", "a", "c"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"order": "backwards"}, {"order": "3"}, {"order": "[1, 2]"}, {"order": '{"a": 1}'},
            {"predictors": "[]"}, {"predictors": '{"a": "b"}'}, {"predictors": "all"},
            {"minimum_leaf": "0"}, {"minimum_leaf": "2.5"}, {"minimum_leaf": "1000001"},
            {"minimum_leaf": "5_0"}, {"minimum_leaf": " 5"}, {"minimum_leaf": "٥"},
            {"complexity": "nan"}, {"complexity": "-1"}, {"complexity": "1"}, {"complexity": "x"},
            {"pruning": "yes"}, {"smoothing": "spline"},
            {"rules": "{}"}, {"rules": "[1]"}, {"rules": '[{"attribute": "a"}]'},
            {"rules": "[" * 100_000},
            {"rules": '[{"attribute": 1, "code": 0, "where": {}}]'},
            {"rules": '[{"attribute": "a", "code": true, "where": {}}]'},
            {"rules": '[{"attribute": "a", "code": 0, "where": []}]'},
            {"rules": '[{"attribute": "a", "code": 0, "where": {"b": 1}}]'},
            {"trees": "5"},
        ],
        ids=str,
    )  # fmt: skip
    def test_other_words_are_refused(self, wrong):
        with pytest.raises(InvalidInputError):
            box(**wrong)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"order": '["a", "b"]'},
            {"order": '["a", "b", "c", "a"]'},
            {"order": '["a", "b", "d"]'},
            {"predictors": '{"d": []}'},
            {"predictors": '{"a": ["b"]}'},
            {"predictors": '{"a": ["a"]}'},
            {"predictors": '{"c": ["d"]}'},
            {"rules": '[{"attribute": "d", "code": 0, "where": {}}]'},
            {"rules": '[{"attribute": "b", "code": 2, "where": {}}]'},
            {"rules": '[{"attribute": "b", "code": 1, "where": {"a": [3]}}]'},
            {"rules": '[{"attribute": "b", "code": 1, "where": {"c": [0]}}]'},
        ],
        ids=str,
    )
    def test_what_does_not_fit_the_domain_is_refused(self, wrong):
        with pytest.raises(InvalidInputError):
            box(**wrong).fit(records(), seed=0)

    def test_without_predictors_attributes_are_independent(self):
        fit = box(predictors='{"b": [], "c": []}').fit(records(), seed=0)
        assert all(len(step.conditionals[0].tree.predictor) == 1 for step in fit.steps)


class TestRules:
    RULE = CodeRule("b", 1, (("a", (0, 2)),))

    def test_they_hold_in_every_row(self):
        made = SynthPop(Options(rules=(self.RULE,)))(records(), 500, seed=0)
        assert (made.column("b")[np.isin(made.column("a"), (0, 2))] == 1).all()

    def test_trees_grow_on_the_records_without_a_rule(self):
        fit = SynthPop(Options(rules=(self.RULE,))).fit(records(), seed=0)
        assert len(fit.steps[1].conditionals[0].donors) == (records().column("a") == 1).sum()

    def test_the_first_that_holds_decides(self):
        rules = (CodeRule("b", 0, (("a", (0,)),)), self.RULE)
        made = SynthPop(Options(rules=rules))(records(), 500, seed=0)
        assert {*zip(*made.codes[:, :2].T.tolist(), strict=True)} == {(0, 0), (1, 1), (2, 1)}

    def test_one_for_every_record_leaves_something_to_draw_from(self):
        made = SynthPop(Options(rules=(CodeRule("b", 1, ()),)))(records(), 50, seed=0)
        assert (made.column("b") == 1).all()


class TestScale:
    def test_missing_comes_before_every_number(self):
        places = places_of(np.array([3.0, NAN, -1.0, 3.0, NAN, 9.0]))
        assert places.tolist() == [3, 0, 2, 3, 1, 4]

    def test_density_moves_numbers_to_near_codes(self):
        numbers = np.append(rng().permutation(200).astype(float), NAN)
        codes = np.full(5_000, np.flatnonzero(numbers == 100)[0])
        codes[::10] = 200
        density = density_of(numbers, np.arange(201))
        known = np.arange(200.0)
        spread = min(known.std(), (np.quantile(known, 0.75) - np.quantile(known, 0.25)) / 1.34)
        assert density.bandwidth == pytest.approx(0.9 * spread / 200**0.2)
        made = density.smooth(codes, rng())
        assert (made[::10] == 200).all()
        drawn = numbers[made[codes != 200]]
        assert drawn.mean() == pytest.approx(100, abs=4 * density.bandwidth / np.sqrt(4_500))
        assert drawn.std() == pytest.approx(density.bandwidth, rel=0.1)

    def test_rows_hold_codes_that_no_record_has(self):
        codes = rng().choice(np.arange(0, 100, 5), 500)[:, None]
        dataset = Dataset(Domain.of({"a": 101}), codes)
        values = {"a": (*np.arange(100.0), NAN)}
        made = SynthPop(Options(smoothing="density"), values)(dataset, 500, seed=0)
        assert not set(made.column("a")) <= set(dataset.column("a"))
        assert made.column("a").max() < 100

    def test_equal_numbers_stay(self):
        assert density_of(np.array([4.0, 7.0]), np.zeros(9, int)).bandwidth == 0
        assert density_of(np.array([4.0, NAN]), np.ones(9, int)).bandwidth == 0


class TestPlaces:
    @given(st.integers(2, 6), st.booleans(), st.integers(0, 10**6))
    @settings(max_examples=60, deadline=None)
    def test_the_best_cut_is_the_best_of_all_subsets(self, levels, is_number, seed):
        """Brute force; holds exactly for numbers and for two classes (Fisher 1958, Breiman 1984)."""
        codes = rng(seed).integers(levels, size=60)
        answers = rng(seed + 1).integers(5 if is_number else 2, size=60)
        target = numeric(answers, np.array([0.0, 1, 4, 9, 16])) if is_number else nominal(answers)
        places = target.places(codes, levels)
        assert sorted(places) == list(range(levels))
        cuts = [np.flatnonzero(places <= cut) for cut in range(levels - 1)]
        subsets = [s for size in range(1, levels) for s in combinations(range(levels), size)]
        gains = [max(gain(target.response, np.isin(codes, s)) for s in some) for some in (cuts, subsets)]
        assert gains[0] == pytest.approx(gains[1])

    def test_levels_without_a_record_stand_in_the_middle(self):
        target = numeric(np.array([0, 0, 1, 1]), np.array([0.0, 1.0]))
        assert target.places(np.array([2, 2, 0, 0]), 3).tolist() == [2, 1, 0]

    def test_rare_classes_count_as_one(self):
        codes = np.concatenate([np.arange(300), np.arange(60)])
        target = nominal(codes)
        assert target.response.max() == 63
        assert len(set(target.response[:60])) == 60
        assert set(target.response[100:300]) == {63}


def gain(response, left):
    """Sum of squares that a split explains; twice the Gini gain for two classes."""
    parts = [response[left], response[~left]]
    return sum(len(p) * (p.mean() - response.mean()) ** 2 for p in parts if len(p))


class TestGrowth:
    @given(st.integers(1, 4), st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None)
    def test_pruning_keeps_splits_that_lower_misclassification(self, minimum_leaf, seed):
        places = rng(seed).integers(4, size=(80, 2)).astype(np.float32)
        target = nominal((rng(seed + 1).random(80) < places[:, 0] / 5).astype(int))
        whole, few = (
            Growth(minimum_leaf, 0, prunes).tree(places, target, 0) for prunes in (False, True)
        )
        assert few.is_sound(2)
        assert len(few.predictor) <= len(whole.predictor)
        assert wrong(whole, places, target) == wrong(few, places, target)
        for node in np.flatnonzero(few.predictor != LEAF):
            inside = under(few, node, places)
            assert wrong(few, places[inside], nominal_part(target, inside)) < outside(target, inside)

    def test_complexity_ends_splitting(self):
        places = np.arange(100, dtype=np.float32)[:, None]
        target = numeric(np.arange(100), np.arange(100.0) ** 2)
        nodes = [
            len(Growth(1, cp, False).tree(places, target, 0).predictor) for cp in (0, 1e-3, 0.1, 0.99)
        ]
        assert nodes == sorted(nodes, reverse=True)
        assert (nodes[0] > 50, nodes[-1]) == (True, 1)


def nominal_part(target, inside):
    return type(target)(target.codes[inside], target.response[inside], is_number=False)


def outside(target, inside):
    """Records of a part that are not of its commonest class."""
    return inside.sum() - np.bincount(target.response[inside]).max()


def wrong(tree, places, target):
    leaf = tree.leaf_of(places)
    return sum(outside(target, leaf == node) for node in set(leaf))


def under(tree, node, places):
    """Return the records that come through a node: those whose leaf descends from it."""
    below = {int(node)}
    for each in range(int(node), len(tree.predictor)):
        if each in below and tree.predictor[each] != LEAF:
            below |= {int(tree.left[each]), int(tree.right[each])}
    return np.isin(tree.leaf_of(places), list(below))
