"""A table of a database gives the psi that a file with the same records gives, to the byte."""

import datetime as dt
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest

from gencard.controller.records.encoding import Reading
from gencard.controller.records.tables.address import TableAddress
from gencard.controller.records.vault import Vault
from gencard.core.coding import Attribute, Coding, Edges, Labels, days_of_date
from gencard.core.errors import (
    DatasetChangedError,
    DatasetUnavailableError,
    EmptyDatasetError,
    MissingAttributeError,
    TooManyRecordsError,
    UndeclaredLevelError,
)
from gencard.core.statistics.measure import measure
from gencard.wire.documents.psi_document import psi_document
from tests.controller.state import postgres

pytest.importorskip("ibis")
from gencard.controller.records.tables.engines import open_table
from gencard.controller.records.tables.table import Table

DAYS = tuple(float(days_of_date(dt.date(year, 1, 1))) for year in (1990, 2000, 2030))
CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m'\\ü", "女 \U0001f642"), missing=True)),
        Attribute("grade", Labels(("1", "2.5"), missing=True)),
        Attribute("age", Edges((0.0, 0.1, 18.0, 120.0), missing=True)),
        Attribute("day", Edges(DAYS, missing=True, decimals=0, dates=True)),
        Attribute("born", Edges((0.0, 18.0, 65.0), missing=True, decimals=0)),
        Attribute("alive", Labels(("false", "true"), boolean=True)),
        Attribute("income", Edges((0.0, 1e3, 1e6), missing=True)),
        Attribute("city", Labels(("Zürich", "zürich", "other"))),
    )
)
READINGS = {
    "sex": Reading(("?",)),
    "age": Reading(("-8",)),
    "born": Reading(age_at=dt.date(2001, 2, 28)),
    "city": Reading(other="other"),
}
CLIQUES = [("age", "sex"), ("grade", "day"), ("day",), ("sex", "age", "grade"), ("born", "alive")]
CLIQUES += [("city", "income", "born"), ("income", "alive")]
COLUMNS = "sex text, grade float8, age float8, day date, born date, alive bool, income text, city text"
SALT = b"salt"
NUMBERS = count()
ENGINES = ["postgresql", "duckdb", "spark"]


def made_up(records: int) -> pd.DataFrame:
    random = np.random.default_rng(5)

    def some(*values: object) -> np.ndarray:
        return random.choice(np.array(values, dtype=object), records)

    days = [dt.date(1990, 1, 1), dt.date(1999, 12, 31), dt.date(2000, 1, 1), dt.date(2030, 1, 1), None]
    born = [dt.date(2000, 2, 28), dt.date(2000, 2, 29), dt.date(1983, 2, 28), dt.date(1983, 3, 1), None]
    born += [dt.date(2002, 2, 27), dt.date(1935, 3, 1)]
    return pd.DataFrame(
        {
            "sex": some("f", "m'\\ü", "女 \U0001f642", "?", None),
            "grade": random.choice([1.0, 2.5, np.nan], records),
            "age": random.choice([0.0, 0.1, np.nextafter(0.1, 0), 18.0, 120.0, -8.0, np.nan], records),
            "day": some(*days),
            "born": some(*born),
            "alive": some(True, False),
            "income": some("0", "1e3", " 999.999", "1000000", "5.", ".5", "NaN", None),
            "city": some("Zürich", "zürich", "Zurich", "Bern"),
        }
    )


@pytest.fixture(scope="module")
def reader(postgres_socket: str) -> str:
    """A database in which a role may read one table and nothing else."""
    database = postgres.new_database(postgres_socket).replace("+psycopg", "")
    with psycopg.connect(database) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
    return database


def stored(engine: str, frame: pd.DataFrame, folder: Path, database: str) -> TableAddress:
    """Where the engine has the records of a frame."""
    rows = frame.astype(object).where(frame.notna(), None)
    if engine == "postgresql":
        with psycopg.connect(database) as connection:
            columns = ", ".join(one for one in COLUMNS.split(", ") if one.split()[0] in frame)
            name = f"records{next(NUMBERS)}"
            connection.execute(f"CREATE TABLE {name} ({columns}); GRANT SELECT ON {name} TO reader")
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows.values.tolist():
                    copy.write_row(row)
        return TableAddress(f"{database.replace('gencard@', 'reader@')}&table={name}")
    frame.to_parquet(folder / "records.parquet")
    if engine == "spark":
        return TableAddress(f"spark://local?parquet={folder}/records.parquet")
    with duckdb.connect(folder / "records.duckdb") as connection:
        connection.execute(f"CREATE OR REPLACE TABLE records AS FROM '{folder}/records.parquet'")
    return TableAddress(f"duckdb://{folder}/records.duckdb?table=records")


def opened(address: TableAddress) -> AbstractContextManager[Table]:
    return open_table(address, "", CODING, READINGS)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        pytest.importorskip("pyspark", reason="no Spark here: pip install 'gencard[spark]'")
        if shutil.which("java") is None:
            pytest.skip("no Java here (Debian: default-jre-headless)")
    return request.param


@pytest.fixture(scope="module")
def both(engine, reader, tmp_path_factory) -> Iterator[tuple[Table, Vault]]:
    """The same records in a table and in the vault."""
    folder, frame = tmp_path_factory.mktemp("tables"), made_up(5_000)
    address = stored(engine, frame, folder, reader)
    frame.to_parquet(folder / "file.parquet")
    with opened(address) as table:
        yield table, Vault(folder / "file.parquet", CODING, READINGS)


class TestBothSources:
    def test_psi_is_the_same_to_the_byte(self, both):
        first, second = (psi_document(measure(source, CLIQUES, CODING.domain)) for source in both)
        assert first == second

    def test_psi_is_the_same_out_of_the_tables_of_a_fingerprint(self, both):
        table, vault = both
        assert len(table.version(SALT)) == 64
        assert psi_document(measure(table, CLIQUES, CODING.domain)) == psi_document(
            measure(vault, CLIQUES, CODING.domain)
        )

    def test_the_same_records_are_read(self, both):
        names, uncoded = ("sex", "age", "born"), ("age", "day", "born", "income")
        (first, numbers), (second, others) = (
            source.read(names, uncoded, most_records=5_000) for source in both
        )
        order = np.lexsort([*others.values(), *second.codes.T][::-1])
        np.testing.assert_array_equal(first.codes, second.codes[order])
        for name in uncoded:
            np.testing.assert_array_equal(numbers[name], others[name][order])

    def test_all_is_declared(self, both):
        for source in both:
            source.check()

    def test_too_many_records_are_refused(self, both):
        for source in both:
            with pytest.raises(TooManyRecordsError):
                source.dataset(("sex",), most_records=4_999)


class TestRefusals:
    @pytest.fixture
    def table(self, engine, reader, tmp_path):
        def of(frame: pd.DataFrame) -> AbstractContextManager[Table]:
            return opened(stored(engine, frame, tmp_path, reader))

        return of

    def test_undeclared_values_are_refused_by_attribute_as_in_the_vault(self, table, tmp_path):
        frame = made_up(200)
        frame.loc[0, "sex"], frame.loc[1, "age"], frame.loc[2, "born"] = (
            "CANARY",
            121.0,
            dt.date(1935, 2, 28),
        )
        frame.loc[3, "income"] = "1_000"
        frame.to_parquet(tmp_path / "file.parquet")
        vault = Vault(tmp_path / "file.parquet", CODING, READINGS)
        with table(frame) as source:
            assert source.count([("grade", "city")])[0].sum() == 200
            for one in (source, vault):
                with pytest.raises(UndeclaredLevelError) as caught:
                    one.check()
                assert caught.value.fields["attribute"].startswith("sex, age, born")
            with pytest.raises(UndeclaredLevelError):
                source.read(("sex",), (), most_records=200)
            assert source.undeclared("sex") == {"CANARY": 1}
            source.version(SALT)  # a dataset can be offered on what is in order
            assert source.count([("grade", "city")])[0].sum() == 200
            with pytest.raises(UndeclaredLevelError):
                source.count([("grade", "sex")])

    def test_no_records_and_missing_attributes_are_refused(self, table):
        with table(made_up(1).iloc[:0]) as source, pytest.raises(EmptyDatasetError):
            source.count([("sex",)])
        with (
            table(made_up(10).drop(columns="age")) as source,
            pytest.raises(MissingAttributeError) as caught,
        ):
            source.count([("sex", "age")])
        assert caught.value.fields == {"attribute": "age"}


class TestPostgres:
    def test_one_measurement_sees_one_snapshot_and_the_next_another_version(self, reader, tmp_path):
        address = stored("postgresql", made_up(100), tmp_path, reader)
        with opened(address) as table:
            version = table.version(SALT)
            with psycopg.connect(reader) as other:
                other.execute(
                    f"INSERT INTO {address.name} (sex, alive, city) VALUES ('f', true, 'Bern')"
                )
            table.confirm(version, SALT)
            assert table.count([("sex",)])[0].sum() == 100
        with opened(address) as table, pytest.raises(DatasetChangedError):
            table.confirm(version, SALT)

    def test_s64_errors_of_the_database_leave_as_their_kind_alone(self, reader):
        secret = "CANARY"
        for url in (f"{reader}&table=CANARY", "postgresql://reader@127.0.0.1:9/x?table=CANARY"):
            with (
                pytest.raises(DatasetUnavailableError) as caught,
                open_table(TableAddress(url), secret, CODING, {}),
            ):
                pass
            assert "CANARY" not in repr(caught.value)
            assert caught.value.__cause__ is caught.value.__context__ is None

    def test_nothing_can_be_written(self, reader, tmp_path):
        address = TableAddress(
            stored("postgresql", made_up(9), tmp_path, reader).text.replace("reader@", "gencard@")
        )
        with opened(address) as table, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            table.run.args[0].con.execute(f"DELETE FROM public.{address.name}")
