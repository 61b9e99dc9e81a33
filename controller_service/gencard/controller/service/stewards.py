"""StewardService: the stewards' desk on the wire."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

import grpc
from google.longrunning import operations_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from gencard.controller.answers.decisions import question_of
from gencard.controller.service.guard import identity, tls_key
from gencard.controller.service.operations import operation_message, page_and_token, page_size
from gencard.controller.state.log import Event
from gencard.controller.state.results import RunRow
from gencard.controller.state.stewards import FirstDecision
from gencard.controller.stewards.actions import Action, Kind, arguments_bytes, arguments_of
from gencard.controller.stewards.cards import CardView
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.people import PersonView
from gencard.controller.stewards.reading import AccountView
from gencard.controller.stewards.registers import RefusalView
from gencard.controller.stewards.risk import RiskView
from gencard.core.errors import InvalidInputError
from gencard.v1 import common_pb2, negotiation_pb2, steward_pb2_grpc
from gencard.v1 import steward_pb2 as pb
from gencard.wire.codec import message_of, timestamp
from gencard.wire.codecs.card_codec import card_message
from gencard.wire.signatures.canonical import json_bytes


@dataclass(frozen=True, slots=True)
class StewardServicer(steward_pb2_grpc.StewardServiceServicer):
    """Decode, ask the desk, encode. The access table lets stewards in, and nobody else."""

    desk: Desk

    def register(self, server: grpc.Server) -> None:
        steward_pb2_grpc.add_StewardServiceServicer_to_server(self, server)

    def ListQueue(
        self, request: pb.ListQueueRequest, context: grpc.ServicerContext
    ) -> pb.ListQueueResponse:
        page = self.desk.queue(identity(), page_size(request.page_size), request.page_token)
        waiting = [
            pb.Waiting(
                resource=one.resource,
                kind=one.kind,
                waits_for=one.waits_for,
                text=one.text,
                who=one.who,
                since=timestamp(one.since),
            )
            for one in page.rows
        ]
        return pb.ListQueueResponse(waiting=waiting, next_page_token=page.next_token)

    def GetReview(
        self, request: pb.GetReviewRequest, context: grpc.ServicerContext
    ) -> pb.GetReviewResponse:
        return _review(self.desk.card(identity(), request.name))

    def GetPreview(
        self, request: pb.GetPreviewRequest, context: grpc.ServicerContext
    ) -> pb.GetPreviewResponse:
        arguments = arguments_of(request.arguments)
        preview = self.desk.preview(identity(), _kind(request.kind), request.resource, arguments)
        return pb.GetPreviewResponse(
            shown=preview.shown,
            document=json_bytes(preview.document),
            two=preview.two,
            first_decisions=map(_first, preview.firsts),
        )

    def Decide(self, request: pb.DecideRequest, context: grpc.ServicerContext) -> pb.DecideResponse:
        action = Action(
            _kind(request.kind),
            request.resource,
            arguments_of(request.arguments),
            request.reason,
            request.shown,
        )
        decision = self.desk.decide(identity(), action, request.request_id, tls_key())
        return pb.DecideResponse(
            digest=decision.digest,
            by=decision.by,
            done=decision.done,
            time=timestamp(decision.time),
            expire_time=_moment(decision.expires),
            result=dict(decision.result),
        )

    def ListAnswersToReview(
        self, request: pb.ListAnswersToReviewRequest, context: grpc.ServicerContext
    ) -> pb.ListAnswersToReviewResponse:
        rows, token = page_and_token(self.desk.answers(identity()), request, attrgetter("name"))
        return pb.ListAnswersToReviewResponse(answers=map(_answer, rows), next_page_token=token)

    def GetAnswerReview(
        self, request: pb.GetAnswerReviewRequest, context: grpc.ServicerContext
    ) -> pb.GetAnswerReviewResponse:
        view = self.desk.answer(identity(), request.name)
        numbers = [
            pb.ReviewedNumber(
                output=cell.output,
                row=cell.row,
                column=cell.column,
                value=cell.value,
                dry=cell.dry,
                colour=str(cell.verdict.colour),
                rules=map(str, cell.verdict.broken),
            )
            for cell in view.cells
        ]
        return pb.GetAnswerReviewResponse(
            answer=_answer(view.row),
            numbers=numbers,
            program=view.program,
            document=b"" if view.answer is None else json.dumps(view.answer).encode(),
            marks=b"" if view.marks is None else json.dumps(view.marks).encode(),
            reasons=view.reasons,
            two=view.two,
            shown=view.shown,
            first_decisions=map(_first, view.firsts),
        )

    def ListAccounts(
        self, request: pb.ListAccountsRequest, context: grpc.ServicerContext
    ) -> pb.ListAccountsResponse:
        accounts = self.desk.accounts(identity(), request.dataset or None)
        page, token = page_and_token(
            accounts, request, lambda one: f"{one.dataset} {one.scope} {one.holder}"
        )
        return pb.ListAccountsResponse(accounts=map(_account, page), next_page_token=token)

    def ListPeople(
        self, request: pb.ListPeopleRequest, context: grpc.ServicerContext
    ) -> pb.ListPeopleResponse:
        uri = attrgetter("uri")
        people, token = page_and_token(sorted(self.desk.people(identity()), key=uri), request, uri)
        return pb.ListPeopleResponse(people=map(_person, people), next_page_token=token)

    def SearchLog(
        self, request: pb.SearchLogRequest, context: grpc.ServicerContext
    ) -> pb.SearchLogResponse:
        size = page_size(request.page_size)
        page = self.desk.search_log(identity(), request.query, size, request.page_token)
        return pb.SearchLogResponse(entries=map(_entry, page.rows), next_page_token=page.next_token)

    def GetLogEntry(
        self, request: pb.GetLogEntryRequest, context: grpc.ServicerContext
    ) -> pb.GetLogEntryResponse:
        proof = self.desk.archive(identity()).proof(request.index)
        return pb.GetLogEntryResponse(
            entry=proof.entry.body, leaf=proof.leaf, path=proof.entry.path, checkpoint=proof.checkpoint
        )

    def ListRefusals(
        self, request: pb.ListRefusalsRequest, context: grpc.ServicerContext
    ) -> pb.ListRefusalsResponse:
        refusals = self.desk.refusals(identity())
        page, token = page_and_token(refusals, request, attrgetter("operation"))
        return pb.ListRefusalsResponse(refusals=map(_refusal, page), next_page_token=token)

    def RunRisk(
        self, request: pb.RunRiskRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        return operation_message(self.desk.risks.start(identity(), request.name, request.request_id))

    def GetRisk(self, request: pb.GetRiskRequest, context: grpc.ServicerContext) -> pb.GetRiskResponse:
        return _risk(self.desk.risks.view(identity(), request.name))


def _kind(text: str) -> Kind:
    """Raises InvalidInputError where no action has this name."""
    try:
        return Kind(text)
    except ValueError:
        pass
    raise InvalidInputError(field="kind", problem=f"must be one of {', '.join(Kind)}")


def _moment(time: datetime | None) -> Timestamp | None:
    return None if time is None else timestamp(time)


def _first(first: FirstDecision) -> pb.FirstDecision:
    return pb.FirstDecision(
        digest=first.digest,
        kind=first.kind,
        resource=first.resource,
        arguments=arguments_bytes(first.arguments),
        shown=first.shown,
        reason=first.reason,
        who=first.actor,
        time=timestamp(first.created),
        expire_time=timestamp(first.expires),
    )


def _review(view: CardView) -> pb.GetReviewResponse:
    offer, together = view.offer, view.together
    changes = (
        negotiation_pb2.Change(field=one.field, old=one.old, new=one.new, reason=one.reason)
        for one in view.changes
    )
    return pb.GetReviewResponse(
        card=card_message(view.card),
        offer=None if offer is None else message_of(offer.terms, common_pb2.Terms),
        changes=changes,
        price=None if offer is None else message_of(offer.price, common_pb2.Price),
        refusal="" if view.refusal is None else view.refusal.message,
        two=view.two,
        shown=view.shown,
        attributes=together.attributes,
        together=_matrices(together.here, together.before),
        granted=together.cards,
        first_decisions=map(_first, view.firsts),
    )


def _matrices(here: Sequence[Sequence[bool]], before: Sequence[Sequence[bool]]) -> Sequence[pb.Together]:
    rows = zip(here, before, strict=True)
    return [pb.Together(here=one, before=other) for one, other in rows]


def _answer(row: RunRow) -> pb.AnswerToReview:
    question = question_of(row)
    return pb.AnswerToReview(
        name=row.name,
        analyst=row.submitter,
        kind=question.kind,
        formula=question.formula,
        where=question.where,
        missing=question.missing,
        options=question.options,
        create_time=timestamp(row.created),
    )


def _account(account: AccountView) -> pb.BudgetAccount:
    return pb.BudgetAccount(
        scope=str(account.scope),
        dataset=account.dataset,
        holder=account.holder,
        cap=message_of(account.cap, common_pb2.Price),
        spent=message_of(account.spent, common_pb2.Price),
        reserved=message_of(account.reserved, common_pb2.Price),
    )


def _person(person: PersonView) -> pb.Person:
    return pb.Person(
        uri=person.uri,
        fingerprint=person.fingerprint,
        disabled=person.disabled,
        certificate_until=_moment(person.certificate_until),
        last_seen=_moment(person.last_seen),
        shown=person.shown,
    )


def _entry(event: Event) -> pb.LogEntry:
    return pb.LogEntry(
        index=event.index,
        time=timestamp(event.time),
        actor=event.actor,
        action=event.action,
        resource=event.resource,
        details=dict(event.details),
    )


def _refusal(refusal: RefusalView) -> pb.FailureAtRecords:
    return pb.FailureAtRecords(
        operation=refusal.operation,
        analyst=refusal.analyst,
        kind=refusal.kind,
        resource=refusal.resource,
        reason=refusal.reason,
        time=timestamp(refusal.time),
        shown=refusal.shown,
    )


def _risk(view: RiskView) -> pb.GetRiskResponse:
    report = view.report
    worst = []
    for one in () if report is None else report.worst:
        known, certain = view.words(one)
        worst.append(pb.CertainKey(known=known, certain=certain, records=one.records))
    return pb.GetRiskResponse(
        state=str(view.state),
        operation=view.operation,
        stage=view.stage,
        permille=view.permille,
        problem="" if view.error is None else view.error.message,
        report=b"" if report is None else json.dumps(report.json()).encode(),
        worst=worst,
        cards=view.cards,
        time=_moment(view.time),
    )
