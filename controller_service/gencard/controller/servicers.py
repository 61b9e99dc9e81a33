"""Every service with what it needs at hand, and who carries out which operations."""

from collections.abc import Callable
from functools import partial

import grpc
from google.longrunning.operations_pb2_grpc import add_OperationsServicer_to_server as add_operations

from gencard.controller.audits.audit_resumption import KIND as AUDIT
from gencard.controller.audits.audit_run import AuditRun
from gencard.controller.audits.audits import Audits
from gencard.controller.audits.journals import Journals
from gencard.controller.audits.visits import Visits
from gencard.controller.cards.negotiations import Negotiations
from gencard.controller.desk import Desk
from gencard.controller.evaluation.measures import KIND as MEASURES
from gencard.controller.evaluation.measures import Measures
from gencard.controller.evaluation.measures_run import MeasuresRun
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.operations import scratch
from gencard.controller.operations.operations import Operations
from gencard.controller.people.identities import Roster
from gencard.controller.releases.box_release import BoxRelease
from gencard.controller.releases.release_run import ReleaseRun
from gencard.controller.releases.releases import KIND as RELEASE
from gencard.controller.releases.releases import Releases
from gencard.controller.service.audit import AuditServicer
from gencard.controller.service.catalog import CatalogServicer
from gencard.controller.service.ledger import LedgerServicer, LogServicer
from gencard.controller.service.measures import MeasuresServicer
from gencard.controller.service.negotiation import NegotiationServicer
from gencard.controller.service.operations import OperationsServicer
from gencard.controller.service.synthesis import SynthesisServicer
from gencard.controller.state.audits import AuditStore
from gencard.controller.state.measures import MeasureStore
from gencard.controller.state.psis import PsiStore
from gencard.controller.state.releases import ReleaseStore
from gencard.controller.upkeep.retention import Retention
from gencard.v1.audit_pb2_grpc import add_AuditServiceServicer_to_server as add_audit
from gencard.v1.catalog_pb2_grpc import add_CatalogServiceServicer_to_server as add_catalog
from gencard.v1.ledger_pb2_grpc import add_LedgerServiceServicer_to_server as add_ledger
from gencard.v1.ledger_pb2_grpc import add_LogServiceServicer_to_server as add_log
from gencard.v1.measures_pb2_grpc import add_MeasuresServiceServicer_to_server as add_measures
from gencard.v1.negotiation_pb2_grpc import (
    add_NegotiationServiceServicer_to_server as add_negotiation,
)
from gencard.v1.synthesis_pb2_grpc import add_SynthesisServiceServicer_to_server as add_synthesis

Registration = Callable[[grpc.Server], None]


def servicers(desk: Desk, operations: Operations, executor: ProcessExecutor) -> list[Registration]:
    """Every service with what it needs; the runners of operations are named on the way."""
    settings, cards, database = desk.settings, desk.cards, desk.database
    work = settings.state.work
    scratch.clear(work)
    desk.boxes.prepare()
    jobs = Descriptions(desk.salt, settings.limits.model_cells)
    audits = _audits(desk, operations, jobs)
    boxes = BoxRelease(database, audits.card_audits, ReleaseStore(), jobs, settings.state.kept)
    releases = _releases(desk, operations, jobs, audits, boxes)
    measures = _measures(desk, operations, jobs, boxes)
    lent = frozenset(settings.lending.black_boxes)
    visits = Visits(audits, jobs, executor, work, settings.limits.upload_rows, lent)
    signing_key = Roster(settings.signing.identities).signing_key
    retention = Retention(database, cards, settings.limits.keep_days)
    retention.prune_daily()
    negotiations = Negotiations(database, cards, signing_key, retention)
    return [
        partial(add_catalog, CatalogServicer(cards.holdings, desk.boxes)),
        partial(add_negotiation, NegotiationServicer(negotiations)),
        partial(add_synthesis, SynthesisServicer(releases)),
        partial(add_audit, AuditServicer(audits, visits)),
        partial(add_measures, MeasuresServicer(measures)),
        partial(add_ledger, LedgerServicer(database, desk.ledger)),
        partial(add_log, LogServicer(database, cards.log, cards.clock)),
        partial(add_operations, OperationsServicer(operations)),
    ]


def _audits(desk: Desk, operations: Operations, jobs: Descriptions) -> Audits:
    audits = Audits(
        desk.database,
        desk.cards,
        desk.boxes,
        desk.ledger,
        AuditStore(),
        operations,
        Journals(desk.settings.state.journals),
        desk.settings.limits.audits,
    )
    with desk.database.reading() as tx:
        audits.resumption.tidy(tx)
    operations.carries(AUDIT, AuditRun(audits, jobs))
    return audits


def _releases(
    desk: Desk, operations: Operations, jobs: Descriptions, audits: Audits, boxes: BoxRelease
) -> Releases:
    state, card_audits = desk.settings.state, audits.card_audits
    releases = Releases(
        desk.database,
        desk.cards,
        desk.ledger,
        PsiStore(),
        ReleaseStore(),
        operations,
        state.releases,
        card_audits,
        desk.settings.limits.card_releases,
        desk.settings.limits.card_release_mib,
    )
    operations.carries(RELEASE, ReleaseRun(releases, jobs, state.work, boxes))
    return releases


def _measures(desk: Desk, operations: Operations, jobs: Descriptions, boxes: BoxRelease) -> Measures:
    measures = Measures(
        desk.database,
        desk.cards,
        desk.ledger,
        ReleaseStore(),
        PsiStore(),
        MeasureStore(),
        operations,
    )
    operations.carries(MEASURES, MeasuresRun(measures, jobs, desk.settings.state.work, boxes))
    return measures
