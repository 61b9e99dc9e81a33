"""Output of both shells for programs: the JSON of the first version, but for sentences."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from math import isclose
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gencard.client.connection.credentials import Credentials, public_key
from gencard.client.findings.findings import EXPLANATIONS
from gencard.client.shell.main import app as client_shell
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.people.keys import key_history
from gencard.controller.settings import Settings
from gencard.controller.shell import terminal
from gencard.controller.shell.main import app as steward_shell
from gencard.controller.state.log import verify
from gencard.controller.wiring.opening import open_controller_state
from gencard.measures.evaluation.registry import EVALUATIONS
from gencard.wire.keys import LOG
from tests.golden.commands import STEWARDS, offline_commands, offline_output, without_sentences
from tests.golden.exchanges import Exchanges, answering
from tests.golden.files import BUNDLES, FIRST_FINDINGS, FOLDER, packed

CLIENT = packed("shell/client.json.gz")
OFFLINE = packed("shell/offline.json.gz")
STEWARD = packed("shell/steward.json.gz")
LATER = {EXPLANATIONS[name].title for name in EVALUATIONS.keys() - FIRST_FINDINGS.keys()}
NOW = datetime(2026, 12, 1, tzinfo=UTC)
"""When the cards of the state that was kept are still in force."""


def assert_same(actual: object, expected: object) -> None:
    """Equal, numbers that were computed to the digits that every processor gives."""
    assert _rounded_as(
        without_sentences(expected), without_sentences(without_later(actual, expected))
    ) == without_sentences(expected)


def _rounded_as(expected: object, actual: object) -> object:
    """The actual document, with the expected number in place of each that is nearly the same."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {name: _rounded_as(expected.get(name), part) for name, part in actual.items()}
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [_rounded_as(one, part) for one, part in zip(expected, actual, strict=True)]
    if isinstance(expected, float) and isinstance(actual, float):
        return expected if isclose(expected, actual, rel_tol=1e-12) else actual
    return actual


def without_later(actual: object, expected: object) -> object:
    """Without measures that reports of the first version did not have: programs read them by name."""
    if not (isinstance(actual, dict) and isinstance(expected, dict) and "measures" in expected):
        return actual
    names = {one["name"] for one in expected["measures"]}
    return actual | {
        "measures": [one for one in actual["measures"] if one["name"] in names],
        "leftOut": [one for one in actual["leftOut"] if one["what"] not in LATER],
    }


def test_every_offline_command_is_looked_at():
    commands = offline_commands(path.name for path in BUNDLES.iterdir())
    assert {" ".join(words) for words in commands} == OFFLINE.keys()


@pytest.mark.parametrize("words", OFFLINE, ids=lambda words: " ".join(words.split()[:2]))
def test_offline(words):
    assert_same(offline_output(FOLDER, words.split(" ")), OFFLINE[words])


@pytest.fixture(scope="module")
def answered() -> Iterator[None]:
    with answering(Exchanges.of_document(packed("shell/exchanges.json.gz"))):
        yield


@pytest.mark.parametrize("one", CLIENT, ids=lambda one: f"{one['who']} {' '.join(one['words'][:2])}")
def test_with_a_controller(answered, one, tmp_path, monkeypatch):
    """Public files of a connection are enough: nothing is signed."""
    folder = tmp_path / one["who"]
    shutil.copytree(FOLDER / "people" / one["who"], folder)
    own = public_key(folder / "signing_key.pub", "signing_key")
    monkeypatch.setattr(Credentials, "public_signing_keys", lambda _: (own,))
    result = CliRunner().invoke(client_shell, [*one["words"], "--connection", str(folder)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert_same(json.loads(result.stdout), json.loads(one["stdout"]))


@pytest.fixture(scope="module")
def settings_file(tmp_path_factory) -> Path:
    """The folder of a controller, as the first version left it."""
    folder = tmp_path_factory.mktemp("state")
    shutil.unpack_archive(FOLDER / "controller.tar.xz", folder)
    return folder / "controller" / "controller.toml"


@pytest.mark.parametrize("words", STEWARDS, ids=" ".join)
def test_the_stewards_shell_says_the_same(settings_file, words, monkeypatch):
    monkeypatch.setattr(
        terminal, "open_controller_state", partial(open_controller_state, clock=lambda: NOW)
    )
    result = CliRunner().invoke(steward_shell, ["emergency", *words, "--config", str(settings_file)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert_same(json.loads(result.stdout), json.loads(STEWARD[" ".join(words)]))


def test_its_log_verifies(settings_file):
    result = CliRunner().invoke(steward_shell, ["log", "verify", "--config", str(settings_file)])
    assert result.exit_code == 0, (result.output, result.exception)


def test_its_log_is_read_entry_by_entry_and_its_rows_are_there(settings_file):
    controller_state = open_controller_state(Settings.load(settings_file))
    with controller_state.database.reading() as tx:
        keys = key_history(tx, controller_state.keys[LOG])
        assert verify(
            controller_state.log.entries(tx), controller_state.log.checkpoints(tx), keys
        ) == controller_state.log.size(tx)
    controller_state.database.close()
    rows = [RowsFile(path).dataset() for path in settings_file.parent.glob("state/releases/*")]
    kept = {path.name for path in BUNDLES.iterdir()} - {"revoked"}
    assert len(rows) == len(kept)
