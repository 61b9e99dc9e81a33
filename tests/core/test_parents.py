"""The choices of PrivBayes: scores against their definitions, sensitivities against all neighbours."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes import privbayes as certainty_module
from gencard.boxes import privbayes as privbayes_parents
from gencard.boxes.privbayes import (
    BitPlanes,
    Pair,
    ParentScores,
    certainties,
    dependence,
    maximal_sets,
    pairs_to_choose_from,
)
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.marginals import count
from tests.core.strategies import domains


def joints(columns):
    return st.integers(1, 4).flatmap(
        lambda rows: st.lists(st.integers(0, 6), min_size=rows * columns, max_size=rows * columns).map(
            lambda cells: np.array(cells).reshape(rows, columns)
        )
    )


def replacements(joint):
    """All tables with one record in another cell."""
    for one, other in product(range(joint.size), repeat=2):
        moved = joint.copy().ravel()
        moved[one] -= 1
        moved[other] += 1
        if moved.min() >= 0:
            yield moved.reshape(joint.shape)


def certainty(joint):
    """The score F of one table."""
    return int(certainties(joint[None])[0])


def nearest_certain(joint):
    """Half the L1 distance to the nearest distribution where parents decide, each level half the time.

    From the definition: a distribution puts 1/2 on each level, all of it in cells of its own; which
    shares are where is free, so the distance is what lies in other cells plus what is over 1/2.
    """
    shares = joint / joint.sum()
    best = np.inf
    for levels in product((0, 1), repeat=len(joint)):
        inside = [
            sum(shares[row, level] for row, level in enumerate(levels) if level == x) for x in (0, 1)
        ]
        distance = 1 - sum(inside) + sum(abs(0.5 - each) for each in inside)
        best = min(best, distance / 2)
    return best


class TestScores:
    @given(joints(3))
    def test_r_is_half_the_distance_from_independence(self, joint):
        records = joint.sum()
        if records:
            shares = joint / records
            independent = np.outer(shares.sum(axis=1), shares.sum(axis=0))
            r = 0.5 * np.abs(shares - independent).sum()
            assert dependence(joint) == pytest.approx(2 * records**2 * r, abs=1e-6)
        else:
            assert dependence(joint) == 0

    @given(joints(2))
    def test_f_is_minus_the_distance_to_certainty(self, joint):
        if joint.sum():
            f = -nearest_certain(joint)
            assert certainty(joint) == pytest.approx(2 * joint.sum() * f, abs=1e-9)
        else:
            assert certainty(joint) == 0

    @given(joints(3))
    @settings(max_examples=60, deadline=None)
    def test_replacing_a_record_moves_r_by_no_more_than_is_said(self, joint):
        bound = 6 * joint.sum() + 4
        for other in replacements(joint):
            assert abs(dependence(other) - dependence(joint)) <= bound

    @given(joints(2))
    @settings(max_examples=60, deadline=None)
    def test_replacing_a_record_moves_f_by_2_at_most(self, joint):
        for other in replacements(joint):
            assert abs(certainty(other) - certainty(joint)) <= 2

    def test_f_of_many_cells_and_records_is_quick(self):
        """2^16 ways, or as many steps as records for each cell; few of them are worth keeping."""
        joint = np.random.default_rng(0).integers(0, 10**7, (16, 2))
        ways = np.array(list(product((0, 1), repeat=16)))
        zeros, ones = (1 - ways) @ joint[:, 0], ways @ joint[:, 1]
        short = np.maximum(joint.sum() - 2 * np.stack([zeros, ones]), 0).sum(axis=0)
        assert certainty(joint) == -short.min()

    @given(st.lists(joints(2), min_size=1, max_size=5), st.sampled_from([1, 4, 1 << 14]))
    @settings(max_examples=60, deadline=None)
    def test_f_of_many_tables_is_that_of_each(self, tables, at_once):
        """Filled up with cells of no records, and however few ways are looked at together."""
        together = np.zeros((len(tables), 4, 2), dtype=int)
        for table, joint in zip(together, tables, strict=True):
            table[: len(joint)] = joint
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(certainty_module, "_AT_ONCE", at_once)
            found = certainties(together)
        assert found.tolist() == [certainty(joint) for joint in tables]

    def test_f_of_an_attribute_of_one_level_is_that_of_one_that_is_always_0(self):
        assert certainty(np.array([[3], [4]])) == certainty(np.array([[3, 0], [4, 0]])) == -7

    def test_f_of_more_records_than_32_bits_hold(self):
        joint = np.array([[5, 1], [2, 4]])
        assert certainty(joint * 2**27) == certainty(joint) * 2**27

    def test_f_moves_by_2_somewhere_and_r_by_nearly_its_bound(self):
        assert certainty(np.array([[5, 0], [0, 5]])) - certainty(np.array([[5, 0], [1, 4]])) == 2
        joint = np.array([[0, 50], [50, 0], [0, 0]])
        moves = [abs(dependence(other) - dependence(joint)) for other in replacements(joint)]
        assert max(moves) >= 0.3 * (6 * 100 + 4)

    @given(st.integers(0, 3), st.integers(0, 99))
    def test_each_pair_is_scored_on_its_own_counts(self, parents, seed):
        domain = Domain.of({"a": 3, "b": 2, "c": 2, "d": 3})
        codes = np.random.default_rng(seed).integers(0, domain.sizes, (30, 4))
        scores = ParentScores(Dataset(domain, codes))
        pair = Pair("d", ("a", "b", "c")[:parents])
        table = np.zeros((*domain.project(pair.parents).sizes, 3), dtype=int)
        np.add.at(table, tuple(codes[:, [*range(parents), 3]].T), 1)
        expected = dependence(table.reshape(-1, 3))
        assert scores.of([pair, pair]).tolist() == [expected, expected]
        assert scores.sensitivity == 6 * 30 + 4

    def test_f_is_for_binary_attributes_alone(self):
        codes = np.random.default_rng(1).integers(0, 2, (20, 3))
        scores = ParentScores(Dataset(Domain.of({"a": 2, "b": 2, "c": 2}), codes))
        joint = np.zeros((2, 2), dtype=int)
        np.add.at(joint, (codes[:, 0], codes[:, 1]), 1)
        assert scores.of([Pair("b", ("a",))]).tolist() == [certainty(joint)]
        assert scores.sensitivity == 2

    @pytest.mark.parametrize("sizes", [(2, 2, 1, 2, 2), (3, 2, 2, 3, 1)])
    def test_counting_by_bits_and_by_records_gives_the_same_scores(self, sizes, monkeypatch):
        domain = Domain.of(dict(zip("abcde", sizes, strict=True)))
        dataset = Dataset(domain, np.random.default_rng(2).integers(0, sizes, (150, 5)))
        pairs = [
            Pair(name, parents) for name in "de" for k in range(4) for parents in combinations("abc", k)
        ]
        by_bits = ParentScores(dataset).of(pairs)
        monkeypatch.setattr(privbayes_parents, "_FEW", 0)
        np.testing.assert_array_equal(by_bits, ParentScores(dataset).of(pairs))

    @given(domains(fewest=2, most=4, largest=3), st.sampled_from([0, 1, 63, 64, 65, 200]))
    @settings(max_examples=60, deadline=None)
    def test_bits_count_what_records_are(self, domain, rows):
        codes = np.random.default_rng(rows).integers(0, domain.sizes, (rows, len(domain)))
        dataset = Dataset(domain, codes)
        *parents, attribute = domain.attributes
        expected = count(dataset, domain.attributes).reshape(1, -1, domain.sizes[-1])
        found = BitPlanes(dataset).joints(tuple(parents), (attribute,))
        np.testing.assert_array_equal(found, expected)


class TestSets:
    @given(domains(fewest=0, most=5, largest=4), st.integers(0, 40), st.integers(0, 4))
    def test_they_are_the_largest_within_the_bounds(self, domain, most_cells, degree):
        def fits(chosen):
            return len(chosen) <= degree and domain.project(chosen).cells <= max(most_cells, 1)

        every = [c for k in range(6) for c in combinations(domain.attributes, k) if fits(c) or not c]
        if most_cells == 0:
            every = [()]
        largest = [c for c in every if not any(set(c) < set(other) for other in every)]
        found = list(maximal_sets(domain, domain.attributes, most_cells, degree))
        assert sorted(found) == sorted(largest)

    def test_every_attribute_left_is_offered(self):
        domain = Domain.of({"a": 2, "b": 3, "c": 200})
        offered = pairs_to_choose_from(domain, [Pair("a", ())], 6, 3)
        assert offered == [Pair("b", ("a",)), Pair("c", ())]

    def test_where_they_are_too_many_parents_are_fewer(self, monkeypatch):
        """From 11 attributes: 165 sets of three, 55 of two, 11 of one. No set is dropped half-way."""
        domain = Domain(tuple(f"x{i}" for i in range(12)), (2,) * 12)
        network = [Pair(name, ()) for name in domain.attributes[:-1]]
        for most, expected in ((165, 165), (164, 55), (54, 11), (10, 1)):
            monkeypatch.setattr(privbayes_parents, "_MOST_PAIRS", most)
            offered = pairs_to_choose_from(domain, network, 16, 3)
            assert len(set(offered)) == len(offered) == expected
