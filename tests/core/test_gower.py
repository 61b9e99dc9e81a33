"""Gower's distance against R's daisy, other programs, the formula pair by pair, and bad input."""

import json

import numpy as np
import pytest
from hypothesis import given

from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidDatasetError,
    InvalidInputError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.measures.privacy.distances import Gower, Missing, Records, gower_of, records_of
from gencard.measures.privacy.nearest import nearest
from tests.core.mixed import by_hand, compared, distances, tables
from tests.shared_data import oracle_file

CASES = [
    "complete_7x5",
    "complete_weights_7x5",
    "missing_9x6",
    "missing_weights_9x6",
    "complete_equal_rows_6x6",
    "negative_and_zero_max",
]


def read_case(name):
    """Two tables, the weights, and what others found."""
    cases = json.loads(oracle_file("metrics/gower_small.json").read_text())["cases"]
    case = next(case for case in cases if case["name"] == name)
    numeric = [name for name, kind in case["types"].items() if kind == "num"]
    return tables(case["columns"], numeric, case["X"], case["Y"]), case


@pytest.mark.shared
@pytest.mark.parametrize("name", CASES)
def test_daisy_and_another_program_say_the_same(name):
    (left, right), case = read_case(name)
    weights = case.get("weights")
    pairwise = gower_of(left, right, weights=weights, missing=Missing.PAIRWISE)
    ranges = dict(zip(pairwise.attributes, pairwise.ranges, strict=True))
    assert {name: ranges[name] for name in case["ranges_union"]} == pytest.approx(case["ranges_union"])
    found = distances(left, right, pairwise)
    for other in ("gower_pairwise", "r_cluster_daisy"):
        np.testing.assert_allclose(found, np.array(case[other], dtype=float), rtol=0, atol=1e-12)
    if "gower_missing_as_category" in case:
        category = gower_of(left, right, weights=weights, missing=Missing.CATEGORY)
        expected = np.array(case["gower_missing_as_category"], dtype=float)
        np.testing.assert_allclose(distances(left, right, category), expected, rtol=0, atol=1e-12)
    if "gower_pairwise_ranges_Y_clipped" in case:
        right_only = gower_of(right, weights=weights, missing=Missing.PAIRWISE)
        expected = np.array(case["gower_pairwise_ranges_Y_clipped"], dtype=float)
        np.testing.assert_allclose(distances(left, right, right_only), expected, rtol=0, atol=1e-12)
        ranges = dict(zip(right_only.attributes, right_only.ranges, strict=True))
        assert {name: ranges[name] for name in case["ranges_Y_only"]} == pytest.approx(
            case["ranges_Y_only"]
        )


@pytest.mark.shared
@pytest.mark.parametrize("name", CASES[:-1])
def test_the_closest_of_the_same_tables(name):
    (left, right), case = read_case(name)
    for rule, expected in (
        (Missing.PAIRWISE, "dcr_pairwise"),
        (Missing.CATEGORY, "dcr_missing_as_category"),
    ):
        found = nearest(left, right, gower_of(left, right, weights=case["weights"], missing=rule))
        np.testing.assert_allclose(found.distance, case[expected], rtol=0, atol=1e-12)
    assert found.position.tolist() == case["argmin_missing_as_category"]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("complete_7x5", "pypi_gower_0.1.2"),
        ("complete_weights_7x5", "pypi_gower_0.1.2"),
        ("complete_equal_rows_6x6", "pypi_gower_workaround_pad_Y"),
    ],
)
def test_a_third_program_where_it_is_right(name, key):
    """In single precision; it is wrong where tables are equally long, or a value is missing."""
    (left, right), case = read_case(name)
    found = distances(left, right, gower_of(left, right, weights=case["weights"]))
    np.testing.assert_allclose(found, case[key], rtol=0, atol=1e-7)


@given(compared())
def test_the_formula_pair_by_pair(drawn):
    left, right, gower = drawn
    found = distances(left, right, gower)
    np.testing.assert_allclose(found, by_hand(left, right, gower), rtol=0, atol=1e-14)
    assert np.all((found >= 0) & (found <= 1) | np.isnan(found))
    np.testing.assert_array_equal(distances(right, left, gower), found.T)


@given(compared(count=1))
def test_a_record_is_at_distance_zero_from_itself(drawn):
    records, gower = drawn
    own = np.diag(distances(records, records, gower))
    nothing_known = np.isnan(own)
    assert np.all(own[~nothing_known] == 0)
    assert gower.missing is Missing.PAIRWISE or not nothing_known.any()


@given(compared())
def test_only_proportions_of_weights_matter(drawn):
    left, right, gower = drawn
    heavy = Gower(gower.attributes, gower.ranges, tuple(1e300 * w for w in gower.weights), gower.missing)
    found = distances(left, right, heavy)
    np.testing.assert_allclose(found, distances(left, right, gower), rtol=0, atol=1e-14)


def test_six_hundred_levels_are_told_apart():
    """Codes of one byte would take level 256 for level 0."""
    levels = Records(("a",), (np.arange(600),))
    found = distances(levels, levels, gower_of(levels))
    np.testing.assert_array_equal(found, 1 - np.eye(600))


def test_levels_with_codes_of_any_size():
    left, right = (Records(("a",), (np.array(codes),)) for codes in ([2**40, -1, 7], [7, 2**40]))
    np.testing.assert_array_equal(
        distances(left, right, gower_of(left)), [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    )


def test_a_level_that_no_one_else_has_differs_from_all():
    left, right = Records(("a",), (np.array([9]),)), Records(("a",), (np.array([0, 1, 2]),))
    np.testing.assert_array_equal(distances(left, right, gower_of(right)), [[1.0, 1.0, 1.0]])


def test_constant_numbers_stay_in_the_denominator():
    left = Records(("a", "b"), (np.array([3.0, 4.0]), np.array([0, 0])))
    right = Records(("a", "b"), (np.array([3.0]), np.array([0])))
    np.testing.assert_array_equal(distances(left, right, gower_of(right)), [[0.0], [0.5]])


@pytest.mark.parametrize("huge", [1e300, -1e300, 2.0**1022])
def test_huge_numbers(huge):
    left, right = Records(("a",), (np.array([huge, 0.0]),)), Records(("a",), (np.array([-huge, 0.0]),))
    np.testing.assert_allclose(distances(left, right, gower_of(left, right)), [[1, 0.5], [0.5, 0]])


def test_tiny_ranges():
    left = Records(("a",), (np.array([0.0, 5e-324, 1e300]),))
    near = Records(("a",), (np.array([0.0, 5e-324]),))
    np.testing.assert_array_equal(distances(left, near, gower_of(near)), [[0, 1], [1, 0], [1, 1]])


def test_numbers_far_from_zero_keep_their_differences():
    times = Records(("t",), (1.7e18 + np.array([0.0, 1024.0, 2048.0]),))
    np.testing.assert_array_equal(distances(times, times, gower_of(times))[0], [0.0, 0.5, 1.0])


@pytest.mark.parametrize(("missing", "expected"), [("pairwise", np.nan), ("category", 0.0)])
@pytest.mark.parametrize("column", [np.array([np.nan]), np.array([-1])], ids=["number", "level"])
def test_where_all_is_missing(missing, expected, column):
    records = Records(("a",), (column,))
    gower = gower_of(records, missing=Missing(missing))
    np.testing.assert_array_equal(distances(records, records, gower), [[expected]])


def test_coded_records():
    coding = Coding(
        (
            Attribute("age", Edges((0, 10, 30), missing=True)),
            Attribute("children", Labels(("0", "1", "5"), integer=True, ordered=True, missing=True)),
            Attribute("sex", Labels(("f", "m"), missing=True)),
        )
    )
    codes = np.array([[0, 2, 1], [1, 0, 0], [2, 3, 2]])
    records = records_of(Dataset(coding.domain, codes), coding)
    np.testing.assert_array_equal(records.columns[0], [5, 20, np.nan])
    np.testing.assert_array_equal(records.columns[1], [5, 0, np.nan])
    np.testing.assert_array_equal(records.columns[2], [1, 0, -1])
    with pytest.raises(DomainMismatchError):
        records_of(Dataset(Domain.of({"age": 3}), np.array([[0]])), coding)


@pytest.mark.parametrize(
    ("attributes", "columns"),
    [
        ((), ()),
        (("a", "a"), (np.zeros(1), np.zeros(1))),
        (("a", "b"), (np.zeros(1),)),
        (("a", "b"), (np.zeros(1), np.zeros(2))),
        (("a",), (np.zeros((2, 2)),)),
        (("a",), (np.array(["x"]),)),
        (("a",), (np.array(["x"], dtype=object),)),
        (("a",), (np.array([True]),)),
        (("a",), (np.array([0, -2]),)),
        (("a",), (np.array([np.inf]),)),
        (("a",), (np.array([1.7e308]),)),
    ],
)
def test_bad_records_are_refused(attributes, columns):
    with pytest.raises(InvalidDatasetError):
        Records(attributes, columns)


@pytest.mark.parametrize(
    ("attributes", "columns"),
    [
        (("b", "a"), (np.zeros(1), np.array([0]))),
        (("a",), (np.zeros(1),)),
        (("a", "b"), (np.array([0]), np.array([0]))),
        (("a", "b"), (np.zeros(1), np.zeros(1))),
    ],
    ids=["order", "fewer", "levels for numbers", "numbers for levels"],
)
def test_different_attributes_are_refused(attributes, columns):
    records, other = Records(("a", "b"), (np.zeros(1), np.array([0]))), Records(attributes, columns)
    for both in ((records, other), (other, records)):
        with pytest.raises(DomainMismatchError):
            distances(*both, gower_of(records))
        with pytest.raises(DomainMismatchError):
            gower_of(*both)


@pytest.mark.parametrize(
    ("ranges", "weights", "error"),
    [
        ((1.0,), (1.0, 1.0), InvalidInputError),
        ((1.0, None, 1.0), (1.0, 1.0), InvalidInputError),
        ((-1.0, None), (1.0, 1.0), InvalidNumberError),
        ((np.inf, None), (1.0, 1.0), InvalidNumberError),
        ((np.nan, None), (1.0, 1.0), InvalidNumberError),
        ((1.0, None), (1.0, -1.0), InvalidNumberError),
        ((1.0, None), (1.0, np.nan), InvalidNumberError),
        ((1.0, None), (0.0, 0.0), InvalidNumberError),
    ],
)
def test_bad_ranges_and_weights_are_refused(ranges, weights, error):
    with pytest.raises(error):
        Gower(("a", "b"), ranges, weights)


def test_weights_for_nothing_and_ranges_of_nothing_are_refused():
    with pytest.raises(UnknownAttributeError):
        gower_of(Records(("a",), (np.zeros(1),)), weights={"b": 1})
    with pytest.raises(InvalidInputError):
        gower_of()
