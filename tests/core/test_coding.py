import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.coding import (
    Attribute,
    Coding,
    Edges,
    Labels,
    StructuralZeros,
    codes_of_numbers,
    impossible_cells,
    impossible_records,
    numbers_of_codes,
)
from gencard.core.dataset import steps_reached
from gencard.core.domain import Domain
from gencard.core.errors import (
    InvalidCliqueError,
    InvalidCodingError,
    InvalidDomainError,
    UndeclaredLevelError,
    UnknownAttributeError,
)
from tests.core.strategies import datasets, domains, structural_zeros

SEX = Attribute("sex", Labels(("M", "F")))
AGE = Attribute("age", Edges((0, 18, 65, 120), missing=True))


@pytest.mark.parametrize(
    "coding",
    [
        Labels(()),
        Labels(("a", "a")),
        Labels(("1", "x"), integer=True),
        Labels(("1", "01"), integer=True),
        Labels(("missing", "(missing)"), missing=True),
        Labels(tuple(map(str, range(65_537)))),
        Labels(tuple(map(str, range(65_536))), missing=True),
        Edges((1.0,)),
        Edges((1.0, 1.0)),
        Edges((2.0, 1.0)),
        Edges((0.0, float("nan"))),
        Edges((0.0, float("inf"))),
    ],
    ids=lambda coding: (coding.problem() or "too many levels")[:40],
)
def test_a_coding_that_means_nothing_is_refused(coding):
    with pytest.raises(InvalidCodingError):
        Attribute("a", coding)


def test_an_attribute_needs_a_name():
    with pytest.raises(InvalidCodingError):
        Attribute("", Labels(("a",)))


def test_sizes_and_names_of_levels():
    assert Labels(("a", "b"), missing=True).size == 3
    assert Labels(("a", "b"), missing=True).level_names == ("a", "b", "missing")
    assert Labels(("missing",)).level_names == ("missing",)
    assert AGE.coding.size == 4
    assert AGE.coding.level_names == ("[0, 18)", "[18, 65)", "[65, 120]", "missing")
    assert len(set(Edges((0.1, 0.1 + 1e-12, 0.2)).level_names)) == 2


class TestCoding:
    def test_it_declares_a_domain(self):
        coding = Coding((SEX, AGE))
        assert coding.domain == Domain.of({"sex": 2, "age": 4})
        assert coding.attribute("age") is AGE

    def test_names_differ(self):
        with pytest.raises(InvalidDomainError):
            Coding((SEX, SEX))

    @pytest.mark.parametrize("cell", [(2, 0), (0, 4), (-1, 0), (0,), (0, 0, 0)])
    def test_structural_zeros_lie_inside_the_domain(self, cell):
        with pytest.raises(InvalidCodingError, match="sex, age"):
            Coding((SEX, AGE), (StructuralZeros(("sex", "age"), (cell,)),))

    def test_structural_zeros_name_a_clique_of_the_domain(self):
        with pytest.raises(UnknownAttributeError):
            Coding((SEX,), (StructuralZeros(("age",), ((0,),)),))
        with pytest.raises(InvalidCliqueError):
            Coding((SEX,), (StructuralZeros(("sex", "sex"), ((0, 0),)),))
        zeros = StructuralZeros(("age", "sex"), ((3, 1),))
        assert Coding((SEX, AGE), (zeros,)).structural_zeros == (zeros,)


def test_intervals_are_closed_on_the_left_and_the_last_on_both_sides():
    values = np.array([0.0, 17.999, 18.0, 64.9, 65.0, 120.0, np.nan])
    assert codes_of_numbers("age", AGE.coding, values).tolist() == [0, 0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("value", [-0.001, 120.001, np.inf, -np.inf])
def test_a_number_outside_the_edges_is_refused(value):
    with pytest.raises(UndeclaredLevelError, match="age"):
        codes_of_numbers("age", AGE.coding, np.array([1.0, value]))


@given(
    steps=st.lists(st.floats(-9, 9) | st.integers(-9, 9).map(float), max_size=40, unique=True),
    values=st.lists(st.floats(-9, 9) | st.integers(-9, 9).map(float), max_size=9),
)
def test_steps_are_counted_as_a_search_counts_them(steps, values):
    steps = sorted(steps)
    numbers = np.array(values, dtype=float)
    assert steps_reached(numbers, steps).tolist() == np.searchsorted(steps, numbers, "right").tolist()


def test_missing_must_be_declared():
    with pytest.raises(UndeclaredLevelError):
        codes_of_numbers("age", Edges((0, 1)), np.array([np.nan]))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8, unique=True), st.data())
def test_every_number_lands_in_the_interval_that_holds_it(edges, data):
    edges = sorted(edges)
    value = data.draw(st.floats(edges[0], edges[-1]))
    (code,) = codes_of_numbers("a", Edges(tuple(edges)), np.array([value]))
    assert edges[code] <= value
    assert value < edges[code + 1] or (code == len(edges) - 2 and value == edges[-1])


@given(
    edges=st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=6, unique=True),
    words=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20),
    missing=st.booleans(),
    data=st.data(),
)
def test_a_number_drawn_inside_an_interval_has_its_code(edges, words, missing, data):
    coding = Edges(tuple(sorted(edges)), missing)
    codes = np.array([data.draw(st.integers(0, coding.size - 1)) for _ in words])
    numbers = numbers_of_codes(coding, codes, np.array(words, dtype=np.uint64))
    assert codes_of_numbers("a", coding, numbers).tolist() == codes.tolist()


def test_words_say_where_in_the_interval():
    words = np.array([0, 2**62, 2**63, 2**64 - 1, 0], dtype=np.uint64)
    numbers = numbers_of_codes(AGE.coding, np.array([1, 1, 1, 1, 3]), words)
    assert numbers[:3].tolist() == [18, 18 + 47 / 4, 18 + 47 / 2]
    assert 65 - 1e-12 < numbers[3] < 65
    assert np.isnan(numbers[4])


@given(st.data())
def test_structural_zeros_are_the_cells_that_agree_with_one_of_them(data):
    domain = data.draw(domains())
    dataset, zeros = data.draw(datasets(domain)), data.draw(structural_zeros(domain))
    part = domain.project(domain.attributes[: data.draw(st.integers(1, len(domain)))])

    def agrees(codes):
        record = dict(zip(part.attributes, codes, strict=True))
        return any(tuple(record.get(name) for name in zero.clique) in zero.cells for zero in zeros)

    records = dataset.project(part.attributes).codes
    expected = [agrees(record) for record in records.tolist()]
    assert impossible_records(part, records, zeros).tolist() == expected
    cells = impossible_cells(part, zeros)
    assert cells.shape == part.sizes
    assert all(cells[cell] == agrees(cell) for cell in np.ndindex(part.sizes))
