"""The security checklist names what there is: every module, every test, and every line once."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from docs.house.sources import SOURCES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
TABLE = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| S")]
ROWS = {int(line.strip(" S")): columns for line, *columns in TABLE}
"""Number of a line -> what holds, kept by, seen by, state."""

FILES = sorted((ROOT / "tests").rglob("test_*.py"))
TESTS = {
    name
    for path in FILES
    for name in re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def quoted(column: str) -> list[str]:
    return re.findall(r"`([^`]+)`", column)


def is_there(pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in TESTS | {path.stem for path in FILES})


def test_every_line_is_there_once_and_in_order():
    numbers = [int(line.strip(" S")) for line, *_ in TABLE]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 40


@pytest.mark.parametrize("line", ROWS)
def test_what_a_line_names_exists(line):
    _, modules, tests, state = ROWS[line]
    missing = [name for name in quoted(modules) if f"gencard.{name}" not in SOURCES]
    missing = [name for name in missing if not (ROOT / name).exists()]
    assert not missing
    assert [pattern for pattern in quoted(tests) if not is_there(pattern)] == []
    assert state.strip() == "whole" or state.startswith((" part: ", " **not built**"))
    assert quoted(tests) or state.strip() != "whole"


def test_every_test_of_a_line_stands_in_that_line():
    numbered = {name: int(found[1]) for name in TESTS if (found := re.match(r"test_s(\d+)_", name))}
    assert len(numbered) > 100
    shown = {line: quoted(tests) for line, (_, _, tests, _) in ROWS.items()}
    assert not [
        name
        for name, line in numbered.items()
        if not any(fnmatchcase(name, pattern) for pattern in shown[line])
    ]


def test_what_is_not_there_would_be_found():
    assert is_there("test_s19_*")
    assert not is_there("test_s99_*")
    assert not is_there("test_s19")
