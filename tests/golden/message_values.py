"""The content of every message in ``messages.json``, as Python objects."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from google.protobuf.message import Message

from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord, CardState, Change, Offer, Step, Turn
from gencard.v1 import catalog_pb2, common_pb2
from gencard.v1.synthesis_pb2 import StreamRowsResponse
from gencard.wire.codec import card_message, message_of
from gencard.wire.documents import card_statement
from gencard.wire.tables import DatasetColumns, encoded_chunks, psi_chunks, table_chunks
from tests.golden.values import CARDS_BY_NAME, CODING, EXACT, EXACT_TERMS, NOW, PSIS, RECORDS

_OFFER = Offer(
    EXACT_TERMS,
    (Change("marginals", "sex, age, weight", "", "ORDER_TOO_HIGH"), Change("rows", "9", "5", "ROWS")),
    EXACT.price,
    card_statement(EXACT),
    "ee" * 32,
    datetime(2027, 2, 18, 18, tzinfo=UTC),
    Price(statistics=7),
    ("datasets/survey/cards/09",),
)
_STEP = Step(EXACT.analyst, "propose", "", NOW)
NEGOTIATIONS: Mapping[str, CardRecord] = {
    "agreed": CardRecord(
        name=EXACT.name,
        state=CardState.AGREED,
        turn=Turn.NOBODY,
        etag="e7a6",
        analyst=EXACT.analyst,
        proposed=EXACT_TERMS,
        offer=_OFFER,
        history=(_STEP, Step(EXACT.controller, "offer", "fewer", NOW)),
        envelope=b"an envelope",
        attestations=(b"one", b"two"),
    ),
    **{
        f"in-{state}": CardRecord(
            "", state, Turn.CONTROLLER, "", EXACT.analyst, EXACT_TERMS, history=(_STEP,)
        )
        for state in CardState
    },
}
CLAIMS = {name: card.claim for name, card in CARDS_BY_NAME.items() if card.claim is not None}


def _messages() -> Iterator[tuple[str, Message]]:
    for name, card in CARDS_BY_NAME.items():
        yield f"terms-{name}", message_of(card.terms, common_pb2.Terms)
        yield f"price-{name}", message_of(card.price, common_pb2.Price)
    for name, negotiation in NEGOTIATIONS.items():
        yield f"card-{name}", card_message(negotiation)
    for name, claim in CLAIMS.items():
        yield f"claim-{name}", message_of(claim, catalog_pb2.Claim)
    for attribute in CODING.attributes:
        yield f"attribute-{attribute.name}", message_of(attribute, catalog_pb2.Attribute)
    yield "zeros", message_of(CODING.structural_zeros[0], catalog_pb2.StructuralZeros)
    for name, make in PSIS.items():
        for number, chunk in enumerate(psi_chunks(make())):
            yield f"psi-{name}-{number}", chunk
    for number, part in enumerate(table_chunks(RECORDS)):
        yield f"rows-{number}", part
    packed = encoded_chunks(DatasetColumns(RECORDS), RECORDS.digest(), packed=True)
    for number, encoded in enumerate(packed):
        yield f"packed-rows-{number}", StreamRowsResponse.FromString(encoded).chunk


def messages() -> dict[str, Message]:
    """Every message that has a codec, by the name of its golden bytes."""
    return dict(_messages())
