import pytest

from gencard.core.card import Tier
from gencard.core.coding import StructuralZeros
from gencard.core.errors import InvalidInputError
from gencard.core.generators.ipf import Ipf
from gencard.core.generators.registry import GENERATORS, generator_digest, generator_named


def test_a_generator_is_made_by_its_name():
    zeros = (StructuralZeros(("a",), ((0,),)),)
    assert generator_named("ipf", structural_zeros=zeros, max_cells=9) == Ipf(zeros, max_cells=9)
    assert GENERATORS["ipf"].tier is Tier.BY_CONSTRUCTION


def test_an_unknown_name_is_refused_and_not_repeated():
    with pytest.raises(InvalidInputError) as caught:
        generator_named("Ann Smith", structural_zeros=(), max_cells=9)
    assert "Ann" not in str(caught.value)


def test_the_digest_is_of_the_name_and_the_sources():
    assert len(generator_digest("ipf")) == 64
    assert generator_digest("ipf") == generator_digest("ipf")
    assert generator_digest("ipf") != generator_digest("pgm")
