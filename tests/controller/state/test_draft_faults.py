"""Small faults of a first look: numbers that are none, marks, order of rows, labels of few records."""

from datetime import date

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import Vault
from gencard.core.coding import Edges, Labels
from tests.controller.state import postgres

TODAY = date(2026, 11, 20)


def csv_file(folder, **columns):
    path = folder / "t.csv"
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def drafted(place, name="a"):
    made = draft_schema(place, "t", today=TODAY)
    if not isinstance(place, TableAddress):
        Vault(place, made.schema.coding, made.schema.readings, made.format).check()
    return next(one for one in made.attributes if one.name == name)


@pytest.fixture(params=["duckdb", "postgresql"])
def table(request, tmp_path):
    """A function that fills a table by SQL and returns its address."""

    def made(sql: str) -> TableAddress:
        if request.param == "duckdb":
            with duckdb.connect(tmp_path / "t.duckdb") as connection:
                connection.execute(sql.format(numeric="double"))
            return TableAddress(f"duckdb://{tmp_path / 't.duckdb'}?table=t")
        url = postgres.new_database(request.getfixturevalue("postgres_socket")).replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            connection.execute(sql.format(numeric="numeric"))
        return TableAddress(f"{url}&table=t")

    return made


class TestNumbersThatAreNone:
    FEW, MANY = (
        f"CREATE TABLE t AS SELECT CAST({number} AS double precision) AS a, i % 2 AS b "
        "FROM generate_series(1, 60) AS s(i);"
        for number in ("i % 3", "i")
    )

    @pytest.mark.parametrize("start", [FEW, MANY])
    def test_infinite_ones_are_left_out_and_it_is_said(self, table, start):
        one = drafted(table(start + "INSERT INTO t VALUES ('inf'::double precision, 1)"))
        assert one.coding is None
        assert "infinite" in one.note

    def test_nan_of_a_numeric_column_is_missing(self, table):
        one = drafted(
            table(
                "CREATE TABLE t AS SELECT CAST(i * 1.5 AS {numeric}) AS a, i % 2 AS b "
                "FROM generate_series(1, 60) AS s(i); INSERT INTO t VALUES ('NaN', 1)"
            )
        )
        assert isinstance(one.coding, Edges)
        assert one.coding.missing

    def test_those_of_a_file(self, tmp_path):
        values = [float(number % 3) for number in range(60)]
        for more, words in ((np.inf, "infinite"), (np.nan, "")):
            pq.write_table(
                pa.table({"a": [*values, more], "b": [1, 2] * 30 + [1]}), tmp_path / "t.parquet"
            )
            one = drafted(tmp_path / "t.parquet")
            assert (one.coding is None) is bool(words)
            assert words in one.note
        assert one.coding == Labels(("0", "1", "2"), integer=True, ordered=True, missing=True)


def test_a_domain_over_whole_numbers_is_whole(postgres_socket):
    url = postgres.new_database(postgres_socket).replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE DOMAIN years AS int CHECK (VALUE BETWEEN 0 AND 120); CREATE DOMAIN code AS smallint;"
            "CREATE TABLE t AS SELECT CAST(i AS years) AS a, CAST(i % 3 AS code) AS c "
            "FROM generate_series(1, 60) AS s(i)"
        )
    address = TableAddress(f"{url}&table=t")
    years, code = (drafted(address, name).coding for name in "ac")
    assert (years.edges[-1], years.decimals, years.scale.step) == (120, 0, 1)
    assert code == Labels(("0", "1", "2"), integer=True, ordered=True, missing=True)


class TestMarks:
    @pytest.mark.parametrize(
        ("values", "marks"),
        [
            ([1, 2, 3, 4, 5, 98, 99], {"98", "99"}),
            ([1, 2, 3, 4, 5, -9, 99], {"-9", "99"}),
            ([*range(100)], set()),
            ([1, 2, 60, 99], set()),
            ([*range(240), 998, 999], {"998", "999"}),
            ([-4, 2, 99], set()),
            ([98, 99, 88], set()),
            ([-7, -7], set()),
        ],
    )
    def test_numbers_far_from_all_others_are_proposed_and_listed(self, tmp_path, values, marks):
        column = values * 3 if len(values) > 50 else (values * 60)[:60]
        one = drafted(
            csv_file(tmp_path, a=column, b=["x", "y"] * (len(column) // 2) + ["x"] * (len(column) % 2))
        )
        assert set(one.marks) == marks
        assert set(one.reading.absent) == marks

    def test_in_a_table(self, table):
        one = drafted(
            table(
                "CREATE TABLE t AS SELECT CASE WHEN i % 7 = 0 THEN 99 ELSE i % 5 END AS a, i % 2 AS b "
                "FROM generate_series(1, 70) AS s(i);"
            )
        )
        assert one.marks == {"99": 10}
        assert one.coding.labels == ("0", "1", "2", "3", "4")

    def test_a_number_beside_empty_cells_is_a_value(self, tmp_path):
        one = drafted(csv_file(tmp_path, a=[-7, ""] * 30, b=["x", "y"] * 30))
        assert one.coding == Labels(("-7",), integer=True, ordered=True, missing=True)
        assert one.marks == {}


@pytest.mark.parametrize("first", [True, False])
def test_no_order_of_the_rows_decides_the_format_of_dates(tmp_path, first):
    """One day above 12, among the first records or behind all that a sample holds."""
    days = [
        f"{1 + number % 12:02}/{1 + number // 12 % 12:02}/{1990 + number // 144}"
        for number in range(6_000)
    ]
    column = ["12/25/2020", *days] if first else [*days, "12/25/2020"]
    made = draft_schema(csv_file(tmp_path, a=column, b=["x", "y"] * 3_000 + ["x"]), "t", today=TODAY)
    assert made.format.dates == ("%m/%d/%Y",)


def test_labels_of_one_or_two_records_are_counted_for_the_steward_alone(tmp_path):
    values = ["x", "y", "z"] * 20 + ["rare", "rare", "once"]
    one = drafted(csv_file(tmp_path, a=values, b=["x", "y", "z"] * 21))
    assert one.rare == 2
    assert "2" not in one.note  # a comment of the schema file, which is public
    assert drafted(csv_file(tmp_path, a=[*([1, 2] * 30), 3], b=["x"] * 61)).rare == 1
