"""CatalogService and NegotiationService: what there is to choose from, and cards."""

from dataclasses import dataclass
from operator import attrgetter

import grpc

from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.negotiations import Negotiations
from gencard.controller.policy.policy import Policy
from gencard.controller.records.catalogue import Catalogue, DatasetEntry
from gencard.controller.records.encoding import PLAIN
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.service.guard import identity
from gencard.controller.service.operations import page_and_token, page_size, request_of
from gencard.core.card.terms import Proposal
from gencard.core.catalogue import DeclaredAttribute
from gencard.core.coding import Attribute
from gencard.v1 import catalog_pb2 as catalog
from gencard.v1 import catalog_pb2_grpc, negotiation_pb2_grpc
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codec import message_of, privacy_message, value_of
from gencard.wire.codecs.card_codec import card_message

SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Reads what the controller declared; the same for everybody."""

    catalogue: Catalogue
    boxes: Boxes

    def register(self, server: grpc.Server) -> None:
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server(self, server)

    def ListDatasets(
        self, request: catalog.ListDatasetsRequest, context: grpc.ServicerContext
    ) -> catalog.ListDatasetsResponse:
        page, token = page_and_token([*self.catalogue], request, attrgetter("name"))
        return catalog.ListDatasetsResponse(datasets=map(_summary, page), next_page_token=token)

    def GetDataset(
        self, request: catalog.GetDatasetRequest, context: grpc.ServicerContext
    ) -> catalog.GetDatasetResponse:
        return catalog.GetDatasetResponse(dataset=_whole(self.catalogue.named(request.name)))

    def ListGenerators(
        self, request: catalog.ListGeneratorsRequest, context: grpc.ServicerContext
    ) -> catalog.ListGeneratorsResponse:
        entries, token = page_and_token(self.boxes.catalogue(), request, attrgetter("name"))
        generators = [message_of(entry, catalog.Generator) for entry in entries]
        return catalog.ListGeneratorsResponse(generators=generators, next_page_token=token)


def _summary(dataset_entry: DatasetEntry) -> catalog.Dataset:
    return catalog.Dataset(
        name=dataset_entry.name,
        title=dataset_entry.schema.title,
        description=dataset_entry.schema.description,
        declared_by=dataset_entry.schema.declared_by,
        version=dataset_entry.version,
        records=dataset_entry.schema.records,
        most_records=dataset_entry.schema.most_records,
    )


def _whole(dataset_entry: DatasetEntry) -> catalog.Dataset:
    message = _summary(dataset_entry)
    schema = dataset_entry.schema
    message.attributes.extend(
        message_of(_declared(one, schema), catalog.DeclaredAttribute) for one in schema.coding.attributes
    )
    message.structural_zeros.extend(
        message_of(zeros, catalog.StructuralZeros) for zeros in schema.coding.structural_zeros
    )
    message.policy.CopyFrom(_policy(dataset_entry.policy))
    return message


def _declared(attribute: Attribute, schema: PublicSchema) -> DeclaredAttribute:
    reading = schema.readings.get(attribute.name, PLAIN)
    groups = schema.groups.get(attribute.name, {})
    return DeclaredAttribute(attribute, reading.absent, reading.age_at, reading.other, groups)


def _policy(policy: Policy) -> catalog.Policy:
    return catalog.Policy(
        largest_order=policy.largest_order,
        largest_marginal_cells=policy.largest_marginal_cells,
        most_marginals=policy.most_marginals,
        most_rows=policy.most_rows,
        forbidden=[common.Clique(attributes=clique) for clique in policy.forbidden],
        generators=policy.generators,
        mechanisms=[
            common.Privacy.Mechanism.Value(f"MECHANISM_{mechanism.name}")
            for mechanism in policy.mechanisms
        ],
        most_per_card=message_of(policy.most_per_card, common.Price),
        automatic=policy.automatic,
        valid_seconds=policy.valid_days * SECONDS_A_DAY,
        noise=None if policy.noise is None else privacy_message(policy.noise),
        transform=message_of(policy.transform, common.Transform),
        moments=[common.Moment.Kind.Value(f"KIND_{kind.name}") for kind in policy.moments.kinds],
        highest_moment=policy.moments.highest,
        measures=policy.measures,
        without_uniques=policy.without_uniques,
        analyses=message_of(policy.analyses.most, common.Analyses),
        steward_releases=policy.analyses.steward,
        two_stewards=policy.decided_by_two,
    )


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
