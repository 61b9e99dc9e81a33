"""`init` and `dataset add` draft of a table what it declares, and the rest as of a file."""

from datetime import UTC, date, datetime
from functools import partial

import duckdb
import pandas as pd
import psycopg
import pytest
from typer.testing import CliRunner

from gencard.controller.drafting.schema_draft import SchemaDraft, draft_schema
from gencard.controller.policy.statistics import allowed_pairs
from gencard.controller.records.records import check_records
from gencard.controller.records.schema_file import read_schema
from gencard.controller.records.table_address import TableAddress
from gencard.controller.settings import Settings
from gencard.controller.shell.main import app
from gencard.core.coding import Attribute, Coding, Edges, Labels, Reading
from gencard.core.errors import InvalidInputError
from gencard.core.policy import NumbersOffer
from tests.controller.state import postgres

pytest.importorskip("ibis")
from gencard.controller.drafting.tables import Declaration, _of_checks
from gencard.controller.records.databases import open_table

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
RECORDS = 300
DECLARED = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE regions (code text PRIMARY KEY, title text);
INSERT INTO regions VALUES ('n', 'North'), ('s', 'South'), ('w', 'West');
CREATE TABLE people (
    person int PRIMARY KEY, mood mood NOT NULL, sex text CHECK (sex IN ('f', 'm')),
    age int NOT NULL CHECK (age BETWEEN 0 AND 120), region text NOT NULL REFERENCES regions (code),
    grade int NOT NULL CHECK (grade IN (3, 1, 2)), income float8, born date NOT NULL, city text NOT NULL,
    wave text NOT NULL, alive boolean NOT NULL
);
INSERT INTO people
SELECT i, 'ok', CASE WHEN i % 2 = 0 THEN 'f' END, 20 + i % 30, 'n', 1, i * 10.5, DATE '1960-01-01',
    CASE WHEN i % 3 = 0 THEN 'Bern' ELSE 'Genf' END,
    CASE WHEN i % 5 = 0 THEN 'NA' ELSE '7' END, i % 2 = 0
FROM {series};
"""


@pytest.fixture(scope="module", params=["postgresql", "duckdb"])
def people(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TableAddress:
    """A table whose columns declare all that is read of them."""
    if request.param == "duckdb":
        file = tmp_path_factory.mktemp("drafts") / "office.duckdb"
        with duckdb.connect(file) as connection:
            connection.execute(DECLARED.format(series=f"range(1, {RECORDS + 1}) AS t(i)"))
        return TableAddress(f"duckdb://{file}?table=people")
    socket = request.getfixturevalue("postgres_socket")
    url = postgres.new_database(socket).replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        connection.execute(DECLARED.format(series=f"generate_series(1, {RECORDS}) AS t(i)"))
        connection.execute("DROP ROLE IF EXISTS drafter")
        connection.execute("CREATE ROLE drafter LOGIN; GRANT SELECT ON people, regions TO drafter")
    return TableAddress(f"{url.replace('gencard@', 'drafter@')}&table=people")


@pytest.fixture(scope="module")
def drafted(people: TableAddress) -> SchemaDraft:
    return draft_schema(people, "people", today=NOW.date())


def coding(drafted: SchemaDraft, name: str) -> Labels | Edges:
    return drafted.schema.coding.attribute(name).coding


def note(drafted: SchemaDraft, name: str) -> str:
    return next(one.note for one in drafted.attributes if one.name == name)


def test_what_the_table_declares_is_drafted_and_not_what_its_records_happen_to_hold(drafted):
    assert coding(drafted, "mood").labels == ("sad", "ok", "happy")
    assert coding(drafted, "sex") == Labels(("f", "m"), missing=True)
    assert coding(drafted, "region").labels == ("n", "s", "w")
    assert coding(drafted, "grade") == Labels(("1", "2", "3"), integer=True, ordered=True)
    assert coding(drafted, "age").edges == tuple(float(edge) for edge in range(0, 121, 20))
    for name in ("mood", "sex", "region", "age"):
        assert "what the table declares" in note(drafted, name)


def test_the_other_columns_are_drafted_from_the_records_as_those_of_a_file(drafted, tmp_path):
    days = [date(1960, 1, 1)] * RECORDS
    numbers = range(1, RECORDS + 1)
    file = tmp_path / "people.csv"
    pd.DataFrame(
        {
            "income": [10.5 * i for i in numbers],
            "born": days,
            "city": ["Genf" if i % 3 else "Bern" for i in numbers],
            "wave": ["7" if i % 5 else "NA" for i in numbers],
            "alive": [i % 2 == 0 for i in numbers],
        }
    ).to_csv(file, index=False, na_rep="")
    of_file = draft_schema(file, "people", today=NOW.date()).schema
    assert coding(drafted, "income").missing  # it may be empty, as the table declares
    assert coding(drafted, "income").edges == of_file.coding.attribute("income").coding.edges
    for name in ("born", "city", "alive"):
        assert coding(drafted, name) == of_file.coding.attribute(name).coding, name
        assert drafted.schema.readings.get(name) == of_file.readings.get(name)
    assert coding(drafted, "wave") == Labels(("7",), missing=True, text=True)
    assert "stored as text" in note(drafted, "wave")
    assert drafted.schema.readings["wave"] == of_file.readings["wave"]
    assert drafted.records == RECORDS


def test_values_that_an_enum_lacks_may_be_declared_and_are_missing_in_no_record(people):
    labels = Attribute("mood", Labels(("ok", "glum"), missing=True))
    with open_table(people, "", Coding((labels,)), {"mood": Reading(("?",))}) as table:
        assert table.count([("mood",)])[0].tolist() == [RECORDS, 0, 0]
        assert table.undeclared("mood") == {}


def test_a_key_is_left_out_unread(drafted):
    assert [one.name for one in drafted.left_out] == ["person"]
    assert "no two records" in note(drafted, "person")


def test_too_few_records_are_refused(people):
    address = TableAddress(people.text.replace("table=people", "table=regions"))
    with pytest.raises(InvalidInputError):
        draft_schema(address, "regions", today=NOW.date())


def test_a_list_of_codes_that_the_role_may_not_read_is_drafted_from_the_records(people):
    if people.engine != "postgresql":
        pytest.skip("files of DuckDB have no roles")
    owner = people.url.replace("drafter@", "gencard@")
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("REVOKE SELECT ON regions FROM drafter")
        drafted = draft_schema(people, "people", today=NOW.date())
        connection.execute("GRANT SELECT ON regions TO drafter")
    assert coding(drafted, "region").labels == ("n",)
    assert "the records" in note(drafted, "region")


def test_init_and_dataset_add_take_an_address_and_what_they_draft_fits(people, tmp_path):
    file = tmp_path / "other.csv"
    pd.DataFrame({"sex": ["f", "m"] * 20, "work": ["none", "full"] * 20}).to_csv(file, index=False)
    folder = tmp_path / "house"
    done = CliRunner().invoke(app, ["init", str(folder), "--data", people.text])
    assert done.exit_code == 0, done.output
    settings = Settings.load(folder / "controller.toml")
    assert str(settings.datasets[0].data) == people.text
    assert settings.datasets[0].name == "people"
    policy = settings.datasets[0].policy
    assert (policy.histograms, policy.sums) == (NumbersOffer.NOISE, NumbersOffer.NOISE)
    check_records(settings.datasets[0], partial(allowed_pairs, policy))
    other = tmp_path / "second"
    assert CliRunner().invoke(app, ["init", str(other), "--data", str(file)]).exit_code == 0
    options = ["--config", str(other / "controller.toml")]
    added = CliRunner().invoke(app, ["dataset", "add", "office", people.text, *options])
    assert added.exit_code == 0, added.output
    schemas = [folder / "schema.toml", other / "office-schema.toml"]
    assert read_schema(schemas[0]).coding == read_schema(schemas[1]).coding


def test_neither_a_file_nor_an_address_is_refused(tmp_path):
    for place in (str(tmp_path / "absent.csv"), "postgresql://reader@db/office"):
        with pytest.raises(InvalidInputError):
            CliRunner().invoke(
                app, ["init", str(tmp_path / "house"), "--data", place], catch_exceptions=False
            )
    assert not (tmp_path / "house").exists()


CHECKS = {
    "CHECK (((sex)::text = ANY ((ARRAY['f'::character varying, 'it''s'::text])::text[])))": (
        Declaration(("f", "it's"))
    ),
    "CHECK (((x = 'a'::text) OR (x = 'b'::text)))": Declaration(("a", "b")),
    "CHECK (((0 <= age) AND (age < 18)))": Declaration(bounds=(0.0, 18.0)),
    "CHECK (((t >= ('-5'::integer)::numeric) AND (t <= 5.5)))": Declaration(bounds=(-5.0, 5.5)),
    "CHECK (((x = ANY (ARRAY['a'::text, 'b'::text])) AND (length(y) > 3)))": Declaration(("a", "b")),
    "CHECK ((age > 0))": None,
    "CHECK ((age >= 0)) NOT VALID": None,
    "CHECK ((lower(sex) = ANY (ARRAY['f'::text, 'm'::text])))": None,
    "CHECK (((x = 'a'::text) OR (length(x) > 3)))": None,
    "CHECK ((x <> 'a'::text))": None,
    "CHECK ((x ~ '^[a-z]+$'::text))": None,
    "CHECK ((NOT (x = 'a'::text)))": None,
}


@pytest.mark.parametrize("text", CHECKS)
def test_a_check_is_read_or_left_alone(text):
    assert _of_checks([text], "postgres") == CHECKS[text]


def test_two_checks_are_two_bounds():
    read = _of_checks(["CHECK ((age >= 0))", "CHECK ((age <= 99))"], "postgres")
    assert read == Declaration(bounds=(0.0, 99.0))
