"""A table of twenty columns as each file and engine reads them: codes, counts, units and sums."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import floor, isnan

import numpy as np
import pytest

pytest.importorskip("ibis")
from benchmarks import bench
from benchmarks.awkward_records import CODING, READINGS, awkward
from benchmarks.engines_equal import (
    FILES,
    SOURCES,
    Column,
    Records,
    column_table,
    columns_of,
    different_columns,
)
from tests.controller.state import postgres
from tests.controller.state.test_tables import JAVA_OPTIONS

GIVEN = Records("awkward", awkward(2_000), CODING, READINGS)
BY_HAND = ("cost", "paid", "fee", "rate", "count", "debt")
"""Floats, texts, decimals, narrow floats, whole numbers and negative decimals."""


@pytest.fixture(scope="module")
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, dict[str, Column] | str]]:
    socket = request.getfixturevalue("postgres_socket") if postgres.has_server() else ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
        yield columns_of(GIVEN, tmp_path_factory.mktemp("equal"), socket)


@pytest.mark.parametrize("source", SOURCES)
def test_twenty_columns_are_those_of_the_csv_file(made, source):
    columns = made[source]
    if isinstance(columns, str):
        pytest.skip(columns)
    assert len(columns) == 20
    for name, column in columns.items():
        assert column.differences(made["CSV"][name]) == "", name


@pytest.mark.parametrize("name", BY_HAND)
def test_sums_are_those_of_exact_decimals(made, name):
    units = [one for one in map(exact_unit(name), GIVEN.records.column(name).to_pylist()) if one != ""]
    sums = (len(units), sum(units), sum(unit**2 for unit in units))
    assert made["CSV"][name].sums == sums


def exact_unit(name: str):
    """A function from a value to its unit, empty without one: half up, clamped, from the centre."""
    scale, marks = CODING.attribute(name).coding.scale, READINGS.get(name)
    narrow = str(GIVEN.records.schema.field(name).type) == "float"

    def unit(value: object) -> int | str:
        if value is None or (marks and value in marks.absent):
            return ""
        number = Decimal(str(np.float32(value) if narrow else value))
        if isnan(number):
            return ""
        first, _ = scale.ends
        return min(max(floor(number / scale.step + Decimal("0.5")), first), scale.last) - scale.centre

    return unit


def test_the_table(made):
    bench.show([column_table(GIVEN, made)])
    table = column_table(GIVEN, made)
    assert [row[0] for row in table.rows] == list(CODING.domain.attributes)
    assert table.columns[-len(SOURCES) :] == SOURCES
    assert {cell for row in table.rows for cell in row[-len(SOURCES) :]} <= {"equal", "-"}
    assert different_columns(made) == 0


def test_what_differs_is_named(made):
    wrong: Mapping[str, Column] = made["CSV"] | {
        "cost": made["CSV"]["cost"]._replace(units="", sums=(1, 2, 3)),
        "sex": made["CSV"]["sex"]._replace(codes=""),
    }
    both = {"CSV": made["CSV"], "other": wrong, FILES[1]: "is not here"}
    assert different_columns(both) == 2
    rows = {row[0]: row[-2:] for row in column_table(GIVEN, both).rows}
    assert rows["cost"] == ("units, sums", "-")
    assert rows["sex"] == ("codes", "-")
    assert rows["fee"] == ("equal", "-")
    assert "is not here" in column_table(GIVEN, both).title
