import re
from pathlib import Path

import pytest

from gencard.core.card.terms import Tier
from gencard.core.coding import StructuralZeros
from gencard.core.errors import InvalidInputError
from gencard.core.generators.maximum_entropy.family import ipf
from gencard.core.generators.registry import (
    BY_CONSTRUCTION,
    GENERATORS,
    generator_digest,
    generator_named,
)

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


def test_the_digest_is_of_the_name_and_the_sources():
    assert len(generator_digest("ipf")) == 64
    assert generator_digest("ipf") == generator_digest("ipf")
    assert generator_digest("ipf") != generator_digest("pgm")
