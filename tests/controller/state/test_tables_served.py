"""A whole controller whose records lie in PostgreSQL; its password is nowhere but where it was."""

from collections.abc import Iterator

import psycopg
import pytest
from typer.testing import CliRunner

from gencard.client import all_marginals
from gencard.controller.shell.main import app
from gencard.core.errors import DatasetChangedError, RoleNotReadOnlyError
from gencard.core.types import VersionKind
from tests.controller.state import postgres
from tests.system.house import House, build, survey
from tests.system.sandboxes import needs_sandbox

pytest.importorskip("ibis")
PASSWORD = "CANARY-of-a-password"
BOX = """
[[black_boxes]]
name = "mst"
kind = "built_in"
box = "mst"
parameters = { epsilon = "1", delta = "0.000001", neighbouring = "replace-one" }
"""


@pytest.fixture(scope="module")
def database(postgres_socket: str) -> str:
    """The survey in a table, and a role that may read it and nothing else."""
    url = postgres.new_database(postgres_socket).replace("+psycopg", "")
    frame = survey(500)
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE SCHEMA office; CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA office TO clerk"
        )
        connection.execute(
            "CREATE TABLE office.people (sex text, health text, work text, region text, age float8)"
        )
        connection.execute("GRANT SELECT ON office.people TO clerk")
        with connection.cursor().copy("COPY office.people FROM STDIN") as copy:
            for row in frame.values.tolist():
                copy.write_row(row)
    return url


@pytest.fixture(scope="module")
def house(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = build(tmp_path_factory.mktemp("served"), survey(500))
    address = f"{database.replace('gencard@', 'clerk@')}&table=office.people"
    house.edit({"data": f'"{address}&password_variable=OFFICE_PASSWORD"'})
    house.edit({"format": "{}", "generators": '["ipf", "mst"]'})
    caps = "{ statistics = 1_000, rho = 1 }"
    house.edit(dict.fromkeys(("most_per_card", "dataset", "project", "analyst"), caps))
    with house.settings_file.open("a") as settings:
        settings.write(BOX)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OFFICE_PASSWORD", PASSWORD)
        yield house.start()
        house.stop()


def test_a_release_from_a_table_replays(house):
    with house.analyst() as analyst:
        card = analyst.propose("survey", all_marginals(2, ["sex", "work"]), purpose="trial", rows=50)
        card.accept()
        release = card.release(50, seed=3)
        assert card.replay(release.to_frame()) is not None
        assert release.receipt.version_kind is VersionKind.SNAPSHOT
        assert ("Version", "fingerprint of a table's counts, in one snapshot") in release.lines()


@needs_sandbox
def test_a_black_box_gets_the_records_of_a_table(house):
    with house.analyst() as analyst:
        card = analyst.propose("survey", [("sex", "work")], purpose="a box", generator="mst", rows=50)
        release = card.accept().release(50, progress=False)
        assert len(release.to_frame()) == 50
        assert release.receipt.version_kind is VersionKind.SNAPSHOT


def test_s65_a_password_is_in_no_file_and_no_setting(house):
    files = [file for file in house.folder.rglob("*") if file.is_file()]
    assert not [file for file in files if PASSWORD.encode() in file.read_bytes()]
    assert PASSWORD not in repr(house.settings())
    assert PASSWORD not in repr(house.controller)


def test_s72_a_role_that_may_write_is_refused_by_start_reload_check_and_doctor(house, database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("GRANT DELETE ON office.people TO clerk")
        (refused,) = house.controller.reload(house.settings()).refused
        assert isinstance(refused.error, RoleNotReadOnlyError)
        house.stop()
        with pytest.raises(RoleNotReadOnlyError):
            house.start()
        options = ["--config", str(house.settings_file)]
        with pytest.raises(RoleNotReadOnlyError):
            CliRunner().invoke(app, ["check", *options], catch_exceptions=False)
        done = CliRunner().invoke(app, ["doctor", *options])
        assert done.exit_code == 1
        assert "REVOKE DELETE ON TABLE office.people FROM clerk" in done.stdout
        connection.execute("REVOKE DELETE ON office.people FROM clerk")
        assert (
            "read-only; no other tables are visible"
            in CliRunner().invoke(app, ["doctor", *options]).stdout
        )
    house.start()


def test_a_card_on_other_records_is_refused(house, database):
    with house.analyst() as analyst:
        card = analyst.propose("survey", all_marginals(2, ["sex", "age"]), purpose="trial", rows=50)
        card.accept()
        with psycopg.connect(database) as connection:
            connection.execute("INSERT INTO office.people VALUES ('male', 'good', 'none', 'north', 30)")
        with pytest.raises(DatasetChangedError):
            card.generate(rows=50, seed=3)
