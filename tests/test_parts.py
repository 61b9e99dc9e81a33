"""The parts of the tests: each file is in one, and each pattern names files that exist."""

from fnmatch import fnmatch

from tests.parts import REST, ROOT, STORY, part_of

FILES = sorted((ROOT / "tests").rglob("test_*.py"))


def test_every_pattern_names_files():
    names = [file.relative_to(ROOT).as_posix() for file in FILES]
    patterns = [pattern for reason in REST.values() for pattern in reason]
    assert [one for one in patterns if not any(fnmatch(name, one) for name in names)] == []
    assert len(patterns) == len({*patterns})


def test_the_first_part_has_one_story_over_tls_and_no_browser():
    first = [file.relative_to(ROOT).as_posix() for file in FILES if part_of(file) == "first"]
    assert [name for name in first if name.startswith(("tests/system/", "tests/page/"))] == [STORY]
    assert len(first) > len(FILES) / 3


def test_a_part_collects_its_files_alone(pytestconfig):
    part = pytestconfig.getoption("--part")
    assert part in ("", part_of(ROOT / "tests" / "test_parts.py"))
