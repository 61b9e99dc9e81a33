"""Laws of the fit, against closed forms and another program; its guards."""

import gc
import json
import time
import tracemalloc
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError, InvalidPsiError, NotConvergedError, TooLargeError
from gencard.core.generators import fitting
from gencard.core.generators.contract import synthesise
from gencard.core.generators.family import ipf
from gencard.core.generators.models import TableModel
from gencard.core.statistics.marginals import count, project
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi
from tests.core.strategies import datasets, domains, measured, workloads
from tests.core.tables import BIG, dense_dataset, errors, pairs, textbook
from tests.shared_data import oracle_file

LOOSE = ipf(tolerance=1e-3)
TIGHT = ipf(tolerance=1e-10)


class TestLaws:
    @settings(deadline=None, max_examples=60)
    @given(measured())
    def test_psi_of_the_model_is_psi(self, drawn):
        dataset, cliques = drawn
        psi = measure_dataset(dataset, cliques)
        model = LOOSE.fit(psi, dataset.domain)
        assert model.domain == dataset.domain
        assert max(errors(model, psi)) <= 1e-3 * (1 + 1e-9)

    @settings(deadline=None, max_examples=30)
    @given(measured(), st.randoms(use_true_random=False))
    def test_equal_psi_gives_equal_bytes(self, drawn, random):
        dataset, cliques = drawn
        order = np.array(random.sample(range(len(dataset)), len(dataset)))
        one, other = (
            synthesise(LOOSE, measure_dataset(records, cliques), dataset.domain, 30, 1)
            for records in (dataset, dataset.take(order))
        )
        assert one.digest() == other.digest()

    def test_equal_psi_of_different_records_gives_equal_bytes(self):
        """The cells of even and of odd parity have the same marginals on every pair."""
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        even, odd = (
            Dataset(domain, np.array([cell for cell in np.ndindex(2, 2, 2) if sum(cell) % 2 == parity]))
            for parity in (0, 1)
        )
        assert not np.array_equal(count(even, domain.attributes), count(odd, domain.attributes))
        released = [
            synthesise(ipf(), measure_dataset(d, pairs(domain)), domain, 99, 3) for d in (even, odd)
        ]
        assert released[0].digest() == released[1].digest()

    @settings(deadline=None, max_examples=30)
    @given(datasets(fewest=1))
    def test_separate_attributes_stay_independent(self, dataset):
        psi = measure_dataset(dataset, [(name,) for name in dataset.domain.attributes])
        shares = [m.values / len(dataset) for m in psi.measurements]
        expected = shares[0]
        for share in shares[1:]:
            expected = np.multiply.outer(expected, share)
        np.testing.assert_allclose(ipf().fit(psi, dataset.domain).probabilities, expected, atol=1e-12)

    @settings(deadline=None, max_examples=30)
    @given(datasets(Domain.of({"a": 2, "b": 3, "c": 4}), fewest=1))
    def test_a_chain_has_its_closed_form(self, dataset):
        """P(a, b, c) = P(a, b) P(b, c) / P(b)."""
        psi = measure_dataset(dataset, [("a", "b"), ("c", "b")])
        one, other = (m.values / len(dataset) for m in psi.measurements)
        middle = np.maximum(one.sum(axis=0), 1e-300)
        expected = one[:, :, None] * other.T[None, :, :] / middle[None, :, None]
        np.testing.assert_allclose(TIGHT.fit(psi, dataset.domain).probabilities, expected, atol=1e-9)

    @settings(deadline=None, max_examples=30)
    @given(measured())
    def test_no_table_with_the_same_psi_has_more_entropy(self, drawn):
        dataset, cliques = drawn
        fitted = LOOSE.fit(measure_dataset(dataset, cliques), dataset.domain).probabilities
        observed = count(dataset, dataset.domain.attributes) / len(dataset)
        assert entropy(fitted) >= entropy(observed) - 0.02

    @settings(deadline=None, max_examples=30)
    @given(st.data())
    def test_attributes_that_psi_does_not_name_are_uniform(self, data):
        domain = data.draw(domains(fewest=2))
        named = domain.project(domain.attributes[1:])
        dataset = data.draw(datasets(named, fewest=1))
        model = LOOSE.fit(measure_dataset(dataset, data.draw(workloads(named))), domain)
        np.testing.assert_allclose(model.marginal(domain.attributes[:1]), 1 / domain.sizes[0])

    def test_the_axes_of_a_clique_may_come_in_any_order(self):
        dataset = dense_dataset(BIG, 5_000)
        forth = ipf().fit(measure_dataset(dataset, pairs(BIG)), BIG)
        back = ipf().fit(measure_dataset(dataset, [clique[::-1] for clique in pairs(BIG)]), BIG)
        np.testing.assert_array_equal(forth.probabilities, back.probabilities)


def entropy(table):
    return float(-np.sum(table[table > 0] * np.log(table[table > 0])))


@pytest.mark.shared
@pytest.mark.parametrize("name", ["S3", "S5"])
def test_another_program_finds_the_same_table(name):
    """R's synthpop (mipfp): all pairs of 5,000 records, and one record spread out over each as a prior.

    Exact counts are whole: psi is so many times theirs that a cell's part of that record is whole too.
    """
    case = json.loads(oracle_file("synthpop/ipf_fit_S3_S5.json").read_text())[name]
    observed, expected = (
        np.array(case[key]).reshape(case["dim"], order="F") for key in ("observed", "p_hat")
    )
    domain = Domain(tuple(case["variables"]), tuple(case["dim"]))
    times = lcm(*(domain.project(clique).cells for clique in pairs(domain)))
    measurements = []
    for clique in pairs(domain):
        counts = project(observed, domain.attributes, clique)
        measurements.append(Measurement(clique, times * counts + times // counts.size))
    model = TIGHT.fit(Psi(domain, tuple(measurements)), domain)
    np.testing.assert_allclose(model.probabilities, expected, rtol=1e-7, atol=1e-12)


class TestBoundary:
    def test_psi_on_the_boundary_is_reached_all_the_same(self):
        """Two opposite empty cells and no empty pair (Haberman 1974): plain IPF is off by 1 / sweeps."""
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        table = np.array([[[0, 2], [3, 4]], [[5, 6], [7, 0]]])
        cells = np.repeat(np.arange(8), table.ravel())
        dataset = Dataset(domain, np.stack(np.unravel_index(cells, (2, 2, 2)), axis=1))
        psi = measure_dataset(dataset, pairs(domain))
        model = ipf(tolerance=1e-6, most_sweeps=2_000).fit(psi, domain)
        np.testing.assert_allclose(model.probabilities, table / table.sum(), atol=1e-6)
        assert max(errors(TableModel(domain, textbook(psi, domain, 2_000)), psi)) > 1e-5

    def test_a_stride_too_far_is_taken_back(self):
        factors = [np.array([4.0, 1.0])]
        stride = fitting._Stride(factors)
        assert stride.helped(1.0)
        stride.begin()
        factors[0] *= 0.5
        stride.extend(1.0)
        assert factors[0].tolist() == [1.0, 0.25]
        assert not stride.helped(2.0)
        assert factors[0].tolist() == [2.0, 0.5]
        assert stride.helped(2.0)
        stride.begin()
        factors[0] *= 0.5
        stride.extend(1.0)
        assert not stride.helped(np.nan)

    def test_powers_of_a_step(self):
        for power in (1, 2, 3, 5):
            np.testing.assert_allclose(
                fitting._repeated(np.array([0.9, 0.0]), power)[0], 0.9 ** (2**power - 1)
            )

    def test_no_factor_of_a_step_overflows_or_vanishes(self):
        step = fitting._repeated(np.array([1e30, 1e-30]), 4)
        assert np.all(np.isfinite(step) & (step > 0))


class TestGuards:
    def test_a_table_over_the_bound_is_refused_before_any_work(self):
        domain = Domain(tuple(f"a{i}" for i in range(12)), (10,) * 12)
        psi = Psi(domain, (Measurement(("a0",), np.ones(10, dtype=int)),))
        gc.collect()  # else what earlier tests left may be collected in the time that is measured
        tracemalloc.start()
        try:
            begin = time.thread_time()
            with pytest.raises(TooLargeError):
                ipf().fit(psi, domain)
            assert time.thread_time() - begin < 0.05
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()

    def test_the_bound_is_inclusive(self):
        domain = Domain.of({"a": 2, "b": 3})
        psi = Psi(domain, (Measurement(("a",), np.array([1, 2])),))
        assert ipf(max_cells=6).fit(psi, domain).probabilities.shape == (2, 3)
        with pytest.raises(TooLargeError):
            ipf(max_cells=5).fit(psi, domain)

    @pytest.mark.parametrize(
        "other", [Domain.of({"b": 2}), Domain.of({"a": 3})], ids=["absent", "other size"]
    )
    def test_psi_belongs_to_the_domain(self, other):
        psi = Psi(Domain.of({"a": 2}), (Measurement(("a",), np.array([1, 2])),))
        with pytest.raises(InvalidPsiError, match="'a'"):
            ipf().fit(psi, other)

    def test_a_contradiction_is_refused(self):
        domain = Domain.of({"a": 2, "b": 2})
        measurements = (Measurement(("a",), np.array([1, 2])), Measurement(("b",), np.array([1, 1])))
        with pytest.raises(InvalidPsiError, match="disagree"):
            ipf().fit(Psi(domain, measurements), domain)

    def test_structural_zeros_that_psi_contradicts_are_named(self):
        domain = Domain.of({"a": 2, "b": 2})
        psi = Psi(domain, (Measurement(("a", "b"), np.array([[1, 1], [1, 1]])),))
        with pytest.raises(NotConvergedError, match="a, b"):
            ipf((StructuralZeros(("a", "b"), ((0, 1),)),)).fit(psi, domain)

    def test_marginals_of_no_table_do_not_converge(self):
        """a = b, b = c and a != c: every two agree, all three cannot."""
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        same, other = np.eye(2, dtype=int), 1 - np.eye(2, dtype=int)
        values = {("a", "b"): same, ("b", "c"): same, ("a", "c"): other}
        psi = Psi(domain, tuple(Measurement(clique, table) for clique, table in values.items()))
        with pytest.raises(NotConvergedError):
            ipf(most_sweeps=50).fit(psi, domain)

    @pytest.mark.parametrize(
        "field", [{"tolerance": 0.0}, {"tolerance": np.nan}, {"max_cells": 0}, {"most_sweeps": 0}]
    )
    def test_settings_are_positive(self, field):
        with pytest.raises(InvalidNumberError):
            ipf(**field)
