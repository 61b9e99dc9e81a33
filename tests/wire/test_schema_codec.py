"""The public schema as messages and as the document whose digest a card names."""

import json

import pytest
from hypothesis import given

from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.errors import GencardError, InvalidCodingError, InvalidInputError
from gencard.v1 import catalog_pb2 as pb
from gencard.wire.canonical import document_of, json_bytes
from gencard.wire.codec import message_of, value_of
from gencard.wire.psi import coding_digest, coding_document, coding_of_document
from tests.wire.samples import codings

CODING = Coding(
    (
        Attribute("sex", Labels(("female", "male")), "As the survey's form asks."),
        Attribute("children", Labels(("0", "1", "2"), integer=True, ordered=True, missing=True)),
        Attribute("age", Edges((16.0, 30.5, 95.0), missing=True)),
    ),
    (StructuralZeros(("age", "children"), ((0, 2),)),),
)
GOLDEN = (
    '{"attributes":['
    '{"integer":false,"labels":["female","male"],"missing":false,"name":"sex","ordered":false},'
    '{"integer":true,"labels":["0","1","2"],"missing":true,"name":"children","ordered":true},'
    '{"edges":["16.0","30.5","95.0"],"missing":true,"name":"age"}],'
    '"structuralZeros":[{"cells":[["0","2"]],"clique":["age","children"]}]}'
)


def test_golden_bytes():
    assert json_bytes(coding_document(CODING)).decode() == GOLDEN


def without_descriptions(coding):
    attributes = tuple(Attribute(found.name, found.coding) for found in coding.attributes)
    return Coding(attributes, coding.structural_zeros)


@given(codings())
def test_documents(coding):
    again = coding_of_document(document_of(json_bytes(coding_document(coding)), "schema"))
    assert again == without_descriptions(coding)
    assert coding_digest(again) == coding_digest(coding)


@given(codings())
def test_messages(coding):
    for value, kind in (
        *((attribute, pb.Attribute) for attribute in coding.attributes),
        *((zeros, pb.StructuralZeros) for zeros in coding.structural_zeros),
    ):
        crossed = kind.FromString(message_of(value, kind).SerializeToString())
        assert value_of(type(value), crossed) == value


def test_a_description_is_not_part_of_the_digest():
    assert coding_digest(CODING) == coding_digest(without_descriptions(CODING))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"female","male"', '"male","female"'),
        ('"ordered":true', '"ordered":false'),
        ('"30.5"', '"30.500000000000004"'),
        ('["0","2"]', '["0","1"]'),
    ],
)
def test_what_gives_codes_their_meaning_is(old, new):
    changed = coding_of_document(json.loads(GOLDEN.replace(old, new)))
    assert coding_digest(changed) != coding_digest(CODING)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["female","male"]', '"female"'),
        ('["female","male"]', '["female","female"]'),
        ('["female","male"]', "[]"),
        ('["female","male"]', "[1]"),
        ('["female","male"]', "null"),
        ('"sex"', "5"),
        ('"sex"', '""'),
        ('"sex"', '"age"'),
        ('"integer":false', '"integer":1'),
        ('"missing":true,"name":"age"', '"missing":0,"name":"age"'),
        ('["16.0","30.5","95.0"]', "[16.0]"),
        ('["16.0","30.5","95.0"]', '["16.0"]'),
        ('"30.5"', '"nan"'),
        ('"30.5"', '"x"'),
        ('[["0","2"]]', '[["0","4"]]'),
        ('[["0","2"]]', '[["0"]]'),
        ('[["0","2"]]', "[[0,2]]"),
        ('["age","children"]', '["age","age"]'),
        ('["age","children"]', '["age","region"]'),
        ("structuralZeros", "zeros"),
        ('"attributes":[{', '"attributes":[[],{'),
    ],
)
def test_another_form_is_refused(old, new):
    assert old in GOLDEN
    with pytest.raises(GencardError):
        coding_of_document(json.loads(GOLDEN.replace(old, new, 1)))


def test_messages_that_hold_no_attribute():
    with pytest.raises(InvalidInputError, match="is missing"):
        value_of(Attribute, pb.Attribute(name="a"))
    with pytest.raises(InvalidCodingError):
        value_of(Attribute, pb.Attribute(name="a", edges=pb.Edges(edges=[0, float("nan")])))
