"""Every law over every generator: one row for each method."""

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    GencardError,
    InvalidInputError,
    InvalidNumberError,
    InvalidPsiError,
    ModelTooLargeError,
    NotConvergedError,
    TooLargeError,
)
from gencard.core.generators.contract import Generator, rng_of, synthesise
from gencard.core.generators.family import graphical, independent, ipf, saturated, spanning_tree
from gencard.core.generators.model_file import bytes_of, model_of
from gencard.core.generators.moments import MaximumEntropy, ReducedSpace
from gencard.core.generators.registry import GENERATORS
from gencard.core.generators.support import SupportRaking
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi
from tests.core.strategies import datasets, domains, workloads

Zeros = tuple[StructuralZeros, ...]


@dataclass(frozen=True)
class Row:
    """A method, and what it promises.

    ``whole``: it needs the marginal on all attributes. ``pairs``: it uses more than single attributes.
    It meets marginals of at most ``width`` attributes within an L1 distance of ``error``.
    """

    make: Callable[[Zeros], Generator]
    whole: bool = False
    pairs: bool = True
    width: int = 9
    error: float = 1e-3

    def cliques(self, domain, drawn):
        return (domain.attributes,) if self.whole else drawn

    def promised(self, psi):
        return [m for m in psi.measurements if len(m.clique) <= self.width]


GRID = {
    "independent": Row(lambda zeros: independent(zeros, tolerance=1e-3), width=1, pairs=False),
    "saturated": Row(saturated, whole=True, error=1e-12),
    "spanning-tree": Row(lambda zeros: spanning_tree(zeros, tolerance=1e-3), width=1),
    "graphical": Row(lambda zeros: graphical(zeros, tolerance=1e-3)),
    "ipf": Row(lambda zeros: ipf(zeros, tolerance=1e-3)),
    "raking, all cells": Row(lambda zeros: SupportRaking(zeros, support=2**16), error=1e-2),
    "raking, drawn": Row(lambda zeros: SupportRaking(zeros, support=64, tolerance=1.0), width=0),
    "maximum-entropy": Row(MaximumEntropy, error=1e-6),
    "reduced space, all cells": Row(ReducedSpace, error=1e-5),
    "reduced space, drawn": Row(lambda zeros: ReducedSpace(zeros, tolerance=2.0, points=16), width=0),
}

SEVERAL = {
    "raking, all cells": "support-raking",
    "raking, drawn": "support-raking",
    "reduced space, all cells": "reduced-space",
    "reduced space, drawn": "reduced-space",
}
"""Rows of one method with other settings."""

every = pytest.mark.parametrize("row", GRID.values(), ids=GRID)
law = settings(deadline=None, max_examples=20)


@st.composite
def problems(draw, zeros=False):
    """A dataset, cliques to measure, and structural zeros that no record falls into."""
    domain = draw(domains(most=4, largest=4))
    dataset = draw(datasets(domain, fewest=1))
    cliques = draw(workloads(domain))
    if not zeros:
        return dataset, cliques, ()
    clique = draw(st.sampled_from(cliques))
    shape = domain.project(clique).sizes
    cells = draw(st.sets(st.tuples(*(st.integers(0, size - 1) for size in shape))))
    first = tuple(dataset.project(clique).codes[0].tolist())
    zero = StructuralZeros(clique, tuple(sorted(cells - {first})))
    return dataset.take(np.flatnonzero(~falls_into(dataset, zero))), cliques, (zero,)


def falls_into(dataset, zero):
    records = dataset.codes[:, list(dataset.domain.axes(zero.clique))]
    return np.array([tuple(record) in set(zero.cells) for record in records.tolist()], dtype=bool)


def shares(measurement):
    return measurement.values / measurement.values.sum()


@every
class TestLaws:
    @law
    @given(problem=problems(), random=st.randoms(use_true_random=False))
    def test_equal_psi_gives_equal_bytes_whatever_the_order_of_records(self, row, problem, random):
        dataset, cliques, _ = problem
        order = np.array(random.sample(range(len(dataset)), len(dataset)))
        one, other = (
            synthesise(
                row.make(()),
                measure_dataset(records, row.cliques(dataset.domain, cliques)),
                dataset.domain,
                30,
                5,
            )
            for records in (dataset, dataset.take(order))
        )
        assert one.digest() == other.digest()

    def test_equal_psi_of_different_records_gives_equal_bytes(self, row):
        """The cells of even and of odd parity have the same marginals on every pair."""
        if row.whole:
            pytest.skip("the marginal on all attributes tells these records apart")
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        even, odd = (
            Dataset(domain, np.array([cell for cell in np.ndindex(2, 2, 2) if sum(cell) % 2 == parity]))
            for parity in (0, 1)
        )
        cliques = list(combinations(domain.attributes, 2))
        released = [
            synthesise(row.make(()), measure_dataset(d, cliques), domain, 99, 3) for d in (even, odd)
        ]
        assert released[0].digest() == released[1].digest()

    @law
    @given(problem=problems())
    def test_psi_of_the_model_is_what_the_method_promises(self, row, problem):
        dataset, cliques, _ = problem
        psi = measure_dataset(dataset, row.cliques(dataset.domain, cliques))
        model = row.make(()).fit(psi, dataset.domain)
        assert model.domain == dataset.domain
        for measurement in row.promised(psi):
            distance = np.abs(model.marginal(measurement.clique) - shares(measurement)).sum()
            assert distance <= row.error * (1 + 1e-6)

    @law
    @given(problem=problems(zeros=True))
    def test_structural_zeros_never_appear(self, row, problem):
        dataset, cliques, zeros = problem
        psi = measure_dataset(dataset, row.cliques(dataset.domain, cliques))
        model = row.make(zeros).fit(psi, dataset.domain)
        drawn = model.sample(500, rng=rng_of(1))  # a Dataset refuses codes outside its domain
        assert not falls_into(drawn, zeros[0]).any()
        for measurement in row.promised(psi):
            distance = np.abs(model.marginal(measurement.clique) - shares(measurement)).sum()
            assert distance <= row.error * (1 + 1e-6)

    @law
    @given(problem=problems(), seed=st.integers(0, 2**64 - 1))
    def test_save_load_sample_is_sample(self, row, problem, seed):
        dataset, cliques, _ = problem
        psi = measure_dataset(dataset, row.cliques(dataset.domain, cliques))
        model = row.make(()).fit(psi, dataset.domain)
        loaded = model_of(bytes_of(model))
        assert type(loaded) is type(model)
        one, other = (m.sample(50, rng=rng_of(seed)) for m in (model, loaded))
        assert one.digest() == other.digest()

    @law
    @given(problem=problems(), first=st.integers(0, 40), second=st.integers(0, 40))
    def test_two_draws_are_one_long_draw(self, row, problem, first, second):
        dataset, cliques, _ = problem
        psi = measure_dataset(dataset, row.cliques(dataset.domain, cliques))
        model, rng = row.make(()).fit(psi, dataset.domain), rng_of(7)
        parts = np.concatenate([model.sample(rows, rng=rng).codes for rows in (first, second)])
        np.testing.assert_array_equal(parts, model.sample(first + second, rng=rng_of(7)).codes)

    @law
    @given(problem=problems(), seed=st.integers(0, 999))
    def test_noisy_psi_has_a_model_that_depends_on_it_alone(self, row, problem, seed):
        dataset, cliques, _ = problem
        psi = noisy(measure_dataset(dataset, row.cliques(dataset.domain, cliques)), 3.0, seed)
        one, other = (synthesise(row.make(()), psi, dataset.domain, 30, 5) for _ in range(2))
        assert one.digest() == other.digest()

    @law
    @given(problem=problems(zeros=True))
    def test_noisy_psi_leaves_structural_zeros_alone(self, row, problem):
        dataset, cliques, zeros = problem
        psi = noisy(measure_dataset(dataset, row.cliques(dataset.domain, cliques)), 3.0, 1)
        try:
            model = row.make(zeros).fit(psi, dataset.domain)
        except NotConvergedError:
            assume(False)
        assert not falls_into(model.sample(300, rng=rng_of(1)), zeros[0]).any()


@every
class TestCheck:
    @law
    @given(problem=problems(zeros=True), max_cells=st.integers(1, 300))
    def test_what_is_too_large_is_known_before_anything_is_measured(self, row, problem, max_cells):
        dataset, drawn, zeros = problem
        cliques = row.cliques(dataset.domain, drawn)
        generator = replace(row.make(zeros), max_cells=max_cells)
        psi = measure_dataset(dataset, cliques)
        try:
            generator.check(cliques, dataset.domain)
        except TooLargeError:
            with pytest.raises(TooLargeError):
                generator.fit(psi, dataset.domain)
        else:
            generator.fit(psi, dataset.domain)

    def test_a_refusal_names_the_sets_that_cause_it(self, row):
        domain = Domain.of({"wide": 300, "wider": 400, "a": 2})
        generator = replace(row.make(()), max_cells=500)
        with pytest.raises(ModelTooLargeError) as caught:
            generator.check([domain.attributes], domain)
        assert "wide" in caught.value.fields["largest"]
        assert caught.value.fields["limit"] == "500"


def noisy(psi, stddev, seed):
    noise = np.random.default_rng(seed)
    return Psi(
        psi.domain,
        tuple(
            Measurement(m.clique, m.values + noise.normal(0, stddev, m.values.shape), stddev)
            for m in psi.measurements
        ),
    )


ABC = Domain.of({"a": 2, "b": 3, "c": 2})


def psi_of(tables, domain=ABC, stddev=0.0):
    measured = ((tuple(clique), np.array(table)) for clique, table in tables.items())
    return Psi(domain, tuple(Measurement(clique, table, stddev) for clique, table in measured))


@every
class TestBadPsi:
    @pytest.mark.parametrize(
        "tables",
        [
            {"abc": np.eye(6, 2, dtype=int).reshape(2, 3, 2) - 1, "a": [1, 1]},
            {"abc": np.ones((2, 3, 2), dtype=int), "a": [5, 5]},
            {"abc": np.ones((2, 3, 2), dtype=int), "a": [5, 7]},
            {"abc": np.zeros((2, 3, 2), dtype=int)},
            {"abc": np.full((2, 3, 2), 0.5)},
        ],
        ids=["negative", "totals disagree", "marginals disagree", "zero everywhere", "no integers"],
    )
    def test_is_refused(self, row, tables):
        with pytest.raises(InvalidPsiError):
            row.make(()).fit(psi_of(tables), ABC)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("stddev", [0.0, 1.0], ids=["exact", "noisy"])
    def test_what_is_no_number_is_no_psi(self, row, value, stddev):
        with pytest.raises(InvalidPsiError):
            row.make(()).fit(psi_of({"abc": np.full((2, 3, 2), value)}, stddev=stddev), ABC)

    @pytest.mark.parametrize(
        "domain",
        [Domain.of({"a": 2, "b": 3}), Domain.of({"a": 2, "b": 3, "c": 3})],
        ids=["unknown attribute", "other size"],
    )
    def test_of_another_domain_is_refused(self, row, domain):
        psi = psi_of({"abc": np.ones((2, 3, 2), dtype=int)})
        with pytest.raises(GencardError) as caught:
            row.make(()).fit(psi, domain)
        assert caught.value.reason in {"INVALID_PSI", "UNKNOWN_ATTRIBUTE"}

    def test_one_level_is_no_trouble(self, row):
        domain = Domain.of({"a": 1, "b": 1})
        psi = psi_of({"ab": [[3]]}, domain)
        assert synthesise(row.make(()), psi, domain, 5, 1).codes.tolist() == [[0, 0]] * 5

    def test_ten_thousand_levels_are_fitted_or_refused_at_once(self, row):
        domain = Domain.of({"a": 10_000, "b": 10_000})
        psi = psi_of({"a": np.full(10_000, 2), "b": np.full(10_000, 2)}, domain)
        gc.collect()  # else what earlier tests left may be collected in the time that is measured
        tracemalloc.start()
        try:
            begin = time.thread_time()
            drawn = synthesise(row.make(()), psi, domain, 50, 1)
        except TooLargeError:
            assert time.thread_time() - begin < 0.5
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        except InvalidInputError:
            assert row.whole
        else:
            assert drawn.domain == domain
            assert tracemalloc.get_traced_memory()[1] < 100_000_000
        finally:
            tracemalloc.stop()

    def test_a_marginal_of_ten_thousand_by_ten_thousand_levels_is_refused_by_name(self, row):
        """The counts would take 800 MB: a marginal that cannot be fitted need not be measured."""
        domain = Domain.of({"a": 10_000, "b": 10_000})
        if not row.pairs:
            pytest.skip("sees the two attributes alone, which are small")
        with pytest.raises(ModelTooLargeError) as caught:
            row.make(()).check([("a", "b")], domain)
        assert caught.value.fields["largest"] == "100,000,000 on (a, b)"

    def test_contradicted_structural_zeros_are_refused(self, row):
        zero = StructuralZeros(("a", "b"), tuple((0, code) for code in range(3)))
        psi = psi_of({"abc": np.ones((2, 3, 2), dtype=int)})
        if row.width == 0:
            pytest.skip("promises nothing with so small a support")
        with pytest.raises(NotConvergedError):
            row.make((zero,)).fit(psi, ABC)

    def test_zeros_of_other_attributes_say_nothing(self, row):
        zero = StructuralZeros(("a", "z"), ((0, 0),))
        psi = psi_of({"abc": np.ones((2, 3, 2), dtype=int)})
        one, other = (synthesise(row.make(zeros), psi, ABC, 30, 1) for zeros in ((), (zero,)))
        assert one.digest() == other.digest()


@every
def test_rows_and_words_are_checked(row):
    model = row.make(()).fit(psi_of({"abc": np.ones((2, 3, 2), dtype=int)}), ABC)
    assert len(model.sample(0, rng=rng_of(0))) == 0
    with pytest.raises(InvalidNumberError):
        model.sample(-1, rng=rng_of(0))
    with pytest.raises(InvalidInputError, match="64-bit"):
        model.sample(1, rng=np.random.Generator(np.random.MT19937(0)))


@pytest.mark.parametrize(
    "method",
    [independent, spanning_tree, graphical, SupportRaking, saturated, MaximumEntropy, ReducedSpace],
)
def test_settings_are_checked(method):
    with pytest.raises(InvalidNumberError):
        method(max_cells=0)
    wrong = {"alpha": -1.0} if method is saturated else {"tolerance": 0.0}
    with pytest.raises(InvalidNumberError):
        method(**wrong)


def test_every_generator_of_the_catalogue_is_in_the_grid():
    assert {SEVERAL.get(name, name) for name in GRID} == set(GENERATORS)
