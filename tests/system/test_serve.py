"""Start of the service, and settings that are refused before they can do harm."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from threading import Timer

import pytest

from gencard.controller import backup as state_lock_module
from gencard.controller.backup import state_lock
from gencard.controller.wiring.serving import serve
from gencard.core.errors import InvalidInputError
from tests.system.house import build


def test_a_state_has_one_service(tmp_path):
    """The second would throw away the first one's work in progress, and take its operations up."""
    house = build(tmp_path).start()
    try:
        work = house.settings().state.work / "operations-1"
        work.mkdir(parents=True)
        with pytest.raises(InvalidInputError, match="is in use by another service"):
            serve(house.settings())
        assert work.exists()
    finally:
        house.stop()
    house.start().stop()


def test_one_that_was_just_killed_may_take_a_moment_to_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr(state_lock_module, "PATIENCE", 60.0)
    dying = ExitStack()
    dying.enter_context(state_lock(tmp_path))
    Timer(0.3, dying.close).start()
    with state_lock(tmp_path):
        assert (tmp_path / "lock").exists()


def test_a_start_that_fails_leaves_the_state_free(tmp_path):
    house = build(tmp_path)
    schema = house.folder / "schema.toml"
    text = schema.read_text()
    schema.write_text(text.replace("reviewed = true", "reviewed = false"))
    with pytest.raises(InvalidInputError, match="reviewed"):
        house.start()
    schema.write_text(text)
    house.start().stop()


def test_an_address_that_is_taken_is_said_in_our_words(tmp_path):
    """Two lines: gRPC's own are kept away."""
    house = build(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        house.edit({"address": f'"127.0.0.1:{port}"'})
        program = "from gencard.controller.shell.main import main; main()"
        command = [sys.executable, "-c", program, "serve", "--config", house.settings_file]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith("INVALID_INPUT  server.address: is in use")
    assert f"127.0.0.1:{port}" in first
    assert second.startswith(
        "→ Stop that process (`ss -ltnp` shows it), or set another port in server.add"
    )
