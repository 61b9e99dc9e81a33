"""A name that is to be copied stands in one piece, in a narrow terminal too."""

import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app as analyst_shell
from gencard.controller.shell.main import app as steward_shell


@pytest.fixture(params=[60, 80, 120])
def narrow(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))


@pytest.fixture(scope="module")
def card(house):
    with house.analyst() as analyst:
        pairs = [("sex", "health"), ("sex", "work")]
        purpose = "A purpose of some length, for its width"
        agreed = analyst.propose("survey", pairs, purpose=purpose, rows=9).accept()
        agreed.generate(5, progress=False)
        return agreed


def said(shell, *words):
    result = CliRunner().invoke(shell, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("narrow")
def test_a_steward_can_copy_names(house, card):
    assert card.name in said(steward_shell, "emergency", "cards", "-c", house.settings_file)
    assert card.name in said(steward_shell, "log", "-c", house.settings_file)
    assert card.name in said(steward_shell, "emergency", "ledger", "-c", house.settings_file)
    assert "No cards waiting." in said(
        steward_shell, "emergency", "cards", "--waiting", "-c", house.settings_file
    )


@pytest.mark.usefixtures("narrow")
def test_an_analyst_can_copy_names(house, card):
    folder = house.person("ana")
    (folder / "connection.toml").write_text(f'address = "{house.address}"\n')
    assert card.name in said(analyst_shell, "cards", "-c", folder)
    assert "by-construction" in said(analyst_shell, "generators", "-c", folder)
