"""The pages' sessions, run as they stand, with the tests' survey in place of the demonstration's."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.system.house import House

ROOT = Path(__file__).resolve().parents[2]
README = {
    '"fair"': '"survey"',
    '["rate_marriage", "religious", "affairs"]': '["sex", "health", "work"]',
    '"affairs ~ religious", "linear"': '"sex ~ work", "logistic"',
    '"smuggler"': '"leaky", runs=6',
}
PLAN = {'"fair"': '"survey"', "affairs ~ religious + rate_marriage": "work ~ sex + health"}


def test_the_session(house: House, tmp_path: Path) -> None:
    said = run(ROOT / "README.md", README, house, tmp_path)
    assert "ORDER_TOO_HIGH" in said
    assert "Every byte agrees" in said
    assert "Evidence of leakage" in said
    assert "sex × health × work" in said


def test_the_session_of_a_plan(house: House, tmp_path: Path) -> None:
    said = run(ROOT / "docs" / "analysts.md", PLAN, house, tmp_path)
    assert "('sex', 'health')" in said
    assert "match psi within sampling error" in said
    assert (tmp_path / "fidelity.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def run(page: Path, in_place: dict[str, str], house: House, tmp_path: Path) -> str:
    """What the one session of a page says."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (session,) = (block for block in blocks if "Analyst.connect" in block)
    for demonstrated, tested in in_place.items():
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
    return done.stdout
