"""init and check, as a newcomer meets them."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.controller.shell.main import app
from gencard.core.errors import InvalidInputError


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words):
    with pytest.raises(InvalidInputError) as caught:
        app([str(word) for word in words], standalone_mode=False)
    return str(caught.value)


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "a survey.csv"
    pd.DataFrame({"sex": ["f", "m"] * 20, "name": [f"Ann {n}" for n in range(40)]}).to_csv(path)
    return path


def test_the_next_commands_can_be_copied(tmp_path, records, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    said = run("init", tmp_path / "the house", "--data", records)
    settings = tmp_path / "the house" / "controller.toml"
    assert f"gencard-controller check --config '{settings}'\n" in said
    assert f"gencard-controller serve --config '{settings}'\n" in said
    assert "left out: name" in said


def test_records_that_are_not_there_are_named(tmp_path, records):
    assert "there is no file" in refused("init", tmp_path / "new", "--data", tmp_path / "typo.csv")
    assert not (tmp_path / "new").exists()
    run("init", tmp_path / "house", "--data", records)
    records.unlink()
    said = refused("check", "--config", tmp_path / "house" / "controller.toml")
    assert said.startswith("datasets/a-survey: data: there is no file")


def test_a_policy_is_checked_before_it_is_served(tmp_path, records):
    run("init", tmp_path / "house", "--data", records)
    settings = tmp_path / "house" / "controller.toml"
    assert "not reviewed" in run("check", "--config", settings)
    forbidden = settings.read_text().replace("forbidden = []", 'forbidden = [["sex", "agee"]]')
    settings.write_text(forbidden)
    assert "policy.forbidden" in refused("check", "--config", settings)
