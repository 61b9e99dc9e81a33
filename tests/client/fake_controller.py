"""A small controller in this process, over real TLS: honest by default, and bad where a test says so."""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from google.longrunning import operations_pb2, operations_pb2_grpc
from google.protobuf import empty_pb2

from gencard.controller.people.keys import issue, new_authority, new_signing_key, public_pem, write_new
from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord, CardState, Turn
from gencard.core.card.terms import Proposal
from gencard.core.catalogue import DeclaredAttribute
from gencard.core.errors import GencardError
from gencard.v1 import audit_pb2 as audit
from gencard.v1 import (
    audit_pb2_grpc,
    catalog_pb2_grpc,
    common_pb2,
    ledger_pb2_grpc,
    negotiation_pb2_grpc,
    synthesis_pb2_grpc,
)
from gencard.v1 import catalog_pb2 as catalog
from gencard.v1 import ledger_pb2 as ledger
from gencard.v1 import negotiation_pb2 as negotiation
from gencard.v1 import synthesis_pb2 as synthesis
from gencard.wire import dsse
from gencard.wire import log as merkle
from gencard.wire.canonical import time_text
from gencard.wire.codec import card_message, message_of, timestamp, value_of
from gencard.wire.dsse import CHECKPOINT, VERDICT, statement
from gencard.wire.tables import dataset_of_chunks, psi_chunks, table_chunks
from tests.client.fake_world import ANA, CODING, DATASET, HOST, NOW, World, end


def unary(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        self.world.faults.meet(method.__name__, context)
        try:
            return self.world.faults.answer(method.__name__, method(self, request))
        except GencardError as error:
            failure = error
        return end(context, failure)

    return call


def streaming(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        faults = self.world.faults
        faults.calls[method.__name__] += 1
        faults.deadlines[method.__name__] = context.time_remaining()
        for part in method(self, request):
            yield faults.answer(method.__name__, part)
            if faults.fail[method.__name__]:
                end(context, faults.fail[method.__name__].pop(0))

    return call


def declared(attribute):
    """An attribute of the catalogue, with nothing declared besides its levels."""
    return message_of(DeclaredAttribute(attribute), catalog.DeclaredAttribute)


@dataclass
class Catalog(catalog_pb2_grpc.CatalogServiceServicer):
    world: World

    @unary
    def ListDatasets(self, request):
        number = int(request.page_token or 0)
        entry = catalog.Dataset(name=f"datasets/d{number}", title="<b>A survey</b>")
        token = "" if number == 2 else str(number + 1)
        return catalog.ListDatasetsResponse(datasets=[entry], next_page_token=token)

    @unary
    def GetDataset(self, request):
        policy = catalog.Policy(
            largest_order=2, largest_marginal_cells=100, most_marginals=50, most_rows=10**6,
            generators=["ipf"], mechanisms=[1], most_per_card=message_of(Price(1000), common_pb2.Price),
            automatic=True, valid_days=30, analyses=catalog.AnalysesPolicy(
                numbers=100, program_numbers=500, release=catalog.ANSWER_RELEASE_POLICY
            ),
        )  # fmt: skip
        entry = catalog.Dataset(
            name=DATASET, title="<b>A survey</b>", description="Of <i>people</i>.", declared_by="sam",
            version="ab" * 32, attributes=map(declared, CODING.attributes), policy=policy,
            records=2_000,
        )  # fmt: skip
        entry.attributes[1].reading.absent.append("-9")
        entry.attributes[3].groups.add(name="well", labels=["good", "fair"])
        return catalog.GetDatasetResponse(dataset=entry)

    @unary
    def ListGenerators(self, request):
        entry = catalog.Generator(
            name="ipf", tier=1, description="fits", digest="00" * 32, needs="any marginals",
            bound="all cells", most_cells=2**20, cell_bytes=64,
            parameters=[catalog.Parameter(name="tolerance", value="0.1")],
        )  # fmt: skip
        box = catalog.Generator(name="leaky", tier=2, description="leaks", digest="11" * 32)
        return catalog.ListGeneratorsResponse(generators=[entry, box])


@dataclass
class ControllerState(negotiation_pb2_grpc.NegotiationServiceServicer):
    world: World

    @unary
    def ProposeCard(self, request):
        name = "" if request.validate_only else f"{DATASET}/cards/{secrets.token_hex(4)}"
        proposal = value_of(Proposal, request.terms)
        card = CardRecord(name, CardState.REQUESTED, Turn.CONTROLLER, "", ANA, proposal)
        waits = self.world.manual and not request.validate_only
        return negotiation.ProposeCardResponse(
            card=self.world.save(card if waits else self.world.offered(card))
        )

    @unary
    def GetCard(self, request):
        return negotiation.GetCardResponse(card=card_message(self.world.card(request.name)))

    @unary
    def ListCards(self, request):
        return negotiation.ListCardsResponse(cards=map(card_message, self.world.cards.values()))

    @unary
    def CounterCard(self, request):
        card = replace(self.world.card(request.name), proposed=value_of(Proposal, request.terms))
        return negotiation.CounterCardResponse(card=self.world.save(self.world.offered(card)))

    @unary
    def AcceptCard(self, request):
        card = self.world.card(request.name)
        payload = card.offer.statement
        ana = load_pem_private_key((self.world.folder / "ana/signing_key.pem").read_bytes(), None)
        assert dsse.is_signed_by(payload, request.signature, ana.public_key())
        signatures = {
            dsse.key_id(ana.public_key()): request.signature,
            dsse.key_id(self.world.card_key.public_key()): dsse.signature_of(
                payload, self.world.card_key
            ),
        }
        agreed = replace(
            card,
            state=CardState.AGREED,
            turn=Turn.NOBODY,
            envelope=dsse.envelope_of(payload, signatures),
        )
        return negotiation.AcceptCardResponse(card=self.world.save(agreed))

    @unary
    def TerminateCard(self, request):
        card = replace(self.world.card(request.name), state=CardState.TERMINATED, turn=Turn.NOBODY)
        return negotiation.TerminateCardResponse(card=self.world.save(card))


@dataclass
class Synthesis(synthesis_pb2_grpc.SynthesisServiceServicer):
    world: World

    @unary
    def GenerateRelease(self, request):
        return self.world.started(self.world.made(request))

    @unary
    def GetRelease(self, request):
        release, _ = self.world.releases[request.name]
        return synthesis.GetReleaseResponse(release=release, log_entry=self.world.entries[request.name])

    @unary
    def ListReleases(self, request):
        releases = [release for release, _ in self.world.releases.values()]
        return synthesis.ListReleasesResponse(releases=releases[::-1])

    @streaming
    def StreamRows(self, request):
        for chunk in table_chunks(self.world.releases[request.name][1]):
            yield synthesis.StreamRowsResponse(chunk=chunk)

    @streaming
    def StreamPsi(self, request):
        yield from psi_chunks(self.world.psi(self.world.card(request.card)))


@dataclass
class Audits(audit_pb2_grpc.AuditServiceServicer):
    world: World

    def verdict(self, card: str) -> audit.Audit:
        words = "No evidence of leakage."
        facts = {"attempt": "1", "blackBox": "ipf", "level": "0.025", "verdict": "no-evidence"}
        facts["wording"] = words
        signed = dsse.sign(
            statement(VERDICT, f"{card}/audits/1", facts, self.world.card(card).offer.digest),
            [self.world.card_key],
        )
        return audit.Audit(
            name=f"{card}/audits/1", black_box="ipf", verdict=1, wording=words,
            attempt=1, level="0.025", attestation=signed, create_time=timestamp(NOW),
        )  # fmt: skip

    @unary
    def RunAudit(self, request):
        return self.world.started(self.verdict(request.card))

    @unary
    def GetAudit(self, request):
        return audit.GetAuditResponse(audit=self.verdict(request.name.rpartition("/audits/")[0]))

    def RunBlackBox(self, requests, context):
        self.world.faults.meet("RunBlackBox", context)
        start = next(requests).start
        domain = CODING.domain.covered_by(self.world.card(start.card).offer.terms.marginals)
        chunks = (part.chunk for part in requests)
        made_up = dataset_of_chunks(chunks, domain=domain, most_rows=100_000)
        for chunk in table_chunks(self.world.box(made_up, start.rows, start.seed)):
            yield audit.RunBlackBoxResponse(chunk=chunk)


@dataclass
class Accounts(ledger_pb2_grpc.LedgerServiceServicer, ledger_pb2_grpc.LogServiceServicer):
    world: World

    @unary
    def ListSpends(self, request):
        line = ledger.Spend(
            line=1, project="pilot", dataset=DATASET, analyst=ANA, resource="a card", kind="psi",
            price=message_of(Price(12), common_pb2.Price), state=2, created=timestamp(NOW),
        )  # fmt: skip
        return ledger.ListSpendsResponse(spends=[line])

    @unary
    def GetBudget(self, request):
        prices = {
            "cap": message_of(Price(100), common_pb2.Price),
            "spent": message_of(Price(12), common_pb2.Price),
        }
        return ledger.GetBudgetResponse(**prices)

    @unary
    def GetCheckpoint(self, request):
        size = len(self.world.leaves)
        root = merkle.root(self.world.node, size).hex()
        facts = {"root": root, "size": str(size), "time": time_text(NOW)}
        signed = dsse.sign(statement(CHECKPOINT, "log", facts, root), [self.world.key("log_key.pem")])
        return ledger.GetCheckpointResponse(checkpoint=signed)

    @unary
    def GetInclusionProof(self, request):
        path = merkle.inclusion_path(self.world.node, request.index, request.size)
        return ledger.GetInclusionProofResponse(leaf=self.world.leaves[request.index], path=path)

    @unary
    def GetKeyHistory(self, request):
        return ledger.GetKeyHistoryResponse(changes=self.world.key_changes)

    @unary
    def GetConsistencyProof(self, request):
        path = merkle.consistency_path(self.world.node, request.old_size, request.new_size)
        return ledger.GetConsistencyProofResponse(path=path)


@dataclass
class Operations(operations_pb2_grpc.OperationsServicer):
    world: World

    @unary
    def WaitOperation(self, request):
        return self.world.look(request.name)

    @unary
    def CancelOperation(self, request):
        self.world.operations[request.name] = operations_pb2.Operation(name=request.name)
        return empty_pb2.Empty()


def make_people(folder: Path) -> None:
    """An authority, the host's certificate and keys, and ana's folder as a steward hands it over."""
    now = datetime.now(UTC)
    authority = new_authority("test.local", now)
    issue(authority, HOST, now, hosts=("localhost", "127.0.0.1")).write(folder / "host")
    card_key = new_signing_key(folder / "host/card_key.pem")
    log_key = new_signing_key(folder / "host/log_key.pem")
    issue(authority, ANA, now).write(folder / "ana")
    new_signing_key(folder / "ana/signing_key.pem")
    write_new(folder / "ana/authority.pem", authority.certificate_pem, private=False)
    write_new(folder / "ana/controller_card_key.pub", public_pem(card_key), private=False)
    write_new(folder / "ana/log_key.pub", public_pem(log_key), private=False)
    issue(authority, ANA.replace("analyst/ana", "auditor/aud"), now).write(folder / "aud")
    aud_key = new_signing_key(folder / "aud/signing_key.pem")
    write_new(folder / "aud/signing_key.pub", public_pem(aud_key), private=False)
    for name in ("authority.pem", "controller_card_key.pub", "log_key.pub"):
        write_new(folder / "aud" / name, (folder / "ana" / name).read_bytes(), private=False)


@contextmanager
def served(folder: Path, port: int = 0) -> Iterator[tuple[World, int]]:
    """The world and the port it is served on."""
    world = World(folder)
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    catalog_pb2_grpc.add_CatalogServiceServicer_to_server(Catalog(world), server)
    negotiation_pb2_grpc.add_NegotiationServiceServicer_to_server(ControllerState(world), server)
    synthesis_pb2_grpc.add_SynthesisServiceServicer_to_server(Synthesis(world), server)
    audit_pb2_grpc.add_AuditServiceServicer_to_server(Audits(world), server)
    accounts = Accounts(world)
    ledger_pb2_grpc.add_LedgerServiceServicer_to_server(accounts, server)
    ledger_pb2_grpc.add_LogServiceServicer_to_server(accounts, server)
    operations_pb2_grpc.add_OperationsServicer_to_server(Operations(world), server)
    host = folder / "host"
    pair = ((host / "key.pem").read_bytes(), (host / "certificate.pem").read_bytes())
    authority = (folder / "ana/authority.pem").read_bytes()
    tls = grpc.ssl_server_credentials([pair], authority, require_client_auth=True)
    bound = server.add_secure_port(f"localhost:{port}", tls)
    server.start()
    try:
        yield world, bound
    finally:
        server.stop(0).wait()
