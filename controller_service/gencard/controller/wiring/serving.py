"""Assembly of a controller from its settings: lead, open, check, log, serve, stop.

``serve`` is the way through this file; the other functions make one part each.
"""

import logging
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gencard.controller.answers.answers import KIND as RUN
from gencard.controller.answers.answers import PROGRAM, AnswerRun, Answers, ProgramRun
from gencard.controller.audit_runs import AuditRun, RemoteRuns
from gencard.controller.audits import KIND as AUDIT
from gencard.controller.audits import Audits, Journals, tidy
from gencard.controller.backup import check_restored, state_lock
from gencard.controller.base.fair_use import Bounds
from gencard.controller.base.files import secret_bytes
from gencard.controller.base.listening import TlsFiles
from gencard.controller.cards.book import CardAudits
from gencard.controller.cards.negotiations import Negotiations, Retention
from gencard.controller.controller_state import ControllerState, utc_now
from gencard.controller.evaluations import KIND as EVALUATION
from gencard.controller.evaluations import EvaluationRun, Evaluations
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.tasks import ClusterPart
from gencard.controller.notify import Notifier, post_of
from gencard.controller.operations import OperationBounds, Operations
from gencard.controller.people.enrolment import PeopleAreRead, Roster, health_check, read_identities
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.records.records import check_rights, entry_of
from gencard.controller.releases import KIND as RELEASE
from gencard.controller.releases import BoxRelease, ReleaseRun, Releases
from gencard.controller.service.guard import Guard
from gencard.controller.service.operations import (
    LedgerServicer,
    LogServicer,
    OperationsServicer,
    audit_message,
    evaluation_response,
    release_message,
    response_of,
)
from gencard.controller.service.server import Registration, Service, stand_by, start
from gencard.controller.service.servicers import (
    AnswersServicer,
    AuditServicer,
    CatalogServicer,
    MeasuresServicer,
    NegotiationServicer,
    StewardServicer,
    SynthesisServicer,
    answer_message,
    register,
)
from gencard.controller.settings import Settings
from gencard.controller.state.log import Clock, Event, ahead_of
from gencard.controller.state.sharing import Leadership
from gencard.controller.stewards.cards import KIND as RISK
from gencard.controller.stewards.cards import RiskRun, Risks
from gencard.controller.stewards.desk import DecisionChannel
from gencard.controller.wiring.opening import (
    InForce,
    Reload,
    Reloading,
    RuleLog,
    open_controller_state,
    rules_of,
)
from gencard.controller.wiring.readiness import check_catalogue, check_cells
from gencard.core.errors import GencardError, InvalidInputError

if TYPE_CHECKING:
    from gencard.controller.page.server import PageServer
    from gencard.controller.service.metrics import MetricsServer


def servicers(
    state: ControllerState, operations: Operations, executor: ProcessExecutor
) -> list[Registration]:
    """Return all services with their dependencies, and register the runners of operations.

    Also deletes what an earlier run left: the work folder, cards that were not agreed within
    ``limits.keep_days``, and what is kept of audits and cards that have ended.
    """
    settings, database = state.settings, state.database
    cards = state.cards
    work = settings.state.work
    shutil.rmtree(work, ignore_errors=True)  # restarted operations make new folders
    state.files.begin()
    state.boxes.prepare()
    cluster, limits = None, settings.limits
    if (table := settings.cluster) is not None and table.workers:
        bounds = limits.cpu_seconds, limits.memory_mib
        cluster = ClusterPart(dict(table.workers), table.folder, table.repeated, *bounds)
    jobs = Descriptions(state.salt, limits.model_cells, limits.records, cluster)
    audits = _audits(state, operations, jobs)
    boxes = BoxRelease(database, audits.card_audits, jobs, state.files)
    releases = _releases(state, operations, jobs, audits, boxes)
    evaluations = Evaluations(cards, state.ledger, operations)
    operations.register_runner(
        EVALUATION, EvaluationRun(evaluations, jobs, work, boxes, evaluation_response)
    )
    risks = Risks(database, cards, operations)
    risks.tidy()
    operations.register_runner(RISK, RiskRun(risks, operations, jobs))
    lent_boxes = frozenset(settings.lending.black_boxes)
    remote_runs = RemoteRuns(audits, jobs, executor, work, limits.upload_rows, lent_boxes)
    signing_key = Roster(settings.signing.identities).signing_key
    retention = Retention(database, cards, limits.keep_days)
    retention.prune_daily()
    negotiations = Negotiations(database, cards, signing_key, retention)
    servicers = (
        CatalogServicer(cards.catalogue, state.boxes),
        NegotiationServicer(negotiations),
        SynthesisServicer(releases),
        AuditServicer(audits, remote_runs),
        MeasuresServicer(evaluations),
        _answers(state, operations, jobs),
        StewardServicer(state.desk(operations=operations)),
        LedgerServicer(database, state.ledger),
        LogServicer(database, cards.log, cards.clock),
        OperationsServicer(operations),
    )
    return [partial(register, servicer) for servicer in servicers]


def _audits(state: ControllerState, operations: Operations, jobs: Descriptions) -> Audits:
    """Return the audits, register their runner and delete runs that cannot be resumed."""
    card_audits, journals = CardAudits(state.cards, state.boxes), Journals(state.files)
    most = state.settings.limits.audits
    audits = Audits(state.database, card_audits, state.ledger, operations, journals, most)
    with state.database.reading() as tx:
        tidy(tx, state.cards, audits.journals)
    operations.register_runner(AUDIT, AuditRun(audits, jobs, response_of(audit_message)))
    return audits


def _releases(
    state: ControllerState, operations: Operations, jobs: Descriptions, audits: Audits, boxes: BoxRelease
) -> Releases:
    limits, stores = state.settings.limits, (state.database, state.cards, state.ledger)
    bounds = limits.card_releases, limits.card_release_mib
    releases = Releases(*stores, operations, state.files, audits.card_audits, *bounds, fits=state.fits)
    work, response = state.settings.state.work, response_of(release_message)
    operations.register_runner(RELEASE, ReleaseRun(releases, jobs, work, boxes, response))
    return releases


def _answers(state: ControllerState, operations: Operations, jobs: Descriptions) -> AnswersServicer:
    settings = state.settings
    answers = Answers(state.decisions, operations)
    response = response_of(answer_message)
    checked = AnswerRun(answers, jobs, response)
    operations.register_runner(RUN, checked)
    sandbox = settings.cell.limits, settings.cell.isolation
    programs = ProgramRun(checked, state.files, settings.state.work, *sandbox, response)
    operations.register_runner(PROGRAM, programs)
    answers.end_with_cards()  # cards may have expired while no service ran
    return AnswersServicer(answers)


logger = logging.getLogger("gencard.controller")


@dataclass(frozen=True, slots=True)
class Controller:
    """A running controller; ``stop`` gives up what is held: the lock of the state, leadership."""

    controller_state: ControllerState
    operations: Operations
    service: Service
    reloading: Reloading
    notifier: Notifier
    held: ExitStack
    page: "PageServer | None" = None
    metrics: "MetricsServer | None" = None
    leadership: Leadership | None = None
    ahead: Event | None = None
    """Newest log entry at the start, if it was ahead of the machine's clock."""

    @property
    def port(self) -> int:
        return self.service.port

    @property
    def leads(self) -> bool:
        """Whether no other controller has taken over."""
        return self.leadership is None or not self.leadership.lost.is_set()

    def reload(self, settings: Settings, digest: str = "") -> Reload:
        """Apply newer settings as far as they are valid, log the change and state the rules in force."""
        outcome = self.reloading.reload(settings)
        for place in outcome.changed:
            logger.warning("settings reloaded", extra={"place": place})
        for place in outcome.waiting:
            logger.warning("settings wait for a restart", extra={"place": place})
        for refused in outcome.refused:
            report_refused(refused.error)
        self.state_in_force(outcome, digest)
        return outcome

    def state_in_force(self, outcome: Reload, digest: str = "") -> None:
        """Write the rules in force to the state's folder, for commands that report them."""
        refused = [one.text for one in outcome.refused]
        statement = InForce(self.reloading.enforced(), outcome.waiting, refused, digest)
        statement.write(self.controller_state.settings.state.folder)

    def stop(self, grace: float = 10.0) -> None:
        """Refuse new calls, let running ones end, leave unfinished operations to the next start."""
        if self.metrics is not None:
            self.metrics.stop()
        if self.page is not None:
            self.page.stop(grace)
        self.service.stop(grace)
        self.operations.stop()
        self.notifier.stop()
        self.controller_state.database.close()
        self.held.close()


class _DatasetReading:
    """Reads datasets in a thread during standby, so that a takeover does not wait for them."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._entries = settings, list[DatasetEntry]()
        self._thread = threading.Thread(target=self._read, name="reading", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(GencardError):  # the start reads again what is missing, and says why it cannot
            salt = secret_bytes(self._settings.signing.version_salt, "signing.version_salt")
            for source in self._settings.datasets:
                self._entries.append(entry_of(source, salt))

    def entries(self) -> tuple[DatasetEntry, ...]:
        """Wait until the thread has ended; return the datasets that could be read."""
        self._thread.join()
        return tuple(self._entries)


@dataclass(frozen=True, slots=True)
class Lead:
    """Leadership of a controller, and its reading of datasets if it was on standby."""

    leadership: Leadership
    reading: _DatasetReading | None = None


def lead(
    settings: Settings, ended: threading.Event, waits: Callable[[], None] = lambda: None
) -> Lead | None:
    """Wait until this controller leads; do not wait with SQLite, whose state has one controller.

    Args:
        ended: Set by the caller to end the wait, and by the leadership when it is lost.
        waits: Called once if another controller leads, before the wait.

    Returns:
        The argument of ``serve``; None with SQLite, or if the wait was ended.
    """
    if not settings.state.shared:
        return None
    leadership = Leadership(settings.state.database_url, settings.state.folder, ended.set)
    with ExitStack() as resources:
        resources.callback(leadership.close)
        if leadership.try_lead():
            resources.pop_all()
            return Lead(leadership)
        reading = _DatasetReading(settings)
        address, tls = settings.server.address, tls_files(settings)
        if not stand_by(leadership, address, tls, ended, waits):
            return None
        resources.pop_all()
    return Lead(leadership, reading)


def serve(
    settings: Settings, clock: Clock = utc_now, *, unreviewed: bool = False, leading: Lead | None = None
) -> Controller:
    """Start the service; unfinished operations of an earlier run are resumed.

    Args:
        unreviewed: Whether drafted schemas may be served, whose labels came from the records.
        leading: Result of ``lead``; by default this function waits for the leadership.

    Raises:
        InvalidInputError: A schema was drafted from records and was not reviewed; a policy or a person's
            file has a mistake; another service works on the same state, or the state is a backup that
            was not restored.
        RoleNotReadOnlyError: The role of a database may write, or see more than the declared tables.
        IsolationError: A black box needs a sandbox, and this machine cannot isolate it.
    """
    leading = leading or lead(settings, threading.Event())
    with ExitStack() as resources:
        if leading is not None:
            resources.callback(leading.leadership.close)
            leading.leadership.check()
        resources.enter_context(state_lock(settings.state.folder))
        check_restored(settings.state)
        InForce().write(settings.state.folder)  # the statement of an earlier run no longer holds
        return _served(settings, clock, unreviewed, resources, leading)


def _served(
    settings: Settings, clock: Clock, unreviewed: bool, held: ExitStack, leading: Lead | None
) -> Controller:
    leadership, reading = (leading.leadership, leading.reading) if leading else (None, None)
    people = read_identities(settings.signing.identities)
    for source in settings.datasets:
        check_rights(source, settings.datasets)
    state = open_controller_state(
        settings, clock, leadership.fence if leadership else None, reading.entries() if reading else ()
    )
    check_catalogue(state.cards.catalogue, state.boxes, unreviewed=unreviewed)
    check_cells(settings)
    limits = settings.limits
    executor = ProcessExecutor(
        limits.workers, cpu_seconds=limits.cpu_seconds, memory_mib=limits.memory_mib, report=report
    )
    bounds = OperationBounds(
        coordinators=limits.workers,
        most_of_one=limits.operations,
        check_space=state.cards.quotas.check_space,
        tick_seconds=limits.tick_seconds,
    )
    operations = Operations(state.database, state.refusals, executor, state.cards.clock, report, bounds)
    rule_log = RuleLog(state.database, state.log, state.cards.clock, settings.identity.uri)
    with state.database.reading() as tx:
        ahead = ahead_of(tx, clock())
    if ahead is not None:
        logger.warning("log entry ahead of the clock", extra={"place": f"log entry {ahead.index}"})
    rule_log.service_starts(rules_of(state, people))
    notifier = Notifier(post_of(state), report)
    server = settings.server
    tls, guard = tls_files(settings), _guard(settings, rule_log.people_are_read)
    service = start(server.address, tls, guard, servicers(state, operations, executor))
    metrics: MetricsServer | None = None
    try:
        if (table := settings.metrics) is not None:
            from gencard.controller.service.metrics import start_metrics  # noqa: PLC0415 - for the start's speed

            metrics = start_metrics(table.address, state, service.guard.calls.counts, report)
        page = _page(state, operations)
    except GencardError:
        if metrics is not None:
            metrics.stop()
        service.stop(0.0)
        raise
    operations.resume()
    notifier.start()
    reloading = Reloading(state, rule_log, unreviewed=unreviewed)
    controller = Controller(
        state, operations, service, reloading, notifier, held.pop_all(), page, metrics, leadership, ahead
    )
    controller.state_in_force(Reload())
    return controller


def _page(state: ControllerState, operations: Operations) -> "PageServer | None":
    table, tls = state.settings.page, tls_files(state.settings)
    if table is None or tls is None:
        return None
    # a service without a page neither needs these libraries nor waits for them
    try:
        from gencard.controller.page.server import start_page  # noqa: PLC0415
    except ModuleNotFoundError:
        problem = "needs more libraries: pip install 'gencard[page]'"
        raise InvalidInputError(field="page", problem=problem) from None
    desk = state.desk(DecisionChannel("page"), operations=operations)
    return start_page(table, state, desk, tls, report)


def report(place: str, incident: str, kind: str) -> None:
    """Log an incident: its place, number and class, but no text, which could hold a record."""
    logger.error("incident", extra={"place": place, "incident": incident, "kind": kind})


def report_refused(error: GencardError) -> None:
    """Log refused settings: the field that is wrong, and no value, which could be a secret."""
    place = error.fields.get("field", "settings")
    logger.warning("settings refused", extra={"place": place, "kind": error.reason})


def tls_files(settings: Settings) -> TlsFiles | None:
    """Return the TLS files of the service; None for plaintext."""
    server = settings.server
    if server.insecure_dev:
        return None
    files = TlsFiles(server.certificate, server.key, server.authority, server.key_passphrase_file)
    files.read()
    return files


def _guard(settings: Settings, on_change: PeopleAreRead) -> Guard:
    server = settings.server
    calls = server.per_identity, server.maximum_concurrent_rpcs
    bounds = Bounds(*calls, server.calls_per_second, server.request_seconds)
    if server.insecure_dev:  # plaintext has no certificates: every caller is one developer
        developer = f"spiffe://{settings.identity.trust_domain}/development/analyst/developer"
        return Guard(lambda *_developer: True, report, bounds, development=developer)
    roster = Roster(settings.signing.identities, on_change)
    own = health_check(settings.identity.trust_domain)
    return Guard(lambda who, key: who == own or roster.admits(who, key), report, bounds)
