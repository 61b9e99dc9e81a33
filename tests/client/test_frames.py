"""Codes and data frames: the way there and back gives the same codes, whatever is declared."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from gencard.core.coding import BOOLEANS, Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import DomainMismatchError, UndeclaredLevelError
from gencard.run.levels import Midpoints, Numbers
from gencard.run.session import dataset_of_frame, frame_of

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda label: label != "missing"  # the name of the level of missing values
)
_flags = st.booleans()


@st.composite
def labels(draw):
    integer = draw(_flags)
    source = st.integers(-(10**12), 10**12).map(str) if integer else _text
    names = draw(st.lists(source, min_size=1, max_size=6, unique=True))
    return Labels(tuple(names), integer, draw(_flags), draw(_flags))


@st.composite
def edges(draw):
    points = draw(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=7, unique=True))
    return Edges(tuple(sorted(set(points))), draw(_flags))


@st.composite
def typed_edges(draw):
    """Edges of whole numbers, of numbers with decimals, and of dates."""
    decimals, dates = draw(st.sampled_from([(0, False), (2, False), (9, False), (0, True)]))
    most = 700_000 if dates else 10**6
    units = draw(st.lists(st.integers(-most, most), min_size=2, max_size=7, unique=True))
    return Edges(tuple(unit / 10**decimals for unit in sorted(units)), draw(_flags), decimals, dates)


_booleans = st.builds(lambda missing: Labels(BOOLEANS, missing=missing, boolean=True), _flags)


@st.composite
def codings(draw):
    parts = draw(st.lists(labels() | edges() | typed_edges() | _booleans, min_size=1, max_size=5))
    return Coding(tuple(Attribute(f"a{i}", coding) for i, coding in enumerate(parts)))


@st.composite
def datasets(draw):
    coding = draw(codings())
    rows = draw(st.integers(0, 12))
    codes = [[draw(st.integers(0, size - 1)) for size in coding.domain.sizes] for _ in range(rows)]
    array = np.array(codes, dtype=np.int64).reshape(rows, len(coding.domain))
    return coding, Dataset(coding.domain, array)


@settings(deadline=None)
@given(datasets())
def test_the_way_back_gives_the_same_codes(drawn):
    coding, dataset = drawn
    back = dataset_of_frame(frame_of(dataset, coding), coding, dataset.domain)
    assert back.digest() == dataset.digest()


@settings(deadline=None)
@given(datasets())
def test_plain_values_and_another_order_of_columns_give_the_same_codes(drawn):
    coding, dataset = drawn
    plain = frame_of(dataset, coding).astype(object)
    back = dataset_of_frame(plain[plain.columns[::-1]], coding, dataset.domain)
    assert back.digest() == dataset.digest()


@settings(deadline=None)
@given(datasets(), st.integers(0, 2**64 - 1))
def test_numbers_drawn_inside_the_intervals_give_the_same_codes(drawn, seed):
    coding, dataset = drawn
    frame = frame_of(dataset, coding, Numbers(seed))
    for attribute in coding.attributes:
        assert str(frame[attribute.name].dtype) in delivered_types(attribute.coding)
    assert dataset_of_frame(frame, coding, dataset.domain).digest() == dataset.digest()
    pd.testing.assert_frame_equal(frame, frame_of(dataset, coding, Numbers(seed)))


def delivered_types(coding):
    match coding:
        case Edges(dates=True):
            return ("datetime64[s]",)
        case Edges(decimals=0) | Labels(integer=True):
            return ("Int64",) if coding.missing else ("int64",)
        case Edges():
            return ("float64",)
        case Labels(boolean=True):
            return ("boolean",) if coding.missing else ("bool",)
    return ("category",)


@settings(deadline=None)
@given(datasets())
def test_midpoints_give_the_same_codes(drawn):
    coding, dataset = drawn
    frame = frame_of(dataset, coding, Midpoints())
    assert dataset_of_frame(frame, coding, dataset.domain).digest() == dataset.digest()


def test_whole_numbers_are_equally_frequent_and_the_last_edge_is_one_of_them():
    coding = Coding((Attribute("age", Edges((0, 3, 5), decimals=0)),))
    codes = np.repeat([[0], [1]], 30_000, axis=0)
    ages = frame_of(Dataset(coding.domain, codes), coding, Numbers(1))["age"]
    for interval, values in ((ages[:30_000], (0, 1, 2)), (ages[30_000:], (3, 4, 5))):
        counts = interval.value_counts()
        assert set(counts.index) == set(values)
        assert chisquare(counts).pvalue > 0.001


def test_the_level_of_zero_holds_nothing_but_zero():
    coding = Coding((Attribute("income", Edges((0, 0.01, 100), decimals=2)),))
    frame = frame_of(Dataset(coding.domain, np.array([[0]] * 50 + [[1]] * 50)), coding, Numbers(1))
    assert (frame["income"][:50] == 0).all()
    assert (frame["income"][50:] >= 0.01).all()
    assert frame["income"].round(2).equals(frame["income"])


def test_numbers_are_uniform_and_those_of_the_seed_and_the_attribute():
    coding = Coding(tuple(Attribute(name, Edges((0, 1, 5))) for name in "ab"))
    dataset = Dataset(coding.domain, np.tile([[1, 1]], (20_000, 1)))
    one, other = (frame_of(dataset, coding, Numbers(seed)) for seed in (1, 2))
    assert kstest(one["a"], "uniform", args=(1, 4)).pvalue > 0.001
    assert abs(np.corrcoef(one["a"], one["b"])[0, 1]) < 0.03
    assert abs(np.corrcoef(one["a"], other["a"])[0, 1]) < 0.03
    assert one["a"][:2].tolist() == GOLDEN


GOLDEN = [3.1262025852838073, 4.875547250760265]
"""Numbers of seed 1 for attribute "a": drawn anew by the formula of ``Numbers``, not by its code."""

CODING = Coding(
    (
        Attribute("sex", Labels(("female", "male"))),
        Attribute("children", Labels(("0", "1", "2"), integer=True, ordered=True, missing=True)),
        Attribute("age", Edges((0, 18, 65.5), missing=True)),
    )
)


def test_declared_types():
    frame = frame_of(Dataset(CODING.domain, np.array([[1, 2, 1], [0, 3, 2]])), CODING)
    assert list(frame["sex"]) == ["male", "female"]
    assert not frame["sex"].cat.ordered
    assert frame["children"].cat.ordered
    assert frame["children"][0] == 2
    assert frame["age"][0] == pd.Interval(18, 65.5, closed="left")
    assert frame.isna().sum().tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("column", "values"),
    [("sex", ["female", "other"]), ("sex", [None, "male"]), ("children", [3, 1]), ("age", [7.0, 66.0])],
)
def test_a_value_that_is_not_declared_is_refused_and_not_named(column, values):
    frame = frame_of(Dataset(CODING.domain, np.zeros((2, 3), dtype=int)), CODING)
    with pytest.raises(UndeclaredLevelError) as refused:
        dataset_of_frame(frame.assign(**{column: values}), CODING, CODING.domain)
    assert refused.value.fields == {"attribute": column}


def test_a_missing_attribute_is_refused():
    frame = frame_of(Dataset(CODING.domain, np.zeros((2, 3), dtype=int)), CODING)
    with pytest.raises(DomainMismatchError):
        dataset_of_frame(frame.drop(columns="age"), CODING, CODING.domain)
