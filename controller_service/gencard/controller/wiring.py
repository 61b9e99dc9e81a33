"""A controller, put together from its settings; the one place where everything meets."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import grpc
from google.longrunning.operations_pb2_grpc import add_OperationsServicer_to_server as add_operations

from gencard.controller import scratch
from gencard.controller.audit_resumption import KIND as AUDIT
from gencard.controller.audit_run import AuditRun
from gencard.controller.audits import Audits
from gencard.controller.box_release import BoxRelease
from gencard.controller.boxes import Boxes
from gencard.controller.cards import Cards
from gencard.controller.holdings import PREFIX, Holding, Holdings, Holdout
from gencard.controller.identities import Roster, read_identities
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.tasks import Descriptions
from gencard.controller.journals import Journals
from gencard.controller.keys import secret_bytes, signing_key
from gencard.controller.limits import Limits
from gencard.controller.measures import KIND as MEASURES
from gencard.controller.measures import Measures
from gencard.controller.measures_run import MeasuresRun
from gencard.controller.negotiations import Negotiations
from gencard.controller.operations import Operations
from gencard.controller.readiness import (
    check_apart,
    check_cells,
    check_measures,
    check_policies,
    check_reviewed,
)
from gencard.controller.release_run import ReleaseRun
from gencard.controller.releases import KIND as RELEASE
from gencard.controller.releases import Releases
from gencard.controller.schema_file import PublicSchema, read_schema
from gencard.controller.service.audit import AuditServicer
from gencard.controller.service.catalog import CatalogServicer
from gencard.controller.service.guard import Guard
from gencard.controller.service.ledger import LedgerServicer, LogServicer
from gencard.controller.service.measures import MeasuresServicer
from gencard.controller.service.negotiation import NegotiationServicer
from gencard.controller.service.operations import OperationsServicer
from gencard.controller.service.server import Service, TlsFiles, start
from gencard.controller.service.synthesis import SynthesisServicer
from gencard.controller.settings import Settings
from gencard.controller.settings_tables import DatasetEntry
from gencard.controller.state.accounts import Caps
from gencard.controller.state.audits import AuditStore
from gencard.controller.state.cards import CardStore
from gencard.controller.state.database import Database
from gencard.controller.state.event_log import EventLog
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.measures import MeasuresStore
from gencard.controller.state.operations import OperationStore
from gencard.controller.state.psis import PsiStore
from gencard.controller.state.releases import ReleaseStore
from gencard.controller.state_lock import state_lock
from gencard.controller.stewardship import Stewardship
from gencard.controller.vault import Vault
from gencard.controller.visits import Visits
from gencard.v1.audit_pb2_grpc import add_AuditServiceServicer_to_server as add_audit
from gencard.v1.catalog_pb2_grpc import add_CatalogServiceServicer_to_server as add_catalog
from gencard.v1.ledger_pb2_grpc import add_LedgerServiceServicer_to_server as add_ledger
from gencard.v1.ledger_pb2_grpc import add_LogServiceServicer_to_server as add_log
from gencard.v1.measures_pb2_grpc import add_MeasuresServiceServicer_to_server as add_measures
from gencard.v1.negotiation_pb2_grpc import (
    add_NegotiationServiceServicer_to_server as add_negotiation,
)
from gencard.v1.synthesis_pb2_grpc import add_SynthesisServiceServicer_to_server as add_synthesis

logger = logging.getLogger("gencard.controller")
Clock = Callable[[], datetime]
Registration = Callable[[grpc.Server], None]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Desk:
    """State and cards: all that a steward's shell needs; no server, no jobs."""

    settings: Settings
    database: Database
    ledger: Ledger
    cards: Cards
    boxes: Boxes

    @property
    def log(self) -> EventLog:
        return self.cards.log

    def stewardship(self, steward: str) -> Stewardship:
        return Stewardship(self.database, self.cards, self.ledger, steward)


@dataclass(frozen=True, slots=True)
class Controller:
    """A running controller."""

    desk: Desk
    operations: Operations
    service: Service
    held: ExitStack

    @property
    def port(self) -> int:
        return self.service.port

    def stop(self, grace: float = 10.0) -> None:
        """Refuse new calls, let running ones end, leave unfinished operations to the next start."""
        self.service.stop(grace)
        self.operations.stop()
        self.desk.database.close()
        self.held.close()


def open_desk(settings: Settings, clock: Clock = utc_now) -> Desk:
    """The state and the cards.

    Raises:
        InvalidInputError, StorageError, DatasetError: Settings, state or records cannot be used.
    """
    holdings = Holdings(_holding(settings, entry) for entry in settings.datasets)
    log = EventLog(signing_key(settings.signing.log_key, "signing.log_key"))
    card_key = signing_key(settings.signing.card_key, "signing.card_key")
    database = Database(settings.state.database_url)
    database.migrate()
    limits = settings.limits
    boxes = Boxes(settings.black_boxes, limits.model_cells, settings.cell)
    cards = Cards(
        store=CardStore(),
        log=log,
        holdings=holdings,
        limits=Limits(
            limits.marginal_cells, limits.model_cells, limits.marginals, limits.rows, limits.runs
        ),
        facts=boxes.facts,
        controller=settings.identity.uri,
        key=card_key,
        clock=clock,
    )
    return Desk(settings, database, Ledger(_caps(settings)), cards, boxes)


def serve(settings: Settings, clock: Clock = utc_now, *, unreviewed: bool = False) -> Controller:
    """Start everything; unfinished operations of an earlier run are taken up again.

    Args:
        unreviewed: Serve drafted schemas too: their labels came from the records.

    Raises:
        InvalidInputError: A schema was drafted from records and nobody has reviewed it; a policy or
            a person's file holds a mistake; another service works on the same state.
        IsolationError: A black box is to run in a cell, and none can be closed.
    """
    with ExitStack() as held:
        held.enter_context(state_lock(settings.state.folder))
        return _served(settings, clock, unreviewed, held)


def _served(settings: Settings, clock: Clock, unreviewed: bool, held: ExitStack) -> Controller:
    read_identities(settings.signing.identities)
    desk = open_desk(settings, clock)
    check_apart(desk.cards.holdings)
    check_policies(desk.cards.holdings, desk.boxes.names)
    check_measures(desk.cards.holdings)
    check_cells(settings)
    if not unreviewed:
        check_reviewed(desk.cards.holdings)
    limits = settings.limits
    executor = ProcessExecutor(
        limits.workers, cpu_seconds=limits.cpu_seconds, memory_mib=limits.memory_mib, report=report
    )
    operations = Operations(
        desk.database, OperationStore(), executor, clock, report, coordinators=limits.workers
    )
    server = settings.server
    service = start(
        server.address,
        None if server.insecure_dev else _tls(settings),
        _guard(settings),
        _servicers(desk, operations, executor),
    )
    operations.resume()
    return Controller(desk, operations, service, held.pop_all())


def check_records(entry: DatasetEntry) -> PublicSchema:
    """Read every record once; the schema that all of them keep to.

    Raises:
        InvalidInputError, DatasetError: Schema or records are not in order.
    """
    schema = read_schema(entry.schema_file)
    _vault(entry, schema).check()
    if entry.holdout is not None:
        Vault(entry.holdout, schema.coding, schema.absent).check()
    return schema


def _servicers(desk: Desk, operations: Operations, executor: ProcessExecutor) -> list[Registration]:
    """Every service with what it needs; the runners of operations are named on the way."""
    settings, cards, database, boxes = desk.settings, desk.cards, desk.database, desk.boxes
    jobs = Descriptions(_salt(settings), settings.limits.model_cells)
    journals = Journals(settings.state.journals)
    audits = Audits(
        database,
        cards,
        boxes,
        desk.ledger,
        AuditStore(),
        operations,
        journals,
        settings.limits.audits,
    )
    with database.reading() as tx:
        audits.resumption.tidy(tx)
    card_audits = audits.card_audits
    releases = Releases(
        database,
        cards,
        desk.ledger,
        PsiStore(),
        ReleaseStore(),
        operations,
        settings.state.releases,
        card_audits,
    )
    black_boxes = BoxRelease(database, card_audits, ReleaseStore(), jobs, settings.state.kept)
    work = settings.state.work
    scratch.clear(work)
    visits = Visits(audits, jobs, executor, work, settings.limits.upload_rows)
    operations.carries(RELEASE, ReleaseRun(releases, jobs, work, black_boxes))
    operations.carries(AUDIT, AuditRun(audits, jobs))
    measures = Measures(
        database,
        cards,
        desk.ledger,
        ReleaseStore(),
        PsiStore(),
        MeasuresStore(),
        operations,
        settings.state.releases,
    )
    operations.carries(MEASURES, MeasuresRun(measures, jobs))
    negotiations = Negotiations(database, cards, Roster(settings.signing.identities).signing_key)
    return [
        partial(add_catalog, CatalogServicer(cards.holdings, boxes)),
        partial(add_negotiation, NegotiationServicer(negotiations)),
        partial(add_synthesis, SynthesisServicer(releases)),
        partial(add_audit, AuditServicer(audits, visits)),
        partial(add_measures, MeasuresServicer(measures)),
        partial(add_ledger, LedgerServicer(database, desk.ledger)),
        partial(add_log, LogServicer(database, cards.log, cards.clock)),
        partial(add_operations, OperationsServicer(operations)),
    ]


def report(place: str, incident: str, kind: str) -> None:
    """An incident in the log of the process: where, which number, which class. No text of it."""
    logger.error("incident", extra={"place": place, "incident": incident, "kind": kind})


def _holding(settings: Settings, entry: DatasetEntry) -> Holding:
    schema = read_schema(entry.schema_file)
    return Holding(
        name=f"{PREFIX}{entry.name}",
        schema=schema,
        policy=entry.policy.policy(),
        data=entry.data,
        version=_vault(entry, schema).version(_salt(settings)),
        holdout=_holdout(settings, entry, schema),
        declared=entry.measures.declared(),
    )


def _holdout(settings: Settings, entry: DatasetEntry, schema: PublicSchema) -> Holdout | None:
    if entry.holdout is None:
        return None
    vault = Vault(entry.holdout, schema.coding, schema.absent)
    return Holdout(entry.holdout, vault.version(_salt(settings)))


def _vault(entry: DatasetEntry, schema: PublicSchema) -> Vault:
    return Vault(entry.data, schema.coding, schema.absent)


def _caps(settings: Settings) -> dict[str, Caps]:
    return {
        f"{PREFIX}{entry.name}": Caps(
            entry.caps.dataset.price(), entry.caps.project.price(), entry.caps.analyst.price()
        )
        for entry in settings.datasets
    }


def _salt(settings: Settings) -> bytes:
    return secret_bytes(settings.signing.version_salt, "signing.version_salt")


def _tls(settings: Settings) -> TlsFiles:
    server = settings.server
    secret_bytes(server.key, "server.key")
    return TlsFiles(server.certificate, server.key, server.authority)


def _guard(settings: Settings) -> Guard:
    server = settings.server
    limits = server.per_identity, server.maximum_concurrent_rpcs
    if server.insecure_dev:
        developer = f"spiffe://{settings.identity.trust_domain}/development/analyst/developer"
        return Guard(lambda _developer: True, report, *limits, development=developer)
    return Guard(Roster(settings.signing.identities).includes, report, *limits)
