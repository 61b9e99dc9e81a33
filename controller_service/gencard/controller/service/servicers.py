"""Services of the wire: each call is decoded, handed to one method of the controller, and encoded.

The guard has authorised the caller before (``service.guard``).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import grpc
from google.longrunning import operations_pb2 as longrunning
from google.longrunning import operations_pb2_grpc

from gencard.controller.answers.answers import Answers, start_program
from gencard.controller.audit_runs import RemoteRuns
from gencard.controller.audits import Audits
from gencard.controller.boxes import Boxes
from gencard.controller.cards.book import question_of
from gencard.controller.cards.negotiations import Negotiations
from gencard.controller.evaluations import Evaluations
from gencard.controller.records.catalogue import Catalogue, DatasetEntry
from gencard.controller.releases import Releases
from gencard.controller.service.guard import identity, tls_key
from gencard.controller.service.operations import (
    Context,
    LedgerServicer,
    LogServicer,
    OperationsServicer,
    audit_message,
    evaluation_message,
    operation_message,
    page_and_token,
    page_size,
    paging,
    release_message,
    request_of,
)
from gencard.controller.state.results import RunRow, RunState
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.effects import summary_of
from gencard.core.card.terms import Proposal
from gencard.core.catalogue import CatalogueEntry, DeclaredAttribute, GeneratorEntry
from gencard.core.coding import PLAIN
from gencard.core.errors import GencardError, InvalidInputError, TooLargeError
from gencard.v1 import answers_pb2 as answer
from gencard.v1 import (
    answers_pb2_grpc,
    audit_pb2_grpc,
    catalog_pb2_grpc,
    ledger_pb2_grpc,
    measures_pb2_grpc,
    negotiation_pb2_grpc,
    steward_pb2_grpc,
    synthesis_pb2_grpc,
)
from gencard.v1 import audit_pb2 as audit
from gencard.v1 import catalog_pb2 as catalog
from gencard.v1 import common_pb2 as common
from gencard.v1 import measures_pb2 as measures
from gencard.v1 import negotiation_pb2 as negotiation
from gencard.v1 import steward_pb2 as steward
from gencard.v1 import synthesis_pb2 as synthesis
from gencard.wire.canonical import document_of
from gencard.wire.codec import (
    card_message,
    message_of,
    messages_of,
    part_of,
    prepare,
    prepare_part,
    timestamp,
    value_of,
)
from gencard.wire.documents import Question
from gencard.wire.psi import psi_of_document
from gencard.wire.steward import Action, LogLine, check_arguments, kind_of
from gencard.wire.tables import (
    ACCEPT_PACKED,
    dataset_of_chunks,
    encoded_chunks,
    psi_chunks,
    table_chunks,
)

prepare((CatalogueEntry, catalog.Dataset), (GeneratorEntry, catalog.Generator))


@dataclass(frozen=True, slots=True)
class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Reads the controller's declarations, which are the same for all callers."""

    catalogue: Catalogue
    boxes: Boxes
    _described: dict[str, tuple[DatasetEntry, catalog.Dataset]] = field(default_factory=dict, init=False)
    """The message of each dataset, beside the entry that it describes: a reload makes new entries."""

    def ListDatasets(
        self, request: catalog.ListDatasetsRequest, context: Context
    ) -> catalog.ListDatasetsResponse:
        page, token = page_and_token([*self.catalogue], request, attrgetter("name"))
        return catalog.ListDatasetsResponse(
            datasets=[_entry(one, whole=False) for one in page], next_page_token=token
        )

    def GetDataset(
        self, request: catalog.GetDatasetRequest, context: Context
    ) -> catalog.GetDatasetResponse:
        entry = self.catalogue.named(request.name)
        described, message = self._described.get(entry.name, (None, None))
        if described is not entry:
            message = _entry(entry, whole=True)
            self._described[entry.name] = entry, message
        return catalog.GetDatasetResponse(dataset=message)

    def ListGenerators(
        self, request: catalog.ListGeneratorsRequest, context: Context
    ) -> catalog.ListGeneratorsResponse:
        entries, token = page_and_token(self.boxes.catalogue(), request, attrgetter("name"))
        generators = messages_of(entries, catalog.Generator)
        return catalog.ListGeneratorsResponse(generators=generators, next_page_token=token)


def _entry(dataset_entry: DatasetEntry, *, whole: bool) -> catalog.Dataset:
    schema = dataset_entry.schema
    summary = CatalogueEntry(
        name=dataset_entry.name,
        title=schema.title,
        description=schema.description,
        declared_by=schema.declared_by,
        version=dataset_entry.version,
        records=schema.records,
        most_records=schema.most_records,
    )
    if whole:
        attributes = [
            DeclaredAttribute(one, schema.readings.get(one.name, PLAIN), schema.groups.get(one.name, {}))
            for one in schema.coding.attributes
        ]
        summary = replace(
            summary,
            attributes=tuple(attributes),
            structural_zeros=schema.coding.structural_zeros,
            policy=dataset_entry.policy.public,
        )
    return message_of(summary, catalog.Dataset)


@dataclass(frozen=True, slots=True)
class NegotiationServicer(negotiation_pb2_grpc.NegotiationServiceServicer):
    """The caller is always the certificate's; no request names another."""

    negotiations: Negotiations

    def ProposeCard(
        self, request: negotiation.ProposeCardRequest, context: Context
    ) -> negotiation.ProposeCardResponse:
        proposal = value_of(Proposal, request.terms)
        if request.validate_only:
            card = self.negotiations.price(identity(), proposal)
        else:
            card = self.negotiations.propose(identity(), proposal, request_of("ProposeCard", request))
        return negotiation.ProposeCardResponse(card=card_message(card))

    def GetCard(
        self, request: negotiation.GetCardRequest, context: Context
    ) -> negotiation.GetCardResponse:
        return negotiation.GetCardResponse(
            card=card_message(self.negotiations.get(identity(), request.name))
        )

    def ListCards(
        self, request: negotiation.ListCardsRequest, context: Context
    ) -> negotiation.ListCardsResponse:
        dataset = None if request.parent in ("", "datasets/-") else request.parent
        cards, token = self.negotiations.page(identity(), dataset, *paging(request))
        return negotiation.ListCardsResponse(cards=map(card_message, cards), next_page_token=token)

    def CounterCard(
        self, request: negotiation.CounterCardRequest, context: Context
    ) -> negotiation.CounterCardResponse:
        terms, once = value_of(Proposal, request.terms), request_of("CounterCard", request)
        card = self.negotiations.counter(identity(), request.name, request.etag, terms, once)
        return negotiation.CounterCardResponse(card=card_message(card))

    def AcceptCard(
        self, request: negotiation.AcceptCardRequest, context: Context
    ) -> negotiation.AcceptCardResponse:
        card = self.negotiations.accept(
            identity(), request.name, request.etag, request.signature, request_of("AcceptCard", request)
        )
        return negotiation.AcceptCardResponse(card=card_message(card))

    def TerminateCard(
        self, request: negotiation.TerminateCardRequest, context: Context
    ) -> negotiation.TerminateCardResponse:
        card = self.negotiations.terminate(
            identity(), request.name, request.etag, request_of("TerminateCard", request)
        )
        return negotiation.TerminateCardResponse(card=card_message(card))


# Rows, psi, evaluations and audits.


@dataclass(frozen=True, slots=True)
class SynthesisServicer(synthesis_pb2_grpc.SynthesisServiceServicer):
    """psi and rows: all that ever leaves."""

    releases: Releases

    def GenerateRelease(
        self, request: synthesis.GenerateReleaseRequest, context: Context
    ) -> longrunning.Operation:
        once = request_of("GenerateRelease", request)
        row = self.releases.start(
            identity(), request.card, rows=request.rows, seed=request.seed, request=once
        )
        return operation_message(row)

    def GetRelease(
        self, request: synthesis.GetReleaseRequest, context: Context
    ) -> synthesis.GetReleaseResponse:
        release, entry = self.releases.get(identity(), request.name)
        return synthesis.GetReleaseResponse(release=release_message(release), log_entry=entry)

    def ListReleases(
        self, request: synthesis.ListReleasesRequest, context: Context
    ) -> synthesis.ListReleasesResponse:
        page = self.releases.page(identity(), request.parent, *paging(request))
        return synthesis.ListReleasesResponse(
            releases=map(release_message, page.rows), next_page_token=page.next_token
        )

    def StreamRows(self, request: synthesis.StreamRowsRequest, context: Context) -> Iterator[Any]:
        rows, digest = self.releases.rows(identity(), request.name)
        packed = ACCEPT_PACKED in context.invocation_metadata()
        with rows.opened() as columns:
            # the guard sends bytes as they are
            yield from encoded_chunks(columns, digest, packed=packed)

    def StreamPsi(
        self, request: synthesis.StreamPsiRequest, context: Context
    ) -> Iterator[synthesis.StreamPsiResponse]:
        yield from psi_chunks(psi_of_document(self.releases.psi(identity(), request.card)))


MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class MeasuresServicer(measures_pb2_grpc.MeasuresServiceServicer):
    """Evaluations, once for a card: auditors and stewards see all, analysts the card's."""

    evaluations: Evaluations

    def RunMeasures(
        self, request: measures.RunMeasuresRequest, context: Context
    ) -> longrunning.Operation:
        if len(request.measures) > MOST_NAMES:
            advice = "Name each evaluation once; run the others in another call."
            raise TooLargeError(what="The number of measures", limit=MOST_NAMES, advice=advice)
        row = self.evaluations.start(
            identity(), request.card, request.measures, request_of("RunMeasures", request)
        )
        return operation_message(row)

    def GetMeasures(
        self, request: measures.GetMeasuresRequest, context: Context
    ) -> measures.GetMeasuresResponse:
        row = self.evaluations.get(identity(), request.name)
        return measures.GetMeasuresResponse(measures=evaluation_message(row))

    def ListMeasures(
        self, request: measures.ListMeasuresRequest, context: Context
    ) -> measures.ListMeasuresResponse:
        page, unavailable = self.evaluations.page(identity(), request.parent, *paging(request))
        return measures.ListMeasuresResponse(
            measures=[evaluation_message(row, whole=False) for row in page.rows],
            next_page_token=page.next_token,
            unavailable=[
                measures.UnavailableMeasure(measure=name, reason=reason)
                for name, reason in unavailable.items()
            ],
        )


@dataclass(frozen=True, slots=True)
class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """Verdicts for the callers who requested audits; full reports for auditors and stewards alone."""

    audits: Audits
    remote_runs: RemoteRuns

    def RunAudit(self, request: audit.RunAuditRequest, context: Context) -> longrunning.Operation:
        row = self.audits.start(
            identity(),
            request.card,
            black_box=request.black_box,
            seed=request.seed,
            resume=request.resume,
            request=request_of("RunAudit", request),
        )
        return operation_message(row)

    def GetAudit(self, request: audit.GetAuditRequest, context: Context) -> audit.GetAuditResponse:
        return audit.GetAuditResponse(audit=audit_message(self.audits.get(identity(), request.name)))

    def ListAudits(self, request: audit.ListAuditsRequest, context: Context) -> audit.ListAuditsResponse:
        audits, token = self.audits.page(identity(), request.parent, *paging(request))
        return audit.ListAuditsResponse(audits=map(audit_message, audits), next_page_token=token)

    def GetAuditReport(
        self, request: audit.GetAuditReportRequest, context: Context
    ) -> audit.GetAuditReportResponse:
        return audit.GetAuditReportResponse(report=self.audits.report(identity(), request.name))

    def RunBlackBox(
        self, requests: Iterator[audit.RunBlackBoxRequest], context: Context
    ) -> Iterator[audit.RunBlackBoxResponse]:
        who = identity()
        first = next(requests, None)
        if first is None or not first.HasField("start"):
            raise InvalidInputError(field="start", problem="is missing")
        remote_run = self.remote_runs.open(
            who, first.start.card, first.start.black_box, first.start.rows
        )
        dataset = dataset_of_chunks(
            _chunks(requests), domain=remote_run.domain, most_rows=self.remote_runs.most_rows
        )
        written: list[str] = []
        try:
            synthetic = remote_run.run(
                dataset, seed=first.start.seed, on_end=context.add_callback, on_errors=written.append
            )
        except GencardError as error:
            failure = error
        else:
            for chunk in table_chunks(synthetic):
                yield audit.RunBlackBoxResponse(chunk=chunk)
            return
        for text in filter(None, written):
            yield audit.RunBlackBoxResponse(errors=text)
        raise failure


def _chunks(requests: Iterator[audit.RunBlackBoxRequest]) -> Iterator[common.TableChunk]:
    for request in requests:
        if not request.HasField("chunk"):
            raise InvalidInputError(field="chunk", problem="is missing")
        yield request.chunk


# Runs on the records, and their released answers.

STATE = {
    RunState.RUNNING: answer.Answer.STATE_UNSPECIFIED,
    RunState.WAITING: answer.Answer.STATE_WAITING,
    RunState.RELEASED: answer.Answer.STATE_RELEASED,
    RunState.REFUSED: answer.Answer.STATE_REFUSED,
    RunState.FAILED: answer.Answer.STATE_UNSPECIFIED,
}


prepare_part(RunRow, answer.Answer, "state", "kind", "formula", "create_time")


def answer_message(row: RunRow, *, whole: bool = True) -> answer.Answer:
    """Return an answer as callers may see it; what waits for a steward shows nothing of the records."""
    question = question_of(row)
    about = {"kind": question.kind, "formula": question.formula, "create_time": timestamp(row.created)}
    hidden = {} if whole else {"envelope": b""}
    return part_of(row, answer.Answer, state=STATE[row.state], **about, **hidden)


@dataclass(frozen=True, slots=True)
class AnswersServicer(answers_pb2_grpc.AnswersServiceServicer):
    """Analysts run what their cards grant; auditors and stewards read what was released."""

    answers: Answers

    def RunAnalysis(self, request: answer.RunAnalysisRequest, context: Context) -> longrunning.Operation:
        missing = request.missing or "level"
        question = Question(
            request.kind, request.formula, request.where, missing, options=request.options
        )
        row = self.answers.start(identity(), request.card, question, request_of("RunAnalysis", request))
        return operation_message(row)

    def RunProgram(self, request: answer.RunProgramRequest, context: Context) -> longrunning.Operation:
        once, files = request_of("RunProgram", request), (request.program, request.dry_run)
        row = start_program(self.answers, identity(), request.card, *files, once)
        return operation_message(row)

    def GetAnswer(self, request: answer.GetAnswerRequest, context: Context) -> answer.GetAnswerResponse:
        row, entry = self.answers.get(identity(), request.name)
        return answer.GetAnswerResponse(answer=answer_message(row), log_entry=entry)

    def ListAnswers(
        self, request: answer.ListAnswersRequest, context: Context
    ) -> answer.ListAnswersResponse:
        page = self.answers.page(identity(), request.parent, *paging(request))
        return answer.ListAnswersResponse(
            answers=[answer_message(row, whole=False) for row in page.rows],
            next_page_token=page.next_token,
        )


# The stewards' desk.


@dataclass(frozen=True, slots=True)
class StewardServicer(steward_pb2_grpc.StewardServiceServicer):
    """Decode, call the desk, encode. The access table admits stewards only."""

    desk: Desk

    def ListQueue(
        self, request: steward.ListQueueRequest, context: Context
    ) -> steward.ListQueueResponse:
        page = self.desk.queue(identity(), page_size(request.page_size), request.page_token)
        waiting = messages_of(page.rows, steward.Waiting)
        return steward.ListQueueResponse(waiting=waiting, next_page_token=page.next_token)

    def GetReview(
        self, request: steward.GetReviewRequest, context: Context
    ) -> steward.GetReviewResponse:
        review = self.desk.card(identity(), request.name)
        return steward.GetReviewResponse(review=message_of(review, steward.CardReview))

    def GetPreview(
        self, request: steward.GetPreviewRequest, context: Context
    ) -> steward.GetPreviewResponse:
        check_arguments(request.arguments)
        arguments = document_of(request.arguments, "arguments") if request.arguments else {}
        preview = self.desk.preview(identity(), kind_of(request.kind), request.resource, arguments)
        return steward.GetPreviewResponse(preview=message_of(preview, steward.Preview))

    def Decide(self, request: steward.DecideRequest, context: Context) -> steward.DecideResponse:
        check_arguments(request.action.arguments)
        action = value_of(Action, request.action)
        decision = self.desk.decide(identity(), action, request.request_id, tls_key())
        return steward.DecideResponse(decision=message_of(decision, steward.Decision))

    def ListAnswersToReview(
        self, request: steward.ListAnswersToReviewRequest, context: Context
    ) -> steward.ListAnswersToReviewResponse:
        rows, token = page_and_token(self.desk.answers(identity()), request, attrgetter("name"))
        summaries = messages_of(map(summary_of, rows), steward.AnswerSummary)
        return steward.ListAnswersToReviewResponse(answers=summaries, next_page_token=token)

    def GetAnswerReview(
        self, request: steward.GetAnswerReviewRequest, context: Context
    ) -> steward.GetAnswerReviewResponse:
        review = self.desk.answer(identity(), request.name)
        return steward.GetAnswerReviewResponse(review=message_of(review, steward.AnswerReview))

    def ListAccounts(
        self, request: steward.ListAccountsRequest, context: Context
    ) -> steward.ListAccountsResponse:
        accounts = self.desk.accounts(identity(), request.dataset or None)
        page, token = page_and_token(
            accounts, request, lambda one: f"{one.dataset} {one.scope} {one.holder}"
        )
        return steward.ListAccountsResponse(
            accounts=messages_of(page, steward.BudgetAccount), next_page_token=token
        )

    def ListPeople(
        self, request: steward.ListPeopleRequest, context: Context
    ) -> steward.ListPeopleResponse:
        uri = attrgetter("uri")
        people, token = page_and_token(sorted(self.desk.people(identity()), key=uri), request, uri)
        return steward.ListPeopleResponse(
            people=messages_of(people, steward.Person), next_page_token=token
        )

    def SearchLog(
        self, request: steward.SearchLogRequest, context: Context
    ) -> steward.SearchLogResponse:
        size = page_size(request.page_size)
        page = self.desk.search_log(identity(), request.query, size, request.page_token)
        entries = messages_of(page.rows, steward.LogLine, LogLine)
        return steward.SearchLogResponse(entries=entries, next_page_token=page.next_token)

    def GetLogEntry(
        self, request: steward.GetLogEntryRequest, context: Context
    ) -> steward.GetLogEntryResponse:
        proof = self.desk.archive(identity()).proof(request.index)
        return steward.GetLogEntryResponse(
            entry=proof.entry.body, leaf=proof.leaf, path=proof.entry.path, checkpoint=proof.checkpoint
        )

    def ListRefusals(
        self, request: steward.ListRefusalsRequest, context: Context
    ) -> steward.ListRefusalsResponse:
        refusals = self.desk.refusals(identity())
        page, token = page_and_token(refusals, request, attrgetter("operation"))
        return steward.ListRefusalsResponse(
            refusals=messages_of(page, steward.Failure), next_page_token=token
        )

    def RunRisk(self, request: steward.RunRiskRequest, context: Context) -> longrunning.Operation:
        return operation_message(self.desk.risks.start(identity(), request.name, request.request_id))

    def GetRisk(self, request: steward.GetRiskRequest, context: Context) -> steward.GetRiskResponse:
        review = self.desk.risks.view(identity(), request.name)
        return steward.GetRiskResponse(review=message_of(review, steward.RiskReview))


_ADDING: Mapping[type, Callable[[Any, grpc.Server], None]] = {
    AnswersServicer: answers_pb2_grpc.add_AnswersServiceServicer_to_server,
    AuditServicer: audit_pb2_grpc.add_AuditServiceServicer_to_server,
    CatalogServicer: catalog_pb2_grpc.add_CatalogServiceServicer_to_server,
    LedgerServicer: ledger_pb2_grpc.add_LedgerServiceServicer_to_server,
    LogServicer: ledger_pb2_grpc.add_LogServiceServicer_to_server,
    MeasuresServicer: measures_pb2_grpc.add_MeasuresServiceServicer_to_server,
    NegotiationServicer: negotiation_pb2_grpc.add_NegotiationServiceServicer_to_server,
    OperationsServicer: operations_pb2_grpc.add_OperationsServicer_to_server,
    StewardServicer: steward_pb2_grpc.add_StewardServiceServicer_to_server,
    SynthesisServicer: synthesis_pb2_grpc.add_SynthesisServiceServicer_to_server,
}


def register(servicer: object, server: grpc.Server) -> None:
    """Add one of these services to a server."""
    _ADDING[type(servicer)](servicer, server)
