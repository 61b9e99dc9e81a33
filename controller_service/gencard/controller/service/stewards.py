"""StewardService: the stewards' desk on the wire."""

from dataclasses import dataclass
from operator import attrgetter

import grpc
from google.longrunning import operations_pb2

from gencard.controller.service.guard import identity, tls_key
from gencard.controller.service.operations import operation_message, page_and_token, page_size
from gencard.controller.stewards.answers import summary_of
from gencard.controller.stewards.desk import Desk
from gencard.v1 import steward_pb2 as pb
from gencard.v1 import steward_pb2_grpc
from gencard.wire.canonical import document_of
from gencard.wire.codec import message_of, messages_of, value_of
from gencard.wire.steward import Action, LogLine, check_arguments, kind_of


@dataclass(frozen=True, slots=True)
class StewardServicer(steward_pb2_grpc.StewardServiceServicer):
    """Decode, call the desk, encode. The access table admits stewards only."""

    desk: Desk

    def register(self, server: grpc.Server) -> None:
        steward_pb2_grpc.add_StewardServiceServicer_to_server(self, server)

    def ListQueue(
        self, request: pb.ListQueueRequest, context: grpc.ServicerContext
    ) -> pb.ListQueueResponse:
        page = self.desk.queue(identity(), page_size(request.page_size), request.page_token)
        waiting = messages_of(page.rows, pb.Waiting)
        return pb.ListQueueResponse(waiting=waiting, next_page_token=page.next_token)

    def GetReview(
        self, request: pb.GetReviewRequest, context: grpc.ServicerContext
    ) -> pb.GetReviewResponse:
        review = self.desk.card(identity(), request.name)
        return pb.GetReviewResponse(review=message_of(review, pb.CardReview))

    def GetPreview(
        self, request: pb.GetPreviewRequest, context: grpc.ServicerContext
    ) -> pb.GetPreviewResponse:
        check_arguments(request.arguments)
        arguments = document_of(request.arguments, "arguments") if request.arguments else {}
        preview = self.desk.preview(identity(), kind_of(request.kind), request.resource, arguments)
        return pb.GetPreviewResponse(preview=message_of(preview, pb.Preview))

    def Decide(self, request: pb.DecideRequest, context: grpc.ServicerContext) -> pb.DecideResponse:
        check_arguments(request.action.arguments)
        action = value_of(Action, request.action)
        decision = self.desk.decide(identity(), action, request.request_id, tls_key())
        return pb.DecideResponse(decision=message_of(decision, pb.Decision))

    def ListAnswersToReview(
        self, request: pb.ListAnswersToReviewRequest, context: grpc.ServicerContext
    ) -> pb.ListAnswersToReviewResponse:
        rows, token = page_and_token(self.desk.answers(identity()), request, attrgetter("name"))
        answers = messages_of(map(summary_of, rows), pb.AnswerSummary)
        return pb.ListAnswersToReviewResponse(answers=answers, next_page_token=token)

    def GetAnswerReview(
        self, request: pb.GetAnswerReviewRequest, context: grpc.ServicerContext
    ) -> pb.GetAnswerReviewResponse:
        review = self.desk.answer(identity(), request.name)
        return pb.GetAnswerReviewResponse(review=message_of(review, pb.AnswerReview))

    def ListAccounts(
        self, request: pb.ListAccountsRequest, context: grpc.ServicerContext
    ) -> pb.ListAccountsResponse:
        accounts = self.desk.accounts(identity(), request.dataset or None)
        page, token = page_and_token(
            accounts, request, lambda one: f"{one.dataset} {one.scope} {one.holder}"
        )
        return pb.ListAccountsResponse(
            accounts=messages_of(page, pb.BudgetAccount), next_page_token=token
        )

    def ListPeople(
        self, request: pb.ListPeopleRequest, context: grpc.ServicerContext
    ) -> pb.ListPeopleResponse:
        uri = attrgetter("uri")
        people, token = page_and_token(sorted(self.desk.people(identity()), key=uri), request, uri)
        return pb.ListPeopleResponse(people=messages_of(people, pb.Person), next_page_token=token)

    def SearchLog(
        self, request: pb.SearchLogRequest, context: grpc.ServicerContext
    ) -> pb.SearchLogResponse:
        size = page_size(request.page_size)
        page = self.desk.search_log(identity(), request.query, size, request.page_token)
        entries = messages_of(page.rows, pb.LogLine, LogLine)
        return pb.SearchLogResponse(entries=entries, next_page_token=page.next_token)

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
        return pb.ListRefusalsResponse(refusals=messages_of(page, pb.Failure), next_page_token=token)

    def RunRisk(
        self, request: pb.RunRiskRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        return operation_message(self.desk.risks.start(identity(), request.name, request.request_id))

    def GetRisk(self, request: pb.GetRiskRequest, context: grpc.ServicerContext) -> pb.GetRiskResponse:
        review = self.desk.risks.view(identity(), request.name)
        return pb.GetRiskResponse(review=message_of(review, pb.RiskReview))
