"""The security checklist names what there is: every module, every test, and every line once."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

from docs.house.sources import SOURCES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| \*\*S(\d+)\*\* (.*)\|$", PAGE, re.MULTILINE)
ROWS = {int(line): columns.split("|") for line, columns in TABLE}
"""Number of a line -> what holds, its code and tests, state."""

FILES = sorted((ROOT / "tests").rglob("test_*.py"))
TESTS = {
    name
    for path in FILES
    for name in re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}
NUMBERED = {name: int(found[1]) for name in TESTS if (found := re.match(r"test_s(\d+)_", name))}
"""Tests that name their line -> the line, which need not name them."""


def quoted(column: str) -> list[str]:
    return re.findall(r"`([^`]+)`", column)


def is_there(pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in TESTS | {path.stem for path in FILES})


def test_every_line_is_there_once_and_in_order():
    numbers = [int(line) for line, _ in TABLE]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == PAGE.count("\n| **S") > 40


def test_what_a_line_names_exists():
    for line, (_, names, state) in ROWS.items():
        tests = [name for name in quoted(names + state) if name.startswith("test_")]
        modules = [name for name in quoted(names) if name not in tests]
        assert modules, line
        missing = [name for name in modules if f"gencard.{name}" not in SOURCES]
        missing = [name for name in missing if not (ROOT / name).exists()]
        assert not missing, line
        assert [pattern for pattern in tests if not is_there(pattern)] == [], line
        assert state.strip() == "whole" or state.startswith((" part: ", " **not built**")), line
        assert tests or line in NUMBERED.values() or state.strip() != "whole", line


def test_every_test_of_a_line_has_its_line():
    assert len(NUMBERED) > 100
    assert not [name for name, line in NUMBERED.items() if line not in ROWS]


def test_what_is_not_there_would_be_found():
    assert is_there("test_s19_*")
    assert not is_there("test_s99_*")
    assert not is_there("test_s19")
