"""A controller, put together from its settings; the one place where everything meets."""

import logging
from contextlib import ExitStack
from dataclasses import dataclass

from gencard.controller.desk import Clock, Desk, open_desk, utc_now
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.operations.operations import OperationBounds, Operations
from gencard.controller.people.identities import PeopleAreRead, Roster, health_check, read_identities
from gencard.controller.policy.rule_log import RuleLog
from gencard.controller.policy.rules import rules_of
from gencard.controller.service.guard import Guard
from gencard.controller.service.server import Service, TlsFiles, start
from gencard.controller.service.shares import Bounds
from gencard.controller.servicers import servicers
from gencard.controller.settings.settings import Settings
from gencard.controller.settings.settings_tables import Limits
from gencard.controller.upkeep.readiness import (
    check_apart,
    check_cells,
    check_measures,
    check_policies,
    check_reviewed,
)
from gencard.controller.upkeep.restoration import check_restored
from gencard.controller.upkeep.state_lock import state_lock

logger = logging.getLogger("gencard.controller")


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


def serve(settings: Settings, clock: Clock = utc_now, *, unreviewed: bool = False) -> Controller:
    """Start everything; unfinished operations of an earlier run are taken up again.

    Args:
        unreviewed: Serve drafted schemas too: their labels came from the records.

    Raises:
        InvalidInputError: A schema was drafted from records and nobody has reviewed it; a policy or
            a person's file holds a mistake; another service works on the same state, or the state is a
            backup that nobody restored.
        IsolationError: A black box is to run in a cell, and none can be closed.
    """
    with ExitStack() as held:
        held.enter_context(state_lock(settings.state.folder))
        check_restored(settings.state)
        return _served(settings, clock, unreviewed, held)


def _served(settings: Settings, clock: Clock, unreviewed: bool, held: ExitStack) -> Controller:
    people = read_identities(settings.signing.identities)
    desk = open_desk(settings, clock)
    check_apart(desk.cards.holdings)
    check_policies(desk.cards.holdings, desk.boxes.names, desk.boxes.facts)
    check_measures(desk.cards.holdings)
    check_cells(settings)
    if not unreviewed:
        check_reviewed(desk.cards.holdings)
    executor = _executor(settings.limits)
    operations = _operations(desk, executor)
    rule_log = RuleLog(desk.database, desk.log, desk.cards.clock, settings.identity.uri)
    rule_log.service_starts(rules_of(desk, people))
    server = settings.server
    service = start(
        server.address,
        tls_files(settings),
        _guard(settings, rule_log.people_are_read),
        servicers(desk, operations, executor),
    )
    operations.resume()
    return Controller(desk, operations, service, held.pop_all())


def _executor(limits: Limits) -> ProcessExecutor:
    return ProcessExecutor(
        limits.workers, cpu_seconds=limits.cpu_seconds, memory_mib=limits.memory_mib, report=report
    )


def _operations(desk: Desk, executor: ProcessExecutor) -> Operations:
    limits = desk.settings.limits
    bounds = OperationBounds(
        coordinators=limits.workers,
        most_of_one=limits.operations,
        check_space=desk.cards.quotas.check_space,
        tick_seconds=limits.tick_seconds,
    )
    return Operations(desk.database, desk.refusals, executor, desk.cards.clock, report, bounds)


def report(place: str, incident: str, kind: str) -> None:
    """An incident in the log of the process: where, which number, which class. No text of it."""
    logger.error("incident", extra={"place": place, "incident": incident, "kind": kind})


def tls_files(settings: Settings) -> TlsFiles | None:
    """What the service shows to callers; None for plaintext.

    Raises:
        InvalidInputError: A file is missing, or is not what it should be.
    """
    server = settings.server
    if server.insecure_dev:
        return None
    files = TlsFiles(server.certificate, server.key, server.authority)
    files.read()
    return files


def _guard(settings: Settings, on_change: PeopleAreRead) -> Guard:
    server = settings.server
    bounds = Bounds(
        server.per_identity,
        server.maximum_concurrent_rpcs,
        server.calls_per_second,
        server.request_seconds,
    )
    if server.insecure_dev:
        developer = f"spiffe://{settings.identity.trust_domain}/development/analyst/developer"
        return Guard(lambda _developer: True, report, bounds, development=developer)
    roster = Roster(settings.signing.identities, on_change)
    own = health_check(settings.identity.trust_domain)
    return Guard(lambda caller: caller == own or roster.includes(caller), report, bounds)
