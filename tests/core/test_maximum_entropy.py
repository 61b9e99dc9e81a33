"""Maximum entropy with linear statistics; the paper's Example 3 runs through it."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.coding import Attribute, Coding, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidPsiError, NotConvergedError, TooLargeError
from gencard.core.generators.contract import TargetMeans, rng_of, synthesise
from gencard.core.generators.family import ipf
from gencard.core.generators.model_file import bytes_of, model_of
from gencard.core.generators.moments import Dual, MaximumEntropy, largest_entropy
from gencard.core.statistics.linear import (
    Function,
    LinearStatistic,
    by_group,
    covariance,
    mean,
    variance,
)
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi
from tests.core.strategies import datasets, domains, summed, workloads
from tests.core.tables import moment

X = Attribute("x", Labels(tuple(map(str, range(11))), integer=True))
Y = Attribute("y", Labels(("0", "1", "5"), missing=True))
G = Attribute("g", Labels(("f", "m")))
DOMAIN = Coding((X, Y, G)).domain
LEVELS = np.arange(11)


def records(number=400, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=number)
    x = rng.binomial(10, 0.2 + 0.3 * group)
    return Dataset(DOMAIN, np.stack([x, rng.integers(4, size=number), group], axis=1))


def x_only(values):
    return Dataset(DOMAIN.project(("x",)), np.asarray(values)[:, None])


def fitted(dataset, *statistics):
    psi = measure_dataset(dataset, statistics)
    return psi, MaximumEntropy().fit(psi, dataset.domain)


def means_of(model, statistic):
    """The functions' means under a model, by the definition."""
    values = statistic.numerators / statistic.denominators[:, None]
    return values @ model.marginal(statistic.clique).ravel()


class TestLaws:
    def test_mean_and_variance_are_met_and_the_rest_is_as_even_as_they_allow(self):
        """A normal density on the levels, as calculus says: its logarithm is a quadratic."""
        psi, model = fitted(x_only(records().column("x")), variance(X))
        np.testing.assert_allclose(means_of(model, variance(X)), psi.linear[0].means, rtol=1e-7)
        third = np.diff(np.log(model.probabilities), n=3)
        np.testing.assert_allclose(third, 0, atol=1e-6)

    def test_the_mean_alone_gives_a_geometric_law(self):
        _, model = fitted(x_only([0, 1, 1, 2, 7]), mean(X))
        ratios = model.probabilities[1:] / model.probabilities[:-1]
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)

    def test_marginals_and_linear_statistics_stand_side_by_side(self):
        statistics = (("y",), ("g",), variance(X), covariance(X, Y), by_group(G, X, counts=True))
        psi, model = fitted(records(), *statistics)
        for marginal in psi.measurements:
            np.testing.assert_allclose(model.marginal(marginal.clique), marginal.values / 400, atol=1e-8)
        for linear in psi.linear:
            np.testing.assert_allclose(means_of(model, linear.statistic), linear.means, atol=1e-6)

    @settings(deadline=None, max_examples=30)
    @given(data=st.data())
    def test_of_marginals_alone_it_is_the_table_of_ipf(self, data):
        domain = data.draw(domains(most=3))
        dataset = data.draw(datasets(domain, fewest=1))
        psi = measure_dataset(dataset, data.draw(workloads(domain)))
        one, other = (g.fit(psi, domain) for g in (MaximumEntropy(), ipf(tolerance=1e-7)))
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-3)

    @settings(deadline=None, max_examples=60)
    @given(drawn=summed(), beside=st.booleans())
    def test_any_functions_of_any_records_are_met(self, drawn, beside):
        dataset, statistic = drawn
        marginals = [dataset.domain.attributes[:1]] if beside else []
        psi = measure_dataset(dataset, [*marginals, statistic])
        model = MaximumEntropy().fit(psi, dataset.domain)
        largest = np.array([function.largest for function in statistic.functions])
        targets = psi.linear[0].values / len(dataset)
        missed = statistic.numerators @ model.marginal(statistic.clique).ravel() - targets
        assert np.abs(missed / largest).max() < 1e-6

    def test_equal_psi_gives_equal_bytes(self):
        """Two sets of records with the same first two moments and another third one."""
        one, other = x_only([0, 4, 5]), x_only([1, 2, 6])
        assert (one.codes**2).sum() == (other.codes**2).sum()
        assert (one.codes.astype(int) ** 3).sum() != (other.codes.astype(int) ** 3).sum()
        digests = {
            synthesise(
                MaximumEntropy(), measure_dataset(side, [variance(X)]), side.domain, 500, 3
            ).digest()
            for side in (one, other)
        }
        assert len(digests) == 1

    def test_saved_and_loaded_it_draws_the_same(self):
        _, model = fitted(records(), ("y",), by_group(G, X, counts=True))
        loaded = model_of(bytes_of(model))
        assert model.sample(99, rng=rng_of(4)).digest() == loaded.sample(99, rng=rng_of(4)).digest()

    def test_structural_zeros_stay_empty(self):
        zero = StructuralZeros(("x", "g"), tuple((code, 0) for code in range(6, 11)))
        dataset = records()
        dataset = dataset.take(np.flatnonzero((dataset.column("x") < 6) | (dataset.column("g") == 1)))
        psi = measure_dataset(dataset, [("g",), variance(X)])
        model = MaximumEntropy((zero,)).fit(psi, DOMAIN)
        assert model.marginal(("x", "g"))[6:, 0].max() == 0
        np.testing.assert_allclose(means_of(model, variance(X)), psi.linear[0].means, rtol=1e-7)


class TestBoundary:
    def test_records_that_are_all_the_same(self):
        _, model = fitted(x_only([10] * 5), variance(X))
        assert model.probabilities[10] == pytest.approx(1, abs=1e-6)

    def test_an_interior_face(self):
        """A variance so large that only the ends are left."""
        _, model = fitted(x_only([0, 10, 10]), variance(X))
        assert model.probabilities[[0, 10]] == pytest.approx([1 / 3, 2 / 3], abs=1e-6)

    @pytest.mark.parametrize("sums", [[4, 20, 99], [4, 20, 401], [4, 2, 1]])
    def test_moments_of_no_records_are_refused(self, sums):
        """A variance below zero; above that of the ends; squares of whole numbers below the numbers."""
        linear = LinearMeasurement(variance(X), np.array(sums), np.zeros(3))
        with pytest.raises((NotConvergedError, InvalidPsiError)) as caught:
            MaximumEntropy().fit(Psi(DOMAIN.project(("x",)), (), (linear,)), DOMAIN.project(("x",)))
        assert caught.value.reason in {"NOT_CONVERGED", "INVALID_PSI"}

    def test_a_statistic_that_contradicts_a_marginal_is_refused(self):
        psi = measure_dataset(x_only([1, 2, 3, 4]), [("x",)])
        other = measure_dataset(x_only([1, 2, 3, 5]), [mean(X)])
        with pytest.raises(NotConvergedError, match="no distribution"):
            MaximumEntropy().fit(Psi(psi.domain, psi.measurements, other.linear), psi.domain)


class TestNoise:
    def noisy(self, stddev, seed):
        psi = measure_dataset(records(), [("y", "g"), variance(X)])
        noise = np.random.default_rng(seed)
        marginal, linear = psi.measurements[0], psi.linear[0]
        scale = stddev * np.array([f.largest for f in linear.statistic.functions])
        return Psi(
            psi.domain,
            (
                Measurement(
                    marginal.clique,
                    marginal.values + noise.normal(0, stddev, marginal.values.shape),
                    stddev,
                ),
            ),
            (LinearMeasurement(linear.statistic, linear.values + scale * noise.normal(0, 1, 3), scale),),
        )

    @pytest.mark.parametrize("seed", range(5))
    def test_little_noise_is_missed_by_little(self, seed):
        psi = self.noisy(2.0, seed)
        model = MaximumEntropy().fit(psi, DOMAIN)
        missed = means_of(model, variance(X)) - psi.linear[0].values / 400
        assert np.all(np.abs(missed) < 5 * psi.linear[0].stddevs / 400)

    @pytest.mark.parametrize("stddev", [50.0, 5_000.0])
    def test_psi_of_no_records_at_all_has_a_model_too(self, stddev):
        psi = self.noisy(stddev, 1)
        one, other = (synthesise(MaximumEntropy(), psi, DOMAIN, 50, 1) for _ in range(2))
        assert one.digest() == other.digest()

    def test_noise_without_end_leaves_the_uniform_table(self):
        psi = self.noisy(1.0, 1)
        (linear,) = psi.linear
        deaf = Psi(
            psi.domain,
            (Measurement(("y", "g"), psi.measurements[0].values, 1e9),),
            (LinearMeasurement(linear.statistic, linear.values, linear.stddevs * 1e9),),
        )
        model = MaximumEntropy().fit(deaf, DOMAIN)
        np.testing.assert_allclose(model.probabilities, 1 / DOMAIN.cells, rtol=1e-3)

    def test_newton_finds_the_least_value(self):
        """The gradient is that of the value, and no point nearby is lower."""
        rng = np.random.default_rng(0)
        dual = Dual(
            rng.uniform(-1, 1, (3, 20)), TargetMeans(np.array([0.1, -0.2, 0.0]), np.full(3, 0.05))
        )
        at, eye = rng.normal(size=3), 1e-6 * np.eye(3)
        slope = [(dual.value(at + e) - dual.value(at - e)) / 2e-6 for e in eye]
        np.testing.assert_allclose(dual.gradient(at, dual.distribution(at)), slope, atol=1e-7)
        largest = largest_entropy(dual, 1e-12, 50)
        misses = dual.values @ largest - dual.targets.means
        penalised = -(largest @ np.log(largest)) - np.sum((misses / 0.05) ** 2) / 2
        for _ in range(200):
            moved = largest * np.exp(rng.normal(0, 0.01, 20))
            moved /= moved.sum()
            misses = dual.values @ moved - dual.targets.means
            assert -(moved @ np.log(moved)) - np.sum((misses / 0.05) ** 2) / 2 <= penalised + 1e-12


class TestSize:
    def test_too_many_functions_are_refused_before_anything_is_allocated(self):
        psi = measure_dataset(records(), [("x", "y", "g"), variance(X)])
        with pytest.raises(TooLargeError, match="number of functions"):
            MaximumEntropy(max_functions=90).fit(psi, DOMAIN)
        with pytest.raises(TooLargeError, match="times cells"):
            MaximumEntropy(max_cells=7_999).fit(psi, DOMAIN)

    def test_functions_count_beside_marginals(self):
        cells = DOMAIN.cells
        ones = Function("1", (1,) * cells)
        wide = LinearStatistic(DOMAIN.attributes, (ones, *(ones,) * 30))
        psi = measure_dataset(records(), [wide])
        with pytest.raises(TooLargeError):
            MaximumEntropy(max_functions=30).fit(psi, DOMAIN)


def test_it_is_the_answer_to_a_problem_with_three_attributes_and_pairs():
    """Against the dual solved by another method, to many digits."""
    domain = Domain.of({"a": 2, "b": 3, "c": 2})
    rng = np.random.default_rng(5)
    dataset = Dataset(domain, np.stack([rng.integers(s, size=60) for s in domain.sizes], axis=1))
    psi = measure_dataset(dataset, list(combinations("abc", 2)))
    one, other = (g.fit(psi, domain) for g in (MaximumEntropy(), ipf(tolerance=1e-12)))
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-9)


def test_a_moment_of_its_own_may_be_asked_for():
    psi, model = fitted(x_only(records().column("x")), moment(X, 3))
    assert means_of(model, moment(X, 3)) == pytest.approx(psi.linear[0].means)
