"""Checked runs: asked for, awaited, verified; and the answers of a card, listed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import uuid4

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.client.agreement import Agreement
from gencard.client.answers.answer import Answer
from gencard.client.checking.history import LogWatch
from gencard.client.checking.signing import checked_signed_answer
from gencard.client.connection.connection import ProgressDisplay, pages, progress_bar, result_of
from gencard.client.question import AnalystQuestion
from gencard.core.card.budget import Price
from gencard.core.errors import (
    AnswerWaitingError,
    InvalidInputError,
    NoiseDrownsError,
    RunRefusedError,
    VerificationError,
)
from gencard.core.output_rules import OUTPUT_RULES, Rule
from gencard.v1 import answers_pb2 as pb
from gencard.wire.codec import datetime_of
from gencard.wire.documents.answer_document import AnswerVerdict, Question, SignedAnswer
from gencard.wire.signatures.canonical import json_bytes

_STATE = {
    pb.Answer.STATE_UNSPECIFIED: "not finished",
    pb.Answer.STATE_WAITING: "waiting for a steward",
    pb.Answer.STATE_RELEASED: "released",
    pb.Answer.STATE_REFUSED: "refused",
}


@dataclass(frozen=True, slots=True)
class RunOnRecords:
    """A run on the records in a list.

    Args:
        name: datasets/{dataset}/cards/{card}/answers/{answer}.
        statistics: What it cost, in independent statistics; 0 under noise.
        paid: What it cost, in all currencies.
    """

    name: str
    kind: str
    formula: str
    state: str
    statistics: int
    created: datetime
    paid: Price


_OTHER_REFUSAL = (
    "Ask the steward what would be acceptable. The refusal is stored; the same question costs nothing "
    "more and gets the same answer."
)
"""Advice where a steward refused, the card ended, or an older controller named the rule."""

LIST_HEADS = ("Answer", "Kind", "Formula", "State", "Paid")
"""Column heads of a list of runs."""


def list_line(run: RunOnRecords) -> tuple[str, str, str, str, str]:
    """A run under ``LIST_HEADS``."""
    return run.name, run.kind, run.formula, run.state, str(run.paid)


def sent(question: AnalystQuestion) -> Question:
    """The question as it is sent and signed.

    Raises:
        InvalidInputError: A text is too long, an option has no JSON, or it is of answers from psi.
    """
    if question.bootstrap:
        problem = "applies to answers from noisy psi only: a run has its own intervals"
        raise InvalidInputError(field="bootstrap", problem=problem)
    # Values go along: the controller refuses them, but for a question that it answered before it did.
    options = dict(question.options)
    options |= {} if question.values is None else {"values": question.values}
    return Question(
        kind=question.kind,
        formula=question.formula,
        where=question.where,
        missing=question.missing,
        options=json_bytes(options).decode() if options else "",
    )


def run(agreement: Agreement, question: Question, progress: ProgressDisplay) -> Answer:
    """Have one analysis run on the records, and verify what was signed.

    Raises:
        NoAnswerError: The schema leaves it no answer; nothing is charged.
        RunRefusedError: The output rules or a steward refused it.
        TooManyRefusalsError: Too many runs were refused; a steward has to review them first.
        AnswerWaitingError: A steward has to decide first.
        VerificationError: What came back is not the answer to this question.
    """
    connection = agreement.connection
    request = pb.RunAnalysisRequest(
        card=agreement.card.name,
        formula=question.formula,
        kind=question.kind,
        options=question.options,
        where=question.where,
        missing=question.missing,
        request_id=str(uuid4()),
    )
    with progress_bar("Running", progress) as reported:
        operation = connection.call(connection.answers.RunAnalysis, request)
        name = result_of(connection, operation, pb.Answer, reported).name
    return fetch(agreement, name, question)


def fetch(agreement: Agreement, name: str, question: Question | None = None) -> Answer:
    """An answer by its name, verified; raises as ``run`` does.

    Args:
        question: What it has to answer; None for any.
    """
    connection = agreement.connection
    got = connection.call(connection.answers.GetAnswer, pb.GetAnswerRequest(name=name))
    if not got.answer.envelope:
        raise AnswerWaitingError(answer=name)
    envelope = got.answer.envelope
    keys = connection.keys.cards(envelope)
    signed = checked_signed_answer(envelope, keys, agreement.card, card_digest=agreement.digest)
    if signed.name != name or (question is not None and signed.question != question):
        raise VerificationError(problem="the signed answer belongs to another question")
    logged = LogWatch(connection).answer_entry(got.log_entry, signed)
    if signed.verdict is AnswerVerdict.REFUSED:
        error = RunRefusedError(answer=name, reasons=", ".join(signed.reasons))
        if OUTPUT_RULES not in signed.reasons:
            error.advice = NoiseDrownsError.advice if Rule.DROWNED in signed.reasons else _OTHER_REFUSAL
        raise error
    about = (*_about(signed), ("Paid", str(_paid(agreement, got.answer))))
    proof = partial(agreement.proof, *logged)
    return Answer(AnalysisAnswer.of_json(signed.answer), about, envelope, proof)


def listed(agreement: Agreement) -> Iterator[RunOnRecords]:
    """The answers of a card, newest first, as the controller lists them."""
    request = pb.ListAnswersRequest(parent=agreement.card.name)
    connection = agreement.connection
    for page in pages(connection, connection.answers.ListAnswers, request):
        for one in page.answers:
            yield RunOnRecords(
                one.name,
                one.kind,
                one.formula,
                _STATE.get(one.state, "unknown"),
                one.statistics,
                datetime_of(one.create_time),
                _paid(agreement, one),
            )


def _paid(agreement: Agreement, answer: pb.Answer) -> Price:
    """Return the price of a run: in statistics, or the budget of each checked run of a noisy card."""
    privacy = agreement.card.terms.analyses.privacy
    if privacy.noisy and answer.kind != "program":
        return privacy.price
    return Price(statistics=answer.statistics)


def _about(signed: SignedAnswer) -> tuple[tuple[str, str], ...]:
    """Return name, version, rules and signature of an answer, as names and values."""
    question = signed.question
    return (
        ("Answer", signed.name),
        *((("Where", question.where),) if question.where else ()),
        ("Dataset version", signed.version),
        ("Output rules", signed.rules),
        ("Released by", signed.released_by),
        ("Signed", f"{signed.time}, log entry {signed.log_index}"),
    )
