"""S25 in the core: checks and rounding of exact counts, against each rule's own definition."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gencard.core.card.privacy import AS_COUNTED, USUAL_CHECKS, Transform, laplace
from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError, MeasurementRefusedError
from gencard.core.statistics.measure import measure, measure_dataset
from gencard.core.statistics.psi import failing, rounded, rounding_stddev, transformed
from tests.core.strategies import brute_count, measured

transforms = st.builds(
    Transform,
    threshold=st.integers(0, 5),
    freedom=st.integers(0, 12),
    dominance_count=st.integers(0, 3),
    dominance_percent=st.integers(0, 100),
    remainder_percent=st.sampled_from([0, 10, 100, 100]),
    zeros=st.booleans(),
    rounding=st.integers(1, 6),
)
SEX_BY_AGE = Domain.of({"sex": 2, "age": 3})


def is_safe(counts, transform, allowed_empty):
    """Every rule from its own definition, on a list of contributions of 1 for each cell."""
    if transform.freedom and counts.sum() - counts.size < transform.freedom:
        return False
    for count, may_be_empty in zip(counts.ravel().tolist(), allowed_empty.ravel(), strict=True):
        contributions = [1] * count
        if not contributions:
            if transform.zeros and not may_be_empty:
                return False
            continue
        if count < transform.threshold:
            return False
        n, k = transform.dominance_count, transform.dominance_percent
        if n and sum(contributions[:n]) > k / 100 * sum(contributions):
            return False
        largest, *_ = contributions
        p = transform.remainder_percent
        if p and sum(contributions[2:]) < p / 100 * largest:
            return False
    return True


class Source:
    """The records of a dataset, as the vault would count them."""

    def __init__(self, dataset):
        self.dataset = dataset

    def count(self, cliques):
        return [brute_count(self.dataset, clique) for clique in cliques]


def ask(dataset, cliques, transform, zeros=()):
    return measure(Source(dataset), cliques, dataset.domain, transform=transform, zeros=zeros)


@given(measured(), transforms)
def test_a_measurement_leaves_only_where_every_cell_passes_every_check(drawn, transform):
    dataset, cliques = drawn
    tables = [brute_count(dataset, clique) for clique in cliques]
    safe = all(is_safe(table, transform, np.zeros(table.shape, bool)) for table in tables)
    if not safe:
        with pytest.raises(MeasurementRefusedError):
            ask(dataset, cliques, transform)
        return
    psi = ask(dataset, cliques, transform)
    for table, released in zip(tables, psi.measurements, strict=True):
        error = np.abs(released.values - table)
        assert np.all(released.values % transform.rounding == 0)
        assert np.all(2 * error <= transform.rounding)


@given(measured(), transforms)
def test_merging_categories_never_turns_a_pass_into_a_refusal(drawn, transform):
    """Hence what other marginals determine passes too: a marginal of a marginal merges its cells."""
    dataset, cliques = drawn
    for clique in cliques:
        table = brute_count(dataset, clique)
        assume(not failing(table, transform).any())
        for axis in range(table.ndim):
            assert not failing(table.sum(axis=axis), transform).any()
            if table.shape[axis] > 1:
                merged = np.add.reduceat(table, [0, *range(2, table.shape[axis])], axis=axis)
                assert not failing(merged, transform).any()


@given(measured(), transforms, st.data())
def test_a_declared_zero_may_be_empty_and_no_other_cell(drawn, transform, data):
    dataset, cliques = drawn
    clique = data.draw(st.sampled_from(cliques))
    table = brute_count(dataset, clique)
    empty = np.argwhere(table == 0).tolist()
    chosen = data.draw(st.lists(st.sampled_from(empty), unique_by=tuple)) if empty else []
    zeros = [StructuralZeros(clique, tuple(map(tuple, chosen)))] if chosen else []
    allowed = np.zeros(table.shape, dtype=bool)
    for cell in chosen:
        allowed[tuple(cell)] = True
    psi = measure_dataset(dataset, [clique])
    np.testing.assert_array_equal(impossible_cells(dataset.domain.project(clique), zeros), allowed)
    if is_safe(table, transform, allowed):
        transformed(psi, transform, zeros)
    else:
        with pytest.raises(MeasurementRefusedError):
            transformed(psi, transform, zeros)


def test_the_door_passes_declared_zeros_on_to_the_checks():
    dataset = Dataset(SEX_BY_AGE, np.array([[0, 0], [0, 1], [1, 0]]))
    transform, zeros = Transform(zeros=True), [StructuralZeros(("age",), ((2,),))]
    assert ask(dataset, [("age",)], transform, zeros).exact
    with pytest.raises(MeasurementRefusedError):
        ask(dataset, [("age",)], transform)


def test_a_zero_on_a_part_of_the_clique_holds_in_every_cell_above_it():
    zeros = [StructuralZeros(("age",), ((2,),))]
    turned = SEX_BY_AGE.project(("age", "sex"))
    assert impossible_cells(turned, zeros).tolist() == [[False] * 2, [False] * 2, [True] * 2]
    assert not impossible_cells(SEX_BY_AGE.project(("sex",)), zeros).any()


class TestTheUsualChecks:
    """Threshold 10, 10 degrees of freedom, (2, 90 %) dominance, p = 10 %, rounded to 5."""

    @pytest.mark.parametrize(
        ("table", "passes"),
        [
            ([[10, 20, 0], [11, 12, 13]], True),
            ([[9, 20, 0], [11, 12, 13]], False),
            ([[1, 20, 30], [11, 12, 13]], False),
            ([[15, 0, 0], [0, 0, 0]], False),  # 15 - 6 degrees of freedom
            ([[16, 0, 0], [0, 0, 0]], True),
        ],
    )
    def test_by_hand(self, table, passes):
        assert failing(np.array(table), USUAL_CHECKS).any() != passes

    def test_what_leaves_is_what_the_generator_sees(self):
        records = np.repeat(list(product(range(2), range(3))), [10, 12, 13, 17, 18, 22], axis=0)
        psi = ask(Dataset(SEX_BY_AGE, records), [("sex", "age")], USUAL_CHECKS)
        (only,) = psi.measurements
        assert only.values.tolist() == [[10, 10, 15], [15, 20, 20]]
        assert only.stddev == rounding_stddev(5) == np.sqrt(2)
        assert not psi.exact

    def test_the_refusal_says_neither_cell_nor_check(self):
        texts = set()
        for counts in ([1, 20, 30, 30, 30, 30], [0, 15, 0, 0, 0, 0]):
            records = np.repeat(list(product(range(2), range(3))), counts, axis=0)
            with pytest.raises(MeasurementRefusedError) as error:
                ask(Dataset(SEX_BY_AGE, records), [("sex", "age")], USUAL_CHECKS)
            texts.add((str(error.value), *error.value.fields))
        assert len(texts) == 1
        (text,) = texts
        assert not any(character.isdigit() for character in "".join(text))


class TestRounding:
    @given(st.lists(st.integers(0, 10**6), min_size=1), st.integers(1, 1000))
    def test_the_nearest_multiple_halves_up(self, counts, base):
        for count, found in zip(counts, rounded(np.array(counts), base).tolist(), strict=True):
            nearest = min(abs(count - base * k) for k in (count // base, count // base + 1))
            assert abs(found - count) == nearest
            assert found % base == 0
            assert 2 * (found - count) <= base
            assert 2 * (count - found) < base or base == 1

    @pytest.mark.parametrize("base", range(1, 13))
    def test_the_stddev_is_that_of_all_remainders(self, base):
        counts = np.arange(100 * base)
        errors = rounded(counts, base) - counts
        assert rounding_stddev(base) == pytest.approx(np.sqrt(np.mean(errors**2)))

    def test_rounded_counts_give_no_way_back(self):
        """The choice between two neighbours shows in no bit, away from the edges of a step."""
        assert len({rounded(np.array([count]), 5).tobytes() for count in (8, 9, 10, 11, 12)}) == 1


class TestTransform:
    @pytest.mark.parametrize("field", ["threshold", "freedom", "dominance_count", "rounding"])
    @pytest.mark.parametrize("number", [-1, 10**6 + 1])
    def test_numbers_have_a_range(self, field, number):
        with pytest.raises(InvalidNumberError, match=field):
            Transform(**{field: number})

    def test_a_multiple_of_zero_is_none(self):
        with pytest.raises(InvalidNumberError):
            Transform(rounding=0)

    def test_only_checks_refuse(self):
        assert USUAL_CHECKS.checks
        assert not AS_COUNTED.checks
        assert not Transform(rounding=5).checks

    @given(measured(), st.integers(1, 9))
    def test_rounding_alone_refuses_nothing(self, drawn, base):
        dataset, cliques = drawn
        assert ask(dataset, cliques, Transform(rounding=base)).cliques == cliques


def test_noise_is_never_drawn_by_nobody():
    domain = Domain.of({"a": 2})
    dataset = Dataset(domain, np.array([[0]]))
    privacy = laplace(1, neighbouring="add-remove")
    with pytest.raises(InvalidInputError, match="source of noise is required"):
        measure(Source(dataset), [("a",)], domain, privacy)
