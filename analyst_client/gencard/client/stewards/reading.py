"""Messages of the stewards' service as what a steward looks at."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from gencard.client.stewards.card_review import CardReview, Decision, FirstDecision, Together
from gencard.client.stewards.registers import (
    Account,
    AnswerReview,
    AnswerSummary,
    Cell,
    Failure,
    LogLine,
    Person,
    Preview,
    Waiting,
)
from gencard.client.stewards.risk_review import RiskReview
from gencard.core.card.card import Change
from gencard.core.errors import GencardError, VerificationError
from gencard.core.output_checks.rules import Colour
from gencard.core.psi_risk.risk import PsiRisk
from gencard.core.typed_json import PLAIN
from gencard.v1 import steward_pb2 as pb
from gencard.wire.codecs.card_codec import card_of, datetime_of
from gencard.wire.codecs.privacy_codec import price_of
from gencard.wire.signatures.canonical import Document, document_of


def waiting_of(message: pb.Waiting) -> Waiting:
    """An entry of the queue."""
    return Waiting(
        datetime_of(message.since),
        message.resource,
        message.kind,
        message.waits_for,
        message.text,
        message.who,
    )


def card_review_of(message: pb.GetReviewResponse, name: str) -> CardReview:
    """A card to be decided on; raises VerificationError where it is another one."""
    card = card_of(message.card)
    if card.name != name:
        raise VerificationError(problem="the controller sent another card than was asked for")
    together = Together(
        tuple(message.attributes),
        tuple(tuple(row.here) for row in message.together),
        tuple(tuple(row.before) for row in message.together),
        tuple(message.granted),
    )
    changes = tuple(Change(one.field, one.old, one.new, one.reason) for one in message.changes)
    return CardReview(
        card,
        changes,
        price_of(message.price) if message.HasField("price") else None,
        message.refusal,
        message.two,
        message.shown,
        together,
        _firsts(message.first_decisions),
    )


def preview_of(message: pb.GetPreviewResponse, request: pb.GetPreviewRequest) -> Preview:
    """What a decision is about."""
    return Preview(
        request.kind,
        request.resource,
        _object(request.arguments),
        _object(message.document),
        message.two,
        message.shown,
        _firsts(message.first_decisions),
    )


def decision_of(message: pb.DecideResponse, request: pb.DecideRequest) -> Decision:
    """What became of a decision."""
    return Decision(
        request.kind,
        request.resource,
        _object(request.arguments),
        request.shown,
        tuple(message.by),
        message.done,
        datetime_of(message.time),
        _time(message, "expire_time"),
        dict(message.result),
    )


def summary_of(message: pb.AnswerToReview) -> AnswerSummary:
    """An answer that waits."""
    time = datetime_of(message.create_time)
    return AnswerSummary(message.name, message.analyst, message.kind, message.formula, time)


def answer_review_of(message: pb.GetAnswerReviewResponse, name: str) -> AnswerReview:
    """An answer to be decided on; raises VerificationError where it is another one."""
    if message.answer.name != name:
        raise VerificationError(problem="the controller sent another answer than was asked for")
    return AnswerReview(
        summary_of(message.answer),
        tuple(map(_cell, message.numbers)),
        message.program,
        message.document.decode(errors="replace"),
        message.marks.decode(errors="replace"),
        tuple(message.reasons),
        message.two,
        message.shown,
        _firsts(message.first_decisions),
    )


def account_of(message: pb.BudgetAccount) -> Account:
    """A budget."""
    prices = map(price_of, (message.cap, message.spent, message.reserved))
    return Account(message.dataset, message.scope, message.holder, *prices)


def person_of(message: pb.Person) -> Person:
    """Somebody enrolled."""
    times = _time(message, "certificate_until"), _time(message, "last_seen")
    return Person(message.uri, message.fingerprint, message.disabled, *times, message.shown)


def failure_of(message: pb.FailureAtRecords) -> Failure:
    """A failure at the records."""
    about = message.operation, message.analyst, message.kind, message.resource, message.reason
    return Failure(*about, datetime_of(message.time), message.shown)


def log_line_of(message: pb.LogEntry) -> LogLine:
    """An entry of the log."""
    about = message.actor, message.action, message.resource, dict(message.details)
    return LogLine(message.index, datetime_of(message.time), *about)


def risk_of(message: pb.GetRiskResponse, name: str) -> RiskReview:
    """What the exact counts of a card reveal; raises VerificationError where there is no such report."""
    try:
        report = PLAIN.read(PsiRisk, json.loads(message.report), field="risk")
    except (ValueError, GencardError):
        raise VerificationError(problem="the controller sent no report of risk") from None
    worst = tuple((one.known, one.certain, one.records) for one in message.worst)
    return RiskReview(name, report, tuple(message.cards), worst, datetime_of(message.time))


def _cell(message: pb.ReviewedNumber) -> Cell:
    try:
        mark = Colour(message.colour)
    except ValueError:
        raise VerificationError(problem="a number of the answer has an unknown mark") from None
    return Cell(
        message.output,
        message.row,
        message.column,
        message.value if message.HasField("value") else None,
        message.dry if message.HasField("dry") else None,
        mark,
        tuple(message.rules),
    )


def _firsts(messages: Iterable[pb.FirstDecision]) -> tuple[FirstDecision, ...]:
    return tuple(
        FirstDecision(
            one.kind,
            one.who,
            one.reason,
            one.shown,
            one.digest,
            _object(one.arguments),
            datetime_of(one.time),
            datetime_of(one.expire_time),
        )
        for one in messages
    )


def _object(document: bytes) -> Document:
    return document_of(document, "arguments") if document else {}


def _time(message: Any, field: str) -> datetime | None:
    value: Timestamp = getattr(message, field)
    return datetime_of(value) if message.HasField(field) else None
