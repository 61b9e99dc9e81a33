import re
import shutil
import tracemalloc
from dataclasses import replace
from importlib.resources import files
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gencard.core.card.terms import Tier
from gencard.core.coding import StructuralZeros
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError
from gencard.core.generators import registry
from gencard.core.generators.family import ipf
from gencard.core.generators.registry import (
    BY_CONSTRUCTION,
    GENERATORS,
    generator_digest,
    generator_named,
    source_digest,
)
from gencard.core.statistics.psi import Measurement, Psi

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
ZEROS = (StructuralZeros(("a",), ((0,),)),)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_is_made_by_its_name(name):
    generator = generator_named(name, structural_zeros=ZEROS, max_cells=9)
    assert (generator.structural_zeros, generator.max_cells) == (ZEROS, 9)


@pytest.mark.parametrize("name", GENERATORS)
def test_an_entry_says_what_the_generator_does_needs_and_takes(name):
    entry = GENERATORS[name]
    assert entry.description.endswith(".")
    assert "exact" in entry.needs
    assert entry.bound
    assert entry.cell_bytes >= 8


def test_the_page_says_when_to_take_which_and_what_each_does():
    _, part = PAGE.read_text(encoding="utf-8").split("\n## Generators\n")
    part, _ = part.split("\n## Built-in black boxes\n")
    assert re.findall(r"(?m)^\* \*\*`(.+?)`\*\* \(\w", part) == list(GENERATORS)


def test_the_one_offered_first_takes_any_marginals():
    assert BY_CONSTRUCTION[0] == "ipf"
    assert generator_named("ipf", structural_zeros=ZEROS, max_cells=9) == ipf(ZEROS, max_cells=9)
    assert all(GENERATORS[name].tier is Tier.BY_CONSTRUCTION for name in BY_CONSTRUCTION)


def test_an_unknown_name_is_refused_and_not_repeated():
    with pytest.raises(InvalidInputError) as caught:
        generator_named("Ann Smith", structural_zeros=(), max_cells=9)
    assert "Ann" not in str(caught.value)


def test_the_digest_is_of_the_name_and_the_version(monkeypatch):
    digests = set(map(generator_digest, GENERATORS))
    assert (len(digests), {len(digest) for digest in digests}) == (len(GENERATORS), {64})
    changed = GENERATORS | {"ipf": replace(GENERATORS["ipf"], version=2)}
    monkeypatch.setattr(registry, "GENERATORS", changed)
    assert generator_digest("ipf") not in digests
    assert generator_digest("graphical") in digests


def test_s35_an_edited_source_is_another_source_digest_and_the_same_generator(monkeypatch, tmp_path):
    """Cards name the algorithm; sources are stated for information."""
    copied = tmp_path / "core"
    shutil.copytree(files("gencard.core"), copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(registry, "files", lambda _: copied)
    before = source_digest.__wrapped__(), generator_digest("ipf")
    edited = copied / "generators" / "__init__.py"
    edited.write_text(edited.read_text() + "# A comment.\n")
    after = source_digest.__wrapped__(), generator_digest("ipf")
    assert (before[0] != after[0], before[1]) == (True, after[1])


@pytest.mark.parametrize("name", ["ipf", "graphical", "spanning-tree"])
def test_a_fit_takes_no_more_memory_than_its_entry_says(name):
    """A size at which the guide of the draws has nearly four places for each cell."""
    sizes = (1_030, 1_030) if name == "spanning-tree" else (103, 103, 103)
    domain = Domain.of(dict(zip("abc", sizes, strict=False)))
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 2, sizes).astype(float)
    psi = Psi(
        domain,
        tuple(
            Measurement(pair, whole.sum(axis=tuple({0, 1, 2} - {*places})[: whole.ndim - 2]))
            for pair, places in zip(
                combinations(domain.attributes, 2), combinations(range(whole.ndim), 2), strict=True
            )
        ),
    )
    generator = generator_named(name, structural_zeros=(), max_cells=10**7)
    tracemalloc.start()
    try:
        generator.fit(psi, domain)
        assert tracemalloc.get_traced_memory()[1] <= GENERATORS[name].cell_bytes * domain.cells
    finally:
        tracemalloc.stop()
