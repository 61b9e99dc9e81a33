"""AnswersService: runs on the records, and what of them was released."""

from dataclasses import dataclass

import grpc
from google.longrunning import operations_pb2

from gencard.controller.answers.answers import Answers
from gencard.controller.answers.programs import Programs
from gencard.controller.cards.released import question_of
from gencard.controller.service.guard import identity
from gencard.controller.service.operations import operation_message, page_size, request_of
from gencard.controller.state.results import RunRow, RunState
from gencard.v1 import answers_pb2 as pb
from gencard.v1 import answers_pb2_grpc
from gencard.wire.codec import part_of, prepare_part, timestamp
from gencard.wire.documents import Question

STATE = {
    RunState.RUNNING: pb.Answer.STATE_UNSPECIFIED,
    RunState.WAITING: pb.Answer.STATE_WAITING,
    RunState.RELEASED: pb.Answer.STATE_RELEASED,
    RunState.REFUSED: pb.Answer.STATE_REFUSED,
    RunState.FAILED: pb.Answer.STATE_UNSPECIFIED,
}


prepare_part(RunRow, pb.Answer, "state", "kind", "formula", "create_time")


def answer_message(row: RunRow, *, whole: bool = True) -> pb.Answer:
    """Return an answer as callers may see it; what waits for a steward shows nothing of the records."""
    question = question_of(row)
    about = {"kind": question.kind, "formula": question.formula, "create_time": timestamp(row.created)}
    hidden = {} if whole else {"envelope": b""}
    return part_of(row, pb.Answer, state=STATE[row.state], **about, **hidden)


def answer_response(row: RunRow) -> bytes:
    """Return the response of an operation that ran an analysis, as the state keeps it."""
    return answer_message(row).SerializeToString()


@dataclass(frozen=True, slots=True)
class AnswersServicer(answers_pb2_grpc.AnswersServiceServicer):
    """Analysts run what their cards grant; auditors and stewards read what was released."""

    answers: Answers
    programs: Programs

    def register(self, server: grpc.Server) -> None:
        answers_pb2_grpc.add_AnswersServiceServicer_to_server(self, server)

    def RunAnalysis(
        self, request: pb.RunAnalysisRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        question = Question(
            kind=request.kind,
            formula=request.formula,
            where=request.where,
            missing=request.missing or "level",
            options=request.options,
        )
        row = self.answers.start(identity(), request.card, question, request_of("RunAnalysis", request))
        return operation_message(row)

    def RunProgram(
        self, request: pb.RunProgramRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        start = self.programs.start
        row = start(
            identity(), request.card, request.program, request.dry_run, request_of("RunProgram", request)
        )
        return operation_message(row)

    def GetAnswer(
        self, request: pb.GetAnswerRequest, context: grpc.ServicerContext
    ) -> pb.GetAnswerResponse:
        row, entry = self.answers.get(identity(), request.name)
        return pb.GetAnswerResponse(answer=answer_message(row), log_entry=entry)

    def ListAnswers(
        self, request: pb.ListAnswersRequest, context: grpc.ServicerContext
    ) -> pb.ListAnswersResponse:
        page = self.answers.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
        return pb.ListAnswersResponse(
            answers=[answer_message(row, whole=False) for row in page.rows],
            next_page_token=page.next_token,
        )
