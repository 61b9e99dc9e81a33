"""A role that may write, or see more than the declared table, is refused, however it came by that."""

from collections.abc import Iterator

import duckdb
import psycopg
import pytest

from gencard.controller.records.table_address import TableAddress
from gencard.core.errors import DatasetUnavailableError, RoleNotReadOnlyError
from tests.controller.state import postgres

pytest.importorskip("ibis")
from gencard.controller.records.databases import open_backend
from gencard.controller.records.rights import check_role

OFFICE = """
CREATE ROLE viewer LOGIN; CREATE ROLE "Odd ""writers"; CREATE ROLE team; CREATE ROLE maker CREATEDB;
CREATE SCHEMA office; GRANT USAGE ON SCHEMA office TO viewer;
CREATE TABLE office.people (sex text, income int); GRANT SELECT ON office.people TO viewer;
CREATE TABLE office.wages (income int); CREATE SEQUENCE office.numbers;
GRANT INSERT, DELETE ON office.people TO "Odd ""writers";
"""

ATTACKS = {
    "GRANT UPDATE ON office.people TO viewer": ("UPDATE ON TABLE office.people FROM viewer",),
    "GRANT UPDATE (income) ON office.people TO viewer": (
        "UPDATE (income) ON TABLE office.people FROM viewer",
    ),
    "GRANT TRUNCATE ON office.people TO PUBLIC": ("TRUNCATE ON TABLE office.people FROM PUBLIC",),
    'GRANT "Odd ""writers" TO viewer': ('REVOKE "Odd ""writers" FROM viewer',),
    'GRANT "Odd ""writers" TO team; GRANT team TO viewer; ALTER ROLE viewer NOINHERIT': (
        "REVOKE team FROM viewer",
    ),
    "GRANT pg_read_all_data TO viewer": ("REVOKE pg_read_all_data FROM viewer",),
    "GRANT maker TO viewer": ("REVOKE maker FROM viewer",),
    "ALTER ROLE viewer SUPERUSER": ("ALTER ROLE viewer NOSUPERUSER",),
    "ALTER TABLE office.people OWNER TO viewer": ("REASSIGN OWNED BY viewer",),
    "CREATE TYPE office.kind AS ENUM ('a'); ALTER TYPE office.kind OWNER TO viewer": (
        "REASSIGN OWNED BY viewer",
    ),
    "GRANT CREATE ON SCHEMA office TO viewer": ("CREATE ON SCHEMA office FROM viewer",),
    "GRANT SELECT ON office.wages TO viewer": ("SELECT ON TABLE office.wages FROM viewer",),
    "GRANT SELECT (income) ON office.wages TO PUBLIC": (
        "SELECT (income) ON TABLE office.wages FROM PUBLIC",
    ),
    "CREATE VIEW office.rich AS TABLE office.wages; GRANT SELECT ON office.rich TO viewer": (
        "SELECT ON TABLE office.rich FROM viewer",
    ),
    "GRANT USAGE ON office.numbers TO viewer": ("USAGE ON SEQUENCE office.numbers FROM viewer",),
    "GRANT SELECT ON pg_catalog.pg_statistic TO viewer": (
        "SELECT ON TABLE pg_catalog.pg_statistic FROM viewer",
    ),
    "GRANT SELECT ON pg_catalog.pg_statistic TO PUBLIC": (
        "SELECT ON TABLE pg_catalog.pg_statistic FROM PUBLIC",
    ),
    "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO PUBLIC": (
        "EXECUTE ON FUNCTION pg_catalog.pg_read_file(text) FROM PUBLIC",
    ),
    "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO team; GRANT team TO viewer": (
        "REVOKE team FROM viewer",
    ),
    # PostgreSQL lets everybody execute a new function
    "CREATE FUNCTION office.raise(a int, b text) RETURNS void SECURITY DEFINER LANGUAGE sql "
    "AS 'UPDATE office.people SET income = a'": (
        "EXECUTE ON FUNCTION office.raise(a integer, b text) FROM PUBLIC",
    ),
    "CREATE PROCEDURE office.clear() SECURITY DEFINER LANGUAGE sql AS 'DELETE FROM office.people'; "
    "REVOKE ALL ON PROCEDURE office.clear() FROM PUBLIC; "
    "GRANT EXECUTE ON PROCEDURE office.clear() TO viewer": (
        "EXECUTE ON PROCEDURE office.clear() FROM viewer",
    ),
    "ALTER ROLE viewer BYPASSRLS": ("ALTER ROLE viewer NOSUPERUSER", "NOBYPASSRLS"),
    "ALTER ROLE viewer CREATEROLE": ("NOCREATEROLE",),
    "ALTER ROLE viewer REPLICATION": ("NOREPLICATION",),
    "CREATE ROLE chief SUPERUSER; GRANT chief TO team; GRANT team TO viewer; "
    "ALTER ROLE viewer NOINHERIT": ("REVOKE team FROM viewer",),
    "GRANT DELETE ON office.people, office.wages TO viewer, team; GRANT team TO viewer": (
        "DELETE ON TABLE office.people FROM viewer",
        "DELETE ON TABLE office.wages FROM viewer",
        "REVOKE team FROM viewer",
    ),
}


@pytest.fixture(scope="module")
def office(postgres_socket: str) -> str:
    url = postgres.new_database(postgres_socket).replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        connection.execute(OFFICE)
    return url


@pytest.fixture
def owner(office: str) -> Iterator[psycopg.Connection]:
    """A session that may change rights."""
    with psycopg.connect(office, autocommit=True) as connection:
        yield connection


def address_in(office: str, table: str = "office.people") -> TableAddress:
    return TableAddress(f"{office.replace('gencard@', 'viewer@')}&table={table}")


def check(office: str, *others: str) -> None:
    address = address_in(office)
    check_role(address, "", "datasets/people", [address, *(address_in(office, one) for one in others)])


def test_a_role_that_reads_the_declared_table_alone_is_taken(office):
    check(office)


@pytest.mark.parametrize("attack", ATTACKS)
def test_s72_a_role_that_may_do_more_is_refused_with_what_to_run(office, postgres_socket, attack):
    name = office.split("@/")[1].split("?")[0]
    copy = postgres.new_database(postgres_socket, name).replace("+psycopg", "")
    try:
        with psycopg.connect(copy) as connection:
            connection.execute(attack)
        with pytest.raises(RoleNotReadOnlyError) as caught:
            check(copy)
        for statement in ATTACKS[attack]:
            assert statement in caught.value.advice
        assert caught.value.fields["role"] == "viewer"
    finally:
        with psycopg.connect(copy) as connection:
            connection.execute(
                "REASSIGN OWNED BY viewer TO gencard; ALTER ROLE viewer INHERIT "
                "NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOREPLICATION; DROP ROLE IF EXISTS chief"
            )
            connection.execute('REVOKE "Odd ""writers", team, maker, pg_read_all_data FROM viewer')
            connection.execute('REVOKE "Odd ""writers" FROM team')
    check(office)


def test_s72_what_the_advice_says_is_enough(office, owner):
    owner.execute("GRANT INSERT, UPDATE (sex) ON office.people TO viewer, PUBLIC")
    owner.execute('GRANT ALL ON office.wages TO viewer; GRANT "Odd ""writers" TO viewer')
    with pytest.raises(RoleNotReadOnlyError) as caught:
        check(office)
    owner.execute(caught.value.advice.partition("run: ")[2])
    check(office)


def test_a_role_may_read_each_table_that_the_settings_declare(office, owner):
    owner.execute("GRANT SELECT ON office.wages TO viewer")
    with pytest.raises(RoleNotReadOnlyError):
        check(office)
    check(office, "office.wages")
    owner.execute("REVOKE SELECT ON office.wages FROM viewer")


def test_a_database_that_is_away_is_not_taken_for_a_read_only_one(tmp_path):
    address = TableAddress(f"postgresql://viewer@/office?host={tmp_path}&table=people")
    with pytest.raises(DatasetUnavailableError):
        check_role(address, "", "datasets/people", [address])


def test_s72_a_file_of_duckdb_cannot_be_written(tmp_path):
    with duckdb.connect(tmp_path / "office.duckdb") as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS sex")
    before = (tmp_path / "office.duckdb").read_bytes()
    address = TableAddress(f"duckdb://{tmp_path}/office.duckdb?table=people")
    with open_backend(address, "") as backend:
        for attack in ("DELETE FROM people", "CREATE TABLE more (a int)", "ATTACH '/tmp/other.duckdb'"):
            with pytest.raises(duckdb.Error):
                backend.con.execute(attack)
        with pytest.raises(duckdb.Error):
            backend.con.execute(f"COPY people TO '{tmp_path}/leak.csv'")
    assert (tmp_path / "office.duckdb").read_bytes() == before
