"""Noise that a budget asks for: spent to the last part and never more, and stated truly."""

from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.card.budget import FREE, Neighbouring
from gencard.core.card.privacy import EXACT, NOISES, Gaussian, Laplace, gaussian, laplace
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidPsiError
from gencard.core.statistics.measure import measure, measure_dataset
from gencard.core.statistics.noise import noisy, scales
from tests.core.strategies import brute_count, measured

amounts = st.decimals("0.000000001", 1_000_000, places=9)
relations = st.sampled_from(Neighbouring)
many_weights = st.lists(st.integers(1, 10**6), min_size=1, max_size=8)
PURE = laplace(1, neighbouring="add-remove")
MOVED = {Neighbouring.ADD_REMOVE: 1, Neighbouring.REPLACE_ONE: 2}
"""Counts of one marginal that a record moves, each by 1: its L1 sensitivity, and the square of L2."""


class Added:
    """Adds 1 where Laplace noise is asked for, 2 where it is Gaussian; remembers the scales."""

    def __init__(self, add=None):
        self.asked, self.add = [], add

    def laplace(self, counts, scale):
        return self._noisy(counts, "laplace", scale, 1)

    def gaussian(self, counts, scale):
        return self._noisy(counts, "gaussian", scale, 2)

    def _noisy(self, counts, name, scale, add):
        assert counts.dtype == np.int64
        self.asked.append((name, scale))
        return counts + (add if self.add is None else self.add)


class Source:
    def __init__(self, dataset):
        self.dataset = dataset

    def count(self, cliques):
        return [brute_count(self.dataset, clique) for clique in cliques]


class TestScales:
    @given(amounts, relations, many_weights)
    def test_laplace_spends_the_whole_epsilon_and_no_more(self, epsilon, relation, weights):
        """By the theorem, in exact rationals: a scale b spends L1 / b."""
        privacy = laplace(epsilon, neighbouring=relation)
        found = scales(privacy, weights)
        spent = sum(MOVED[relation] / Fraction(scale) for scale in found)
        assert Fraction(epsilon) * (1 - Fraction(1, 10**12)) <= spent <= Fraction(epsilon)

    @given(amounts, relations, many_weights)
    def test_gaussian_spends_the_whole_rho_and_no_more(self, rho, relation, weights):
        """A sigma spends L2^2 / (2 sigma^2)."""
        privacy = gaussian(rho, neighbouring=relation)
        spent = sum(MOVED[relation] / (2 * Fraction(scale) ** 2) for scale in scales(privacy, weights))
        assert Fraction(rho) * (1 - Fraction(1, 10**6)) <= spent <= Fraction(rho)

    @given(amounts, relations, st.integers(1, 1000))
    def test_a_heavier_marginal_gets_less_noise(self, amount, relation, weight):
        for privacy in (laplace(amount, neighbouring=relation), gaussian(amount, neighbouring=relation)):
            light, heavy = scales(privacy, [1, weight])
            assert heavy <= light

    def test_by_hand(self):
        assert scales(PURE, [1]) == (1.0,)
        assert scales(laplace(1, neighbouring="replace-one"), [1, 1]) == (4.0, 4.0)
        assert scales(laplace("0.5", neighbouring="add-remove"), [3, 1]) == (nextafter(8 / 3, inf), 8.0)
        (sigma,) = scales(gaussian("0.5", neighbouring="add-remove"), [1])
        assert 1 <= sigma < 1 + 1e-9
        assert scales(gaussian("0.02", neighbouring="replace-one"), [1]) == pytest.approx([50**0.5])

    def test_exact_counts_have_none(self):
        assert not EXACT.noisy
        assert EXACT.price == FREE


class TestChoice:
    """The exponential mechanism's parameter, against its law on all pairs of neighbouring scores."""

    @given(amounts, st.integers(1, 2**40))
    def test_it_spends_the_whole_budget_and_no_more(self, amount, sensitivity):
        budget = Fraction(amount)
        pure = Fraction(Laplace.choice_scale(Fraction(sensitivity), budget))
        assert budget * (1 - Fraction(1, 10**12)) <= 2 * sensitivity / pure <= budget
        scale = Fraction(Gaussian.choice_scale(Fraction(sensitivity), budget))
        assert budget * (1 - Fraction(1, 10**6)) <= Fraction(sensitivity) ** 2 / (2 * scale**2) <= budget

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
    def test_pure_epsilon_bounds_every_ratio_and_is_reached(self, epsilon):
        scale = Laplace.choice_scale(Fraction(3), Fraction(str(epsilon)))
        losses = [np.abs(np.log(p / q)).max() for p, q in neighbouring_choices(3, scale)]
        assert max(losses) <= epsilon
        assert chosen_with(np.array([0, 50]), scale)[1] > 0.5
        far = [np.array([0, 0, -(10**6)]), np.array([3, -3, -(10**6)])]
        p, q = (chosen_with(scores, scale) for scores in far)
        assert np.log(q[0] / q[1]) - np.log(p[0] / p[1]) == pytest.approx(epsilon)

    @pytest.mark.parametrize("rho", [0.01, 0.5, 2.0])
    def test_no_renyi_divergence_is_above_rho_alpha(self, rho):
        scale = Gaussian.choice_scale(Fraction(2), Fraction(str(rho)))
        for p, q in neighbouring_choices(2, scale):
            for alpha in (1.001, 1.5, 2.0, 8.0, 64.0):
                with np.errstate(under="ignore"):
                    divergence = np.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1)
                assert divergence <= rho * alpha * (1 + 1e-9)


def chosen_with(scores, scale):
    """The law of a choice, by its definition."""
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def neighbouring_choices(sensitivity, scale):
    """Laws of choices among three or four scores, and with every score moved at most so far."""
    rng = np.random.default_rng(7)
    for size in (2, 3, 4):
        for _ in range(50):
            scores = rng.integers(0, round(4 * scale) + 2, size)
            moves = rng.choice([-sensitivity, 0, sensitivity], size)
            yield chosen_with(scores, scale), chosen_with(scores + moves, scale)


class TestStddev:
    @pytest.mark.parametrize("scale", [0.2, 0.3, 1.0, 3.999, 4.0, 7.5, 60.0])
    @pytest.mark.parametrize("mechanism", NOISES)
    def test_it_is_the_root_of_the_sum_over_all_whole_numbers(self, mechanism, scale):
        steps = np.arange(-20_000, 20_001)
        exponent = np.abs(steps) / scale if mechanism.norm == 1 else (steps / scale) ** 2 / 2
        weights = np.exp(-exponent)
        assert mechanism.stddev(scale) == pytest.approx(
            np.sqrt(steps.astype(float) ** 2 @ weights / weights.sum()), rel=1e-12
        )

    @given(st.floats(1e-9, 1e12), st.sampled_from(NOISES))
    def test_noise_is_never_said_to_be_none(self, scale, mechanism):
        assert 0 < mechanism.stddev(scale) < inf

    def test_of_large_scales_it_is_that_of_the_continuous_law(self):
        assert Laplace.stddev(1e9) == pytest.approx(2**0.5 * 1e9)
        assert Gaussian.stddev(1e9) == 1e9


class TestMeasure:
    @given(measured(), relations, st.booleans(), st.data())
    def test_every_count_gets_noise_of_its_marginals_scale(self, drawn, relation, pure, data):
        dataset, cliques = drawn
        privacy = (laplace if pure else gaussian)("0.7", neighbouring=relation)
        weights = data.draw(st.lists(st.integers(1, 9), min_size=len(cliques), max_size=len(cliques)))
        noise = Added()
        psi = measure(Source(dataset), cliques, dataset.domain, privacy, noise=noise, weights=weights)
        name = privacy.mechanism.value
        assert noise.asked == [(name, scale) for scale in scales(privacy, weights)]
        for measurement, (_, scale) in zip(psi.measurements, noise.asked, strict=True):
            exact = brute_count(dataset, measurement.clique)
            np.testing.assert_array_equal(measurement.values, exact + (1 if pure else 2))
            assert measurement.stddev == privacy.stddev(scale)

    @given(measured(), st.randoms(use_true_random=False))
    def test_the_order_of_records_is_irrelevant(self, drawn, random):
        """Counts are whole numbers: no order of summing shows in them (re-ordering attacks)."""
        dataset, cliques = drawn
        order = list(range(len(dataset)))
        random.shuffle(order)
        shuffled = Dataset(dataset.domain, dataset.codes[order])
        one, other = (
            measure(Source(each), cliques, each.domain, PURE, noise=Added())
            for each in (dataset, shuffled)
        )
        for first, second in zip(one.measurements, other.measurements, strict=True):
            assert first.values.tobytes() == second.values.tobytes()

    @pytest.mark.parametrize("add", [2**62, -(2**62)])
    def test_what_a_float_cannot_hold_is_clamped(self, add):
        psi = measure_dataset(*measured_once())
        clamped = noisy(psi, PURE, Added(add)).measurements[0].values
        assert set(np.abs(clamped).ravel().tolist()) == {2**53}

    def test_a_source_that_cannot_be_right_draws_no_noise(self):
        dataset, cliques = measured_once()
        noise = Added()
        source = Source(dataset)
        source.count = lambda _: [np.array([-1, 3])]
        with pytest.raises(InvalidPsiError):
            measure(source, cliques, dataset.domain, PURE, noise=noise)
        assert noise.asked == []


def measured_once():
    return Dataset(Domain.of({"a": 2}), np.array([[0], [1], [1]])), [("a",)]
