"""SynthesisService, MeasuresService and AuditService: releases, how they are evaluated, audits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.longrunning import operations_pb2

from gencard.controller.audits.audits import Audits
from gencard.controller.audits.run import RemoteRuns
from gencard.controller.releases.evaluations import Evaluations
from gencard.controller.releases.releases import Releases
from gencard.controller.service.guard import identity
from gencard.controller.service.operations import (
    audit_message,
    evaluation_message,
    operation_message,
    page_size,
    release_message,
    request_of,
)
from gencard.core.errors import GencardError, InvalidInputError, TooLargeError
from gencard.v1 import audit_pb2 as audit
from gencard.v1 import audit_pb2_grpc, measures_pb2, measures_pb2_grpc, synthesis_pb2_grpc
from gencard.v1 import common_pb2 as common
from gencard.v1 import synthesis_pb2 as pb
from gencard.wire.psi import psi_of_document
from gencard.wire.tables import (
    ACCEPT_PACKED,
    dataset_of_chunks,
    encoded_chunks,
    psi_chunks,
    table_chunks,
)


@dataclass(frozen=True, slots=True)
class SynthesisServicer(synthesis_pb2_grpc.SynthesisServiceServicer):
    """psi and rows: all that ever leaves."""

    releases: Releases

    def register(self, server: grpc.Server) -> None:
        synthesis_pb2_grpc.add_SynthesisServiceServicer_to_server(self, server)

    def GenerateRelease(
        self, request: pb.GenerateReleaseRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        row = self.releases.start(
            identity(),
            request.card,
            rows=request.rows,
            seed=request.seed,
            request=request_of("GenerateRelease", request),
        )
        return operation_message(row)

    def GetRelease(
        self, request: pb.GetReleaseRequest, context: grpc.ServicerContext
    ) -> pb.GetReleaseResponse:
        release, entry = self.releases.get(identity(), request.name)
        return pb.GetReleaseResponse(release=release_message(release), log_entry=entry)

    def ListReleases(
        self, request: pb.ListReleasesRequest, context: grpc.ServicerContext
    ) -> pb.ListReleasesResponse:
        page = self.releases.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
        return pb.ListReleasesResponse(
            releases=map(release_message, page.rows), next_page_token=page.next_token
        )

    def StreamRows(self, request: pb.StreamRowsRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        rows, digest = self.releases.rows(identity(), request.name)
        packed = ACCEPT_PACKED in context.invocation_metadata()
        with rows.opened() as columns:
            # the guard sends bytes as they are
            yield from encoded_chunks(columns, digest, packed=packed)

    def StreamPsi(
        self, request: pb.StreamPsiRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.StreamPsiResponse]:
        yield from psi_chunks(psi_of_document(self.releases.psi(identity(), request.card)))


MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class MeasuresServicer(measures_pb2_grpc.MeasuresServiceServicer):
    """Evaluations, once for a card: auditors and stewards see all, analysts the card's."""

    evaluations: Evaluations

    def register(self, server: grpc.Server) -> None:
        measures_pb2_grpc.add_MeasuresServiceServicer_to_server(self, server)

    def RunMeasures(
        self, request: measures_pb2.RunMeasuresRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        if len(request.measures) > MOST_NAMES:
            raise TooLargeError(
                what="The number of measures",
                limit=MOST_NAMES,
                advice="Name each evaluation once; run the others in another call.",
            )
        row = self.evaluations.start(
            identity(), request.card, request.measures, request_of("RunMeasures", request)
        )
        return operation_message(row)

    def GetMeasures(
        self, request: measures_pb2.GetMeasuresRequest, context: grpc.ServicerContext
    ) -> measures_pb2.GetMeasuresResponse:
        row = self.evaluations.get(identity(), request.name)
        return measures_pb2.GetMeasuresResponse(measures=evaluation_message(row))

    def ListMeasures(
        self, request: measures_pb2.ListMeasuresRequest, context: grpc.ServicerContext
    ) -> measures_pb2.ListMeasuresResponse:
        page, unavailable = self.evaluations.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
        return measures_pb2.ListMeasuresResponse(
            measures=[evaluation_message(row, whole=False) for row in page.rows],
            next_page_token=page.next_token,
            unavailable=[
                measures_pb2.UnavailableMeasure(measure=name, reason=reason)
                for name, reason in unavailable.items()
            ],
        )


@dataclass(frozen=True, slots=True)
class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """Verdicts for the callers who requested audits; full reports for auditors and stewards alone."""

    audits: Audits
    remote_runs: RemoteRuns

    def register(self, server: grpc.Server) -> None:
        audit_pb2_grpc.add_AuditServiceServicer_to_server(self, server)

    def RunAudit(
        self, request: audit.RunAuditRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        row = self.audits.start(
            identity(),
            request.card,
            black_box=request.black_box,
            seed=request.seed,
            resume=request.resume,
            request=request_of("RunAudit", request),
        )
        return operation_message(row)

    def GetAudit(
        self, request: audit.GetAuditRequest, context: grpc.ServicerContext
    ) -> audit.GetAuditResponse:
        return audit.GetAuditResponse(audit=audit_message(self.audits.get(identity(), request.name)))

    def ListAudits(
        self, request: audit.ListAuditsRequest, context: grpc.ServicerContext
    ) -> audit.ListAuditsResponse:
        audits, token = self.audits.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
        return audit.ListAuditsResponse(audits=map(audit_message, audits), next_page_token=token)

    def GetAuditReport(
        self, request: audit.GetAuditReportRequest, context: grpc.ServicerContext
    ) -> audit.GetAuditReportResponse:
        return audit.GetAuditReportResponse(report=self.audits.report(identity(), request.name))

    def RunBlackBox(
        self, requests: Iterator[audit.RunBlackBoxRequest], context: grpc.ServicerContext
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
                dataset,
                seed=first.start.seed,
                on_end=context.add_callback,
                on_errors=written.append,
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
