"""Panels, households and weights: recognised in drafts, asked about, never assumed."""

import re
from datetime import date

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.controller.drafting.profiles import profiles
from gencard.controller.drafting.schema_draft import detect, draft_schema
from gencard.controller.drafting.units import may_be_weight, units_of
from gencard.controller.records.schema_file import read_schema
from gencard.controller.records.table_address import records_at
from gencard.controller.shell.main import app
from gencard.core.errors import InvalidInputError, InvalidNumberError
from tests.shared_data import shared_file

RNG = np.random.default_rng(5)
PERSONS, WAVES = 300, 4


def panel(**more):
    """A panel of people, of whom some miss waves; sex and region are theirs."""
    people = np.repeat(np.arange(PERSONS), WAVES)
    stay = RNG.random(len(people)) < 0.9
    numbers = RNG.permutation(900_000)[:PERSONS] + 100_000
    frame = pd.DataFrame(
        {
            "nummer": numbers[people],
            "sex": RNG.choice(["f", "m"], PERSONS)[people],
            "region": RNG.choice(["n", "e", "s", "w"], PERSONS)[people],
            "wave": np.tile(np.arange(WAVES), PERSONS) + 2001,
            "pay": RNG.lognormal(7, 1, len(people)).round(),
            **more,
        }
    )
    return frame[stay]


def looks(folder, frame):
    frame.to_csv(folder / "a.csv", index=False)
    return profiles(folder / "a.csv", detect(folder / "a.csv")[0])


def asked(folder, frame):
    return {unit.column: unit for unit in units_of(looks(folder, frame))}


def test_a_panel_is_recognised_by_its_values(tmp_path):
    (unit,) = asked(tmp_path, panel()).values()
    assert (unit.column, unit.most_records) == ("nummer", 4)
    assert "sex, region are the same in nearly all records of a value" in unit.why
    assert not re.search("[0-9]", unit.why)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("id", np.arange(1_200)),  # every value once
        ("id", RNG.choice(9, 1_200)),  # few values
        ("key", np.repeat(np.arange(24), 50).astype(str)[RNG.permutation(1_200)]),
        ("income", RNG.integers(1_000, 3_000, 1_200)),
        ("age", RNG.integers(18, 90, 1_200)),
    ],
    ids=["unique", "few", "groups", "income", "age"],
)
def test_other_columns_are_not(tmp_path, column, values):
    others = {name: RNG.choice(["a", "b", "c"], 1_200) for name in ("sex", "region", "work")}
    units = asked(tmp_path, pd.DataFrame({column: values, **others}))
    assert units == {} or (column, values.dtype.kind) == ("key", "U"), units


def test_a_postcode_is_asked_about_and_a_unit_once(tmp_path):
    """The postcode repeats as a household does, and its state is that of all its records."""
    codes = RNG.permutation(80_000)[:200] + 1_000
    at = RNG.integers(0, 200, 1_500)
    frame = pd.DataFrame(
        {
            "postcode": [f"{code:05}" for code in codes[at]],
            "town": [f"Town {code}" for code in codes[at]],
            "state": RNG.choice(["A", "B", "C"], 200)[at],
            "sex": RNG.choice(["f", "m"], 1_500),
        }
    )
    (unit,) = asked(tmp_path, frame).values()
    assert unit.column in ("postcode", "town")
    assert "state" in unit.why


def test_real_panels_and_households():
    expected = {
        "egsingle": ("childid", 5),
        "eusilc": ("db030", 5),
        "adult_raw": None,
        "numbers_wage": None,
    }
    for name, unit in expected.items():
        path = shared_file(f"{name}.parquet")
        units = units_of(profiles(path, detect(path)[0]))
        assert [(one.column, one.most_records) for one in units] == ([unit] if unit else []), name


def test_a_panel_in_a_database_is_recognised_by_its_name(tmp_path):
    """Columns that belong to persons are looked for in files alone."""
    pytest.importorskip("ibis")
    frame = panel().rename(columns={"nummer": "pid"})  # noqa: F841 - DuckDB reads it by its name
    with duckdb.connect(tmp_path / "a.duckdb") as database:
        database.execute("CREATE TABLE people AS SELECT * FROM frame")
    place = records_at(f"duckdb:///{tmp_path}/a.duckdb?table=people", "data")
    (unit,) = draft_schema(place, "t", today=date(2026, 1, 1)).units
    assert (unit.column, unit.most_records) == ("pid", 4)


@pytest.mark.parametrize(
    ("name", "values", "is_weight"),
    [
        ("pw", RNG.uniform(10, 90, 100), True),
        ("hgt_gewicht", RNG.uniform(10, 90, 100), True),
        ("finalweight", RNG.integers(1, 5_000, 100), True),
        ("peso", RNG.uniform(40, 90, 100), True),  # of a body or of a sample: asked
        ("birth_weight", RNG.uniform(2, 5, 100), False),
        ("weight_kg", RNG.uniform(40, 90, 100), False),
        ("pw", RNG.normal(0, 1, 100), False),
        ("v12", RNG.uniform(0.5, 1.5, 100), True),
        ("v12", RNG.uniform(1.5, 2.5, 100), False),
        ("power", RNG.uniform(10, 90, 100), False),
        ("weighted", RNG.choice(["yes", "no"], 100), False),
    ],
)
def test_weights_by_name_or_by_a_mean_of_one(tmp_path, name, values, is_weight):
    if name == "v12" and is_weight:
        values = values / values.mean()
    (look, _) = looks(tmp_path, pd.DataFrame({name: values, "x": RNG.choice(["a", "b"], 100)}))
    assert may_be_weight(look) is is_weight


@pytest.fixture
def file(tmp_path):
    frame = panel()
    frame["pw"] = RNG.uniform(50, 900, len(frame)).round(3)
    frame.to_csv(tmp_path / "panel.csv", index=False)
    return tmp_path / "panel.csv"


def init(file, *words, answers=None, monkeypatch=None):
    if answers is not None:
        monkeypatch.setattr("gencard.controller.shell.schema._is_terminal", lambda: True)
    folder = file.parent / "house"
    words = ["init", str(folder), "--data", str(file), *map(str, words)]
    result = CliRunner().invoke(app, words, input=answers)
    if result.exception:
        raise result.exception
    return folder, result.output


def run(folder, *words):
    result = CliRunner().invoke(app, [*words, "--config", str(folder / "controller.toml")])
    assert result.exit_code == 0, result.output
    return result.output


def test_without_a_terminal_it_is_said_and_nothing_is_assumed(file):
    folder, output = init(file)
    assert "--person nummer --most-records 4" in output
    assert "--weight pw" in output
    schema = read_schema(folder / "schema.toml")
    assert (schema.person, schema.most_records) == ("", 0)
    text = (folder / "schema.toml").read_text()
    assert "# Does 'nummer' say whose a record is" in text
    assert "# Is 'pw' a weight?" in text
    run(folder, "schema", "set", "nummer", "--leave-out")
    run(folder, "schema", "set", "pw", "--description", "Kilowatts")
    text = (folder / "schema.toml").read_text()
    assert "# Does" not in text
    assert "# Is 'pw'" not in text


@pytest.mark.parametrize("words", [["--person", "nummer"], ["--person", "nummer", "--most-records", 2]])
def test_options_decide(file, words):
    folder, output = init(file, *words, "--weight", "pw")
    schema = read_schema(folder / "schema.toml")
    most = 2 if len(words) > 2 else 4
    assert (schema.person, schema.most_records) == ("nummer", most)
    assert "nummer" not in schema.coding.domain
    assert f"at most {most} records of each count" in output
    assert "pw: not used as a weight" in output
    assert "do not use it" in schema.coding.attribute("pw").description
    assert "a weight?" not in (folder / "schema.toml").read_text()
    checked = run(folder, "check")
    assert "pw: not used as a weight" in checked


def test_a_terminal_asks(file, monkeypatch):
    folder, output = init(file, answers="y\n3\ny\n", monkeypatch=monkeypatch)
    assert "nummer may say whose a record is" in output
    schema = read_schema(folder / "schema.toml")
    assert (schema.person, schema.most_records) == ("nummer", 3)
    assert schema.coding.attribute("pw").description


def test_no_in_a_terminal_changes_nothing(file, monkeypatch):
    folder, output = init(file, answers="n\nn\n", monkeypatch=monkeypatch)
    schema = read_schema(folder / "schema.toml")
    assert schema.person == ""
    assert "--person" not in output
    assert "# Does" not in (folder / "schema.toml").read_text()


@pytest.mark.parametrize(
    ("words", "error", "problem"),
    [
        (["--most-records", 3], InvalidInputError, "needs --person"),
        (["--person", "nobody"], InvalidInputError, "there is no column 'nobody'.*: nummer"),
        (["--person", "wave"], InvalidInputError, "is needed"),
        (["--person", "nummer", "--most-records", 0], InvalidNumberError, "from 1 to 1000"),
        (["--weight", "nothing"], InvalidInputError, "there is no attribute 'nothing'"),
    ],
)
def test_options_that_cannot_be_make_no_folder(file, words, error, problem):
    with pytest.raises(error, match=problem):
        init(file, *words)
    assert not (file.parent / "house").exists()
