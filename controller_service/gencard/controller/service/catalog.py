"""CatalogService: what there is to ask for."""

from dataclasses import dataclass

import grpc

from gencard.controller.boxes.boxes import Boxes
from gencard.controller.policy.policy import Policy
from gencard.controller.records.catalogue import Catalogue, DatasetEntry
from gencard.controller.service.operations import page_size
from gencard.core.card.terms import Tier
from gencard.core.errors import InvalidInputError
from gencard.v1 import catalog_pb2 as pb
from gencard.v1 import catalog_pb2_grpc
from gencard.v1 import common_pb2 as common
from gencard.wire.codecs.card_codec import kind_message
from gencard.wire.codecs.privacy_codec import (
    claim_message,
    mechanism_message,
    price_message,
    privacy_message,
    transform_message,
)
from gencard.wire.codecs.schema_codec import attribute_message, zeros_message

TIER = {
    Tier.BY_CONSTRUCTION: pb.TIER_BY_CONSTRUCTION,
    Tier.PRIVATE: pb.TIER_PRIVATE,
    Tier.AUDITED: pb.TIER_AUDITED,
}
SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Reads what the controller declared; the same for everybody."""

    catalogue: Catalogue
    boxes: Boxes

    def ListDatasets(
        self, request: pb.ListDatasetsRequest, context: grpc.ServicerContext
    ) -> pb.ListDatasetsResponse:
        names = [dataset_entry.name for dataset_entry in self.catalogue]
        start, end, token = window(request.page_token, page_size(request.page_size), names)
        summaries = [_summary(self.catalogue.named(name)) for name in names[start:end]]
        return pb.ListDatasetsResponse(datasets=summaries, next_page_token=token)

    def GetDataset(
        self, request: pb.GetDatasetRequest, context: grpc.ServicerContext
    ) -> pb.GetDatasetResponse:
        return pb.GetDatasetResponse(dataset=_whole(self.catalogue.named(request.name)))

    def ListGenerators(
        self, request: pb.ListGeneratorsRequest, context: grpc.ServicerContext
    ) -> pb.ListGeneratorsResponse:
        entries = self.boxes.catalogue()
        names = [entry.name for entry in entries]
        start, end, token = window(request.page_token, page_size(request.page_size), names)
        generators = [
            pb.Generator(
                name=entry.name,
                tier=TIER[entry.tier],
                description=entry.description,
                digest=entry.digest,
                needs=entry.needs,
                bound=entry.bound,
                most_cells=entry.most_cells,
                cell_bytes=entry.cell_bytes,
                parameters=[
                    pb.Parameter(name=name, value=value) for name, value in entry.parameters.items()
                ],
                claim=None if entry.claim is None else claim_message(entry.claim),
                reviewed_by=entry.reviewed_by,
            )
            for entry in entries[start:end]
        ]
        return pb.ListGeneratorsResponse(generators=generators, next_page_token=token)


def window(token: str, size: int, names: list[str]) -> tuple[int, int, str]:
    """Start, end and next token of a page of a sorted list; the token is the last name seen.

    Raises:
        InvalidInputError: The token is no name of the list.
    """
    if token and token not in names:
        raise InvalidInputError(field="page_token", problem="was not issued by this list")
    start = names.index(token) + 1 if token else 0
    end = start + size
    return start, end, names[end - 1] if end < len(names) else ""


def _summary(dataset_entry: DatasetEntry) -> pb.Dataset:
    return pb.Dataset(
        name=dataset_entry.name,
        title=dataset_entry.schema.title,
        description=dataset_entry.schema.description,
        declared_by=dataset_entry.schema.declared_by,
        version=dataset_entry.version,
    )


def _whole(dataset_entry: DatasetEntry) -> pb.Dataset:
    message = _summary(dataset_entry)
    coding = dataset_entry.schema.coding
    message.attributes.extend(attribute_message(attribute) for attribute in coding.attributes)
    message.structural_zeros.extend(zeros_message(zeros) for zeros in coding.structural_zeros)
    message.policy.CopyFrom(_policy(dataset_entry.policy))
    return message


def _policy(policy: Policy) -> pb.Policy:
    return pb.Policy(
        largest_order=policy.largest_order,
        largest_marginal_cells=policy.largest_marginal_cells,
        most_marginals=policy.most_marginals,
        most_rows=policy.most_rows,
        forbidden=[common.Clique(attributes=clique) for clique in policy.forbidden],
        generators=policy.generators,
        mechanisms=[mechanism_message(mechanism) for mechanism in policy.mechanisms],
        most_per_card=price_message(policy.most_per_card),
        automatic=policy.automatic,
        valid_seconds=policy.valid_days * SECONDS_A_DAY,
        noise=None if policy.noise is None else privacy_message(policy.noise),
        transform=transform_message(policy.transform),
        moments=map(kind_message, policy.moments.kinds),
        highest_moment=policy.moments.highest,
        measures=policy.measures,
        without_uniques=policy.without_uniques,
    )
