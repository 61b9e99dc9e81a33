"""Audits of cards with linear statistics; Example 3 of the paper."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.reference import Honest
from gencard.core.audit.extremal_pair import ExtremalPair, Moves, extremal_pair, statistics_digest
from gencard.core.audit.moves import outside, outside_linear
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import Verdict
from gencard.core.audit.run import audit
from gencard.core.audit.wording import report_of_json_object, report_to_json_object
from gencard.core.card.terms import AuditTerms
from gencard.core.coding import Attribute, Coding, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import ComputationError, InvalidInputError, NoExtremalPairError, TooLargeError
from gencard.core.generators.moments import MaximumEntropy
from gencard.core.statistics.linear import covariance, mean, variance
from gencard.core.statistics.marginals import coefficients
from gencard.core.statistics.measure import measure_dataset
from tests.core.tables import moment

X = Attribute("x", Labels(tuple(map(str, range(11))), integer=True))
Y = Attribute("y", Labels(("0", "1", "2", "3")))
G = Attribute("g", Labels(("f", "m")))
CODING = Coding((X, Y, G))
LINE = CODING.domain.project(("x",))
BOX = MaximumEntropy(tolerance=1e-7)


def line(number=1_000, seed=0):
    return Dataset(LINE, np.random.default_rng(seed).binomial(10, 0.4, number)[:, None])


def space(number=600, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=number)
    codes = [rng.binomial(10, 0.3 + 0.2 * group), rng.integers(4, size=number), group]
    return Dataset(CODING.domain, np.stack(codes, axis=1))


SPREAD = (variance(X),)


def plan(cliques=(), linear=SPREAD, seed=0, **terms):
    return AuditPlan(cliques, 1_000, seed, AuditTerms(runs=8, **terms), linear=linear)


class TestExampleThree:
    """X from 0 to 10; mean and variance may be known, higher moments not."""

    @pytest.mark.parametrize("seed", range(4))
    def test_a_generator_that_uses_mean_and_variance_alone_gives_no_evidence(self, seed):
        report = audit(Honest(BOX, [variance(X)]), line(), plan(seed=seed))
        assert report.verdict is Verdict.NO_EVIDENCE

    @pytest.mark.parametrize("seed", range(4))
    def test_one_that_leaks_the_third_moment_is_found(self, seed):
        report = audit(Honest(BOX, [variance(X), moment(X, 3)]), line(), plan(seed=seed))
        assert report.verdict is Verdict.LEAKAGE
        assert report.strongest.clique == ("x",)
        assert report.strongest.dimension == 8

    def test_the_sides_have_equal_mean_and_variance_and_another_third_moment(self):
        basis = outside_linear(LINE, [("x",)], [variance(X)])
        moves = Moves.of([], basis.cliques, [variance(X)])
        rng = np.random.default_rng(0)
        pair = extremal_pair(line(), moves, basis.random_direction(rng=rng), rng=rng)
        first, second, third = (
            [int((side.codes.astype(int) ** order).sum()) for side in (pair.low, pair.high)]
            for order in (1, 2, 3)
        )
        assert first[0] == first[1] == int(line().codes.sum(dtype=int))
        assert second[0] == second[1]
        assert third[0] != third[1]
        assert pair.moved > 500


def test_circuits_leave_cells_that_cannot_occur_empty():
    """Numbers 2 and 5 cannot occur; without the zeros both sides hold them."""
    zeros = (StructuralZeros(("x",), ((2,), (5,))),)
    possible = line().take(np.flatnonzero(~np.isin(line().column("x"), (2, 5))))
    basis = outside_linear(LINE, [("x",)], [variance(X)])
    held = []
    for declared in ((), zeros):
        rng = np.random.default_rng(0)
        moves = Moves.of([], basis.cliques, [variance(X)], declared)
        pair = extremal_pair(possible, moves, basis.random_direction(rng=rng), rng=rng)
        held.append({*pair.low.column("x").tolist(), *pair.high.column("x").tolist()} & {2, 5})
    assert held == [{2, 5}, set()]


class TestSpaces:
    def test_marginals_and_linear_statistics_together(self):
        cliques, linear = (("x", "g"), ("y",)), (covariance(X, Y),)
        agreed = (*cliques, *linear)
        honest = audit(Honest(BOX, agreed), space(), plan(cliques, linear))
        assert honest.verdict is Verdict.NO_EVIDENCE
        leaky = audit(Honest(BOX, (("x", "g"), ("x", "y"))), space(), plan(cliques, linear))
        assert leaky.verdict is Verdict.LEAKAGE
        assert leaky.strongest.clique == ("x", "y")
        assert leaky.strongest.dimension == 10 * 3 - 1

    def test_a_leak_beside_the_linear_clique_is_found_too(self):
        cliques, linear = (("y",), ("g",)), (variance(X),)
        leaky = Honest(BOX, (("y", "g"), *linear))
        report = audit(leaky, _dependent(), plan(cliques, linear))
        assert report.verdict is Verdict.LEAKAGE
        assert report.strongest.clique == ("y", "g")

    @settings(deadline=None, max_examples=30)
    @given(order=st.integers(1, 5), seed=st.integers(0, 99))
    def test_what_is_looked_at_is_orthogonal_to_what_was_released(self, order, seed):
        linear = [variance(X), moment(X, order), covariance(X, Y)]
        basis = outside_linear(CODING.domain, outside(CODING.domain, [("g",)], 2), linear)
        vector = np.random.default_rng(seed).normal(size=basis.parts[-1].stop)
        for statistic in linear:
            (table,) = basis.marginals(vector, [statistic.clique])
            assert np.abs(statistic.scaled @ table.ravel()).max() < 1e-9

    def test_coordinates_and_tables_undo_each_other(self):
        basis = outside_linear(CODING.domain, outside(CODING.domain, [("g",)], 2), [covariance(X, Y)])
        vector = np.random.default_rng(0).normal(size=basis.parts[-1].stop)
        np.testing.assert_allclose(basis.coordinates(basis.tables(vector)), vector, atol=1e-12)
        whole = outside(CODING.domain, [("g",)], 2)
        assert basis.cliques == whole
        expected = {("x",): 9, ("y",): 2, ("x", "y"): 29, ("x", "g"): 10, ("y", "g"): 3}
        assert dict(zip(basis.cliques, basis.dimensions, strict=True)) == expected

    def test_without_linear_statistics_nothing_changes(self):
        basis = outside_linear(CODING.domain, [("x", "y")], [])
        shares = basis.shares(space())
        np.testing.assert_array_equal(basis.coordinates(shares), coefficients(shares[0]).ravel())

    def test_cube_moves_keep_the_marginal_on_a_linear_clique(self):
        found = Moves.of([("g",)], [("x",), ("y",), ("x", "y"), ("y", "g")], [variance(X)])
        assert found.kept == (("g",), ("x",))
        assert found.kinds == (("y",),)


def _dependent():
    records = space(2_000)
    codes = records.codes.copy()
    codes[:, 2] = (codes[:, 1] + np.random.default_rng(3).integers(2, size=2_000)) % 4 >= 2
    return Dataset(records.domain, codes)


class TestRefusals:
    def test_statistics_that_determine_everything_are_not_passed(self):
        domain = Domain.of({"g": 2})
        attribute = Attribute("g", Labels(("0", "1")))
        dataset = Dataset(domain, np.array([[0], [1], [1]]))
        box = Honest(BOX, [mean(attribute)])
        with pytest.raises(NoExtremalPairError):
            audit(box, dataset, plan(linear=(mean(attribute),)))

    def test_records_that_leave_no_room_are_not_passed(self):
        dataset = Dataset(LINE, np.full((50, 1), 10))
        with pytest.raises(NoExtremalPairError, match="no move"):
            audit(Honest(BOX, [variance(X)]), dataset, plan())

    def test_tables_too_large_for_circuits_are_refused(self):
        domain = Domain.of({"x": 11, "z": 200})
        dataset = Dataset(domain, np.zeros((5, 2), dtype=int))
        with pytest.raises(TooLargeError, match="linear"):
            audit(Honest(BOX, [variance(X)]), dataset, plan())

    def test_a_statistic_of_other_cells_is_refused(self):
        dataset = Dataset(Domain.of({"x": 10}), np.zeros((5, 1), dtype=int))
        with pytest.raises(InvalidInputError, match="each cell"):
            audit(Honest(BOX, [variance(X)]), dataset, plan())

    def test_the_guard_fires_where_a_sum_differs(self):
        one, other = (Dataset(LINE, np.array([[0], [code]])) for code in (3, 4))
        with pytest.raises(ComputationError):
            ExtremalPair((), one, other, (mean(X),))

    def test_digests_are_of_the_sums_too(self):
        one, same, other = (
            Dataset(LINE, np.array(codes)[:, None]) for codes in ([0, 4, 5], [1, 2, 6], [0, 3, 5])
        )
        digests = [statistics_digest(side, [], [variance(X)]) for side in (one, same, other)]
        assert digests[0] == digests[1] != digests[2]


def test_an_honest_box_keeps_models_of_different_sums_apart():
    box = Honest(BOX, [variance(X)])
    one, other = (box.model(line(100, seed)).probabilities for seed in (0, 1))
    assert not np.array_equal(one, other)
    (linear,) = measure_dataset(line(100, 1), [variance(X)]).linear
    assert np.arange(11) @ other == pytest.approx(linear.means[1])


def test_the_report_tells_and_reads_linear_statistics():
    report = audit(Honest(BOX, [variance(X)]), line(300), plan())
    document = json.loads(json.dumps(report_to_json_object(report), allow_nan=False))
    assert report_of_json_object(document) == report
    assert document["plan"]["linear"][0]["functions"][2]["name"] == "x ^ 2"
