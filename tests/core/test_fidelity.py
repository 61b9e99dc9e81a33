"""Fidelity to psi: by its definition, and against what sampling alone does."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from gencard.core.coding import Attribute, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidPsiError
from gencard.core.generators.family import ipf
from gencard.core.statistics.linear import mean
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi
from gencard.measures.utility.fidelity import FALSE_ALARMS, fidelity
from tests.core.strategies import brute_count, datasets, domains, workloads
from tests.core.tables import dense_dataset, pairs

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2})
PSI = measure_dataset(dense_dataset(DOMAIN, 5_000), pairs(DOMAIN))
MODEL = ipf().fit(PSI, DOMAIN)


def drawn(seed, rows=2_000):
    return MODEL.sample(rows, rng=np.random.default_rng(seed))


@given(st.data())
def test_it_is_the_definition(data):
    domain = data.draw(domains())
    original = data.draw(datasets(domain, fewest=1))
    rows = data.draw(datasets(domain, fewest=1))
    cliques = data.draw(workloads(domain))
    psi = measure_dataset(original, cliques)
    rows = rows.project(psi.domain.attributes)
    found = fidelity(psi, rows)
    assert found.rows == len(rows)
    for clique, marginal in zip(cliques, found.marginals, strict=True):
        asked = brute_count(original, clique) / len(original)
        released = brute_count(rows, clique) / len(rows)
        apart = np.abs(asked - released)
        assert marginal.clique == clique
        assert marginal.cells == asked.size
        assert marginal.total_variation == pytest.approx(apart.sum() / 2, abs=1e-12)
        for cell, size in zip(marginal.worst, sorted(apart.ravel())[::-1], strict=False):
            assert (cell.target, cell.released) == (asked[cell.codes], released[cell.codes])
            assert abs(cell.target - cell.released) == size
        assert len(marginal.worst) == min(5, (apart > 0).sum())


@given(datasets(fewest=1), st.integers(1, 4))
def test_the_records_themselves_miss_nothing(dataset, times):
    cliques = [dataset.domain.attributes]
    again = dataset.take(np.tile(np.arange(len(dataset)), times))
    (marginal,) = fidelity(measure_dataset(dataset, cliques), again).marginals
    assert marginal.total_variation < 1e-12
    assert not marginal.beyond_chance


def test_rows_from_psi_are_as_far_off_as_expected():
    found = [fidelity(PSI, drawn(seed)) for seed in range(400)]
    for place, marginal in enumerate(found[0].marginals):
        off = np.array([one.marginals[place].total_variation for one in found])
        assert abs(off.mean() - marginal.expected) < 4 * off.std() / np.sqrt(len(off))
    alarms = sum(bool(one.unexplained) for one in found)
    assert alarms <= binom.isf(0.001, len(found), FALSE_ALARMS)


def test_the_deviation_of_a_cell_is_that_of_repeated_draws():
    found = [fidelity(PSI, drawn(seed), worst=100).marginals[0].worst for seed in range(400)]
    first = [cell for cells in found for cell in cells if cell.codes == (0, 0)]
    assert np.std([cell.released for cell in first]) == pytest.approx(first[0].stderr, rel=0.15)


def test_what_chance_does_not_do_is_told():
    rows = drawn(1)
    codes = rows.codes.copy()
    codes[:300, 0] = 0
    found = fidelity(PSI, Dataset(DOMAIN, codes))
    assert {m.clique for m in found.unexplained} == {("a", "b"), ("a", "c")}
    assert found.largest in found.unexplained
    assert all(cell.codes[0] == 0 for cell in found.marginals[1].worst[:1])


def test_noisy_psi_is_what_a_fit_makes_of_it():
    rng = np.random.default_rng(3)
    noisy = Psi(
        DOMAIN,
        tuple(
            Measurement(m.clique, m.values + rng.integers(-900, 900, m.values.shape), 500.0)
            for m in PSI.measurements
        ),
    )
    assert min(m.values.min() for m in noisy.measurements) < 0
    rows = ipf().fit(noisy, DOMAIN).sample(50_000, rng=rng)
    found = fidelity(noisy, rows)
    assert found.unexplained == ()
    assert [m.stddev for m in found.marginals] == [500.0] * 3
    assert fidelity(PSI, rows).unexplained


class TestRefusals:
    def test_rows_over_another_domain(self):
        with pytest.raises(DomainMismatchError):
            fidelity(PSI, dense_dataset(Domain.of({"a": 3, "b": 4}), 10))

    def test_no_rows(self):
        with pytest.raises(InvalidInputError, match="at least one row"):
            fidelity(PSI, drawn(0, rows=0))

    def test_a_psi_that_contradicts_itself(self):
        one, *others = PSI.measurements
        wrong = Psi(DOMAIN, (Measurement(one.clique, one.values + 1), *others))
        with pytest.raises(InvalidPsiError):
            fidelity(wrong, drawn(0))


def test_linear_statistics_stand_aside():
    age = mean(Attribute("a", Labels(("0", "5", "9"), integer=True)))
    rows, records = drawn(2), dense_dataset(DOMAIN, 5_000)
    both = measure_dataset(records, [*pairs(DOMAIN), age])
    assert both.linear
    assert fidelity(both, rows) == fidelity(PSI, rows)
    noisy = replace(both, linear=(replace(both.linear[0], stddevs=np.full(2, 3.0)),))
    assert fidelity(noisy, rows) == fidelity(PSI, rows)
    alone = measure_dataset(records, [age])
    with pytest.raises(InvalidPsiError, match="no marginal"):
        fidelity(alone, rows.project(("a",)))


def test_nothing_hides_in_the_order_of_attributes():
    turned = Psi(
        DOMAIN, tuple(Measurement(m.clique[::-1], m.values.T, m.stddev) for m in PSI.measurements)
    )
    rows = drawn(9)
    for one, other in zip(fidelity(PSI, rows).marginals, fidelity(turned, rows).marginals, strict=True):
        assert one.total_variation == pytest.approx(other.total_variation)
        assert {cell.codes for cell in one.worst} == {cell.codes[::-1] for cell in other.worst}
