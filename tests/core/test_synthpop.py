"""Sequential trees: what they draw, from whom, and what they leave behind."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import BOXES, box_named
from gencard.boxes.synthpop import Options, SynthPop
from gencard.boxes.synthpop_trees import LEAF, placed
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import Verdict
from gencard.core.audit.run import audit
from gencard.core.audit.uniques import made_up
from gencard.core.card.budget import Claim
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import OperationCancelledError
from gencard.core.statistics.marginals import count
from gencard.measures.utility.table_utility import table_utility
from tests.core.mixed import mean_table_utility
from tests.core.oracles import coded
from tests.core.strategies import datasets

NAN = float("nan")
DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})
EXACT = Options(minimum_leaf=1, complexity=0)


def rng(seed=0):
    return np.random.default_rng(seed)


def dependent(records, seed=0):
    """Every attribute depends on those before it; no cell is rare."""
    a = rng(seed).choice(3, records, p=(0.5, 0.3, 0.2))
    b = (rng(seed + 1).random(records) < np.array([0.2, 0.5, 0.8])[a]).astype(int)
    c = (a + 2 * b + rng(seed + 2).choice(4, records, p=(0.55, 0.2, 0.15, 0.1))) % 4
    return Dataset.of_columns(DOMAIN, [a, b, c])


def leaves_of(fit):
    """Number of donors of every leaf."""
    for step in fit.steps:
        for each in step.conditionals:
            held = np.diff(each.starts)
            assert not held[each.tree.predictor != LEAF].any()
            yield from held[each.tree.predictor == LEAF].tolist()


@st.composite
def with_numbers(draw):
    """A dataset, and numbers for some of its attributes, some of them missing, in no order."""
    dataset = draw(datasets(fewest=1))
    number = st.one_of(st.just(NAN), st.integers(-3, 3).map(float))
    values = {
        name: tuple(draw(st.lists(number, min_size=size, max_size=size)))
        for name, size in zip(dataset.domain.attributes, dataset.domain.sizes, strict=True)
        if draw(st.booleans())
    }
    return dataset, values


class TestLaws:
    @given(with_numbers(), st.integers(1, 5), st.integers(0, 50), st.integers(0, 2**64 - 1))
    @settings(max_examples=60, deadline=None)
    def test_rows_are_made_of_codes_of_records(self, given_, minimum_leaf, rows, seed):
        dataset, values = given_
        made = SynthPop(Options(minimum_leaf=minimum_leaf), values)(dataset, rows, seed=seed)
        assert made.domain == dataset.domain
        assert len(made) == rows
        for name in dataset.domain.attributes:
            assert set(made.column(name)) <= set(dataset.column(name))

    @given(with_numbers(), st.sampled_from(["none", "density"]), st.integers(0, 99))
    @settings(max_examples=40, deadline=None)
    def test_a_fit_can_be_kept(self, given_, smoothing, seed):
        dataset, values = given_
        box = SynthPop(Options(minimum_leaf=2, smoothing=smoothing), values)
        fit = box.fit(dataset, seed=seed)
        loaded = SynthPop().load(fit.save())
        assert loaded.save() == fit.save()
        expected = box(dataset, 30, seed=seed).digest()
        assert loaded.sample(30, seed=seed).digest() == expected == fit.sample(30, seed=seed).digest()

    @given(with_numbers(), st.integers(1, 6), st.sampled_from(["none", "misclassification"]))
    @settings(max_examples=40, deadline=None)
    def test_no_leaf_is_smaller_than_agreed(self, given_, minimum_leaf, pruning):
        dataset, values = given_
        box = SynthPop(Options(minimum_leaf=minimum_leaf, complexity=0, pruning=pruning), values)
        fit = box.fit(dataset, seed=1)
        for step in fit.steps:
            for each in step.conditionals:
                held = np.diff(each.starts)[each.tree.predictor == LEAF]
                assert len(held) == 1 or held.min() >= minimum_leaf
        assert sum(leaves_of(fit)) >= len(dataset) * len(dataset.domain)

    def test_the_seed_fixes_every_byte(self):
        dataset = dependent(300)
        made = [SynthPop()(dataset, 300, seed=seed).digest() for seed in (4, 4, 5)]
        assert made[0] == made[1] != made[2]
        fits = [SynthPop().fit(dataset, seed=seed).save() for seed in (4, 4)]
        assert fits[0] == fits[1]

    def test_many_rows_are_drawn_block_by_block(self):
        fit = SynthPop(EXACT).fit(dependent(400), seed=0)
        made = fit.sample(150_000, seed=1)
        shares = count(dependent(400), ("a", "b", "c")) / 400
        assert np.abs(count(made, ("a", "b", "c")) / 150_000 - shares).max() < 0.01


class TestDistribution:
    @pytest.mark.parametrize("ordered", [False, True])
    def test_leaves_are_the_conditional_shares(self, ordered):
        """Brute force: with leaves of any size each combination of predictors has its own shares."""
        dataset = dependent(2_000)
        values = {"c": (0.0, 1.0, 2.0, 3.0), "a": (5.0, 1.0, 3.0)} if ordered else {}
        fit = SynthPop(EXACT, values).fit(dataset, seed=3)
        (last,) = fit.steps[2].conditionals
        cells = np.array(list(product(range(3), range(2), range(1))))
        leaf = last.tree.leaf_of(placed(cells, last.predictors, last.places))
        for cell, node in zip(cells, leaf, strict=True):
            wanted = dataset.codes[(dataset.codes[:, :2] == cell[:2]).all(axis=1), 2]
            donors = last.donors[last.starts[node] : last.starts[node + 1]]
            np.testing.assert_array_equal(donors, np.sort(wanted))

    def test_rows_follow_the_table_of_the_records(self):
        """Chi-squared against the records' own table, over seeds: as often below 5 % as chance."""
        dataset = dependent(4_000)
        fit = SynthPop(EXACT).fit(dataset, seed=0)
        expected = count(dataset, ("a", "b", "c")).ravel()
        assert expected.min() >= 10
        tables = [count(fit.sample(4_000, seed=seed), ("a", "b", "c")).ravel() for seed in range(200)]
        found = sum(stats.chisquare(table, expected).pvalue < 0.05 for table in tables)
        low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 200, 0.05)
        assert low <= found <= high

    def test_utility_is_that_of_a_draw_where_leaves_allow_it(self):
        dataset = dependent(2_000)
        fit = SynthPop(Options(minimum_leaf=5)).fit(dataset, seed=0)
        scores = [mean_table_utility(dataset, fit.sample(2_000, seed=s), 2) for s in range(100)]
        assert np.mean(scores) == pytest.approx(1, abs=4 * np.std(scores) / 10)

    def test_the_first_attribute_is_a_bootstrap(self):
        dataset = dependent(1_000).project(("c",))
        fit = SynthPop().fit(dataset, seed=0)
        np.testing.assert_array_equal(fit.steps[0].conditionals[0].donors, np.sort(dataset.codes[:, 0]))
        scores = [
            table_utility(count(dataset, ("c",)), count(fit.sample(1_000, seed=s), ("c",))).standardised
            for s in range(200)
        ]
        assert np.mean(scores) == pytest.approx(1, abs=4 * np.std(scores) / np.sqrt(200))

    @pytest.mark.shared
    def test_utility_is_no_worse_than_of_rows_by_synthpop(self):
        original, theirs = coded("synthpop/pairA_300x4_orig.csv", "synthpop/pairA_300x4_syn.csv")
        scores = [mean_table_utility(original, SynthPop()(original, 300, seed=s), 2) for s in range(20)]
        assert np.mean(scores) < mean_table_utility(original, theirs, 2)


class TestBox:
    def test_it_is_in_the_list(self):
        entry = BOXES["synthpop"]
        claim = entry.claim(entry.parameters)
        assert isinstance(claim, Claim)
        assert claim.epsilon is None
        box = box_named(
            "synthpop", {"minimum_leaf": "20"}, Surroundings(values={"c": (1.0, 2.0, 3.0, NAN)})
        )
        assert box.options == Options(minimum_leaf=20)
        assert box.values["c"][:3] == (1.0, 2.0, 3.0)

    def test_progress_names_each_attribute_and_may_end_the_fit(self):
        told = []
        SynthPop().fit(dependent(50), seed=0, progress=lambda *args: told.append(args))
        assert [stage for stage, _ in told] == ["tree of 'a'", "tree of 'b'", "tree of 'c'"]
        assert [share for _, share in told] == pytest.approx([1 / 3, 2 / 3, 1])

        def end(_stage, _share):
            raise OperationCancelledError

        with pytest.raises(OperationCancelledError):
            SynthPop().fit(dependent(50), seed=0, progress=end)


class TestAudit:
    def test_it_is_found_to_follow_more_than_pairs(self):
        """Trees see interactions of three; a card of pairs does not cover them."""
        dataset = made_up(DOMAIN, 1_500, rng=rng())
        pairs = tuple(combinations("abc", 2))
        report = audit(SynthPop(), dataset, AuditPlan(pairs, 1_500, 0, AuditTerms(runs=8)))
        assert report.verdict is Verdict.LEAKAGE
        assert report.blocks[0].clique == ("a", "b", "c")
        assert report.p_value < 1e-10
