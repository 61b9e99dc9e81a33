"""The README's session, run as it stands, with the tests' survey in place of the demonstration's."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.system.house import House

README = Path(__file__).resolve().parents[2] / "README.md"
IN_PLACE = {
    '"fair"': '"survey"',
    '["rate_marriage", "religious", "affairs"]': '["sex", "health", "work"]',
    '"smuggler"': '"leaky", runs=3',
}


def test_the_session(house: House, tmp_path: Path) -> None:
    (session,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    for demonstrated, tested in IN_PLACE.items():
        assert demonstrated in session
        session = session.replace(demonstrated, tested)
    person = tmp_path / "demo" / "controller" / "people" / "ana"
    shutil.copytree(house.person("ana"), person)
    (person / "connection.toml").write_text(f'address = "{house.address}"\n')
    (tmp_path / "session.py").write_text(session)
    command = [sys.executable, "session.py"]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "ORDER_TOO_HIGH" in said
    assert "Every byte agrees" in said
    assert "Evidence of leakage" in said
    assert "sex x health x work" in said
