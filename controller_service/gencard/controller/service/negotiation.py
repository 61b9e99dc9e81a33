"""CatalogService and NegotiationService: what there is to choose from, and cards."""

from dataclasses import dataclass
from operator import attrgetter

import grpc

from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.negotiations import Negotiations
from gencard.controller.records.catalogue import Catalogue, DatasetEntry
from gencard.controller.records.encoding import PLAIN
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.service.guard import identity
from gencard.controller.service.operations import page_and_token, page_size, request_of
from gencard.core.card.terms import Tier
from gencard.core.coding import Attribute
from gencard.core.policy import AnalysesPolicy, Policy, TwoStewards
from gencard.v1 import catalog_pb2 as catalog
from gencard.v1 import catalog_pb2_grpc, negotiation_pb2_grpc
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codecs.card_codec import (
    card_message,
    kind_message,
    proposal_of,
)
from gencard.wire.codecs.privacy_codec import (
    claim_message,
    mechanism_message,
    price_message,
    privacy_message,
    transform_message,
)
from gencard.wire.codecs.schema_codec import DeclaredAttribute, declared_message, zeros_message

TIER = {
    Tier.BY_CONSTRUCTION: catalog.TIER_BY_CONSTRUCTION,
    Tier.PRIVATE: catalog.TIER_PRIVATE,
    Tier.AUDITED: catalog.TIER_AUDITED,
}


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
        generators = [
            catalog.Generator(
                name=entry.name,
                tier=TIER[entry.tier],
                description=entry.description,
                digest=entry.digest,
                needs=entry.needs,
                bound=entry.bound,
                most_cells=entry.most_cells,
                cell_bytes=entry.cell_bytes,
                parameters=[
                    catalog.Parameter(name=name, value=value) for name, value in entry.parameters.items()
                ],
                claim=None if entry.claim is None else claim_message(entry.claim),
                reviewed_by=entry.reviewed_by,
            )
            for entry in entries
        ]
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
        declared_message(_declared(one, schema)) for one in schema.coding.attributes
    )
    message.structural_zeros.extend(zeros_message(zeros) for zeros in schema.coding.structural_zeros)
    message.policy.CopyFrom(_policy(dataset_entry.policy))
    return message


def _declared(attribute: Attribute, schema: PublicSchema) -> DeclaredAttribute:
    reading = schema.readings.get(attribute.name, PLAIN)
    groups = schema.groups.get(attribute.name, {})
    return DeclaredAttribute(attribute, reading.absent, reading.age_at, reading.other, groups)


_TWO = {one: catalog.TwoStewards.Value(f"TWO_STEWARDS_{one.name}") for one in TwoStewards}


def _policy(policy: Policy) -> catalog.Policy:
    policy = policy.public
    return catalog.Policy(
        largest_order=policy.largest_order,
        largest_marginal_cells=policy.largest_marginal_cells,
        most_marginals=policy.most_marginals,
        most_rows=policy.most_rows,
        forbidden=[common.Clique(attributes=clique) for clique in policy.forbidden],
        generators=policy.generators,
        mechanisms=[mechanism_message(mechanism) for mechanism in policy.mechanisms],
        most_per_card=price_message(policy.most_per_card),
        automatic=policy.automatic,
        valid_days=policy.valid_days,
        noise=None if policy.noise is None else privacy_message(policy.noise),
        transform=transform_message(policy.transform),
        moments=catalog.MomentPolicy(
            kinds=map(kind_message, policy.moments.kinds), highest=policy.moments.highest
        ),
        measures=policy.measures,
        without_uniques=policy.without_uniques,
        analyses=_analyses(policy.analyses),
        two_stewards=[
            catalog.TwoStewards.Value(f"TWO_STEWARDS_{one.name}") for one in policy.two_stewards
        ],
    )


def _analyses(policy: AnalysesPolicy) -> catalog.AnalysesPolicy:
    return catalog.AnalysesPolicy(
        kinds=policy.kinds,
        checked_runs=policy.checked_runs,
        numbers=policy.numbers,
        reviewed_runs=policy.reviewed_runs,
        libraries=policy.libraries,
        columns=policy.columns,
        program_numbers=policy.program_numbers,
        release=catalog.AnswerRelease.Value(f"ANSWER_RELEASE_{policy.release.name}"),
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
