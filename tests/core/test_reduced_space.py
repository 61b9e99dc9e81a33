"""The reduced space: its linear program against known optima, its points, its error bound."""

import json
from itertools import combinations
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.coding import Attribute, Coding, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import NotConvergedError, TooLargeError
from gencard.core.generators.contract import TargetMeans, every_cell, records, values_on
from gencard.core.generators.moments import ReducedSpace, nearest_density
from gencard.core.statistics.linear import variance
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi
from tests.shared_data import oracle_file

BITS = Domain.of({f"a{number}": 2 for number in range(12)})
PAIRS = list(combinations(BITS.attributes, 2))
X = Attribute("x", Labels(tuple(map(str, range(11))), integer=True))


def bits(number=4_000, seed=0):
    """Records of two kinds, so that the attributes depend on each other."""
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random((number, 1)) < 0.4, 0.8, 0.2) * np.linspace(0.6, 1.2, 12)
    return Dataset(BITS, (rng.random((number, 12)) < chance).astype(int))


def with_noise(psi, stddev, seed=0):
    noise = np.random.default_rng(seed)
    return Psi(
        psi.domain,
        tuple(
            Measurement(m.clique, m.values + np.rint(noise.normal(0, stddev, m.values.shape)), stddev)
            for m in psi.measurements
        ),
    )


def worst(model, psi, number):
    return max(np.abs(model.marginal(m.clique) - m.values / number).max() for m in psi.measurements)


@pytest.mark.shared
class TestOracle:
    def cases(self):
        return json.loads(oracle_file("metrics/bsv_lp.json").read_text())["cases"]

    def test_the_optima_are_met(self):
        for case in self.cases():
            points = np.array(case["points"])
            values = np.array(
                [(points[:, columns] == levels).all(axis=1) for columns, levels in case["functions"]],
                dtype=float,
            )
            for means, optimum in (
                ("noisy_stats", "lp_optimum"),
                ("true_stats", "lp_optimum_noiseless"),
            ):
                density, least = nearest_density(values, np.array(case[means]))
                assert least == pytest.approx(case[optimum], abs=1e-6)
                assert density.sum() == pytest.approx(1)
                reached = np.abs(values @ density - case[means]).max()
                assert reached == pytest.approx(case[optimum], abs=1e-6)


class TestNearest:
    @settings(deadline=None, max_examples=50)
    @given(seed=st.integers(0, 10_000))
    def test_no_density_comes_nearer(self, seed):
        rng = np.random.default_rng(seed)
        values, means = rng.uniform(-1, 1, (5, 8)), rng.uniform(-1, 1, 5)
        density, least = nearest_density(values, means)
        assert density.min() >= 0
        assert density.sum() == pytest.approx(1)
        others = rng.dirichlet(np.full(8, 0.3), size=300)
        assert np.abs(others @ values.T - means).max(axis=1).min() >= least - 1e-9
        mixed = 0.999 * density + 0.001 * others
        assert np.abs(mixed @ values.T - means).max(axis=1).min() >= least - 1e-9


class TestFit:
    def test_a_domain_of_few_cells_is_its_own_reduced_space(self):
        psi = measure_dataset(bits(), PAIRS)
        model = ReducedSpace().fit(psi, BITS)
        assert worst(model, psi, 4_000) < 1e-6
        assert len(model.support) <= 4 * len(PAIRS) + 1

    def test_points_of_the_one_way_marginals_come_nearer_than_uniform_ones(self):
        rare = np.random.default_rng(1).random((4_000, 12)) < np.linspace(0.02, 0.3, 12)
        psi = with_noise(measure_dataset(Dataset(BITS, rare.astype(int)), PAIRS), 5.0)
        generator = ReducedSpace(points=500)
        drawn = worst(generator.fit(psi, BITS), psi, records(psi))
        uniform = every_cell(BITS).take(np.random.default_rng(0).permutation(BITS.cells)[:500])
        _, missed = nearest_density(values_on(psi, uniform), TargetMeans.of(psi).means)
        assert 3 * drawn < missed

    def test_another_seed_draws_other_points(self):
        psi = with_noise(measure_dataset(bits(), PAIRS), 20.0)
        one, other = (ReducedSpace(points=40, seed=seed).fit(psi, BITS) for seed in (0, 1))
        assert one.support.digest() != other.support.digest()

    def test_linear_statistics_alone(self):
        domain = Coding((X,)).domain
        dataset = Dataset(domain, np.random.default_rng(0).binomial(10, 0.3, 300)[:, None])
        psi = measure_dataset(dataset, [variance(X)])
        for points in (4_096, 5):
            model = ReducedSpace(points=points, tolerance=0.5).fit(psi, domain)
            values = variance(X).scaled @ model.marginal(("x",))
            missed = np.abs(values - TargetMeans.of(psi).means).max()
            assert missed < (1e-9 if points > 11 else 0.1)

    def test_exact_psi_that_the_points_miss_has_no_model(self):
        psi = measure_dataset(bits(), PAIRS)
        with pytest.raises(NotConvergedError, match="missed by more"):
            ReducedSpace(points=20).fit(psi, BITS)

    def test_zeros_that_leave_nothing_are_refused(self):
        psi = measure_dataset(bits(), [("a0",)])
        with pytest.raises(NotConvergedError):
            ReducedSpace((StructuralZeros(("a0",), ((0,), (1,))),)).fit(psi, BITS)

    def test_too_many_functions_are_refused(self):
        psi = measure_dataset(bits(), PAIRS)
        with pytest.raises(TooLargeError, match="number of functions"):
            ReducedSpace(max_functions=263).fit(psi, BITS)
        with pytest.raises(TooLargeError, match="times cells"):
            ReducedSpace(max_cells=264 * 4_096 - 1).fit(psi, BITS)


class TestErrorBound:
    @pytest.mark.parametrize("seed", range(3))
    def test_rows_stay_within_the_bound_of_boedihardjo_strohmer_vershynin(self, seed):
        """Noise of epsilon 4: a scale of 2 M / epsilon for M marginals; every cell a point."""
        scale = 2 * len(PAIRS) / 4
        dataset = bits(200_000, seed)
        exact = measure_dataset(dataset, PAIRS)
        psi = with_noise(exact, sqrt(2) * scale, seed)
        model = ReducedSpace().fit(psi, BITS)
        drawn = model.sample(200_000, rng=np.random.Generator(np.random.PCG64(seed)))
        truth = measure_dataset(drawn, PAIRS)
        errors = [
            np.abs(one.values - other.values).max() / 200_000
            for one, other in zip(truth.measurements, exact.measurements, strict=True)
        ]
        functions, gamma = 4 * len(PAIRS), 0.025
        hoeffding = sqrt(2 * log(2 * functions / gamma) / 200_000)  # of the records, and of the rows
        laplace = scale / records(psi) * log(functions / gamma)
        bound = worst(model, psi, records(psi)) + laplace + 2 * hoeffding
        assert max(errors) < bound < 0.1
