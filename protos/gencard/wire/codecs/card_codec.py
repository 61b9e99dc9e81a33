"""Terms, offers and cards as messages; moments as messages and in documents."""

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from gencard.core.card.analyses import NO_ANALYSES, Analyses
from gencard.core.card.budget import FREE
from gencard.core.card.card import Card, CardState, Change, Offer, Step, Turn
from gencard.core.card.mechanism import EXACT
from gencard.core.card.terms import AuditTerms, Proposal
from gencard.core.errors import InvalidInputError
from gencard.core.moment import Moment, MomentKind
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codecs.privacy_codec import (
    price_message,
    price_of,
    privacy_message,
    privacy_of,
    transform_message,
    transform_of,
)
from gencard.wire.signatures.canonical import Document, integer_of, text_of, texts_of

_STATE = {state: pb.Card.State.Value(f"STATE_{state.name}") for state in CardState}
_STATE_OF = {number: state for state, number in _STATE.items()}
_TURN = {
    Turn.NOBODY: pb.TURN_UNSPECIFIED,
    Turn.ANALYST: pb.TURN_ANALYST,
    Turn.CONTROLLER: pb.TURN_CONTROLLER,
}
_TURN_OF = {number: turn for turn, number in _TURN.items()}
_KIND = {kind: common.Moment.Kind.Value(f"KIND_{kind.name}") for kind in MomentKind}
_KIND_OF = {number: kind for kind, number in _KIND.items()}


def timestamp(time: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(time)
    return message


def datetime_of(message: Timestamp) -> datetime:
    """Raises InvalidInputError for a time before year 1 or after year 9999."""
    try:
        return message.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(field="time", problem="is out of range")


_OWN_MESSAGE = {"marginals", "privacy", "audit", "transform", "moments", "analyses"}
_ALIKE: dict[str, Callable[[Any], Any]] = {
    field.name: tuple if field.default == () else lambda value: value
    for field in fields(Proposal)
    if field.name not in _OWN_MESSAGE
}
"""Fields of terms that a message holds as they are; lists become tuples."""


def terms_message(proposal: Proposal) -> common.Terms:
    alike: dict[str, Any] = {name: getattr(proposal, name) for name in _ALIKE}
    audit = proposal.audit
    return common.Terms(
        **alike,
        marginals=[common.Clique(attributes=clique) for clique in proposal.marginals],
        privacy=privacy_message(proposal.privacy),
        audit=common.AuditTerms(runs=audit.runs, order=audit.order, alpha=audit.alpha),
        transform=transform_message(proposal.transform),
        moments=map(moment_message, proposal.moments),
        analyses=analyses_message(proposal.analyses),
    )


def proposal_of(message: common.Terms) -> Proposal:
    """The terms as a value.

    Raises:
        InvalidInputError, InvalidCliqueError, InvalidNumberError: What the constructors refuse.
    """
    if not message.HasField("privacy"):
        raise InvalidInputError(field="terms.privacy", problem="is missing")
    audit = message.audit
    alike_values: dict[str, Any] = {name: read(getattr(message, name)) for name, read in _ALIKE.items()}
    return Proposal(
        **alike_values,
        marginals=tuple(tuple(clique.attributes) for clique in message.marginals),
        privacy=privacy_of(message.privacy),
        audit=AuditTerms(audit.runs, audit.order, audit.alpha)
        if message.HasField("audit")
        else AuditTerms(),
        transform=transform_of(message.transform),
        moments=tuple(map(moment_of, message.moments)),
        analyses=analyses_of(message.analyses),
    )


_NUMBERS = [field.name for field in fields(Analyses) if isinstance(field.default, int)]
_NAMES = [field.name for field in fields(Analyses) if field.default == ()]


def analyses_message(analyses: Analyses) -> common.Analyses | None:
    """None for no analyses."""
    if analyses == NO_ANALYSES:
        return None
    noise = privacy_message(analyses.privacy) if analyses.privacy.noisy else None
    alike = {name: getattr(analyses, name) for name in (*_NUMBERS, *_NAMES)}
    return common.Analyses(**alike, privacy=noise)


def analyses_of(message: common.Analyses) -> Analyses:
    """Raises InvalidInputError or InvalidNumberError where the parts do not go together."""
    numbers = {name: getattr(message, name) for name in _NUMBERS if getattr(message, name)}
    names: dict[str, Any] = {name: tuple(getattr(message, name)) for name in _NAMES}
    privacy = privacy_of(message.privacy) if message.HasField("privacy") else EXACT
    return Analyses(**numbers, **names, privacy=privacy)


def offer_message(offer: Offer) -> pb.Offer:
    return pb.Offer(
        terms=terms_message(offer.terms),
        changes=[
            pb.Change(field=change.field, old=change.old, new=change.new, reason=change.reason)
            for change in offer.changes
        ],
        price=price_message(offer.price),
        statement=offer.statement,
        digest=offer.digest,
        expire_time=timestamp(offer.expire_time),
        measures_price=price_message(offer.measures_price),
        analyses_price=None if offer.analyses_price == FREE else price_message(offer.analyses_price),
        held_by=offer.held_by,
    )


def offer_of(message: pb.Offer) -> Offer:
    return Offer(
        terms=proposal_of(message.terms),
        changes=tuple(
            Change(change.field, change.old, change.new, change.reason) for change in message.changes
        ),
        price=price_of(message.price),
        statement=message.statement,
        digest=message.digest,
        expire_time=datetime_of(message.expire_time),
        measures_price=price_of(message.measures_price),
        analyses_price=price_of(message.analyses_price),
        held_by=tuple(message.held_by),
    )


def card_message(card: Card) -> pb.Card:
    return pb.Card(
        name=card.name,
        state=_STATE[card.state],
        turn=_TURN[card.turn],
        etag=card.etag,
        analyst=card.analyst,
        proposed=terms_message(card.proposed),
        offer=None if card.offer is None else offer_message(card.offer),
        history=[
            pb.Step(actor=step.actor, action=step.action, remark=step.remark, time=timestamp(step.time))
            for step in card.history
        ],
        envelope=card.envelope,
        attestations=card.attestations,
    )


def card_of(message: pb.Card) -> Card:
    """Raises InvalidInputError where state or turn is not a known value."""
    if message.state not in _STATE_OF or message.turn not in _TURN_OF:
        raise InvalidInputError(field="card.state", problem="is not a known value")
    return Card(
        name=message.name,
        state=_STATE_OF[message.state],
        turn=_TURN_OF[message.turn],
        etag=message.etag,
        analyst=message.analyst,
        proposed=proposal_of(message.proposed),
        offer=offer_of(message.offer) if message.HasField("offer") else None,
        history=tuple(
            Step(step.actor, step.action, step.remark, datetime_of(step.time))
            for step in message.history
        ),
        envelope=message.envelope,
        attestations=tuple(message.attestations),
    )


def card_bytes(card: Card) -> bytes:
    """A card as the controller's state keeps it."""
    return card_message(card).SerializeToString(deterministic=True)


_SMALL = 32 * 1024
"""Bytes of a card that is kept once it was read: it takes seven times as much in memory."""


def card_of_bytes(body: bytes) -> Card:
    """Raises InvalidInputError where state or turn is not a known value."""
    return _small_card(body) if len(body) <= _SMALL else card_of(pb.Card.FromString(body))


# Most calls read the card that they are about, which takes 1.5 ms; nobody can change a card in place.
@lru_cache(maxsize=500)
def _small_card(body: bytes) -> Card:
    return card_of(pb.Card.FromString(body))


def kind_message(kind: MomentKind) -> common.Moment.Kind.ValueType:
    return _KIND[kind]


def kind_of(number: common.Moment.Kind.ValueType) -> MomentKind:
    """Raises InvalidInputError where the kind is not a known value."""
    if number not in _KIND_OF:
        raise InvalidInputError(field="moments.kind", problem="is not a known value")
    return _KIND_OF[number]


def moment_message(moment: Moment) -> common.Moment:
    return common.Moment(kind=_KIND[moment.kind], attributes=moment.attributes, order=moment.order)


def moment_of(message: common.Moment) -> Moment:
    """Raises InvalidInputError or InvalidNumberError where it is no moment."""
    return Moment(kind_of(message.kind), tuple(message.attributes), message.order)


def moment_document(moment: Moment) -> Document:
    """The order stands in it where there is one."""
    document: Document = {"attributes": list(moment.attributes), "kind": str(moment.kind)}
    return document | ({"order": str(moment.order)} if moment.order else {})


def moment_of_document(document: Document) -> Moment:
    """Raises KeyError, TypeError, ValueError or what the core refuses, where it is no moment."""
    order = integer_of(document.get("order", "0"))
    return Moment(MomentKind(text_of(document["kind"])), texts_of(document["attributes"]), order)
