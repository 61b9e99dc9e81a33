"""Runs on a table of a database: its version covers levels and whole steps, no other number is given.

On a file, one changed value is another version, under which the card gives nothing more.
"""

import duckdb
import pytest
from typer.testing import CliRunner

from gencard.controller.shell.main import app
from gencard.core.errors import AnswerWaitingError, DatasetChangedError, RecordsProtectedError
from gencard.wire.canonical import sha256
from tests.system.house import SCHEMA, build, survey
from tests.system.raw_calls import configure, state_unchanged
from tests.system.sandboxes import needs_sandbox

pytest.importorskip("ibis")
ANALYSES = (
    '{ kinds = ["means", "quantiles"], checked_runs = 9, stored = true, '
    'reviewed_runs = 2, columns = ["age"] }'
)
GRANTED = {"kinds": ["means", "quantiles"], "checked_runs": 9}
PROGRAM = b"print('no record is read')\n"
MEANS = """
from gencard.run import output, records
frame = records()
output.scalar("mean age", frame["age"].mean())
output.table("by sex", frame.groupby("sex", observed=False)["age"].mean())
"""


@pytest.fixture
def table(tmp_path):
    """The survey in a table of DuckDB, and the house that offers it."""
    yield from offered(tmp_path, SCHEMA)


@pytest.fixture
def table_of_steps(tmp_path):
    """The same, with a step."""
    yield from offered(tmp_path, f'{SCHEMA}step = "1"\n')


def offered(tmp_path, schema):
    file = tmp_path / "people.duckdb"
    frame = survey(900)  # noqa: F841  # DuckDB reads it by its name
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    made = build(tmp_path, survey(900), schema)
    made.edit({"data": f'"duckdb:///{file}?table=people"', "format": "{}"})
    made.raise_caps()
    configure(made, "datasets.policy", analyses=ANALYSES)
    yield made.start(), file
    made.stop()


def test_stored_numbers_of_a_table_are_refused_before_anything_is_spent(table):
    house, _ = table
    with house.analyst() as analyst:
        card = analyst.propose(
            "survey", [("sex", "age")], purpose="means", rows=900, analyses=GRANTED
        ).accept()
        with state_unchanged(house):
            for kind, options in (("means", {}), ("quantiles", {"q": 0.5})):
                with pytest.raises(RecordsProtectedError, match="two states of the table"):
                    card.run("age ~ sex", kind, response="stored", progress=False, **options)
        assert card.run("age ~ sex", "means", progress=False).estimates.n == 900


def test_a_program_gets_no_stored_column_of_a_table(table):
    house, _ = table
    granted = {"programs": [sha256(PROGRAM)], "reviewed_runs": 1, "columns": ["age"]}
    with house.analyst() as analyst:
        offered = analyst.propose("survey", [("sex", "age")], purpose="To see", analyses=granted)
        assert [(one.field, one.reason) for one in offered.changes] == [
            ("analyses.columns", "COLUMN_NOT_OFFERED")
        ]


def test_check_says_that_the_policy_offers_what_is_not_given(table):
    house, _ = table
    house.stop()
    ended = CliRunner().invoke(app, ["check", "--config", str(house.settings_file)])
    said = " ".join(ended.output.split())
    assert "analyses.stored and analyses.columns for age has no effect" in said


@needs_sandbox
def test_a_program_gets_whole_steps_of_a_table_until_one_changes(table_of_steps, tmp_path, monkeypatch):
    """The version of the table covers them, so numbers of two states are those of two versions."""
    house, file = table_of_steps
    monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
    (tmp_path / "one.py").write_text(MEANS)
    (tmp_path / "two.py").write_text(f"{MEANS}\n")
    programs = sorted(sha256((tmp_path / name).read_bytes()) for name in ("one.py", "two.py"))
    with house.analyst() as analyst:
        granted = {"programs": programs, "reviewed_runs": 2}
        card = analyst.propose("survey", [("sex", "age")], purpose="To see", analyses=granted).accept()
        assert card.terms.analyses.columns == ("age",)
        card.release(900, progress=False)
        with pytest.raises(AnswerWaitingError) as caught:
            card.run(program=tmp_path / "one.py", progress=False)
        CliRunner().invoke(app, ["emergency", "answers", "release", caught.value.fields["answer"]])
        answer, frame = card.run(program=tmp_path / "one.py", progress=False), survey(900)
        (mean,), by_sex = answer.estimates.table("mean age").values, answer.estimates.table("by sex")
        assert mean[0] == pytest.approx(frame["age"].mean(), rel=5e-5)
        means = frame.groupby("sex")["age"].mean()
        assert [row[0] for row in by_sex.values] == pytest.approx([*means], rel=5e-5)
        with duckdb.connect(str(file)) as connection:
            connection.execute("UPDATE people SET age = 31 WHERE age = 32")  # one level holds both
        with pytest.raises(DatasetChangedError):
            card.run(program=tmp_path / "two.py", progress=False)


def test_a_changed_value_of_a_file_is_another_version(tmp_path):
    house = build(tmp_path, survey(900))
    house.raise_caps()
    configure(house, "datasets.policy", analyses=ANALYSES)
    house.start()
    try:
        with house.analyst() as analyst:
            card = analyst.propose(
                "survey", [("sex", "age")], purpose="means", rows=900, analyses=GRANTED
            ).accept()
            assert card.run("age ~ sex", "means", response="stored", progress=False).estimates.n == 900
            frame = survey(900)
            frame.loc[0, "age"] += 0.25  # inside its level
            frame.to_csv(tmp_path / "survey.csv", index=False)
            with pytest.raises(DatasetChangedError):
                card.run("age ~ region", "means", response="stored", progress=False)
    finally:
        house.stop()
