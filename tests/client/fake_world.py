"""State of the fake controller: a survey, its cards and releases, and planned faults."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from google.longrunning import operations_pb2
from grpc_status import rpc_status

from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord, CardState, Change, Offer, Step, Turn
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError
from gencard.core.generators.contract import synthesise
from gencard.core.generators.registry import generator_digest, generator_named
from gencard.core.statistics.marginals import dimension
from gencard.core.statistics.measure import measure_dataset
from gencard.v1 import negotiation_pb2 as negotiation
from gencard.v1 import synthesis_pb2 as synthesis
from gencard.wire import dsse
from gencard.wire import log as merkle
from gencard.wire.canonical import json_bytes, sha256, time_text
from gencard.wire.codec import card_message, timestamp
from gencard.wire.documents import Receipt, card_statement, receipt_statement
from gencard.wire.dsse import subject_digest
from gencard.wire.error_table import status_message
from gencard.wire.psi import coding_digest, psi_document

NOW = datetime(2026, 11, 20, 18, tzinfo=UTC)
ANA = "spiffe://test.local/pilot/analyst/ana"
HOST = "spiffe://test.local/pilot/controller/host"
CODING = Coding(
    (
        Attribute("sex", Labels(("female", "male")), "of the person"),
        Attribute("children", Labels(("0", "1", "2"), integer=True, ordered=True, missing=True)),
        Attribute("age", Edges((0, 18, 65, 100))),
        Attribute("health", Labels(("good", "fair", "bad"), ordered=True)),
    )
)
RECORDS = Dataset(CODING.domain, np.random.default_rng(4).integers(0, CODING.domain.sizes, (2_000, 4)))
DATASET = "datasets/survey"


@dataclass
class Faults:
    """Planned faults, by the name of a method."""

    calls: Counter[str] = field(default_factory=Counter)
    deadlines: dict[str, float | None] = field(default_factory=dict)
    fail: defaultdict[str, list[GencardError | grpc.StatusCode]] = field(
        default_factory=lambda: defaultdict(list)
    )
    change: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Called on an answer (on each answer of a stream) before it leaves."""

    def meet(self, method: str, context: grpc.ServicerContext) -> None:
        self.calls[method] += 1
        self.deadlines[method] = context.time_remaining()
        if self.fail[method]:
            end(context, self.fail[method].pop(0))

    def answer(self, method: str, message: Any) -> Any:
        return self.change.get(method, lambda same: same)(message)


def end(context: grpc.ServicerContext, failure: GencardError | grpc.StatusCode) -> None:
    if isinstance(failure, GencardError):
        context.abort_with_status(rpc_status.to_status(status_message(failure)))
    context.abort(failure, "token-7f3a from the inside")


@dataclass
class World:
    """All that the fake controller knows."""

    folder: Path
    faults: Faults = field(default_factory=Faults)
    cards: dict[str, CardRecord] = field(default_factory=dict)
    releases: dict[str, tuple[synthesis.Release, Dataset]] = field(default_factory=dict)
    operations: dict[str, operations_pb2.Operation] = field(default_factory=dict)
    pending: int = 0
    """Number of times that an operation is still running when a client asks about it."""
    leaves: list[bytes] = field(default_factory=list)
    entries: dict[str, bytes] = field(default_factory=dict)
    key_changes: list[bytes] = field(default_factory=list)
    box: Callable[[Dataset, int, int], Dataset] | None = None
    manual: bool = False
    """Proposals wait for a steward."""
    richest: int = 2
    """Marginals of a higher order are dropped from a proposal."""

    def log(self, resource: str, **details: str) -> int:
        """The index of a new entry, in the form of the controller's own."""
        body = json_bytes(
            {
                "action": "release",
                "actor": HOST,
                "details": details,
                "index": str(len(self.leaves)),
                "previous": "00" * 32,
                "resource": resource,
                "time": time_text(NOW),
            }
        )
        self.leaves.append(merkle.leaf_hash(body))
        self.entries[resource] = body
        return len(self.leaves) - 1

    def node(self, level: int, position: int) -> bytes:
        start = position << level
        return merkle.Peaks(self.leaves[start : start + (1 << level)]).root()

    def key(self, name: str) -> Any:
        return load_pem_private_key((self.folder / "host" / name).read_bytes(), None)

    @property
    def card_key(self) -> Any:
        return self.key("card_key.pem")

    def card(self, name: str) -> CardRecord:
        return self.cards[name]

    def save(self, card: CardRecord) -> negotiation.Card:
        card = replace(card, etag=secrets.token_hex(4))
        if card.name:
            self.cards[card.name] = card
        return card_message(card)

    def offered(self, card: CardRecord) -> CardRecord:
        proposal = card.proposed.in_order_of(CODING.domain)
        kept_cliques = tuple(clique for clique in proposal.marginals if len(clique) <= self.richest)
        changes = tuple(
            Change("marginals", ", ".join(clique), "", "ORDER_TOO_HIGH")
            for clique in proposal.marginals
            if clique not in kept_cliques
        )
        terms = replace(proposal, marginals=kept_cliques)
        expires = NOW + timedelta(days=30)
        document = CardTerms(
            name=card.name,
            controller=HOST,
            analyst=card.analyst,
            dataset_title="A survey",
            version="ab" * 32,
            coding_digest=coding_digest(CODING),
            declared_by="sam",
            terms=terms,
            price=Price(dimension(CODING.domain, kept_cliques)),
            tier=Tier.BY_CONSTRUCTION,
            generator_digest=generator_digest("ipf"),
            agreed_by_policy="orders up to 2",
            offer_time=time_text(NOW),
            expire_time=time_text(expires),
            nonce="00" * 16,
        )
        payload = card_statement(document)
        offer = Offer(terms, changes, document.price, payload, subject_digest(payload), expires)
        step = Step(HOST, "offer", "", NOW)
        return replace(card, state=CardState.OFFERED, turn=Turn.ANALYST, offer=offer, history=(step,))

    def psi(self, card: CardRecord) -> Any:
        return measure_dataset(RECORDS, card.offer.terms.marginals)

    def made(self, request: synthesis.GenerateReleaseRequest) -> synthesis.Release:
        card = self.card(request.card)
        psi = self.psi(card)
        generator = generator_named("ipf", structural_zeros=(), max_cells=10**6)
        dataset = synthesise(generator, psi, psi.domain, request.rows, request.seed)
        name = f"{card.name}/releases/{secrets.token_hex(4)}"
        digests = {"psi_digest": sha256(psi_document(psi)), "data_digest": dataset.digest()}
        receipt = Receipt(
            name=name,
            card_digest=card.offer.digest,
            psi_digest=digests["psi_digest"],
            rows_digest=digests["data_digest"],
            rows=request.rows,
            seed=request.seed,
            versions=(("gencard", "0.1.0"),),
            log_index=self.log(name, **digests),
            time=time_text(NOW),
        )
        signed = dsse.sign(receipt_statement(receipt), [self.card_key])
        release = synthesis.Release(
            name=name, rows=request.rows, seed=request.seed, digest=receipt.rows_digest,
            psi_digest=receipt.psi_digest, receipt=signed, created=timestamp(NOW),
        )  # fmt: skip
        self.releases[name] = (release, dataset)
        return release

    def started(self, response: Any) -> operations_pb2.Operation:
        operation = operations_pb2.Operation(name=f"operations/{len(self.operations)}", done=True)
        operation.response.Pack(response)
        self.operations[operation.name] = operation
        return self.look(operation.name)

    def look(self, name: str) -> operations_pb2.Operation:
        if self.pending == 0:
            return self.operations[name]
        self.pending -= 1
        running = operations_pb2.Operation(name=name)
        state = synthesis.OperationProgress.STATE_RUNNING
        running.metadata.Pack(synthesis.OperationProgress(state=state, stage="fit", permille=500))
        return running
