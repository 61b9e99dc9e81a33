"""A table of a database gives the psi that a file with the same records gives, to the byte."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import engine_rows, engines_equal
from benchmarks.awkward_records import CODING, READINGS, awkward, with_undeclared
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import Vault
from gencard.core.errors import (
    DatasetChangedError,
    DatasetUnavailableError,
    EmptyDatasetError,
    InvalidInputError,
    MissingAttributeError,
    TooManyRecordsError,
    UndeclaredLevelError,
)
from gencard.core.statistics.measure import measure
from gencard.core.values import number_of
from gencard.wire.psi import psi_document
from tests.controller.state import postgres

pytest.importorskip("ibis")
from gencard.controller.records import databases as engines
from gencard.controller.records import table_codes as codes
from gencard.controller.records.databases import open_backend, open_table, records_of, runner
from gencard.controller.records.tables import IbisTable

CLIQUES = [("age", "sex"), ("grade", "day"), ("day",), ("sex", "age", "grade"), ("born", "alive")]
CLIQUES += [("city", "income", "born"), ("income", "alive"), ("word", "price")]
CLIQUES += [
    ("cost", "fee"),
    ("paid", "rate"),
    ("count", "seen"),
    ("aged", "sex"),
    ("left", "left_at"),
    ("debt", "rate"),
]
SALT = b"salt"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # it starts sooner
NO_NUMBERS = ("1_000", "+-5", "\u20035", "9" * 400, "1e999", "0x1", "5f")
"""Texts of which one engine or another makes a number, or an error."""


@pytest.fixture(scope="module")
def socket(postgres_socket: str) -> str:
    """A server that has the role of a reader."""
    with psycopg.connect(host=postgres_socket, user="gencard", dbname="postgres") as connection:
        roles = connection.execute("SELECT rolname FROM pg_roles").fetchall()
        if ("reader",) not in roles:  # other modules make it too
            connection.execute("CREATE ROLE reader LOGIN")
    return postgres_socket


def stored(engine: str, records: pa.Table, folder: Path, socket: str) -> TableAddress:
    """Store the records in the engine, for a role that may read them and nothing else."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    (folder / "records").mkdir()
    pq.write_table(records, folder / "records" / "0.parquet")
    address = engine_rows.address_of(engine, folder / "records", folder, socket)
    if engine == "postgresql":
        with psycopg.connect(address.partition("&table")[0]) as connection:
            connection.execute("GRANT SELECT ON records TO reader")
    return TableAddress(address.replace("gencard@", "reader@"))


def opened(address: TableAddress) -> AbstractContextManager[IbisTable]:
    return open_table(address, "", CODING, READINGS)


@pytest.fixture(scope="module", params=engine_rows.ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    if lacking := engine_rows.lacking(request.param):
        pytest.skip(lacking)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
        yield request.param


@pytest.fixture(scope="module")
def both(engine, socket, tmp_path_factory) -> Iterator[tuple[IbisTable, Vault]]:
    """The same records in a table and in the vault."""
    folder, records = tmp_path_factory.mktemp("tables"), awkward(5_000)
    address = stored(engine, records, folder, socket)
    pq.write_table(records, folder / "file.parquet")
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
        uncoded += ("cost", "paid", "fee", "rate", "count", "seen", "aged", "left", "left_at", "debt")
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

    def test_values_that_are_rounded_or_clamped_are_counted(self, both):
        first, second = (source.adjustments() for source in both)
        assert first == second
        on_scale = ["cost", "paid", "fee", "rate", "count", "seen", "aged"]
        assert list(first) == [*on_scale, "left", "left_at", "debt"]
        assert all(any((one.rounded, one.above, one.below)) for one in map(first.get, on_scale))

    def test_too_many_records_are_refused(self, both):
        for source in both:
            with pytest.raises(TooManyRecordsError):
                source.dataset(("sex",), most_records=4_999)


class TestRefusals:
    @pytest.fixture
    def table(self, engine, socket, tmp_path):
        def of(records: pa.Table) -> AbstractContextManager[IbisTable]:
            return opened(stored(engine, records, tmp_path, socket))

        return of

    def test_undeclared_values_are_refused_by_attribute_as_in_the_vault(self, table, tmp_path):
        records, undeclared = with_undeclared(awkward(200), CODING, READINGS)
        incomes = [*NO_NUMBERS, *records.column("income").to_pylist()[len(NO_NUMBERS) :]]
        at = records.column_names.index("income")
        records = records.set_column(at, "income", pa.array(incomes))
        pq.write_table(records, tmp_path / "file.parquet")
        vault = Vault(tmp_path / "file.parquet", CODING, READINGS)
        with table(records) as source:
            refused = engines_equal.refusals(source, CODING)  # its version can be taken all the same
            assert refused == engines_equal.refusals(vault, CODING)
            assert refused.pop("check") == f"UndeclaredLevelError {', '.join(undeclared)}"
            assert refused == {name: f"UndeclaredLevelError {name}" for name in undeclared}
            assert source.undeclared("income") == dict.fromkeys(NO_NUMBERS, 1)
            assert list(source.undeclared("sex")) == ["f\u0301"]
            for one in (source, vault):
                with pytest.raises(UndeclaredLevelError):
                    one.read(("sex",), (), most_records=200)

    def test_no_records_and_missing_attributes_are_refused(self, table):
        with table(awkward(0)) as source, pytest.raises(EmptyDatasetError):
            source.count([("sex",)])
        with (
            table(awkward(10).drop_columns("age")) as source,
            pytest.raises(MissingAttributeError) as caught,
        ):
            source.count([("sex", "age")])
        assert caught.value.fields == {"attribute": "age"}


class TestPostgres:
    def test_texts_are_the_numbers_that_python_reads(self, socket):
        random = np.random.default_rng(5)
        texts = [
            "".join(random.choice(list("0019.+-eE \n"), size)) for size in random.integers(9, size=3_000)
        ]
        texts += [
            f"{sign}{'9' * whole}{part}"
            for sign in ("", "-")
            for whole in (98, 99, 100, 101)
            for part in ("", ".", ".5", f".{'5' * 100}", f".{'5' * 101}", "e9")
        ]
        texts += [
            f"{sign}{number}{part}"
            for sign in ("", "-")
            for number in ("9" * 199, "9" * 200, "9" * 201, f".{'0' * 199}1", f"0.{'0' * 200}1")
            for part in ("", "e-400", "e90", "e108", "e-123", "e-200")
        ]
        texts += [
            f"{digits}{sign}{exponent}"
            for digits in ("0", "0.00", "1", "2.4", "2.5", "17.9", "18", "0.5")
            for sign in ("e", "E+", "e-")
            for exponent in (*range(290, 330), 400, 99_999, 100_000, 10**12, "000000000005")
        ]
        address = TableAddress(f"{postgres.new_database(socket).replace('+psycopg', '')}&table=texts")
        with psycopg.connect(address.url) as owner:
            owner.execute("CREATE TABLE texts AS SELECT unnest(%s::text[]) AS text", [texts])
        with open_backend(address, "") as backend:
            records = records_of(backend, address)
            query = records.select(text="text", number=codes.as_number(records.text))
            read = pa.Table.from_batches(runner(backend, address)(query)).to_pydict()
        numbers = map(number_of, read["text"])
        expected = [float("inf") if number is None else number for number in numbers]
        assert sorted(read["text"]) == sorted(texts)
        assert read["number"] == expected
        assert 900 < np.isfinite(expected).sum() < 3_600

    def test_one_measurement_sees_one_snapshot_and_the_next_another_version(self, socket, tmp_path):
        address = stored("postgresql", awkward(100), tmp_path, socket)
        with opened(address) as table:
            version = table.version(SALT)
            with psycopg.connect(address.url.replace("reader@", "gencard@")) as other:
                other.execute("INSERT INTO records (sex, alive, city) VALUES ('f', true, 'Bern')")
            table.confirm(version, SALT)
            assert table.count([("sex",)])[0].sum() == 100
        with opened(address) as table, pytest.raises(DatasetChangedError):
            table.confirm(version, SALT)

    def test_s64_errors_of_the_database_leave_as_their_kind_alone(self, socket):
        secret = "CANARY"
        here = f"postgresql://reader@/postgres?host={socket}&table=CANARY"
        for url in (here, "postgresql://reader@127.0.0.1:9/x?table=CANARY"):
            with (
                pytest.raises(DatasetUnavailableError) as caught,
                open_table(TableAddress(url), secret, CODING, {}),
            ):
                pass
            assert "CANARY" not in repr(caught.value)
            assert caught.value.__cause__ is caught.value.__context__ is None

    @pytest.mark.timeout(60)
    def test_an_answer_left_half_read_is_cancelled(self, socket, tmp_path, monkeypatch):
        """Without that, the next statement fails, and the end of the transaction waits for ever."""
        monkeypatch.setattr(engines, "_BATCH", 10)  # the rest fills the buffers of the connection
        address = stored("postgresql", awkward(30_000), tmp_path, socket)
        with opened(address) as table:
            kept = [table.stream({"city": table.records.city, "age": table.records.age})]
            assert next(kept[0]).num_rows == 10
            assert table.count([("sex",)])[0].sum() == 30_000
            with pytest.raises(DatasetUnavailableError):  # never a shorter answer
                next(kept[0])
            kept += [table.stream({"city": table.records.city})]
            assert next(kept[1]).num_rows == 10
            connection = table.run.args[0].con
        assert connection.closed

    def test_nothing_can_be_written(self, socket, tmp_path):
        address = stored("postgresql", awkward(9), tmp_path, socket)
        address = TableAddress(address.text.replace("reader@", "gencard@"))
        with opened(address) as table, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            table.run.args[0].con.execute("DELETE FROM public.records")


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[::1]:1", "spark.example:1"])
def test_s65_a_token_goes_nowhere_without_tls(host):
    """By any name but localhost, Spark's client speaks TLS, and tries on if the server does not."""
    TableAddress(f"sc://{host}/;use_ssl=true?table=people&password_file=token")
    with pytest.raises(InvalidInputError, match="use_ssl=true"):
        TableAddress(f"sc://{host}?table=people&password_file=token")
    TableAddress("sc://localhost:1?table=people&password_file=token")
