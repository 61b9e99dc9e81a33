"""Decisions on the controller's machine: one group of commands, and old names that do nothing."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from docs import help as help_pages
from gencard.controller.shell import run_shell, terminal
from gencard.controller.shell.main import MOVED, app
from gencard.controller.state.log import event_of
from gencard.core.errors import GencardError, StaleEtagError
from gencard.wire.steward import Kind
from tests.system.house import build
from tests.system.stewards import Steward

PROGRAM = "from gencard.controller.shell.main import main; main()"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A running controller whose steward decides on each proposal."""
    built = build(tmp_path_factory.mktemp("emergency"))
    built.edit({"automatic": "false"})
    yield built.start()
    built.stop()


@pytest.fixture
def card(house):
    """A proposal that waits."""
    with house.analyst() as analyst:
        yield analyst.propose("survey", [("sex", "health")], purpose="To see", rows=100)


def call(house, *words, code=0):
    result = CliRunner().invoke(
        app,
        ["emergency", *map(str, words), "--config", str(house.settings_file)],
        env={"COLUMNS": "200"},
    )
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def actions(house, name):
    state = house.controller.controller_state
    with state.database.reading() as tx:
        entries = [event_of(entry.body) for entry in state.log.entries(tx)]
    return [entry.action for entry in entries if entry.resource == name]


@pytest.mark.parametrize(
    "rest",
    [
        (),
        ("--help",),
        ("datasets/survey/cards/1", "--reason", "x", "--yes", "--config", "nowhere.toml"),
        ("--json", "--no-such-option", "--", "-x"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_says_where_it_went_and_does_nothing(old, rest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*old.split(), *rest])
    assert (result.exit_code, result.stdout) == (2, "")
    new = f"gencard-controller emergency {MOVED[old]}"
    assert result.stderr == f"`gencard-controller {old}` is now `{new}`.\n"
    assert not [*tmp_path.iterdir()]


def test_an_old_name_decides_nothing(house, card):
    before = actions(house, card.name)
    words = ["approve", card.name, "--reason", "x", "--config", str(house.settings_file)]
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "gencard-controller emergency approve" in done.stderr
    assert (card.refresh().state, actions(house, card.name)) == ("requested", before)


def test_no_old_name_is_listed_and_each_new_one_is_there():
    records = json.loads(help_pages.file_of("gencard.controller.shell").read_text(encoding="utf-8"))
    assert not {one.split()[0] for one in MOVED} & records.keys()
    for new in MOVED.values():
        commands = records["emergency"]["commands"]
        for name in new.split():
            record = commands[name]
            commands = record.get("commands", {})
    kinds = {"show", "list", "settle", "void", "release", "refuse", "dismiss", "clear"}
    inside = [record.get("commands", {}) for record in records["emergency"]["commands"].values()]
    assert {name for one in inside for name in one} == kinds


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_after_an_old_name_is_silent(shell):
    """The shell completes while the line is typed: it must print nothing there."""
    environment = {
        "_GENCARD_CONTROLLER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "gencard-controller approve ",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "gencard-controller approve ",
    }
    result = CliRunner(env=environment).invoke(app, [], prog_name="gencard-controller")
    assert "is now" not in result.output


def test_what_changes_while_the_question_is_asked_is_not_revoked(house, card, monkeypatch):
    """The steward looks at an offer; before the answer, the analyst accepts it."""
    call(house, "approve", card.name, "--steward", "sam")
    monkeypatch.setattr(terminal, "reason_for_good", lambda *_: card.refresh().accept() and "seen")
    words = ["emergency", "revoke", card.name, "--config", str(house.settings_file)]
    with pytest.raises(StaleEtagError):
        app(words, standalone_mode=False)
    assert card.refresh().state == "agreed"


def test_what_another_steward_has_decided_is_refused(house, card):
    desk = Steward(house.controller.controller_state)
    desk.decide(Kind.REJECT, card.name)
    for words in (("approve",), ("counter", "--rows", "9"), ("reject",)):
        with pytest.raises(GencardError):
            app(
                ["emergency", *words[:1], card.name, *words[1:], "--config", str(house.settings_file)],
                standalone_mode=False,
            )
    assert card.refresh().state == "terminated"


def test_text_of_an_analyst_is_no_markup_and_turns_no_line(house):
    with house.analyst() as analyst:
        purpose = "To see [bold]and\u202e more"
        name = analyst.propose("survey", [("sex", "health")], purpose=purpose, rows=100).name
    for words in (("cards",), ("cards", name)):
        assert "[bold]and\\u202e more" in call(house, *words)


@pytest.mark.skipif(not os.geteuid() and shutil.which("setpriv") is None, reason="root reads all files")
def test_without_rights_to_the_state_nothing_is_shown_or_decided(house, card):
    folder, config = house.folder / "state", ("--config", str(house.settings_file))
    limited = () if os.geteuid() else ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    before = folder.stat().st_mode
    folder.chmod(0)
    try:
        for words in (("cards",), ("approve", card.name, "--reason", "x")):
            command = [*limited, sys.executable, "-c", PROGRAM, "emergency", *words, *config]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith("STORAGE")
            assert "Run the command as the account that runs the service" in done.stderr
    finally:
        folder.chmod(before)
    assert card.refresh().state == "requested"


def test_an_unknown_name_is_one_error_with_advice(house, capsys):
    words = ["emergency", "revoke", "datasets/survey/cards/0", "--config", str(house.settings_file)]
    assert run_shell(lambda: app(words, standalone_mode=False)) == 1
    assert "→ List cards with `gencard-controller emergency cards`" in capsys.readouterr().err
