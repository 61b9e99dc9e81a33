"""Messages as they crossed the wire: parsed and serialised again, decoded and encoded again."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from gencard.core.card.budget import Claim, Price
from gencard.core.card.card import Offer
from gencard.core.card.privacy import Transform
from gencard.core.card.sums import Moment
from gencard.core.card.terms import Proposal
from gencard.core.coding import Attribute, StructuralZeros
from gencard.v1 import catalog_pb2, negotiation_pb2, synthesis_pb2
from gencard.v1 import common_pb2 as common
from gencard.wire.codec import card_message, card_of, message_of, privacy_message, privacy_of, value_of
from gencard.wire.tables import dataset_of_chunks, psi_chunks, psi_of_chunks, table_chunks
from tests.golden.exchanges import Exchanges
from tests.golden.files import golden_json, packed
from tests.golden.message_values import messages
from tests.golden.values import COVERED

EXCHANGES = Exchanges.of_document(packed("shell/exchanges.json.gz"))
MESSAGES = [kind.FromString(content) for kind, content in EXCHANGES.messages()]

AGAIN: dict[type[Message], Callable[[Any], Message | None]] = {
    negotiation_pb2.Card: lambda message: card_message(card_of(message)),
    negotiation_pb2.Offer: lambda message: message_of(value_of(Offer, message), negotiation_pb2.Offer),
    common.Terms: lambda message: message_of(value_of(Proposal, message), common.Terms),
    common.Privacy: lambda message: privacy_message(privacy_of(message)),
    common.Price: lambda message: message_of(value_of(Price, message), common.Price),
    common.Moment: lambda message: message_of(value_of(Moment, message), common.Moment),
    common.Transform: lambda message: message_of(value_of(Transform, message), common.Transform),
    catalog_pb2.Claim: lambda message: message_of(value_of(Claim, message), catalog_pb2.Claim),
    catalog_pb2.Attribute: lambda message: message_of(
        value_of(Attribute, message), catalog_pb2.Attribute
    ),
    catalog_pb2.StructuralZeros: lambda message: message_of(
        value_of(StructuralZeros, message), catalog_pb2.StructuralZeros
    ),
}


def raw(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def parts(message: Message) -> Iterator[Message]:
    """A message and every message inside it."""
    yield message
    for described, value in message.ListFields():
        if described.type == described.TYPE_MESSAGE:
            for inner in value if isinstance(value, list) or hasattr(value, "append") else [value]:
                yield from parts(inner)


INSIDE = [part for message in MESSAGES for part in parts(message)]
BUILT = messages()
GOLDEN = {
    name: base64.b64decode(content)
    for file in ("messages.json", "messages-of-analyses.json", "messages-of-packed-rows.json")
    for name, content in golden_json(file).items()
}


def test_every_golden_message_has_a_content():
    assert GOLDEN.keys() == BUILT.keys()


@pytest.mark.parametrize("name", BUILT)
def test_the_same_content_gives_the_same_bytes(name):
    assert raw(BUILT[name]) == GOLDEN[name]


@pytest.mark.parametrize("name", [name for name in BUILT if type(BUILT[name]) in AGAIN])
def test_a_golden_message_is_decoded_and_encoded(name):
    kind = type(BUILT[name])
    assert raw(AGAIN[kind](kind.FromString(GOLDEN[name]))) == GOLDEN[name]


def test_recorded_messages_are_parsed_and_serialised():
    assert len(MESSAGES) > 60
    for kind, content in EXCHANGES.messages():
        message = kind.FromString(content)
        assert raw(message) == content
        for part in parts(message):
            assert not len(UnknownFieldSet(part))


@pytest.mark.parametrize("kind", AGAIN, ids=lambda kind: kind.DESCRIPTOR.name)
def test_what_has_a_codec_is_decoded_and_encoded(kind):
    built = [part for message in BUILT.values() for part in parts(message)]
    same_kind = [part for part in (*INSIDE, *built) if type(part) is kind]
    assert same_kind
    for part in same_kind:
        again = AGAIN[kind](part)
        assert raw(again if again is not None else kind()) == raw(part)


@pytest.mark.parametrize("layout", ["rows-", "packed-rows-"])
def test_rows_are_decoded_and_encoded(layout):
    chunks = [common.TableChunk.FromString(GOLDEN[name]) for name in GOLDEN if name.startswith(layout)]
    dataset = dataset_of_chunks(chunks, domain=COVERED, most_rows=1_000)
    golden = [GOLDEN[name] for name in GOLDEN if name.startswith("rows-")]
    assert [raw(chunk) for chunk in table_chunks(dataset)] == golden


def test_psi_is_decoded_and_encoded():
    (method,) = {method for method, _ in EXCHANGES.answers if method.endswith("/StreamPsi")}
    for (path, _), answers in EXCHANGES.answers.items():
        for chunks in answers if path == method else []:
            messages = [synthesis_pb2.StreamPsiResponse.FromString(chunk) for chunk in chunks]
            again = psi_chunks(psi_of_chunks(messages)[0])
            assert [raw(chunk) for chunk in again] == chunks
