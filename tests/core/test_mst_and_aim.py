"""MST and AIM: what they choose, what they merge, and the marginals that an endless budget leaves."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gencard.boxes.aim import Aim, Candidates
from gencard.boxes.entry import GRID, PrivacyBudget, Surroundings, misfit
from gencard.boxes.marginal_models import NoisyModel
from gencard.boxes.mst import KeptLevels, MergedLevels, Mst
from gencard.boxes.registry import box_named
from gencard.controller.noise import OpenDpNoise
from gencard.core.card.privacy import gaussian, laplace
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidCliqueError, ModelTooLargeError, UnknownAttributeError
from gencard.core.generators.family import graphical
from gencard.core.generators.junction_tree import JunctionTree, cells_needed
from gencard.core.statistics import marginals as counting
from gencard.core.statistics.marginals import count
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement
from tests.core.seeded_noise import Recorded, SeededNoise, Silent

ENDLESS = gaussian(1_000_000, neighbouring="add-remove")
SOME = gaussian("0.5", neighbouring="add-remove")


def chained(rows=4_000, attributes=5, kept=0.8, seed=0):
    """Each attribute is mostly the one before it: the best tree is the chain."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 3, rows)]
    for _ in range(attributes - 1):
        keep = rng.random(rows) < kept
        columns.append(np.where(keep, columns[-1], rng.integers(0, 3, rows)))
    return Dataset.of_columns(Domain.of(dict.fromkeys("abcde"[:attributes], 3)), columns)


def variation(model, dataset, clique):
    return 0.5 * np.abs(model.marginal(clique) - count(dataset, clique) / len(dataset)).sum()


class TestMst:
    def test_the_tree_is_the_best_one(self):
        dataset = chained()
        model = Mst(SOME, SeededNoise(1)).fit(dataset, seed=0).model
        assert {frozenset(clique) for clique in model.tree.cliques} == set(
            map(frozenset, ("ab", "bc", "cd", "de"))
        )

    def test_an_endless_budget_leaves_the_marginals_of_the_tree(self):
        dataset = chained()
        model = Mst(ENDLESS, OpenDpNoise()).fit(dataset, seed=0).model
        assert max(variation(model, dataset, clique) for clique in model.tree.cliques) < 1e-4

    def test_an_edge_is_drawn_by_the_exponential_mechanism(self):
        """Three attributes: the first edge of many fits with the same scores, by chi-square."""
        dataset = chained(rows=600, attributes=3, kept=0.03)
        noise = Quiet(3)
        firsts = []
        for _ in range(800):
            with pytest.raises(StopIteration):
                Mst(gaussian("0.02", neighbouring="add-remove"), noise).fit(
                    dataset, seed=0, progress=stop
                )
            scores, scale = noise.asked[0]
            firsts.append(noise.chosen[0])
            noise.chosen, noise.asked = [], []
        assert scale == pytest.approx(GRID * np.sqrt(2 / (2 * 0.02 / 3)), rel=1e-6)
        law = np.exp((scores - scores.max()) / scale)
        assert law.min() < 0.8
        hits = np.bincount(firsts, minlength=3)
        assert stats.chisquare(hits, 800 * law / law.sum()).pvalue > 1e-3

    def test_progress_is_told_for_each_attribute_and_each_pair(self):
        told = []
        Mst(SOME, SeededNoise(1)).fit(chained(), seed=0, progress=lambda *said: told.append(said))
        stages = Counter(stage for stage, _ in told)
        assert stages == {"attributes": 1, "choice": 5, "pairs": 4, "model": 1}
        shares = [share for _, share in told]
        assert shares == sorted(set(shares))
        assert 0 <= shares[0] <= shares[-1] < 1

    def test_all_pairs_may_have_more_cells_than_are_counted_together(self, monkeypatch):
        """90 in ten pairs, 36 in those of one attribute: what a tree may have is what is held."""
        monkeypatch.setattr(counting, "MOST_CELLS", 36)
        model = Mst(SOME, SeededNoise(1)).fit(chained(), seed=0).model
        assert len(model.tree.cliques) == 4

    def test_a_score_is_the_distance_in_records_on_the_grid(self):
        counts, expected = np.array([[3, 0], [1, 2]]), np.array([[2.25, 0.75], [1.75, 1.25]])
        assert misfit(counts, expected) == 3 * GRID
        assert misfit(counts, counts.astype(float)) == 0

    @given(st.lists(st.floats(-5, 50), min_size=4, max_size=4), st.integers(0, 3))
    def test_a_record_more_moves_a_score_by_one_step_at_most(self, expected, cell):
        counts = np.array([3, 0, 7, 1])
        more = counts + (np.arange(4) == cell)
        moved = abs(misfit(more, np.array(expected)) - misfit(counts, np.array(expected)))
        assert moved <= GRID


def stop(stage, share):
    """End a fit once the tree is chosen."""
    if stage == "pairs":
        raise StopIteration


class Quiet(Silent):
    """No noise on counts, but choices are drawn; remembers them."""

    def __init__(self, seed):
        super().__init__(seed)
        self.asked, self.chosen = [], []

    def choose(self, scores, scale):
        self.asked.append((scores, scale))
        self.chosen.append(SeededNoise.choose(self, scores, scale))
        return self.chosen[-1]


class TestMerging:
    def test_drowned_levels_become_one_and_share_what_is_theirs(self):
        levels = KeptLevels.of(Measurement(("a",), np.array([500, 2, 300, -4, 6]), 3.0))
        assert levels.merged.tolist() == [0, 2, 1, 2, 2]
        assert levels.size == 3
        assert levels.shares[[0, 2]].tolist() == [1, 1]
        assert levels.shares[[1, 3, 4]].sum() == pytest.approx(1)
        assert levels.shares[3] <= levels.shares[1] <= levels.shares[4]

    def test_one_drowned_level_has_nothing_to_be_merged_with(self):
        levels = KeptLevels.of(Measurement(("a",), np.array([500, 2, 300]), 3.0))
        assert levels.merged.tolist() == [0, 1, 2]
        assert levels.shares.tolist() == [1, 1, 1]

    def test_all_drowned_is_one_level(self):
        levels = KeptLevels.of(Measurement(("a",), np.array([0, 2, -3]), 3.0))
        assert levels.size == 1
        assert levels.shares.sum() == pytest.approx(1)

    def test_the_marginal_is_summed_and_its_noise_is_the_mean_of_all(self):
        measured = Measurement(("a",), np.array([500, 2, 300, -4, 6]), 3.0)
        summed = KeptLevels.of(measured).summed(measured)
        assert summed.values.tolist() == [500, 300, 4]
        assert summed.stddev**2 == pytest.approx((9 + 9 + 27) / 3)

    def test_apart_undoes_merging_of_the_records(self):
        domain = Domain.of({"a": 5, "b": 2})
        codes = np.random.default_rng(0).choice(5, size=1_000, p=[0.5, 0.01, 0.47, 0.01, 0.01])
        dataset = Dataset.of_columns(domain, [codes, codes % 2])
        measured = [Measurement((name,), count(dataset, (name,)), 20.0) for name in "ab"]
        merged = MergedLevels(domain, tuple(map(KeptLevels.of, measured)))
        small = merged.merged(dataset)
        assert small.domain.sizes == merged.small.sizes == (3, 2)
        psi = measure_dataset(small, [("a", "b")])
        model = merged.apart(graphical().fit(psi, small.domain))
        assert model.domain == domain
        found = model.marginal(("a",)) * 1_000
        np.testing.assert_allclose(found[[0, 2]], count(dataset, ("a",))[[0, 2]], atol=1e-6)
        assert found[[1, 3, 4]].sum() == pytest.approx(count(dataset, ("a",))[[1, 3, 4]].sum())


class TestAim:
    def test_an_endless_budget_leaves_the_marginals_of_the_workload(self):
        dataset = chained(rows=2_000, attributes=4)
        model = Aim(ENDLESS, OpenDpNoise(), rounds=4).fit(dataset, seed=0).model
        pairs = combinations(dataset.domain.attributes, 2)
        assert max(variation(model, dataset, pair) for pair in pairs) < 1e-2

    def test_only_what_lies_inside_the_workload_is_measured(self):
        dataset = chained()
        noise = Recorded(2)
        Aim(SOME, noise, workload=(("c", "a", "b"),), rounds=2).fit(dataset, seed=0)
        sizes = {size for kind, size, _ in noise.draws if kind == "gaussian"}
        assert sizes <= {3, 9, 27}
        assert {size for kind, size, _ in noise.draws if kind == "choose"} <= set(range(1, 8))

    @pytest.mark.parametrize("max_cells", [40, 70, 200])
    def test_the_model_stays_within_its_bound(self, max_cells):
        dataset = chained()
        model = Aim(ENDLESS, SeededNoise(0), rounds=3, max_cells=max_cells).fit(dataset, seed=0).model
        assert sum(table.size for table in model.tables) <= max_cells

    def test_marginals_for_which_the_model_has_no_room_are_not_counted(self):
        """64,000,000 cells are more than anybody counts; the others are measured all the same."""
        domain = Domain.of({"a": 8_000, "b": 8_000, "c": 3})
        codes = np.random.default_rng(0).integers(0, domain.sizes, (500, 3))
        noise = Recorded(0)
        Aim(SOME, noise, rounds=1, max_cells=60_000).fit(Dataset(domain, codes), seed=0)
        assert {size for kind, size, _ in noise.draws if kind == "gaussian"} <= {3, 8_000, 24_000}

    def test_a_candidate_has_the_cells_of_the_tree_that_it_would_lead_to(self):
        domain = Domain.of({"a": 2, "b": 3, "c": 4, "d": 5})
        cliques = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
        for chosen in (cliques[:1], cliques[:3], cliques):
            tree = JunctionTree.of(domain, chosen)
            assert cells_needed(domain, chosen) == sum(domain.project(c).cells for c in tree.cliques)

    def test_rounds_that_change_nothing_get_four_times_the_budget(self):
        """Half the noise, and twice the weight of the scores, again and again until it is spent."""
        dataset = chained()
        noise = Recorded(0)
        Aim(gaussian("0.001", neighbouring="add-remove"), noise).fit(dataset, seed=0)
        scales = [scale for kind, _, scale in noise.draws if kind == "gaussian"][5:]
        ratios = {round(one / other, 3) for one, other in pairwise(scales[:-1])}
        assert ratios <= {1.0, 2.0}
        assert 2.0 in ratios

    def test_a_weight_is_what_the_workload_has_of_a_clique(self):
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        weights = Candidates.of(domain, [("b", "a"), ("b", "c")], 4).weights
        assert weights == {("a",): 1, ("b",): 2, ("c",): 1, ("a", "b"): 3, ("b", "c"): 3}
        assert Candidates.of(domain, (), 3).weights == {("a",): 2, ("b",): 2, ("c",): 2}
        everything = Candidates.of(domain, (), 4)
        assert Counter(map(len, everything.cliques)) == {1: 3, 2: 3}

    @pytest.mark.parametrize(
        ("clique", "error"), [(("a", "z"), UnknownAttributeError), (("a", "a"), InvalidCliqueError)]
    )
    def test_a_workload_of_other_records_is_refused(self, clique, error):
        surroundings = Surroundings((clique,), noise=Silent())
        with pytest.raises(error):
            box_named("aim", {}, surroundings).fit(chained(), seed=0)


class TestNoisyModel:
    def test_measuring_again_counts_both_by_their_precision(self):
        domain = Domain.of({"a": 2, "b": 2})
        first = Measurement(("a",), np.array([100, 200]), 2.0)
        other = Measurement(("b",), np.array([150, 150]), 2.0)
        model = NoisyModel(domain, [first, other])
        both = model.with_one(Measurement(("a",), np.array([110, 190]), 1.0))
        (combined,) = (m for m in both.measurements if m.clique == ("a",))
        np.testing.assert_allclose(combined.values, [108, 192])
        assert combined.stddev == pytest.approx(np.sqrt(1 / (1 / 4 + 1)))
        assert both.records == pytest.approx(300)
        assert both.cliques == {("a",), ("b",)}

    def test_the_number_of_records_is_the_weighted_mean_and_at_least_one(self):
        domain = Domain.of({"a": 2, "b": 8})
        exact = Measurement(("a",), np.array([10, 20]), 1.0)
        vague = Measurement(("b",), np.full(8, 5), 2.0)
        assert NoisyModel(domain, [exact, vague]).records == pytest.approx(
            (30 / 2 + 40 / 32) / (1 / 2 + 1 / 32)
        )
        none = [Measurement((n,), np.full(domain.size(n), -3), 2.0) for n in "ab"]
        assert NoisyModel(domain, none).records == 1


class TestPrivacyBudget:
    def test_nothing_is_spent_twice(self):
        budget = PrivacyBudget(laplace(1, neighbouring="add-remove"), Silent())
        budget.noisy_marginal(("a",), np.array([1, 2]), Fraction(3, 4))
        assert budget.remaining == Fraction(1, 4)
        with pytest.raises(AssertionError):
            budget.choose(np.array([1, 2]), 1, Fraction(1, 2))
        with pytest.raises(AssertionError):
            budget.noisy_marginal(("a",), np.array([1, 2]), Fraction(0))

    def test_a_choice_follows_its_law_to_the_digit(self):
        """By OpenDP's sampler: P proportional to exp(epsilon q / 2 sensitivity), by chi-square."""
        scores, tries = np.array([0, 700, 1_400]), 3_000
        chosen = [
            PrivacyBudget(laplace(1, neighbouring="replace-one"), OpenDpNoise()).choose(
                scores, 700, Fraction(1)
            )
            for _ in range(tries)
        ]
        law = np.exp(np.array([0, 0.5, 1.0]))
        hits = np.bincount(chosen, minlength=3)
        assert stats.chisquare(hits, tries * law / law.sum()).pvalue > 1e-6

    def test_larger_tables_get_more_of_the_budget_and_the_parts_add_up(self):
        noise = Recorded()
        budget = PrivacyBudget(SOME, noise)
        dataset = Dataset(Domain.of({"a": 2, "b": 16}), np.zeros((5, 2), dtype=int))
        budget.noisy_marginals(dataset, [("a",), ("b",)], Fraction(1, 4))
        assert budget.remaining == Fraction(1, 4)
        (_, _, small), (_, _, large) = noise.draws
        assert (small / large) ** 2 == pytest.approx(8 ** (2 / 3), rel=1e-3)


def test_attributes_that_are_too_large_are_refused_before_anything_is_measured():
    domain = Domain.of({"a": 60_000, "b": 60_000})
    dataset = Dataset(domain, np.zeros((1, 2), dtype=int))
    noise = Recorded()
    for box in (Mst(SOME, noise), Aim(SOME, noise, workload=(("a",), ("b",)), max_cells=100_000)):
        with pytest.raises(ModelTooLargeError):
            box.fit(dataset, seed=0)
    assert noise.draws == []


def test_a_psi_of_attributes_alone_is_independence():
    domain = Domain.of({"a": 2, "b": 3})
    model = NoisyModel(
        domain, [Measurement((n,), np.full(domain.size(n), 6 // domain.size(n)), 1.0) for n in "ab"]
    )
    expected = model.expected([("a", "b")])[("a", "b")]
    np.testing.assert_allclose(expected, np.full((2, 3), 1.0), atol=1e-9)
    assert set(model.tree.tree.cliques) == {("a",), ("b",)}
