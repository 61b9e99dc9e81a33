"""NegotiationService: decode the request, call ``Negotiations``, encode the answer."""

from dataclasses import dataclass
from typing import Any

import grpc

from gencard.controller.cards.negotiations import Negotiations
from gencard.controller.service.guard import identity
from gencard.controller.service.operations import page_size
from gencard.controller.state.idempotency import Request
from gencard.v1 import negotiation_pb2 as pb
from gencard.v1 import negotiation_pb2_grpc
from gencard.wire.codecs.card_codec import card_message, proposal_of

ALL = "datasets/-"


@dataclass(frozen=True, slots=True)
class NegotiationServicer(negotiation_pb2_grpc.NegotiationServiceServicer):
    """The caller is always the certificate's; no request names another."""

    negotiations: Negotiations

    def ProposeCard(
        self, request: pb.ProposeCardRequest, context: grpc.ServicerContext
    ) -> pb.ProposeCardResponse:
        proposal = proposal_of(request.terms)
        if request.validate_only:
            card = self.negotiations.price(identity(), proposal)
        else:
            card = self.negotiations.propose(identity(), proposal, request_of("ProposeCard", request))
        return pb.ProposeCardResponse(card=card_message(card))

    def GetCard(self, request: pb.GetCardRequest, context: grpc.ServicerContext) -> pb.GetCardResponse:
        return pb.GetCardResponse(card=card_message(self.negotiations.get(identity(), request.name)))

    def ListCards(
        self, request: pb.ListCardsRequest, context: grpc.ServicerContext
    ) -> pb.ListCardsResponse:
        dataset = None if request.parent in ("", ALL) else request.parent
        cards, token = self.negotiations.page(
            identity(), dataset, request.page_token, page_size(request.page_size)
        )
        return pb.ListCardsResponse(cards=map(card_message, cards), next_page_token=token)

    def CounterCard(
        self, request: pb.CounterCardRequest, context: grpc.ServicerContext
    ) -> pb.CounterCardResponse:
        card = self.negotiations.counter(
            identity(),
            request.name,
            request.etag,
            proposal_of(request.terms),
            request_of("CounterCard", request),
        )
        return pb.CounterCardResponse(card=card_message(card))

    def AcceptCard(
        self, request: pb.AcceptCardRequest, context: grpc.ServicerContext
    ) -> pb.AcceptCardResponse:
        card = self.negotiations.accept(
            identity(),
            request.name,
            request.etag,
            request.signature,
            request_of("AcceptCard", request),
        )
        return pb.AcceptCardResponse(card=card_message(card))

    def TerminateCard(
        self, request: pb.TerminateCardRequest, context: grpc.ServicerContext
    ) -> pb.TerminateCardResponse:
        card = self.negotiations.terminate(
            identity(), request.name, request.etag, request_of("TerminateCard", request)
        )
        return pb.TerminateCardResponse(card=card_message(card))


def request_of(method: str, message: Any) -> Request:
    """A mutating request as the state remembers it: who asks again gets the same answer."""
    return Request.of(method, message, message.request_id)
