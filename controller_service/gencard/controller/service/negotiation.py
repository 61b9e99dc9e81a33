"""CatalogService and NegotiationService: what there is to choose from, and cards."""

from dataclasses import dataclass, field, replace
from operator import attrgetter

import grpc

from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.negotiations import Negotiations
from gencard.controller.records.catalogue import Catalogue, DatasetEntry
from gencard.controller.service.guard import identity
from gencard.controller.service.operations import page_and_token, page_size, request_of
from gencard.core.card.terms import Proposal
from gencard.core.catalogue import CatalogueEntry, DeclaredAttribute, GeneratorEntry
from gencard.core.coding import PLAIN
from gencard.v1 import catalog_pb2 as catalog
from gencard.v1 import catalog_pb2_grpc, negotiation_pb2_grpc
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codec import card_message, message_of, messages_of, prepare, value_of

prepare((CatalogueEntry, catalog.Dataset), (GeneratorEntry, catalog.Generator))


@dataclass(frozen=True, slots=True)
class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Reads the controller's declarations, which are the same for all callers."""

    catalogue: Catalogue
    boxes: Boxes
    _described: dict[str, tuple[DatasetEntry, catalog.Dataset]] = field(default_factory=dict, init=False)
    """The message of each dataset, beside the entry that it describes: a reload makes new entries."""

    def register(self, server: grpc.Server) -> None:
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server(self, server)

    def ListDatasets(
        self, request: catalog.ListDatasetsRequest, context: grpc.ServicerContext
    ) -> catalog.ListDatasetsResponse:
        page, token = page_and_token([*self.catalogue], request, attrgetter("name"))
        return catalog.ListDatasetsResponse(
            datasets=[_entry(one, whole=False) for one in page], next_page_token=token
        )

    def GetDataset(
        self, request: catalog.GetDatasetRequest, context: grpc.ServicerContext
    ) -> catalog.GetDatasetResponse:
        entry = self.catalogue.named(request.name)
        described, message = self._described.get(entry.name, (None, None))
        if described is not entry:
            message = _entry(entry, whole=True)
            self._described[entry.name] = entry, message
        return catalog.GetDatasetResponse(dataset=message)

    def ListGenerators(
        self, request: catalog.ListGeneratorsRequest, context: grpc.ServicerContext
    ) -> catalog.ListGeneratorsResponse:
        entries, token = page_and_token(self.boxes.catalogue(), request, attrgetter("name"))
        generators = messages_of(entries, catalog.Generator)
        return catalog.ListGeneratorsResponse(generators=generators, next_page_token=token)


def _entry(dataset_entry: DatasetEntry, *, whole: bool) -> catalog.Dataset:
    """Return the public description of a dataset; attributes, zeros and policy only if ``whole``."""
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


ALL = "datasets/-"


@dataclass(frozen=True, slots=True)
class NegotiationServicer(negotiation_pb2_grpc.NegotiationServiceServicer):
    """The caller is always the certificate's; no request names another."""

    negotiations: Negotiations

    def register(self, server: grpc.Server) -> None:
        negotiation_pb2_grpc.add_NegotiationServiceServicer_to_server(self, server)

    def ProposeCard(
        self, request: pb.ProposeCardRequest, context: grpc.ServicerContext
    ) -> pb.ProposeCardResponse:
        proposal = value_of(Proposal, request.terms)
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
            value_of(Proposal, request.terms),
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
