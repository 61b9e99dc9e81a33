"""`gencard-controller doctor` names each part that is broken, and what to do; it changes nothing."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from gencard.controller.people.keys import issue, read_authority
from gencard.controller.shell.main import app
from tests.system.house import build

PARTS = [
    "settings",
    "permissions",
    "clock",
    "disk",
    "certificates",
    "sandbox",
    "database",
    "tables",
    "R",
    "page",
    "cluster",
]


@pytest.fixture
def house(tmp_path):
    return build(tmp_path)


def findings(house, code=0):
    done = CliRunner().invoke(app, ["doctor", "--json", "--config", str(house.settings_file)])
    assert done.exit_code == code, done.output
    return {finding["check"]: finding for finding in json.loads(done.stdout)}


def files_in(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_controller_in_order_has_a_line_for_each_part_and_is_left_as_it_was(house):
    (house.settings().state.folder / "state.sqlite").unlink()  # as before the first start
    before = files_in(house.folder)
    seen = findings(house)
    assert list(seen) == PARTS
    assert {finding["state"] for finding in seen.values()} == {"ok"}
    assert files_in(house.folder) == before
    house.start()
    try:
        assert "log entries" in findings(house)["database"]["text"]
    finally:
        house.stop()
    done = CliRunner().invoke(app, ["doctor", "--config", str(house.settings_file)])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == len(PARTS)


def test_each_part_that_is_broken_is_named_with_what_to_do(house):
    house.start().stop()
    settings = house.settings()
    settings.signing.card_key.chmod(0o644)
    (settings.state.folder / "state.sqlite").write_bytes(b"no database")
    long_ago = datetime.now(UTC) - timedelta(days=3_000)
    server = issue(
        read_authority(house.folder / "authority"), settings.identity.uri, long_ago, hosts=["localhost"]
    )
    settings.server.certificate.write_bytes(server.certificate_pem)
    settings.server.key.write_bytes(server.key_pem)
    seen = findings(house, code=1)
    broken = [name for name, finding in seen.items() if finding["state"] == "broken"]
    assert broken == ["permissions", "certificates", "database"]
    assert seen["clock"]["state"] == "warning"
    assert all(seen[name]["advice"] for name in broken)
    assert "0600" in seen["permissions"]["text"]
    assert "expired" in seen["certificates"]["text"]


def test_records_that_are_gone_and_settings_that_are_wrong(house):
    (data,) = (entry.data for entry in house.settings().datasets)
    os.rename(data, f"{data}.away")
    assert findings(house, code=1)["settings"]["state"] == "broken"
    house.settings_file.write_text("[server]\nadress = 1\n")
    assert list(findings(house, code=1)) == ["settings"]
