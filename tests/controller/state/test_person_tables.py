"""Persons and derived attributes in a table of a database: the psi of a file, to the byte."""

from collections.abc import Iterator

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.awkward_records import CODING, READINGS, awkward
from gencard.controller.records import source as persons
from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import PublicSchema, schema_of_table, table_of_schema
from gencard.controller.records.vault import Vault, open_source
from gencard.core.errors import (
    DatasetChangedError,
    DatasetUnavailableError,
    InvalidInputError,
    TooLargeError,
    TooManyRecordsError,
    UndeclaredLevelError,
)
from gencard.core.statistics.measure import measure
from gencard.wire.psi import psi_document

pytest.importorskip("ibis")
from tests.controller.state.test_tables import SALT, engine, socket, stored  # noqa: F401  # fixtures

PLACES = ["Zürich", "Bern", "zürich", 'it\'s "so", %s']
STORED = table_of_schema(PublicSchema("Visits", "", "the office", True, CODING, READINGS))["attributes"]
DERIVED = [
    {"name": "home", "labels": PLACES},
    {"name": "before", "labels": PLACES, "missing": True},
    {"name": "grown", "of": "age", "edges": [0.0, 18.0, 120.0], "missing": True},
    {"name": "big", "of": "home", "recode": {"ja": ["Zürich", "zürich"]}, "other": "nö"},
    {"name": "moved", "compare": ["home", "before"], "missing": True},
]
OF_PERSONS = [
    {"name": "any_bern", "any": {"home": ["Bern"], "sex": ["f", "女 \U0001f642"]}},
    {"name": "visits", "number": {}, "edges": [0, 2, 3, 99], "integer": True},
]
CLIQUES = [("sex", "age"), ("grade", "day", "alive"), ("born", "city"), ("income", "grown")]
CLIQUES += [("big", "moved"), ("moved", "sex", "home"), ("grown",), ("word", "price")]
RECORDS = 3_000


def schema_of(most_records: int) -> PublicSchema:
    """Make a schema: 0 lets each record stand for itself, and 1 adds attributes of persons."""
    attributes = [*STORED, *DERIVED, *(OF_PERSONS if most_records == 1 else ())]
    persons = {"person": "id", "most_records": most_records} if most_records else {}
    table = {"title": "Visits", "declared_by": "the office", "attributes": attributes, **persons}
    return schema_of_table(table)


def replaced(records: pa.Table, name: str, place: int, value: object) -> pa.Table:
    column = records.column(name).to_pylist()
    column[place] = value
    kind = records.schema.field(name).type
    return records.set_column(records.column_names.index(name), name, pa.array(column, kind))


@pytest.fixture(scope="module")
def records() -> pa.Table:
    """Persons with about three records each, of whom some have equal ones."""
    random, made = np.random.default_rng(8), awkward(RECORDS)
    columns = {
        "home": pa.array(PLACES).take(random.integers(4, size=RECORDS)),
        "before": pa.array([*PLACES, None]).take(random.integers(5, size=RECORDS)),
        "id": pa.array([f"pérson {one}" for one in random.integers(0, RECORDS // 3, RECORDS)]),
    }
    for name, column in columns.items():
        made = made.append_column(name, column)
    return made


@pytest.fixture(scope="module")
def address(engine, socket, records, tmp_path_factory):  # noqa: F811
    return stored(engine, records, tmp_path_factory.mktemp("table"), socket)


@pytest.fixture(scope="module")
def file(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "records.parquet"
    pq.write_table(records, path)
    return path


@pytest.fixture(scope="module", params=[0, 1, 3])
def both(request, address, file) -> Iterator[tuple]:
    """The same records in a table and in the vault."""
    schema = schema_of(request.param)
    persons = schema.persons(SALT)
    with open_source(address, schema, USUAL, persons) as table:
        yield table, Vault(file, schema.coding, schema.readings, persons=persons), request.param


class TestBothSources:
    def test_s66_psi_is_the_same_to_the_byte(self, both):
        table, vault, most_records = both
        cliques = [*CLIQUES, *([("any_bern", "visits"), ("visits",)] if most_records == 1 else ())]
        domain = table.coding.domain
        table.confirm(table.version(SALT), SALT)
        first, second = (psi_document(measure(source, cliques, domain)) for source in (table, vault))
        assert first == second

    def test_s66_at_most_so_many_records_of_a_person_count(self, both, records):
        table, _, most_records = both
        _, numbers = np.unique(records.column("id").to_pylist(), return_counts=True)
        most = numbers.clip(max=most_records or RECORDS).sum()
        assert table.count([("big",)])[0].sum() == most
        assert (most < RECORDS) == bool(most_records)

    def test_more_records_than_a_job_could_hold_are_refused_with_the_version(self, both, monkeypatch):
        table, _, most_records = both
        monkeypatch.setattr(persons, "MOST_IN_MEMORY", RECORDS - 1)
        if most_records:
            with pytest.raises(TooLargeError):
                table.version(SALT)
        else:
            assert table.version(SALT)

    def test_all_is_declared(self, both):
        for source in both[:2]:
            source.check()

    def test_the_same_records_are_read(self, both):
        table, vault, most_records = both
        names = ("sex", "moved", "born", *(("visits",) if most_records == 1 else ()))
        uncoded = ("age", "day", "born", "income")
        (first, numbers), (second, others) = (
            source.read(names, uncoded, most_records=RECORDS) for source in (table, vault)
        )
        if not most_records:  # a table has no order
            order = np.lexsort([*numbers.values(), *first.codes.T])
            first, numbers = first.codes[order], {name: one[order] for name, one in numbers.items()}
            order = np.lexsort([*others.values(), *second.codes.T])
            second, others = second.codes[order], {name: one[order] for name, one in others.items()}
        else:
            first, second = first.codes, second.codes
        np.testing.assert_array_equal(first, second)
        for name in uncoded:
            np.testing.assert_array_equal(numbers[name], others[name])
        for source in (table, vault):
            with pytest.raises(TooManyRecordsError):
                source.dataset(("sex",), most_records=len(first) - 1)


@pytest.mark.parametrize("most_records", [0, 1])
def test_undeclared_values_are_refused_by_attribute_as_in_the_vault(
    most_records,
    engine,  # noqa: F811
    socket,  # noqa: F811
    records,
    tmp_path,
):
    wrong, schema = replaced(records[:60], "home", 0, "CANARY"), schema_of(most_records)
    wrong = replaced(wrong, "age", 1, 121.0)
    pq.write_table(wrong, tmp_path / "file.parquet")
    persons = schema.persons(SALT)
    vault = Vault(tmp_path / "file.parquet", schema.coding, schema.readings, persons=persons)
    with open_source(stored(engine, wrong, tmp_path, socket), schema, USUAL, persons) as table:
        for source in (table, vault):
            with pytest.raises(UndeclaredLevelError) as caught:
                source.check()
            assert caught.value.fields == {"attribute": "age, home"}
            for name, attribute in (("big", "home"), ("moved", "home"), ("grown", "age")):
                with pytest.raises(UndeclaredLevelError) as caught:
                    source.count([(name, "sex")])
                assert caught.value.fields == {"attribute": attribute}
            with pytest.raises(UndeclaredLevelError) as caught:
                source.read(("moved",), (), most_records=60)
            assert caught.value.fields == {"attribute": "home"}
        cliques = [("sex", "city"), ("before",)]
        assert table.version(SALT)  # a dataset can be offered on what is in order
        for first, second in zip(table.count(cliques), vault.count(cliques), strict=True):
            np.testing.assert_array_equal(first, second)


class TestPersons:
    @pytest.fixture
    def opened(self, engine, socket, tmp_path):  # noqa: F811
        def of(records: pa.Table, most_records: int = 1):
            schema = schema_of(most_records)
            place = stored(engine, records, tmp_path, socket)
            return open_source(place, schema, USUAL, schema.persons(SALT))

        return of

    @pytest.mark.parametrize("nobody", [None, ""])
    def test_s66_a_record_of_nobody_is_refused(self, opened, records, nobody):
        with opened(replaced(records[:9], "id", 3, nobody)) as table:
            for action in (table.check, lambda: table.count([("sex",)])):
                with pytest.raises(UndeclaredLevelError) as caught:
                    action()
                assert caught.value.fields == {"attribute": "id"}

    def test_the_version_says_whose_records_they_are_in_whatever_order(self, opened, records):
        few = records[:200]
        changed = replaced(few, "id", 0, "another")
        place = few.column("age").to_pylist().index(18.0)
        nearly = replaced(few, "age", place, np.nextafter(18.0, 19))  # the same codes
        with opened(few) as table:
            version = table.version(SALT)
            table.confirm(version, SALT)
            assert table.version(SALT) == version != table.version(b"other")
        with opened(few.take(np.random.default_rng(3).permutation(200))) as table:
            table.confirm(version, SALT)
        for other, most_records in ((changed, 1), (nearly, 1), (few, 3)):
            with opened(other, most_records) as table, pytest.raises(DatasetChangedError):
                table.confirm(version, SALT)


def test_s64_one_measurement_sees_one_snapshot(socket, records, tmp_path):  # noqa: F811
    address, schema = stored("postgresql", records[:99], tmp_path, socket), schema_of(3)
    persons = schema.persons(SALT)
    with open_source(address, schema, USUAL, persons) as table:
        version, counts = table.version(SALT), table.count([("home",)])[0]
        with psycopg.connect(address.url.replace("reader@", "gencard@")) as other:
            other.execute("UPDATE records SET home = 'Bern'")
        table.confirm(version, SALT)
        assert (table.read(("home",), (), most_records=99)[0].codes[:, 0] == 1).sum() == counts[1]
    with open_source(address, schema, USUAL, persons) as table, pytest.raises(DatasetChangedError):
        table.confirm(version, SALT)


def test_s64_errors_leave_as_their_kind_alone(socket, records, tmp_path):  # noqa: F811
    address, schema = stored("postgresql", records[:9], tmp_path, socket), schema_of(1)
    with open_source(address, schema, USUAL, schema.persons(SALT)) as table:
        table.table.run.args[0].con.close()
        with pytest.raises(DatasetUnavailableError) as caught:
            table.count([("sex",)])
        assert caught.value.__cause__ is caught.value.__context__ is None


def test_persons_must_be_of_a_type_that_engines_write_alike(records, tmp_path):
    numbered = records[:9].drop_columns("id").append_column("id", pa.array(np.arange(9) / 2))
    schema = schema_of(1)
    with (
        open_source(stored("duckdb", numbered, tmp_path, ""), schema, USUAL, schema.persons()) as table,
        pytest.raises(InvalidInputError, match="cast to text"),
    ):
        table.check()
