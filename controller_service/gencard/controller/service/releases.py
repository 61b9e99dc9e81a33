"""SynthesisService and MeasuresService: releases, and how they are evaluated."""

from collections.abc import Iterator
from dataclasses import dataclass

import grpc
from google.longrunning import operations_pb2

from gencard.controller.evaluation.evaluations import Measures
from gencard.controller.releases.releases import Releases
from gencard.controller.service.guard import identity
from gencard.controller.service.negotiation import request_of
from gencard.controller.service.operations import operation_message, page_size
from gencard.core.errors import TooLargeError
from gencard.v1 import measures_pb2, measures_pb2_grpc, synthesis_pb2_grpc
from gencard.v1 import synthesis_pb2 as pb
from gencard.wire.codecs.psi_codec import psi_chunks
from gencard.wire.documents.psi_document import psi_of_document


@dataclass(frozen=True, slots=True)
class SynthesisServicer(synthesis_pb2_grpc.SynthesisServiceServicer):
    """psi and rows: all that ever leaves."""

    releases: Releases

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
        return pb.GetReleaseResponse(release=release, log_entry=entry)

    def ListReleases(
        self, request: pb.ListReleasesRequest, context: grpc.ServicerContext
    ) -> pb.ListReleasesResponse:
        releases, token = self.releases.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
        return pb.ListReleasesResponse(releases=releases, next_page_token=token)

    def StreamRows(
        self, request: pb.StreamRowsRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.StreamRowsResponse]:
        for chunk in self.releases.chunks(identity(), request.name):
            yield pb.StreamRowsResponse(chunk=chunk)

    def StreamPsi(
        self, request: pb.StreamPsiRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.StreamPsiResponse]:
        yield from psi_chunks(psi_of_document(self.releases.psi(identity(), request.card)))


MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class MeasuresServicer(measures_pb2_grpc.MeasuresServiceServicer):
    """Each measure once for a card: all to auditors and stewards, to an analyst what the card names."""

    measures: Measures

    def RunMeasures(
        self, request: measures_pb2.RunMeasuresRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        if len(request.measures) > MOST_NAMES:
            raise TooLargeError(what="The number of measures", limit=MOST_NAMES)
        row = self.measures.start(
            identity(), request.card, request.measures, request_of("RunMeasures", request)
        )
        return operation_message(row)

    def GetMeasures(
        self, request: measures_pb2.GetMeasuresRequest, context: grpc.ServicerContext
    ) -> measures_pb2.GetMeasuresResponse:
        return measures_pb2.GetMeasuresResponse(measures=self.measures.get(identity(), request.name))

    def ListMeasures(
        self, request: measures_pb2.ListMeasuresRequest, context: grpc.ServicerContext
    ) -> measures_pb2.ListMeasuresResponse:
        return self.measures.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
