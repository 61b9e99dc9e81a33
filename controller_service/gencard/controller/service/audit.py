"""AuditService: audits at the records, and black boxes lent to auditors from afar."""

from collections.abc import Iterator
from dataclasses import dataclass

import grpc
from google.longrunning import operations_pb2

from gencard.controller.audits.audits import Audits
from gencard.controller.audits.remote_runs import RemoteRuns
from gencard.controller.service.guard import identity
from gencard.controller.service.negotiation import request_of
from gencard.controller.service.operations import operation_message, page_size
from gencard.core.errors import InvalidInputError
from gencard.v1 import audit_pb2 as pb
from gencard.v1 import audit_pb2_grpc
from gencard.v1 import common_pb2 as common
from gencard.wire.codecs.table_codec import dataset_of_chunks, table_chunks


@dataclass(frozen=True, slots=True)
class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """Verdicts to those who asked, full reports to auditors and stewards alone."""

    audits: Audits
    remote_runs: RemoteRuns

    def RunAudit(
        self, request: pb.RunAuditRequest, context: grpc.ServicerContext
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
        self, request: pb.GetAuditRequest, context: grpc.ServicerContext
    ) -> pb.GetAuditResponse:
        return pb.GetAuditResponse(audit=self.audits.get(identity(), request.name))

    def ListAudits(
        self, request: pb.ListAuditsRequest, context: grpc.ServicerContext
    ) -> pb.ListAuditsResponse:
        audits, token = self.audits.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
        return pb.ListAuditsResponse(audits=audits, next_page_token=token)

    def GetAuditReport(
        self, request: pb.GetAuditReportRequest, context: grpc.ServicerContext
    ) -> pb.GetAuditReportResponse:
        return pb.GetAuditReportResponse(report=self.audits.report(identity(), request.name))

    def RunBlackBox(
        self, requests: Iterator[pb.RunBlackBoxRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.RunBlackBoxResponse]:
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
        synthetic = remote_run.run(dataset, seed=first.start.seed, on_end=context.add_callback)
        for chunk in table_chunks(synthetic):
            yield pb.RunBlackBoxResponse(chunk=chunk)


def _chunks(requests: Iterator[pb.RunBlackBoxRequest]) -> Iterator[common.TableChunk]:
    for request in requests:
        if not request.HasField("chunk"):
            raise InvalidInputError(field="chunk", problem="is missing")
        yield request.chunk
