"""Missing values: proposed, listed and never silent; and dates that end no first look."""

from datetime import date

import duckdb
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.encoding import how_read
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import Vault
from gencard.controller.shell.schema import questions_of_dates
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.values import MARKS
from tests.controller.state import postgres

TODAY = date(2026, 11, 20)


@pytest.fixture(params=["csv", "parquet", "duckdb", "postgresql"])
def drafted(request, tmp_path):
    """A function that stores a column and drafts it."""

    def one_of(values, kind=None):
        values = (values * 60)[:60]
        table = pa.table({"a": pa.array(values, kind or pa.string()), "b": [1, 2, 3] * 20})
        pq.write_table(table, tmp_path / "t.parquet")
        place = tmp_path / f"t.{request.param}"
        source = f"read_parquet('{tmp_path}/t.parquet')"
        if request.param == "csv":
            duckdb.execute(f"COPY (FROM {source}) TO '{place}'")
        if request.param == "duckdb":
            with duckdb.connect(place) as connection:
                connection.execute(f"CREATE TABLE t AS FROM {source}")
            place = TableAddress(f"duckdb://{place}?table=t")
        if request.param == "postgresql":
            url = postgres.new_database(request.getfixturevalue("postgres_socket"))
            url = url.replace("+psycopg", "")
            sql_type = {"string": "text", "date32[day]": "date"}[str(table.schema.field("a").type)]
            with psycopg.connect(url) as connection:
                connection.execute(f"CREATE TABLE t (a {sql_type}, b int)")
                rows = [(row["a"], row["b"]) for row in table.to_pylist()]
                with connection.cursor() as cursor:
                    cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)
            place = TableAddress(f"{url}&table=t")
        made = draft_schema(place, "t", today=TODAY)
        if not isinstance(place, TableAddress):
            Vault(place, made.schema.coding, made.schema.readings, made.format).check()
        return next(one for one in made.attributes if one.name == "a")

    return one_of


@pytest.mark.parametrize("mark", ["NULL", "NA", "None", "#N/A", "<NA>", "nan", "NaN", "NAN", "-nan"])
def test_words_are_proposed_and_listed(drafted, mark):
    one = drafted(["yes", "no", mark, None])
    assert one.coding == Labels(("no", "yes"), missing=True)
    assert one.marks == {mark: 15}
    assert one.reading.absent == (mark,)


def test_none_is_a_level_where_it_begins_a_scale(drafted):
    one = drafted(["None", "Mild", "Severe"])
    assert one.coding.labels == ("None", "Mild", "Severe")
    assert one.coding.ordered
    assert one.marks == {}


def test_na_is_a_level_among_codes_of_countries(drafted):
    one = drafted(["NA", "DE", "FR"])
    assert one.coding.labels == ("DE", "FR", "NA")
    assert one.marks == {}


def test_a_label_may_read_missing(drafted):
    one = drafted(["missing", "here", None])
    assert one.coding.level_names == ("here", "missing", "(missing)")


def test_an_empty_text_is_missing(drafted):
    one = drafted(["yes", "", "no"])
    assert one.coding == Labels(("no", "yes"), missing=True)
    assert one.marks == {}


@pytest.mark.parametrize("last", ["9999-12-31", "0001-01-01"])
def test_days_without_a_meaning_are_proposed_as_missing(drafted, last):
    days = [date(2020, 1, 1), date(2020, 6, 1), date.fromisoformat(last)]
    one = drafted(days, pa.date32())
    assert isinstance(one.coding, Edges)
    assert one.coding.missing
    assert one.marks == {last: 20}
    assert one.coding.level_names[0].startswith("[2020-01-01")


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01", "0049-12-31"])
def test_a_column_of_such_days_alone_is_drafted(drafted, day):
    one = drafted([date.fromisoformat(day)], pa.date32())
    assert one.marks == {}
    assert one.coding.dates
    assert one.coding.size - one.coding.missing == 1


def test_whole_numbers_with_missing_values_stay_whole(tmp_path):
    path = tmp_path / "t.csv"
    numbers = [f"{number}.0" for number in range(59)]
    path.write_text("a;b\n" + "\n".join(f"{text};x" for text in [*numbers, *numbers, "", "nan"]) + "\n")
    (one, _) = draft_schema(path, "t", today=TODAY).attributes
    assert (one.coding.decimals, one.coding.scale.step, one.coding.missing) == (0, 1, True)


@pytest.mark.parametrize("day", ["infinity", "5000-01-01 (BC)", "99999-01-01"])
def test_days_outside_the_calendar_end_no_first_look(tmp_path, day):
    place = tmp_path / "t.duckdb"
    with duckdb.connect(place) as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT CASE WHEN i = 7 THEN DATE '{day}' "
            "ELSE DATE '2020-01-01' + CAST(i AS INT) END AS a, i % 2 AS b FROM range(60) AS s(i)"
        )
        connection.execute(f"COPY t TO '{tmp_path}/t.parquet'")
        connection.execute(f"COPY t TO '{tmp_path}/t.csv'")
    for file in (TableAddress(f"duckdb://{place}?table=t"), tmp_path / "t.parquet", tmp_path / "t.csv"):
        one = draft_schema(file, "t", today=TODAY).attributes[0]
        assert one.coding is None
        if file != tmp_path / "t.csv":  # where the days are texts, of which there are many
            assert "dates before the year 1" in one.note


class TestDates:
    """The format of dates is stated, or asked for once."""

    def file(self, folder, **columns):
        rows = zip(*((values * 60)[:60] for values in columns.values()), strict=True)
        path = folder / "t.csv"
        path.write_text("\n".join([",".join(columns), *map(",".join, rows)]) + "\n")
        return path

    def test_a_stated_format_comes_before_what_the_engine_reads(self, tmp_path):
        path = self.file(tmp_path, a=["12-11-10", "31-12-99"])
        made = draft_schema(path, "t", today=TODAY)
        assert made.format.dates == ("%d-%m-%y",)
        assert made.schema.coding.attribute("a").coding.level_names[0].startswith("[1999-01-01")
        days = Edges((0.0, 14924.0, 14926.0, 20000.0), decimals=0, dates=True)  # 2010-11-11, 2010-11-13
        vault = Vault(path, Coding((Attribute("a", days),)), format=made.format)
        assert vault.dataset(("a",), most_records=99).codes[0].tolist() == [1]

    def test_a_format_that_the_engine_reads_otherwise_is_another_version(self, tmp_path):
        path = self.file(tmp_path, a=["2020-05-06"])
        coding = Coding((Attribute("a", Edges((0.0, 20000.0), decimals=0, dates=True)),))
        stated = Vault(path, coding, format=FileFormat(dates=("%Y-%d-%m",)))
        others = how_read(FileFormat(dates=("%d.%m.%Y",)), {})
        assert "first" in how_read(stated.format, {})
        assert "first" not in others
        assert stated.version(b"salt") != Vault(path, coding).version(b"salt")
        numbers = stated.read(("a",), ("a",), most_records=99)[1]["a"]
        assert numbers[0] == (date(2020, 6, 5) - date(1970, 1, 1)).days

    def test_order_and_century_are_asked_for_once(self, tmp_path):
        path = self.file(tmp_path, a=["03/04/20"], c=["05/06/21"], d=["13.04.20", "14.05.21"])
        made = draft_schema(path, "t", today=TODAY)
        first, second = questions_of_dates(made.format, made.attributes)
        assert "in a, c?" in first
        assert "two digits" in second


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_a_label_that_a_file_declares_is_a_label(tmp_path, ending):
    """A label is one even if it reads like a mark of a missing value."""
    pyreadstat = pytest.importorskip("pyreadstat")
    texts = ("yes", "None", "NA", "NaN", "missing")
    frame = pd.DataFrame({"a": [float(code % 5) for code in range(60)], "b": [1.0, 2.0, 3.0] * 20})
    frame.loc[59, "a"] = None
    path = tmp_path / f"t.{ending}"
    labels = {"a": dict(enumerate(texts)), "b": dict(enumerate(MARKS, 1))}
    getattr(pyreadstat, f"write_{ending}")(frame, path, variable_value_labels=labels)
    made = draft_schema(path, "t", today=TODAY)
    first, second = made.attributes
    assert first.coding == Labels(texts, missing=True)
    assert (first.marks, second.marks, second.coding.missing) == ({}, {}, False)
    vault = Vault(path, made.schema.coding, made.schema.readings, made.format)
    vault.check()
    (counts,) = vault.count([("a",)])
    assert counts.tolist() == [12, 12, 12, 12, 11, 1]
