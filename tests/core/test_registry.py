"""Generators by name, and the digest of what runs."""

import pytest

from gencard.core.card import Tier
from gencard.core.errors import InvalidInputError
from gencard.core.generators import registry
from gencard.core.generators.ipf import Ipf
from gencard.core.generators.registry import GENERATORS, generator_digest, generator_named


def test_every_generator_can_be_made_and_is_described():
    for name, entry in GENERATORS.items():
        assert generator_named(name, structural_zeros=(), max_cells=10)
        assert entry.description.endswith(".")
        assert entry.tier is Tier.BY_CONSTRUCTION


def test_the_bound_on_cells_is_the_callers():
    generator = generator_named("ipf", structural_zeros=(), max_cells=10)
    assert isinstance(generator, Ipf)
    assert generator.max_cells == 10


def test_an_unknown_name_is_refused():
    with pytest.raises(InvalidInputError, match="none of this name"):
        generator_named("gan", structural_zeros=(), max_cells=10)


def test_the_digest_changes_with_any_byte_of_the_core(tmp_path, monkeypatch):
    for path, text in (("a.py", "1"), ("b/c.py", "2"), ("b/notes.txt", "3")):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(registry, "files", lambda _: tmp_path)
    fresh = generator_digest.__wrapped__
    first = fresh("ipf")
    assert fresh("ipf") == first != fresh("other")
    (tmp_path / "b" / "notes.txt").write_text("4")
    assert fresh("ipf") == first
    (tmp_path / "b" / "c.py").write_text("5")
    assert fresh("ipf") != first
    (tmp_path / "b" / "c.py").rename(tmp_path / "b" / "d.py")
    (tmp_path / "b" / "d.py").write_text("2")
    assert fresh("ipf") != first


def test_the_digest_is_of_this_very_code():
    assert len(generator_digest("ipf")) == 64
    assert generator_digest("ipf") == generator_digest.__wrapped__("ipf")
