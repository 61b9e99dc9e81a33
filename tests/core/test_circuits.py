"""Circuits: exact kernels, and moves along them that keep every statistic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from gencard.core.audit.direction import (
    Basis,
    Direction,
    along_circuits,
    kernel_of,
    only_change,
    psi_matrix,
)
from gencard.core.audit.extremal_pair import statistics_digest
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.measure import measure_dataset
from tests.core.strategies import datasets, domains, linear_statistics, workloads

matrices = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 5), st.integers(1, 7)), elements=st.integers(-9, 9)
)
LINE = Domain.of({"x": 11})
POWERS = LinearStatistic(
    ("x",),
    tuple(Function(f"x ^ {order}", tuple(level**order for level in range(11))) for order in range(3)),
)


class TestKernel:
    @given(matrices)
    def test_it_is_what_the_matrix_takes_to_zero_and_all_of_it(self, matrix):
        kernel = kernel_of([[Fraction(int(entry)) for entry in row] for row in matrix])
        assert len(kernel) == matrix.shape[1] - np.linalg.matrix_rank(matrix)
        for vector in kernel:
            assert all(sum(int(a) * b for a, b in zip(row, vector, strict=True)) == 0 for row in matrix)
        if kernel:
            assert np.linalg.matrix_rank(np.array(kernel, dtype=float)) == len(kernel)

    def test_one_change_is_found_in_smallest_whole_numbers(self):
        powers = POWERS.numerators[:, :4]
        assert only_change(powers, np.array([1, -1, 1, -1])).tolist() == [1, -3, 3, -1]
        assert only_change(powers, np.array([-1, 1, -1, 1])).tolist() == [-1, 3, -3, 1]

    @pytest.mark.parametrize(
        ("matrix", "signs"),
        [
            ([[1, 1, 1]], [1, 1, -1]),
            ([[1, 1], [0, 1]], [1, -1]),
            ([[1, 1]], [1, 1]),
            ([[1]], [1]),
            ([[1, 1, 0]], [1, -1, 1]),
            ([[1] * 99], [1] * 99),
            ([[1, 2**60, 0], [0, 1, 2**60]], [1, -1, 1]),
        ],
        ids=["several", "none", "other signs", "one cell", "a cell not moved", "too wide", "too large"],
    )
    def test_where_there_is_not_one_there_is_none(self, matrix, signs):
        assert only_change(np.array(matrix), np.array(signs, dtype=float)) is None


@st.composite
def problems(draw):
    domain = draw(domains(most=3))
    dataset = draw(datasets(domain, fewest=1))
    return dataset, draw(workloads(domain)), draw(st.lists(linear_statistics(domain), max_size=2))


class TestMoves:
    @given(problems())
    def test_the_matrix_is_psi(self, problem):
        dataset, cliques, linear = problem
        psi = measure_dataset(dataset, [*cliques, *linear])
        (whole,) = measure_dataset(dataset, [dataset.domain.attributes]).measurements
        sums = [m.values.ravel() for m in psi.measurements] + [each.values for each in psi.linear]
        expected = np.concatenate([[len(dataset)], *sums])
        np.testing.assert_array_equal(
            psi_matrix(dataset.domain, cliques, linear) @ whole.values.ravel(), expected
        )

    @settings(deadline=None, max_examples=60)
    @given(problems(), st.integers(0, 99))
    def test_they_keep_psi_to_the_last_record_and_never_go_down(self, problem, seed):
        dataset, cliques, linear = problem
        rng = np.random.default_rng(seed)
        whole = dataset.domain.attributes
        beta = Direction(dataset.domain, (whole,), (rng.normal(size=dataset.domain.sizes),))
        moved = along_circuits(dataset, cliques, linear, beta)
        one, other = (statistics_digest(side, cliques, linear) for side in (dataset, moved))
        assert one == other
        assert len(moved) == len(dataset)
        assert beta.value(moved) >= beta.value(dataset) - 1e-12

    @pytest.mark.parametrize("seed", range(5))
    def test_they_go_far_beside_any_table_of_real_numbers(self, seed):
        """At least half as far; the linear program is the referee."""
        rng = np.random.default_rng(seed)
        dataset = Dataset(LINE, rng.binomial(10, 0.4, 1_000)[:, None])
        beta = Basis(LINE, (("x",),)).random_direction(rng=rng)
        moved = along_circuits(dataset, [], [POWERS], beta)
        table = np.bincount(dataset.column("x"), minlength=11)
        farthest = optimize.linprog(
            -beta.tables[0], A_eq=POWERS.numerators, b_eq=POWERS.numerators @ table, method="highs"
        )
        gained = 1_000 * (beta.value(moved) - beta.value(dataset))
        possible = -farthest.fun - 1_000 * beta.value(dataset)
        assert 0.5 * possible < gained <= possible + 1e-6

    def test_records_that_leave_no_room_stay(self):
        dataset = Dataset(LINE, np.full((50, 1), 10))
        beta = Direction(LINE, (("x",),), (np.arange(11.0) ** 3,))
        assert along_circuits(dataset, [], [POWERS], beta).codes.tolist() == dataset.codes.tolist()
