"""Every method of the service, called well and badly, by everybody."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import grpc
import numpy as np
from google.longrunning import operations_pb2
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import Default
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gencard.client.connection.connection import Connection
from gencard.client.connection.credentials import Credentials
from gencard.controller.service.access import MAY_CALL
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.v1 import (
    answers_pb2,
    audit_pb2,
    catalog_pb2,
    ledger_pb2,
    measures_pb2,
    negotiation_pb2,
    steward_pb2,
    synthesis_pb2,
)
from gencard.v1 import common_pb2 as common
from gencard.wire.dsse import signature_of
from gencard.wire.tables import table_chunks
from tests.system.house import House, request_id
from tests.system.recorder import Recorder

CLIQUES = (("sex", "health"), ("health", "work"), ("sex", "work"), ("work", "age"))
DOMAIN = Domain(("sex", "health", "work", "age"), (2, 4, 3, 4))
NOBODYS = "datasets/survey/cards/0123456789abcdef"
GARBAGE = b"\xff\x00\x9f\x01garbage"
ENDED = (
    synthesis_pb2.OperationProgress.STATE_SUCCEEDED,
    synthesis_pb2.OperationProgress.STATE_FAILED,
    synthesis_pb2.OperationProgress.STATE_CANCELLED,
)


def terms(
    dataset: str = "survey", cliques: Iterable[tuple[str, ...]] = CLIQUES, **kwargs: Any
) -> common.Terms:
    """Terms that every policy here allows, unless told otherwise."""
    settings = {"generator": "ipf", "rows": 2_000, "purpose": "every method"} | kwargs
    return common.Terms(
        dataset=f"datasets/{dataset}",
        marginals=[common.Clique(attributes=clique) for clique in cliques],
        privacy=common.Privacy(mechanism=common.Privacy.MECHANISM_EXACT),
        audit=common.AuditTerms(runs=6, order=3, alpha="0.05"),
        **settings,
    )


@dataclass
class Visitor:
    """One person's way through the service, by stubs that send what the client library never would."""

    house: House
    name: str
    address: str
    recorder: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        credentials = Credentials.beside(self.house.person(self.name) / "certificate.pem")
        self.connection = Connection(self.address, credentials)
        self.channel = grpc.intercept_channel(self.connection.channel, self.recorder)
        for kind in (type(stub) for stub in vars(self.connection).values()):
            if kind.__name__.endswith("Stub"):
                name = kind.__name__.removesuffix("Stub").removesuffix("Service").lower()
                setattr(self, name, kind(self.channel))
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def close(self) -> None:
        self.connection.close()

    def call(self, method: Any, request: Any = None, **fields: Any) -> Any:
        """The answer, or the error as it came."""
        try:
            return method(request, timeout=120, **fields)
        except grpc.RpcError as error:
            return error

    def read(self, method: Any, request: Any) -> list[Any]:
        """All answers of a stream, up to its error."""
        answers: list[Any] = []
        with contextlib.suppress(grpc.RpcError):
            answers.extend(method(request, timeout=120))
        return answers

    # The way of a card -------------------------------------------------------------------------

    def proposed(self, dataset: str = "survey", **kwargs: Any) -> negotiation_pb2.Card:
        request = negotiation_pb2.ProposeCardRequest(
            terms=terms(dataset, **kwargs), request_id=request_id()
        )
        return self.negotiation.ProposeCard(request, timeout=120).card

    def agreed(self, dataset: str = "survey", **kwargs: Any) -> negotiation_pb2.Card:
        return self.accepted(self.proposed(dataset, **kwargs))

    def accepted(self, card: negotiation_pb2.Card) -> negotiation_pb2.Card:
        key = self.connection.credentials.private_signing_key()
        request = negotiation_pb2.AcceptCardRequest(
            name=card.name,
            etag=card.etag,
            signature=signature_of(card.offer.statement, key),
            request_id=request_id(),
        )
        return self.negotiation.AcceptCard(request, timeout=120).card

    def begun(self, card: str, rows: int = 500, request: str | None = None, seed: int = 3) -> Any:
        """The operation of a new release, or the error."""
        asked = synthesis_pb2.GenerateReleaseRequest(
            card=card, rows=rows, seed=seed, request_id=request or request_id()
        )
        return self.call(self.synthesis.GenerateRelease, asked)

    def ended(self, operation: operations_pb2.Operation) -> operations_pb2.Operation:
        """The operation once it has ended."""
        while not operation.done:
            request = operations_pb2.WaitOperationRequest(name=operation.name)
            request.timeout.FromMilliseconds(500)
            operation = self.operations.WaitOperation(request, timeout=120)
        return operation

    def released(self, card: str) -> synthesis_pb2.Release:
        release = synthesis_pb2.Release()
        assert self.ended(self.begun(card)).response.Unpack(release)
        return release

    def audited(self, card: str, black_box: str) -> operations_pb2.Operation:
        request = audit_pb2.RunAuditRequest(
            card=card, black_box=black_box, seed=5, request_id=request_id()
        )
        return self.ended(self.call(self.audit.RunAudit, request))

    def visited(self, card: str, black_box: str, dataset: Dataset) -> list[Any]:
        """Run a black box on a made-up dataset, and return its messages up to its error."""
        with contextlib.suppress(grpc.RpcError):
            return self.lent(card, black_box, dataset)
        return []

    def lent(self, card: str, black_box: str, dataset: Dataset) -> list[Any]:
        """Run a black box on a made-up dataset; raise if the box fails."""
        start = audit_pb2.RunBlackBoxStart(
            card=card, black_box=black_box, rows=100, seed=1, request_id=request_id()
        )
        parts = [audit_pb2.RunBlackBoxRequest(start=start)]
        parts += [audit_pb2.RunBlackBoxRequest(chunk=chunk) for chunk in table_chunks(dataset)]
        return list(self.audit.RunBlackBox(iter(parts), timeout=120))


def made_up(rows: int = 200) -> Dataset:
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, size, rows) for size in DOMAIN.sizes]
    return Dataset.of_columns(DOMAIN, columns)


# Every call, once, as it should be -----------------------------------------------------------------

Prepared = Callable[[], Any]
Prepare = Callable[[Visitor, str, str], Prepared]


def _reads(stub: str, method: str, request: Callable[[str, str], Any]) -> tuple[str, Prepare]:
    """A call that changes nothing: ``request`` gets the names of a card and of its release."""

    def prepare(ana: Visitor, card: str, release: str) -> Prepared:
        call = getattr(getattr(ana, stub), method)
        asked = request(card, release)
        streams = method.startswith("Stream")
        return lambda: list(call(asked, timeout=120)) if streams else call(asked, timeout=120)

    return method, prepare


def _counters(ana: Visitor, _card: str, _release: str) -> Prepared:
    card = ana.proposed()
    request = negotiation_pb2.CounterCardRequest(
        name=card.name, etag=card.etag, terms=terms(), request_id=request_id()
    )
    return lambda: ana.negotiation.CounterCard(request, timeout=120)


def _accepts(ana: Visitor, _card: str, _release: str) -> Prepared:
    card = ana.proposed()
    return lambda: ana.accepted(card)


def _terminates(ana: Visitor, _card: str, _release: str) -> Prepared:
    card = ana.proposed()
    request = negotiation_pb2.TerminateCardRequest(
        name=card.name, etag=card.etag, request_id=request_id()
    )
    return lambda: ana.negotiation.TerminateCard(request, timeout=120)


def _cancels(ana: Visitor, card: str, _release: str) -> Prepared:
    name = ana.ended(ana.begun(card)).name
    request = operations_pb2.CancelOperationRequest(name=name)
    return lambda: ana.operations.CancelOperation(request, timeout=120)


WELL: list[tuple[str, Prepare]] = [
    _reads("catalog", "ListDatasets", lambda *_: catalog_pb2.ListDatasetsRequest()),
    _reads("catalog", "GetDataset", lambda *_: catalog_pb2.GetDatasetRequest(name="datasets/survey")),
    _reads("catalog", "ListGenerators", lambda *_: catalog_pb2.ListGeneratorsRequest()),
    ("ProposeCard", lambda ana, *_: ana.proposed),
    ("CounterCard", _counters),
    ("AcceptCard", _accepts),
    ("TerminateCard", _terminates),
    _reads("negotiation", "GetCard", lambda card, _: negotiation_pb2.GetCardRequest(name=card)),
    _reads("negotiation", "ListCards", lambda *_: negotiation_pb2.ListCardsRequest(page_size=3)),
    ("GenerateRelease", lambda ana, card, _: lambda: ana.begun(card, rows=9)),
    _reads("synthesis", "GetRelease", lambda _, name: synthesis_pb2.GetReleaseRequest(name=name)),
    _reads("synthesis", "ListReleases", lambda card, _: synthesis_pb2.ListReleasesRequest(parent=card)),
    _reads("synthesis", "StreamRows", lambda _, name: synthesis_pb2.StreamRowsRequest(name=name)),
    _reads("synthesis", "StreamPsi", lambda card, _: synthesis_pb2.StreamPsiRequest(card=card)),
    _reads("audit", "ListAudits", lambda card, _: audit_pb2.ListAuditsRequest(parent=card)),
    ("RunBlackBox", lambda ana, card, _: lambda: ana.lent(card, "honest", made_up())),
    _reads("measures", "ListMeasures", lambda card, _: measures_pb2.ListMeasuresRequest(parent=card)),
    _reads("answers", "ListAnswers", lambda card, _: answers_pb2.ListAnswersRequest(parent=card)),
    _reads("ledger", "ListSpends", lambda *_: ledger_pb2.ListSpendsRequest(page_size=3)),
    _reads("ledger", "GetBudget", lambda *_: ledger_pb2.GetBudgetRequest(dataset="datasets/survey")),
    _reads("log", "GetCheckpoint", lambda *_: ledger_pb2.GetCheckpointRequest()),
    _reads("log", "GetInclusionProof", lambda *_: ledger_pb2.GetInclusionProofRequest(index=1, size=4)),
    _reads(
        "log",
        "GetConsistencyProof",
        lambda *_: ledger_pb2.GetConsistencyProofRequest(old_size=2, new_size=5),
    ),
    _reads("log", "GetKeyHistory", lambda *_: ledger_pb2.GetKeyHistoryRequest()),
    _reads("operations", "ListOperations", lambda *_: operations_pb2.ListOperationsRequest(page_size=3)),
    ("CancelOperation", _cancels),
]
"""Method -> what prepares one good call of it. RunAudit is called only there: it takes too long."""


# All calls --------------------------------------------------------------------------------------


def main_job(ana: Visitor, dataset: str) -> tuple[str, synthesis_pb2.Release]:
    """One card and one release, and everything that can be read of them."""
    ana.call(ana.catalog.GetDataset, catalog_pb2.GetDatasetRequest(name=f"datasets/{dataset}"))
    granted = common.Analyses(kinds=["linear"], checked_runs=5)
    rich = ana.proposed(dataset, cliques=combinations(DOMAIN.attributes, 3), analyses=granted)
    counter = negotiation_pb2.CounterCardRequest(
        name=rich.name, etag=rich.etag, terms=terms(dataset, analyses=granted), request_id=request_id()
    )
    card = ana.accepted(ana.negotiation.CounterCard(counter, timeout=120).card).name
    release = ana.released(card)
    ana.call(ana.synthesis.GetRelease, synthesis_pb2.GetReleaseRequest(name=release.name))
    ana.call(ana.synthesis.ListReleases, synthesis_pb2.ListReleasesRequest(parent=card))
    ana.read(ana.synthesis.StreamRows, synthesis_pb2.StreamRowsRequest(name=release.name))
    ana.read(ana.synthesis.StreamPsi, synthesis_pb2.StreamPsiRequest(card=card))
    return card, release


def audits(who: Visitor, card: str) -> None:
    """An honest, a leaky and a copying box at the records, and the same lent to who asks."""
    for box in ("honest", "leaky", "copier"):
        ended = who.audited(card, box)
        audit = audit_pb2.Audit()
        ended.response.Unpack(audit)
        who.call(who.audit.GetAudit, audit_pb2.GetAuditRequest(name=audit.name))
        who.call(who.audit.GetAuditReport, audit_pb2.GetAuditReportRequest(name=audit.name))
        who.visited(card, box, made_up())
    who.call(who.audit.ListAudits, audit_pb2.ListAuditsRequest(parent=card))


def measures(who: Visitor, card: str) -> None:
    """Every measure of a card, and one alone; whoever may not is told so."""
    for names in ([], ["dcr"]):
        request = measures_pb2.RunMeasuresRequest(card=card, measures=names, request_id=request_id())
        begun = who.call(who.measures.RunMeasures, request)
        taken = measures_pb2.RunMeasuresResponse()
        if isinstance(begun, operations_pb2.Operation):
            assert who.ended(begun).response.Unpack(taken)
        for name in taken.measures or ["dcr"]:
            named = measures_pb2.GetMeasuresRequest(name=f"{card}/measures/{name}")
            who.call(who.measures.GetMeasures, named)
    who.call(who.measures.ListMeasures, measures_pb2.ListMeasuresRequest(parent=card))


def answers(who: Visitor, card: str) -> None:
    """Checked runs of what the card grants and of what it does not, and all that may be read of them."""
    for kind, formula in (("linear", "age ~ sex + work"), ("means", "income")):
        request = answers_pb2.RunAnalysisRequest(
            card=card, kind=kind, formula=formula, where="sex == 'female'", request_id=request_id()
        )
        begun = who.call(who.answers.RunAnalysis, request)
        answer = answers_pb2.Answer(name=f"{card}/answers/0123456789abcdef")
        if isinstance(begun, operations_pb2.Operation):
            who.ended(begun).response.Unpack(answer)
        who.call(who.answers.GetAnswer, answers_pb2.GetAnswerRequest(name=answer.name))
    program = answers_pb2.RunProgramRequest(card=card, program=b"1", request_id=request_id())
    who.call(who.answers.RunProgram, program)
    who.call(who.answers.ListAnswers, answers_pb2.ListAnswersRequest(parent=card))


def desk(who: Visitor, card: str) -> None:
    """All that stewards look at, and a decision that changes nothing; whoever may not is told so."""
    own = f"people/{who.name}"
    seen = who.call(
        who.steward.GetPreview, steward_pb2.GetPreviewRequest(kind="enable", resource="people/ana")
    )
    shown = seen.preview.shown if hasattr(seen, "preview") else ""
    action = steward_pb2.Action(kind="enable", resource="people/ana", reason=own, shown=shown)
    decision = steward_pb2.DecideRequest(action=action, request_id=request_id())
    who.call(who.steward.Decide, decision)
    who.call(who.steward.ListQueue, steward_pb2.ListQueueRequest(page_size=5))
    who.call(who.steward.GetReview, steward_pb2.GetReviewRequest(name=card))
    who.call(who.steward.ListAnswersToReview, steward_pb2.ListAnswersToReviewRequest())
    unknown = steward_pb2.GetAnswerReviewRequest(name=f"{card}/answers/0123456789abcdef")
    who.call(who.steward.GetAnswerReview, unknown)
    who.call(who.steward.ListAccounts, steward_pb2.ListAccountsRequest())
    who.call(who.steward.ListPeople, steward_pb2.ListPeopleRequest())
    who.call(who.steward.SearchLog, steward_pb2.SearchLogRequest(query="ana"))
    who.call(who.steward.GetLogEntry, steward_pb2.GetLogEntryRequest(index=1))
    who.call(who.steward.ListRefusals, steward_pb2.ListRefusalsRequest())
    who.call(who.steward.RunRisk, steward_pb2.RunRiskRequest(name=card, request_id=request_id()))
    who.call(who.steward.GetRisk, steward_pb2.GetRiskRequest(name=card))


def black_box(ana: Visitor) -> None:
    """A card whose generator reads records: no rows, an audit, and rows where nothing was found."""
    card = ana.agreed(generator="honest").name
    ana.begun(card, seed=0)
    audit = audit_pb2.Audit()
    assert ana.audited(card, "honest").response.Unpack(audit)
    if audit.verdict == audit_pb2.VERDICT_NO_EVIDENCE:
        release = synthesis_pb2.Release()
        assert ana.ended(ana.begun(card, seed=0)).response.Unpack(release)
        ana.read(ana.synthesis.StreamRows, synthesis_pb2.StreamRowsRequest(name=release.name))
    ana.call(ana.negotiation.GetCard, negotiation_pb2.GetCardRequest(name=card))


def accounts(who: Visitor) -> None:
    """Ledger, log, operations, health: what everybody may look at."""
    who.call(who.catalog.ListDatasets, catalog_pb2.ListDatasetsRequest(page_size=2))
    who.call(who.catalog.ListGenerators, catalog_pb2.ListGeneratorsRequest())
    who.call(who.negotiation.ListCards, negotiation_pb2.ListCardsRequest(parent="datasets/-"))
    who.call(who.ledger.ListSpends, ledger_pb2.ListSpendsRequest())
    who.call(who.ledger.GetBudget, ledger_pb2.GetBudgetRequest(dataset="datasets/survey"))
    who.call(who.log.GetCheckpoint, ledger_pb2.GetCheckpointRequest())
    who.call(who.log.GetInclusionProof, ledger_pb2.GetInclusionProofRequest(index=0, size=2))
    who.call(who.log.GetConsistencyProof, ledger_pb2.GetConsistencyProofRequest(old_size=1, new_size=2))
    who.call(who.log.GetKeyHistory, ledger_pb2.GetKeyHistoryRequest())
    who.call(who.operations.ListOperations, operations_pb2.ListOperationsRequest())
    who.call(who.health.Check, health_pb2.HealthCheckRequest())
    who.call(who.health.List, health_pb2.HealthListRequest())
    watching = who.health.Watch(health_pb2.HealthCheckRequest(), timeout=120)
    with contextlib.suppress(grpc.RpcError):
        next(watching)
    watching.close()


def trouble(ana: Visitor) -> None:
    """Records that are not what was declared, work that is stopped, cards that are given back."""
    for dataset in ("tainted", "spoiled"):
        card = ana.agreed(dataset, cliques=[("sex", "work"), ("health", "income")])
        failed = ana.ended(ana.begun(card.name))
        assert "MEASUREMENT_REFUSED" in repr(failed.error), failed
        assert ana.audited(card.name, "honest").HasField("error")
    stopped = ana.begun(ana.agreed().name)
    ana.call(ana.operations.CancelOperation, operations_pb2.CancelOperationRequest(name=stopped.name))
    ana.ended(stopped)
    ana.call(ana.operations.GetOperation, operations_pb2.GetOperationRequest(name=stopped.name))
    ana.call(ana.operations.DeleteOperation, operations_pb2.DeleteOperationRequest(name=stopped.name))
    waiting = ana.proposed("gone")
    ended = negotiation_pb2.TerminateCardRequest(
        name=waiting.name, etag=waiting.etag, request_id=request_id()
    )
    ana.call(ana.negotiation.TerminateCard, ended)
    ana.call(ana.negotiation.GetCard, negotiation_pb2.GetCardRequest(name=waiting.name))


def rudeness(who: Visitor, names: Iterable[str]) -> None:
    """Every method with nothing, garbage, an unknown field, and names of others' things."""
    for method in sorted(MAY_CALL):
        for data in rude_requests(method, names):
            _send(who, method, data)


def rude_requests(method: str, names: Iterable[str]) -> Iterator[bytes]:
    service, _, name = method[1:].rpartition("/")
    described = Default().FindServiceByName(service).FindMethodByName(name)
    kind = message_factory.GetMessageClass(described.input_type)
    texts = [one.name for one in described.input_type.fields if one.type == one.TYPE_STRING]
    yield b""
    yield GARBAGE
    yield b"\xa2\x06\x07unknown"
    for value in names:
        yield kind(**dict.fromkeys(texts, value)).SerializeToString()


def _send(who: Visitor, method: str, data: bytes) -> None:
    service, _, name = method[1:].rpartition("/")
    described: Any = Default().FindServiceByName(service).FindMethodByName(name)
    incoming, outgoing = described.client_streaming, described.server_streaming
    decode: Callable[[bytes], Any] = message_factory.GetMessageClass(described.output_type).FromString
    if incoming:
        who.read(who.channel.stream_stream(method, None, decode), iter([data]))
    elif outgoing:
        stream = who.channel.unary_stream(method, None, decode)(data, timeout=2)
        with contextlib.suppress(grpc.RpcError, StopIteration):
            next(stream)
        stream.close()
    else:
        who.call(who.channel.unary_unary(method, None, decode), data)
