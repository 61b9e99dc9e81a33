"""Blocks, cube moves and extremal pairs, against brute force on tiny tables."""

from collections import Counter
from itertools import combinations, combinations_with_replacement, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize

from gencard.boxes.reference import Honest
from gencard.core.audit import moves as blocks_module
from gencard.core.audit import moves as cubes_module
from gencard.core.audit.direction import Basis, Direction
from gencard.core.audit.extremal_pair import (
    ExtremalPair,
    Moves,
    extremal_pair,
    farthest,
    moved,
    statistics_digest,
)
from gencard.core.audit.moves import _take, climb, cubes, leads, minimal, neighbours, outside
from gencard.core.audit.uniques import made_up, uniform
from gencard.core.coding import StructuralZeros, impossible_cells, impossible_records
from gencard.core.dataset import Cells, Dataset, key_of
from gencard.core.domain import Domain
from gencard.core.errors import ComputationError, InvalidNumberError, NoExtremalPairError, TooLargeError
from gencard.core.generators.family import ipf
from gencard.core.statistics.marginals import count, count_all
from tests.core.strategies import datasets, domains, structural_zeros, workloads

CUBE = Domain.of({"a": 2, "b": 2, "c": 2})
PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))


def rng(seed=0):
    return np.random.default_rng(seed)


def dataset_of(domain, records):
    return Dataset(domain, np.array(records, dtype=np.int64).reshape(-1, len(domain)))


def multiset(dataset):
    return Counter(map(tuple, dataset.codes.tolist()))


def pair_of(dataset, cliques, seed=0, order=8, zeros=()):
    basis = Basis(dataset.domain, outside(dataset.domain, cliques, order))
    beta = basis.random_direction(rng=rng(seed))
    moves = Moves.of(cliques, basis.cliques, zeros=zeros)
    return beta, extremal_pair(dataset, moves, beta, rng=rng(seed))


@st.composite
def released(draw, rows=40):
    """A dataset and Phi, in the domain's order."""
    domain = draw(domains(fewest=2, most=4, largest=3))
    cliques = tuple(domain.canonical(clique) for clique in draw(workloads(domain)))
    return draw(datasets(domain, fewest=1, most=rows)), cliques


class TestBlocks:
    @given(released())
    def test_blocks_are_the_orthogonal_complement_of_the_marginals(self, drawn):
        dataset, cliques = drawn
        domain = dataset.domain
        cells = np.indices(domain.sizes).reshape(len(domain), -1)
        rows = []
        for clique in cliques:
            keys = key_of(cells[list(domain.axes(clique))], domain.project(clique).sizes)
            rows += [keys == key for key in np.unique(keys)]
        rank = np.linalg.matrix_rank(np.array(rows, dtype=float))
        try:
            found = outside(domain, cliques, 8)
        except NoExtremalPairError:
            assert rank == domain.cells
            return
        basis = Basis(domain, found)
        assert basis.parts[-1].stop == domain.cells - rank

    def test_order_bounds_the_blocks(self):
        domain = Domain.of(dict.fromkeys("abcd", 2))
        cliques = tuple((name,) for name in "abcd")
        assert outside(domain, cliques, 2) == tuple(combinations("abcd", 2))
        assert len(outside(domain, cliques, 3)) == 6 + 4

    def test_order_gives_way_where_phi_holds_all_sets_of_that_order(self):
        assert outside(CUBE, PAIRS, 2) == (("a", "b", "c"),)

    def test_attributes_of_one_level_have_no_blocks(self):
        assert outside(Domain.of({"a": 1, "b": 2, "c": 2}), (("b",), ("c",)), 3) == (("b", "c"),)

    def test_an_attribute_that_phi_leaves_out_is_a_block_itself(self):
        assert outside(Domain.of({"a": 2, "b": 2}), (("a",),), 1) == (("b",),)

    def test_a_phi_that_determines_everything_is_an_error_and_not_a_pass(self):
        with pytest.raises(NoExtremalPairError, match="determines every interaction"):
            outside(CUBE, (("a", "b", "c"),), 3)

    def test_too_many_sets_are_refused_before_they_are_listed(self):
        domain = Domain.of({f"a{i}": 2 for i in range(400)})
        with pytest.raises(TooLargeError, match="attribute sets"):
            outside(domain, (("a0",),), 3)

    def test_too_many_cells_are_refused(self, monkeypatch):
        monkeypatch.setattr(blocks_module, "MOST_CELLS", 7)
        with pytest.raises(TooLargeError, match="cells"):
            outside(CUBE, PAIRS, 3)

    @given(released())
    def test_minimal_is_what_its_name_says(self, drawn):
        dataset, cliques = drawn
        try:
            found = outside(dataset.domain, cliques, 8)
        except NoExtremalPairError:
            return
        expected = [c for c in found if not any(set(other) < set(c) for other in found)]
        assert list(minimal(found)) == expected

    def test_neighbours_share_a_clique(self):
        assert neighbours("a", [("a", "b"), ("b", "c"), ("a", "d")]) == {"b", "d"}


class TestCells:
    @given(datasets(fewest=0))
    def test_shuffling_loses_no_record(self, dataset):
        assert multiset(Cells.of(dataset).shuffled(rng=rng())) == multiset(dataset)

    @given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30))
    def test_keys_are_equal_for_equal_rows_only(self, rows):
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        for sizes in ((4, 4, 4), (2**40, 2**40, 2**40)):  # the second does not fit 64 bits
            keys = key_of(columns, sizes)
            assert len(set(keys.tolist())) == len(set(rows))
            assert len({(key, row) for key, row in zip(keys.tolist(), rows, strict=True)}) == len(
                set(rows)
            )

    def test_no_column_gives_no_key(self):
        assert len(key_of([], [])) == 0


def brute_cubes(cells, axes, context):
    """Every set of corners of one parity that is occupied within one context, by looking at all."""
    domain = cells.domain
    position = {tuple(code): i for i, code in enumerate(cells.codes.tolist())}
    others = [name for name in domain.attributes if name not in axes]
    assert set(others) == set(context)
    found = set()
    spans = [list(combinations(range(domain.size(name)), 2)) for name in axes]
    for rest in product(*(range(domain.size(name)) for name in others)):
        for span in product(*spans):
            for parity in (0, 1):
                corners = []
                for corner in product((0, 1), repeat=len(axes)):
                    if sum(corner) % 2 == parity:
                        levels = dict(zip(others, rest, strict=True))
                        levels |= {n: s[c] for n, s, c in zip(axes, span, corner, strict=True)}
                        corners.append(position.get(tuple(levels[n] for n in domain.attributes)))
                if None not in corners:
                    found.add(frozenset(corners))
    return found


class TestMoves:
    @given(datasets(Domain.of({"a": 3, "b": 2, "c": 3, "d": 2}), fewest=1), st.integers(1, 4))
    @settings(max_examples=40, deadline=None)
    def test_cubes_are_all_there_are(self, dataset, order):
        cells = Cells.of(dataset)
        axes = dataset.domain.attributes[:order]
        context = dataset.domain.attributes[order:]
        found = cubes(cells, axes, context, rng=rng())
        sets = [frozenset(corners) for corners in found.corners.tolist()]
        if order == 1:  # another level to go to, for every cell
            assert len(sets) == len(cells.counts) * 2
        else:
            assert set(sets) == brute_cubes(cells, axes, context)
            assert len(sets) == len(set(sets))

    def test_where_cubes_are_too_many_a_part_is_tried(self, monkeypatch):
        monkeypatch.setattr(cubes_module, "MOST_CUBES", 20)
        cells = Cells.of(made_up(Domain.of({"a": 6, "b": 6}), 2_000, rng=rng()))
        found = cubes(cells, ("a", "b"), (), rng=rng())
        assert 0 < len(found.odd) <= 20

    @given(st.data())
    def test_taking_in_rounds_is_taking_one_after_the_other(self, data):
        cells, moves = data.draw(st.integers(2, 8)), data.draw(st.integers(0, 12))
        counts = np.array(data.draw(st.lists(st.integers(0, 5), min_size=cells, max_size=cells)))
        corners = np.array(
            [data.draw(st.permutations(range(cells)))[:2] for _ in range(moves)], dtype=np.intp
        ).reshape(-1, 2)
        left, amounts = _take(corners, counts)
        expected = counts.copy()
        for corner, amount in zip(corners, amounts, strict=True):
            room = expected[corner].min()
            assert amount == room
            expected[corner] -= room
        np.testing.assert_array_equal(left, expected)

    def test_records_need_to_agree_only_where_a_clique_is_shared(self):
        # c and d differ, but no clique joins them with the attribute that is flipped
        domain = Domain.of({"a": 2, "b": 2, "c": 2, "d": 2})
        cliques = (("a",), ("b",), ("c", "d"))
        dataset = dataset_of(domain, [(0, 1, 0, 1), (1, 0, 1, 0)])
        beta = Direction(domain, (("a", "b"),), (np.eye(2),))
        after = climb(Cells.of(dataset), cliques, ("a", "b"), beta, rng=rng())
        assert sorted(after.codes.tolist()) == [[0, 0, 1, 0], [1, 1, 0, 1]]

    def test_gains_count_what_the_records_differ_in(self):
        # the block on (a, d) is moved along with (a, b): its loss outweighs
        domain = Domain.of({"a": 2, "b": 2, "d": 2})
        cliques = (("a",), ("b",), ("d",))
        dataset = dataset_of(domain, [(0, 1, 0), (1, 0, 1)])
        beta = Direction(domain, (("a", "b"), ("a", "d")), (np.eye(2), 3 * np.eye(2)))
        cells = Cells.of(dataset)
        assert climb(cells, cliques, ("a", "b"), beta, rng=rng()) is cells

    def test_a_move_that_no_block_sees_is_left(self):
        domain = Domain.of({"a": 2, "b": 2, "c": 2})
        beta = Direction(domain, (("b", "c"),), (np.eye(2),))
        cells = Cells.of(made_up(domain, 50, rng=rng()))
        assert climb(cells, (("a",), ("b", "c")), ("a", "b"), beta, rng=rng()) is cells

    def test_leads_are_one_for_each_context(self):
        chain = (("a", "b"), ("b", "c"), ("c", "d"))
        assert set(leads(("a", "c"), chain)) == {("a", "c"), ("c", "a")}


class TestPairs:
    @given(released(), st.integers(0, 99))
    @settings(max_examples=150, deadline=None)
    def test_psi_is_equal_to_the_last_record_and_the_rest_differs(self, drawn, seed):
        dataset, cliques = drawn
        try:
            beta, pair = pair_of(dataset, cliques, seed)
        except NoExtremalPairError:
            return
        for side in (pair.low, pair.high):
            for one, other in zip(count_all(side, cliques), count_all(dataset, cliques), strict=True):
                np.testing.assert_array_equal(one, other)
        assert beta.value(pair.low) < beta.value(pair.high)
        assert pair.moved > 0
        assert multiset(pair.low) != multiset(pair.high)

    @given(
        datasets(CUBE, fewest=1, most=5),
        st.sampled_from([PAIRS, PAIRS[:2], (("a",), ("b", "c")), (("a",), ("b",), ("c",))]),
    )
    @settings(max_examples=60, deadline=None)
    def test_a_pair_is_found_wherever_two_tables_have_the_psi(self, dataset, cliques):
        cells = list(product((0, 1), repeat=3))
        psi = [table.tolist() for table in count_all(dataset, cliques)]
        others = [
            records
            for records in combinations_with_replacement(cells, len(dataset))
            if [t.tolist() for t in count_all(dataset_of(CUBE, records), cliques)] == psi
        ]
        if len(others) > 1:
            assert pair_of(dataset, cliques)[1].moved
        else:
            with pytest.raises(NoExtremalPairError, match="no move"):
                pair_of(dataset, cliques)

    @given(released(), st.integers(0, 99))
    @settings(max_examples=40, deadline=None)
    def test_equal_psi_gives_equal_output_to_the_byte(self, drawn, seed):
        dataset, cliques = drawn
        covered = dataset.project(dataset.domain.covered_by(cliques).attributes)
        try:
            _, pair = pair_of(covered, cliques, seed)
        except NoExtremalPairError:
            return
        box = Honest(ipf(), cliques)
        fresh = Honest(ipf(), cliques)
        np.testing.assert_array_equal(
            box(pair.low, 30, seed=seed).codes, fresh(pair.high, 30, seed=seed).codes
        )

    def test_moves_on_the_paper_s_cube_take_all_that_can_be_taken(self):
        table = np.array([[[4, 1], [2, 3]], [[5, 2], [1, 6]]])
        records = np.repeat(np.argwhere(table >= 0), table.ravel(), axis=0)
        _, pair = pair_of(dataset_of(CUBE, records), PAIRS)
        sides = [count(side, ("a", "b", "c")) for side in (pair.low, pair.high)]
        parity = np.indices((2, 2, 2)).sum(axis=0) % 2 * 2 - 1
        steps = {int((side - table)[0, 0, 0]) for side in sides}
        assert all((side - table == -parity * (side - table)[0, 0, 0]).all() for side in sides)
        assert steps == {-min(4, 3, 2, 1), min(1, 2, 5, 6)}

    def test_where_no_cube_stands_ready_the_integer_program_finds_the_pair(self):
        domain = Domain.of({"a": 3, "b": 3, "c": 2})
        ring = [(0, 0, 0), (1, 1, 0), (2, 2, 0), (0, 1, 1), (1, 2, 1), (2, 0, 1)]
        dataset = dataset_of(domain, ring)
        assert not len(cubes(Cells.of(dataset), ("c", "a", "b"), (), rng=rng()).odd)
        _, pair = pair_of(dataset, PAIRS)
        assert pair.moved == 6

    def test_large_tables_are_not_given_to_the_integer_program(self):
        domain = Domain.of({"a": 50, "b": 50})
        dataset = dataset_of(domain, [(0, 0)])
        beta = Direction(domain, (("a", "b"),), (np.eye(50),))
        assert farthest(dataset, (("a",), ("b",)), beta) is dataset

    def test_a_solver_that_finds_nothing_leaves_the_dataset(self, monkeypatch):
        monkeypatch.setattr(optimize, "milp", lambda **_: SimpleNamespace(x=None))
        dataset = made_up(CUBE, 30, rng=rng())
        beta = Direction(CUBE, (("a", "b"),), (np.eye(2),))
        assert farthest(dataset, (("a",), ("b",)), beta) is dataset

    @given(released(), st.data(), st.integers(0, 9))
    @settings(max_examples=60, deadline=None)
    def test_neither_side_holds_a_record_that_cannot_occur(self, drawn, data, seed):
        dataset, cliques = drawn
        zeros = data.draw(structural_zeros(dataset.domain))
        allowed = ~impossible_records(dataset.domain, dataset.codes, zeros)
        dataset = dataset.take(np.flatnonzero(allowed))
        assume(len(dataset))
        try:
            _, pair = pair_of(dataset, cliques, seed, zeros=zeros)
        except NoExtremalPairError:
            return
        for side in (pair.low, pair.high):
            assert not impossible_records(side.domain, side.codes, zeros).any()
            assert statistics_digest(side, cliques) == statistics_digest(dataset, cliques)

    @given(datasets(CUBE, fewest=4, most=9), workloads(CUBE, widest=2), structural_zeros(CUBE))
    @settings(max_examples=60, deadline=None)
    def test_a_pair_is_found_wherever_two_possible_tables_have_the_psi(self, dataset, cliques, zeros):
        cliques = tuple(CUBE.canonical(clique) for clique in cliques)
        impossible = impossible_cells(CUBE, zeros)
        allowed = np.flatnonzero(~impossible_records(CUBE, dataset.codes, zeros))[:5]
        assume(len(allowed))
        dataset = dataset.take(allowed)
        cells = [cell for cell in product((0, 1), repeat=3) if not impossible[cell]]
        wanted = statistics_digest(dataset, cliques)
        tables = sum(
            statistics_digest(dataset_of(CUBE, records), cliques) == wanted
            for records in combinations_with_replacement(cells, len(dataset))
        )
        try:
            pair_of(dataset, cliques, zeros=zeros)
        except NoExtremalPairError:
            assert tables == 1
        else:
            assert tables > 1

    def test_a_second_start_goes_on_from_the_first(self):
        domain = Domain.of({"a": 4, "b": 4, "c": 3})
        dataset = made_up(domain, 400, rng=rng())
        basis = Basis(domain, outside(domain, PAIRS, 3))
        moves = Moves.of(PAIRS, basis.cliques)
        pair = extremal_pair(dataset, moves, basis.random_direction(rng=rng()), rng=rng())
        beta = basis.direction(basis.tables(basis.difference(pair.low, pair.high)))
        further = extremal_pair(dataset, moves, beta, rng=rng(), start=pair)
        lengths = [np.linalg.norm(basis.difference(p.low, p.high)) for p in (pair, further)]
        assert lengths[1] >= lengths[0]

    def test_the_guard_fires_where_psi_differs_by_one_record(self):
        one = dataset_of(CUBE, [(0, 0, 0), (1, 1, 1)])
        other = dataset_of(CUBE, [(0, 0, 0), (1, 1, 0)])
        with pytest.raises(ComputationError, match="differ in psi"):
            ExtremalPair(PAIRS, one, other)

    def test_digests_are_of_the_marginals_alone(self):
        one = dataset_of(CUBE, [(0, 0, 0), (1, 1, 0)])
        same = dataset_of(CUBE, [(0, 1, 0), (1, 0, 0)])
        assert statistics_digest(one, (("a",), ("b",))) == statistics_digest(same, (("a",), ("b",)))
        assert statistics_digest(one, (("a", "b"),)) != statistics_digest(same, (("a", "b"),))
        assert moved(one, same) == 2

    def test_the_same_seed_gives_the_same_pair(self):
        dataset = made_up(CUBE, 200, rng=rng())
        pairs = [pair_of(dataset, PAIRS, seed=3)[1] for _ in range(2)]
        assert pairs[0].high.digest() == pairs[1].high.digest()


class TestMadeUp:
    def test_a_small_domain_is_filled(self):
        dataset = made_up(CUBE, 1_000, rng=rng())
        assert len(multiset(dataset)) == 8

    def test_a_large_domain_gets_a_dense_grid(self):
        domain = Domain.of(dict.fromkeys("abcdefg", 13))
        dataset = made_up(domain, 5_000, rng=rng())
        used = [len(np.unique(dataset.column(name))) for name in domain.attributes]
        assert len(dataset) == 5_000
        assert all(levels >= 2 for levels in used)
        assert np.prod(used) <= 5_000 / 8
        cliques = tuple(combinations("abcdefg", 2))
        assert pair_of(dataset, cliques, order=3)[1].moved > 2_500

    @pytest.mark.parametrize("make", [made_up, uniform])
    def test_no_record_stands_where_none_can(self, make):
        domain = Domain.of({"a": 4, "b": 3, "c": 50})
        zeros = [StructuralZeros(("b", "a"), ((0, 0), (2, 3))), StructuralZeros(("c",), ((7,),))]
        for seed in range(20):
            dataset = make(domain, 500, zeros=zeros, rng=rng(seed))
            assert len(dataset) == 500
            assert not impossible_records(domain, dataset.codes, zeros).any()

    def test_possible_records_stay_as_they_were_drawn(self):
        domain = Domain.of({"a": 4, "b": 3})
        zeros = [StructuralZeros(("a", "b"), ((1, 1),))]
        free, bound = (uniform(domain, 500, zeros=each, rng=rng()) for each in ((), zeros))
        possible = ~impossible_records(domain, free.codes, zeros)
        assert 400 < possible.sum() < 500
        np.testing.assert_array_equal(free.codes[possible], bound.codes[possible])

    def test_zeros_that_leave_no_cell_are_an_error_and_not_an_empty_dataset(self):
        zeros = [StructuralZeros(("a",), ((0,), (1,)))]
        with pytest.raises(NoExtremalPairError, match="structural zeros"):
            made_up(CUBE, 10, zeros=zeros, rng=rng())

    def test_no_record_is_refused(self):
        with pytest.raises(InvalidNumberError):
            made_up(CUBE, 0, rng=rng())


def test_partners_are_all_pairs_of_equal_key_and_other_parity_in_order_of_the_keys():
    rng = np.random.default_rng(3)
    keys = np.array([0, 7, 7 + 2**18, 7 + 2**40, 2**62])[rng.integers(5, size=60)]  # some share a slot
    odd = rng.random(60) < 0.5
    odd[keys == 7] = False  # a key that no odd face has, in the slot of keys that odd faces have
    even, partner = cubes_module._partners(keys, odd, rng=rng)
    expected = [
        (k, e, o) for e, k in enumerate(keys) for o in np.flatnonzero(odd & (keys == k)) if not odd[e]
    ]
    assert [(keys[e], e, o) for e, o in zip(even, partner, strict=True)] == sorted(expected)
