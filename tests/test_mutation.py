"""The list of mutants fits the source: each defect can be put in, compiles, and has its tests."""

import re
from collections import Counter

from tests.mutation.__main__ import exit_code, table_of
from tests.mutation.mutant import ROOT
from tests.mutation.mutants import MUTANTS, ROOMS
from tests.mutation.runner import Outcome, Result

BY_NAME = {f"{mutant.room}: {mutant.name}": mutant for mutant in MUTANTS}


def test_there_are_ten_in_each_of_six_rooms():
    assert Counter(mutant.room for mutant in MUTANTS) == dict.fromkeys(ROOMS, 10)
    assert len(BY_NAME) == 60


def test_each_original_is_there_once_and_each_mutant_compiles():
    for name, mutant in BY_NAME.items():
        text = mutant.text()
        assert text != mutant.file().read_text(encoding="utf-8"), name
        compile(text, mutant.module, "exec")


def test_the_tests_of_each_mutant_exist():
    for name, mutant in BY_NAME.items():
        paths = [part.split("::")[0] for part in mutant.tests if part.startswith("tests/")]
        assert paths, name
        assert all((ROOT / path).is_file() for path in paths), name


def test_each_selection_of_tests_names_tests():
    """A selection that selects nothing of what was meant would let its mutants live."""
    for name, mutant in BY_NAME.items():
        if "-k" not in mutant.tests:
            continue
        path, _, selection = mutant.tests
        text = (ROOT / path).read_text(encoding="utf-8")
        tests = re.findall(r"^ *(?:def|class) ([tT]est\w+)", text, re.MULTILINE)
        words = set(re.findall(r"\w+", re.sub(r"\bnot \w+", "", selection))) - {"and", "or"}
        assert all(any(word in test for test in tests) for word in words), (name, words)


def test_survivors_are_named_and_four_of_them_fail_the_check():
    results = [Result(mutant, Outcome.KILLED) for mutant in MUTANTS[:9]]
    table = table_of([*results, Result(MUTANTS[9], Outcome.SURVIVED)])
    columns = [list(column.cells) for column in table.columns]
    assert columns == [[MUTANTS[0].room], ["10"], ["9"], [MUTANTS[9].name]]
    assert [exit_code(number, whole=True) for number in (0, 3, 4)] == [0, 0, 1]
    assert [exit_code(number, whole=False) for number in (0, 1)] == [0, 1]
