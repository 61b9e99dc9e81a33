"""Rows of every generator and built-in box from a given psi and seed: the bytes of the first version."""

import hashlib

import pytest

from gencard.boxes.registry import BOXES as BUILT_IN
from gencard.core.generators.registry import GENERATORS
from tests.golden.files import golden
from tests.golden.rows import BOXES, FITS, Case, box_outcome, cases, fit_outcome, kept_again

DIGESTS = {
    name: outcome
    for outcome, _, name in (
        line.partition("  ") for line in golden("rows/digests.txt").decode().splitlines()
    )
}
CASES = list(cases())


def test_every_generator_and_every_digest_is_looked_at():
    assert {case.generator for case in CASES} == set(GENERATORS)
    others = {*(f"box {name}" for name in BOXES), *(f"fit {name}" for name in FITS)}
    assert DIGESTS.keys() == {*map(str, CASES), *others}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_are_those_of_the_first_version(case: Case):
    assert case.outcome() == DIGESTS[str(case)]


@pytest.mark.parametrize("name", BOXES)
def test_rows_of_a_built_in_box_are_those_of_the_first_version(name):
    assert box_outcome(name) == DIGESTS[f"box {name}"]


@pytest.mark.parametrize("name", FITS)
def test_a_kept_fit_is_read_and_gives_the_same_rows(name):
    assert kept_again(name) == golden(f"rows/{name}.fit")
    assert fit_outcome(name) == DIGESTS[f"fit {name}"]


def test_other_rows_are_another_version():
    """A version names its golden rows: who changes a line of them raises the number, here and there."""
    versions = {name: entry.version for name, entry in (*GENERATORS.items(), *BUILT_IN.items())}
    for line in golden("rows/versions.txt").decode().splitlines():
        rows, version, name = line.split()
        assert (rows, int(version)) == (_rows_of(name), versions.pop(name))
    assert versions == {"ctgan": 1, "pate-gan": 1}  # their fits are of floats: no golden rows


def _rows_of(name: str) -> str:
    """SHA-256 of all golden lines of a generator or box."""
    lines = [line for line in DIGESTS if name in line.split()[:2]]
    return hashlib.sha256("".join(f"{line} {DIGESTS[line]}\n" for line in lines).encode()).hexdigest()
