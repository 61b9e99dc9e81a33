"""One controller works in a folder; a second one would throw the first one's work away."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gencard.controller.scratch import claimed
from gencard.controller.shell.main import app
from gencard.core.errors import InvalidInputError, StorageError
from tests.system.house import build

HOLDER = """
import sys, time
from pathlib import Path
from gencard.controller.scratch import claimed
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(60)
"""


def test_a_second_service_begins_nothing(tmp_path):
    house = build(tmp_path)
    work = house.settings().state.work
    (work / "operations-1").mkdir(parents=True)
    with claimed(work):
        result = CliRunner().invoke(app, ["serve", "--config", str(house.settings_file)])
    assert isinstance(result.exception, InvalidInputError)
    assert result.exception.fields["field"] == "state.folder"
    assert (work / "operations-1").is_dir()
    assert not (house.folder / "state/state.sqlite").exists()


def test_a_claim_ends_with_its_process(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "work")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "claimed\n"
        with pytest.raises(InvalidInputError), claimed(tmp_path / "work"):
            pass
        holder.kill()
    for _ in range(2):
        with claimed(tmp_path / "work"):
            assert (tmp_path / "work.lock").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_cannot_be_claimed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError), claimed(tmp_path / "file" / "work"):
        pass
