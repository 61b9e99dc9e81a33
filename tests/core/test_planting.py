"""Planted cubes: equal psi to the record, and no other unique records than the planted ones."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.uniques import (
    ALL_TOGETHER,
    MOST_PLANTED,
    NO_CUBE,
    RARE,
    PlantedArm,
    made_up,
    planted_pair,
    uniform,
    unique_records,
)
from gencard.core.coding import Attribute, Coding, Labels, StructuralZeros, impossible_records
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import ComputationError, NoExtremalPairError
from gencard.core.statistics.linear import LinearStatistic, covariance, mean
from gencard.core.statistics.marginals import count, count_all
from tests.core.rare_records import CHAIN, population

X = Attribute("x", Labels(tuple(map(str, range(9))), integer=True))
Y = Attribute("y", Labels(tuple(map(str, range(7))), integer=True))
G = Attribute("g", Labels(tuple("abcdefgh")))
CODING = Coding((X, Y, G))


def rng(seed=0):
    return np.random.default_rng(seed)


def rows_of(codes):
    return {tuple(row) for row in np.asarray(codes).tolist()}


class TestPair:
    @given(st.integers(0, 10_000), st.sampled_from([1, 2, 3]))
    @settings(max_examples=25)
    def test_psi_is_equal_to_the_record_and_only_planted_records_are_unique(self, seed, order):
        domain = Domain.of({"a": 5, "b": 4, "c": 6, "d": 3, "e": 4})
        codes = rng(seed).integers(0, domain.sizes, size=(300, 5)) // rng(seed + 1).integers(1, 4, 5)
        cliques = tuple(combinations("abcde", order))
        pair = planted_pair(Dataset(domain, codes), cliques, (), rows=300, rng=rng(seed))
        if pair is None:
            return
        for low, high in zip(count_all(pair.even, cliques), count_all(pair.odd, cliques), strict=True):
            np.testing.assert_array_equal(low, high)
        for side, corners in ((pair.even, pair.even_corners), (pair.odd, pair.odd_corners)):
            assert rows_of(side.codes[unique_records(side)]) == rows_of(corners)
        assert rows_of(pair.even_corners).isdisjoint(rows_of(pair.odd_corners))
        assert not np.array_equal(count(pair.even, tuple("abcde")), count(pair.odd, tuple("abcde")))

    def test_the_base_is_a_part_of_the_records_twice(self):
        dataset = population()
        pair = planted_pair(dataset, CHAIN, (), rows=2_000, rng=rng())
        assert len(pair.even) == len(pair.odd) == len(dataset)
        assert len(pair.even_corners) == len(pair.odd_corners) == 2 * pair.cubes == 140
        _, numbers = np.unique(pair.even.codes, axis=0, return_counts=True)
        assert set((numbers[numbers > 1] % 2).tolist()) == {0}

    def test_kinds_are_there_in_equal_parts(self):
        """One third lies beside records of the dataset; how many are rare is counted."""
        dataset = population()
        pair = planted_pair(dataset, CHAIN, (), rows=2_000, rng=rng())
        corners = np.vstack([pair.even_corners, pair.odd_corners])
        apart = (corners[:, None, :] != dataset.codes[None, :, :]).sum(axis=2).min(axis=1)
        assert (apart <= 1).mean() > 0.3
        assert pair.rare == int((np.concatenate([pair.even_expected, pair.odd_expected]) < RARE).sum())

    def test_there_are_never_too_many(self):
        domain = Domain.of(dict.fromkeys("abcdef", 9))
        dataset = Dataset(domain, rng().integers(9, size=(20_000, 6)))
        pair = planted_pair(dataset, (tuple("abc"),), (), rows=100, rng=rng())
        assert len(pair.even_corners) <= MOST_PLANTED
        assert pair.rare == 2 * len(pair.even_corners)

    def test_moments_stay_equal_too(self):
        dataset = Dataset(CODING.domain, rng().binomial([8, 6, 7], 0.3, size=(120, 3)))
        linear = (mean(X), covariance(X, Y))
        pair = planted_pair(dataset, (("x",), ("y",), ("g",)), linear, rows=120, rng=rng())
        for statistic in linear:
            even, odd = (statistic.sums(count(side, statistic.clique)) for side in (pair.even, pair.odd))
            np.testing.assert_array_equal(even, odd)
        np.testing.assert_array_equal(count(pair.even, ("x", "y")), count(pair.odd, ("x", "y")))

    def test_nothing_is_planted_where_no_record_can_be(self):
        domain = Domain.of({"a": 5, "b": 4, "c": 6, "d": 3, "e": 4})
        zeros = [StructuralZeros(("d", "a"), ((0, 0), (1, 4))), StructuralZeros(("b",), ((3,),))]
        dataset = uniform(domain, 300, zeros=zeros, rng=rng(1))
        cliques = tuple(combinations("abcde", 1))
        for seed in range(20):
            pair = planted_pair(dataset, cliques, (), rows=300, zeros=zeros, rng=rng(seed))
            for side in (pair.even, pair.odd):
                assert not impossible_records(domain, side.codes, zeros).any()

    def test_the_guard_fires_where_psi_differs(self):
        pair = planted_pair(population(), CHAIN, (), rows=2_000, rng=rng())
        with pytest.raises(ComputationError):
            type(pair)(
                (("a0", "a1", "a2", "a3", "a4"),), (), pair.even, pair.odd, pair.even_corners,
                pair.odd_corners, pair.even_expected, pair.odd_expected, pair.cubes,
            )  # fmt: skip

    def test_the_guard_fires_where_other_records_are_unique(self):
        pair = planted_pair(population(), CHAIN, (), rows=2_000, rng=rng())
        with pytest.raises(ComputationError, match="unique"):
            type(pair)(
                CHAIN, (), pair.even, pair.odd, pair.even_corners[1:], pair.odd_corners[1:],
                pair.even_expected, pair.odd_expected, pair.cubes,
            )  # fmt: skip


class TestArm:
    def test_where_phi_holds_all_attributes_together_nothing_is_planted(self):
        line = Dataset(CODING.domain.project(("x",)), rng().integers(9, size=(50, 1)))
        linear: tuple[LinearStatistic, ...] = (mean(X),)
        with pytest.raises(NoExtremalPairError):
            planted_pair(line, (), linear, rows=50, rng=rng())
        arm = PlantedArm.of(line, AuditPlan((), 50, 0, linear=linear))
        assert (arm.pair, arm.not_run) == (None, ALL_TOGETHER)

    def test_where_every_cell_is_full_nothing_is_planted(self):
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        dataset = made_up(domain, 500, rng=rng())
        arm = PlantedArm.of(dataset, AuditPlan(tuple(combinations("abc", 2)), 500, 0))
        assert (arm.pair, arm.not_run) == (None, NO_CUBE)

    def test_a_dense_made_up_dataset_of_a_large_domain_makes_room(self):
        """Made-up records fill a grid; uniform ones of the same domain leave nearly all cells empty."""
        domain = Domain.of(dict.fromkeys("abcdefgh", 6))
        dataset = made_up(domain, 4_096, rng=rng())
        arm = PlantedArm.of(dataset, AuditPlan(tuple(combinations("abcdefgh", 2)), 4_096, 0))
        assert arm.pair is not None
        assert arm.pair.rare == 2 * len(arm.pair.even_corners) >= 500

    def test_zeros_that_leave_nothing_to_draw_from_leave_nothing_to_plant(self):
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        zeros = (StructuralZeros(("a",), ((0,), (1,))),)
        dataset = Dataset(domain, np.array(list(product((0, 1), repeat=3)), dtype=np.int64))
        plan = AuditPlan(tuple(combinations("abc", 2)), 500, 0, structural_zeros=zeros)
        assert PlantedArm.of(dataset, plan).not_run == NO_CUBE

    def test_it_is_the_same_for_the_same_plan(self):
        one, other = (PlantedArm.of(population(), AuditPlan(CHAIN, 2_000, 4)) for _ in range(2))
        np.testing.assert_array_equal(one.pair.even.codes, other.pair.even.codes)
