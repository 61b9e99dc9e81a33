"""Programs in R read the same from ``records()`` as programs in Python."""

import shutil
from dataclasses import replace
from decimal import Decimal
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.client.answers.answering import outputs_here
from gencard.core.coding import Attribute, Coding, Edges, Labels, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError
from gencard.core.scale import Scale
from gencard.run import output
from gencard.run.levels import Midpoints, Stored, drawn_numbers
from gencard.run.r_language import FIRST_LINE, bytes_of_r_request, check_language, is_r
from gencard.run.session import frame_of
from gencard.wire.black_box import BoxRequest, BoxTask, bytes_of_request, read_request

needs_r = pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")

MANY = tuple(f"Ort \N{LATIN SMALL LETTER U WITH DIAERESIS} '{number}\"" for number in range(255))
CODING = Coding(
    (
        Attribute("town", Labels(MANY, missing=True)),
        Attribute("rank", Labels(("low", "high"), ordered=True)),
        Attribute("children", Labels(("0", "1", "7"), integer=True, missing=True)),
        Attribute("big", Labels(("0", "3000000000"), integer=True)),
        Attribute("works", Labels(("false", "true"), boolean=True, missing=True)),
        Attribute("age", Edges((0.0, 18.0, 65.0), decimals=0, missing=True)),
        Attribute("born", Edges((0.0, 10.0, 20.0), decimals=0, dates=True)),
    )
)
TYPES = """#!/usr/bin/env Rscript
frame <- records()
number <- function(column) if (is.factor(column)) as.integer(column) - 1L else as.numeric(column)
output$table("columns", as.data.frame(lapply(frame, number)), counts = character())
kinds <- c(factor = 1, ordered = 2, integer = 3, numeric = 4, logical = 5, Date = 6)
output$table("kinds", data.frame(kind = kinds[sapply(frame, function(column) class(column)[1])]))
output$scalar("last town", utf8ToInt(substr(levels(frame$town)[255], 5, 5)))
"""


def dataset() -> Dataset:
    """The last level of each attribute, the first, and others."""
    sizes = np.array(CODING.domain.sizes)
    rows = [sizes - 1, 0 * sizes, np.minimum(1, sizes - 1), np.maximum(0, sizes - 2)]
    return Dataset(CODING.domain, np.array(rows))


def outputs(text, tmp_path):
    (tmp_path / "analysis.R").write_text(text, encoding="utf-8")
    request = BoxRequest(BoxTask.ANALYSE, dataset(), 0, 0, coding=CODING)
    return outputs_here(tmp_path / "analysis.R", request)


@needs_r
def test_values_and_types_are_those_of_the_frame(tmp_path):
    columns, kinds, letter = outputs(TYPES, tmp_path)
    assert [row[0] for row in kinds.values] == [1, 2, 3, 4, 5, 4, 6]
    assert letter.values == ((ord("\N{LATIN SMALL LETTER U WITH DIAERESIS}"),),)
    frame = frame_of(dataset(), CODING, Midpoints())
    for place, name in enumerate(columns.column_names):
        expected = _numbers(frame[name])
        got = np.array([row[place] for row in columns.values], dtype=float)
        np.testing.assert_allclose(got, expected, rtol=1e-4, err_msg=name)


@needs_r
def test_an_output_that_there_is_not_is_told_with_those_that_there_are(tmp_path, capfd):
    with pytest.raises(InvalidInputError, match="failed on the synthetic rows"):
        outputs(f"{FIRST_LINE}\noutput$number('x', 1)", tmp_path)
    names = "table, coefficients, curve, scalar"
    assert f"output has no 'number'; valid: {names}" in capfd.readouterr().err
    with pytest.raises(AttributeError, match=f"output has no 'number'. Valid: {names}"):
        output.number("x", 1)


def _numbers(column):
    """Convert a column to R's numbers: levels from 0, days since 1970, NaN for a missing value."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.codes.replace(-1, None)
    if pd.api.types.is_datetime64_dtype(column):
        column = (column - pd.Timestamp(0)).dt.days
    return [np.nan if pd.isna(value) else float(value) for value in column]


def test_stored_numbers_take_the_place_of_midpoints():
    numbers = {"age": np.array([np.nan, 3.0, 20.0, 64.0])}
    request = BoxRequest(BoxTask.ANALYSE, dataset(), 0, 0, coding=CODING, stored=numbers)
    again = read_request(BytesIO(bytes_of_request(request)))
    frame = frame_of(again.dataset, CODING, Stored(again.stored))
    assert frame["age"].dtype == "Int64"
    assert frame["age"].astype("float64").tolist()[1:] == [3.0, 20.0, 64.0]
    assert pd.isna(frame["age"][0])
    assert np.array([3.0, 20.0, 64.0]).tobytes() in bytes_of_r_request(request)


STEPS = ("0.01", "0.5", "1", "10", "1000000")


@st.composite
def numbers_with_a_step(draw):
    """An attribute of numbers, dates or times with a step, and values of it; NaN is missing."""
    missing, kind = draw(st.booleans()), draw(st.sampled_from(["number", "date", "time"]))
    step = Decimal("1" if kind != "number" else draw(st.sampled_from(STEPS)))
    first = 0 if kind == "time" else draw(st.integers(-5_000, 5_000))
    last = first + (1_440 if kind == "time" else draw(st.integers(2, 5_000)))
    scale = Scale(step, (first * step, (first + 1) * step, last * step), times=kind == "time")
    edges = Edges.of_scale(scale.cells[:2], scale, missing=missing, dates=kind == "date")
    steps = st.integers(first, scale.last).map(lambda one: float(scale.numbers(np.array([one]))[0]))
    values = draw(st.lists(steps | st.just(np.nan) if missing else steps, min_size=1, max_size=9))
    return Attribute("x", edges), np.array(values)


@given(numbers_with_a_step())
def test_type_and_values_follow_from_the_schema_in_both_languages(case):
    """Whole numbers are integers; whatever the values are, the type is the same."""
    attribute, values = case
    edges = attribute.coding
    coding = Coding((attribute,))
    codes = codes_of_numbers("x", edges, values)
    held = Dataset.of_columns(coding.domain, [codes])
    request = BoxRequest(BoxTask.ANALYSE, held, 0, 0, coding=coding, stored={"x": values})
    again = read_request(BytesIO(bytes_of_request(request)))
    column = frame_of(again.dataset, coding, Stored(again.stored))["x"]
    whole = "Int64" if edges.missing else "int64"
    expected = "datetime64[s]" if edges.dates else whole if edges.decimals == 0 else "float64"
    assert str(column.dtype) == expected
    np.testing.assert_array_equal(_numbers(column), values)

    kind, data = _one_column(bytes_of_r_request(request))
    fits = max(map(abs, edges.edges)) < 2**31
    expected = "dates" if edges.dates else "integers" if edges.decimals == 0 and fits else "numbers"
    assert kind == expected
    if kind == "integers":
        integers = np.frombuffer(data, "<i4")
        np.testing.assert_array_equal(np.where(integers == -(2**31), np.nan, integers), values)
    else:
        np.testing.assert_array_equal(np.frombuffer(data, "<f8"), values)


def _one_column(request: bytes) -> tuple[str, bytes]:
    """Kind and values of the one column, named x, of a request for R."""
    rest = request[len("....gencard.r.v1") + 3 * 4 + len("....x") :]
    length = int.from_bytes(rest[:4], "little")
    return rest[4 : 4 + length].decode(), rest[4 + length :]


def test_drawn_numbers_lie_in_the_intervals_of_their_codes():
    drawn = drawn_numbers(dataset(), CODING, ["age"], seed=4)
    again = codes_of_numbers("age", CODING.attribute("age").coding, drawn["age"])
    np.testing.assert_array_equal(again, dataset().column("age"))
    for name in ("town", "nothing"):
        with pytest.raises(InvalidInputError, match="stored"):
            drawn_numbers(dataset(), CODING, [name], seed=4)


@needs_r
@pytest.mark.parametrize("value", [1e-7, 1e-6, -123456.5, 0.1, 5e11, 1e12, 3.0, -0.0, 12345.678e-9])
def test_a_number_has_its_one_spelling(value, tmp_path):
    """Another one is no valid answer."""
    text = f"{FIRST_LINE}\noutput$scalar('x', {value!r})"
    assert outputs(text, tmp_path)[0].values[0][0] == pytest.approx(value, rel=1e-4)


@needs_r
def test_rows_of_absent_combinations_are_there(tmp_path):
    text = f"{FIRST_LINE}\nframe <- transform(records(), one = 1L, other = rank)\n" + (
        "output$table('n', aggregate(one ~ rank + other, frame, sum))"
    )
    table = outputs(text, tmp_path)[0]
    assert table.row_names == ("low / low", "high / low", "low / high", "high / high")
    assert [row[0] for row in table.values] == [2, 0, 0, 2]


@needs_r
@pytest.mark.parametrize(
    "text",
    [
        "1",
        "stop('no')",
        "output$table('x', letters)",
        "output$coefficients('x', list())",
        "output$curve('x', c(b = 1))",
        "output$scalar('x', 1); output$scalar('x', 2)",
        "output$scalar('a\\tb', 1)",
    ],
)
def test_what_is_no_output_is_refused(text, tmp_path):
    with pytest.raises(InvalidInputError):
        outputs(f"{FIRST_LINE}\n{text}", tmp_path)


def test_the_first_line_says_the_language():
    assert is_r(f"{FIRST_LINE}\n1".encode())
    assert not is_r(b"import sys  # Rscript")
    check_language("analysis.py", b"1")
    check_language("analysis.R", FIRST_LINE.encode())
    with pytest.raises(InvalidInputError, match="R"):
        check_language("analysis.R", b"frame <- records()")


def test_a_request_that_is_for_no_analysis_is_refused():
    request = BoxRequest(BoxTask.ANALYSE, dataset(), 0, 0, coding=CODING)
    with pytest.raises(InvalidInputError):
        bytes_of_r_request(replace(request, coding=None))
