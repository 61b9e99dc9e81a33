"""MeasuresService: what cards give away, and what they keep."""

from dataclasses import dataclass

import grpc
from google.longrunning import operations_pb2

from gencard.controller.evaluation.measures import Measures
from gencard.controller.service.guard import identity
from gencard.controller.service.negotiation import request_of
from gencard.controller.service.operations import operation_message
from gencard.controller.service.paging import page_size
from gencard.core.errors import TooLargeError
from gencard.v1 import measures_pb2 as pb
from gencard.v1 import measures_pb2_grpc

MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class MeasuresServicer(measures_pb2_grpc.MeasuresServiceServicer):
    """Each measure once for a card: all to auditors and stewards, to an analyst what the card names."""

    measures: Measures

    def RunMeasures(
        self, request: pb.RunMeasuresRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        if len(request.measures) > MOST_NAMES:
            raise TooLargeError(what="The number of measures", limit=MOST_NAMES)
        row = self.measures.start(
            identity(), request.card, request.measures, request_of("RunMeasures", request)
        )
        return operation_message(row)

    def GetMeasures(
        self, request: pb.GetMeasuresRequest, context: grpc.ServicerContext
    ) -> pb.GetMeasuresResponse:
        return pb.GetMeasuresResponse(measures=self.measures.get(identity(), request.name))

    def ListMeasures(
        self, request: pb.ListMeasuresRequest, context: grpc.ServicerContext
    ) -> pb.ListMeasuresResponse:
        return self.measures.page(
            identity(), request.parent, request.page_token, page_size(request.page_size)
        )
