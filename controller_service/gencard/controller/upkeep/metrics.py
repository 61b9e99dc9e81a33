"""What an operator watches, in OpenMetrics, on a port of its own: ``[metrics] address``.

Labels are fixed words, methods, files of certificates and names of datasets; values are counts of calls
and decisions. None depends on a record, and no time of a call is told, which could.
"""

import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from sqlalchemy import Connection, func, select

from gencard.controller.controller_state import ControllerState
from gencard.controller.notify.messages import certificate_ends
from gencard.controller.state.accounts import Account, Scope, columns_of
from gencard.controller.state.operations import UNFINISHED
from gencard.controller.state.runs import RunStore
from gencard.controller.state.tables import CURRENCIES, audits, cards, operations
from gencard.core.card.card import CardState
from gencard.core.errors import InvalidInputError

Counts = Callable[[], dict[tuple[str, str], int]]
"""Calls that have ended, by method and status."""

Report = Callable[[str, str, str], None]
"""Called with (place, incident, exception's class name)."""

REQUEST_SECONDS = 10
"""A connection that sends no whole request by then is closed."""

MOST_AT_A_TIME = 4
PATH = "/metrics"


@dataclass(frozen=True, slots=True, eq=False)
class Watched(Collector):
    """Reads everything anew whenever somebody asks."""

    state: ControllerState
    calls: Counts

    def collect(self) -> Iterator[Metric]:
        """Raises StorageError where the state cannot be read."""
        yield self._calls()
        with self.state.database.reading() as tx:
            metrics = [*self._operations(tx), self._waiting(tx), self._shares(tx), _verdicts(tx)]
            size = self.state.log.size(tx)
        yield from metrics
        yield GaugeMetricFamily("gencard_log_entries", "Entries of the append-only log.", value=size)
        yield self._certificates()

    def _calls(self) -> Metric:
        family = CounterMetricFamily(
            "gencard_calls", "Calls that have ended.", labels=("method", "code")
        )
        for labels, count in sorted(self.calls().items()):
            family.add_metric(labels, count)
        return family

    def _operations(self, tx: Connection) -> Iterator[Metric]:
        number = GaugeMetricFamily("gencard_operations", "Operations.", labels=("kind", "state"))
        age = GaugeMetricFamily(
            "gencard_operation_oldest_age_seconds",
            "Age of the oldest operation that has not ended.",
            labels=("kind", "state"),
        )
        by = operations.c.kind, operations.c.state
        query = select(*by, func.count(), func.min(operations.c.created)).group_by(*by).order_by(*by)
        for kind, state, count, created in tx.execute(query):
            number.add_metric((kind, state), count)
            if state in UNFINISHED:
                seconds = (self.state.cards.clock() - created).total_seconds()
                age.add_metric((kind, state), max(0.0, seconds))
        yield from (number, age)

    def _waiting(self, tx: Connection) -> Metric:
        requested = select(func.count()).where(cards.c.state == CardState.REQUESTED)
        waiting = {
            "proposal": tx.execute(requested).scalar_one(),
            "answer": len([*RunStore().waiting(tx)]),
            "refusal": len([*self.state.refusals.waiting(tx)]),
        }
        family = GaugeMetricFamily("gencard_waiting", "Items waiting for a steward.", labels=("kind",))
        for kind, count in waiting.items():
            family.add_metric((kind,), count)
        return family

    def _shares(self, tx: Connection) -> Metric:
        family = GaugeMetricFamily(
            "gencard_ledger_used_ratio",
            "Share of a dataset's cap that is spent or reserved.",
            labels=("dataset", "currency"),
        )
        for dataset in sorted(self.state.ledger.datasets):
            account = Account(Scope.DATASET, dataset)
            cap = columns_of(self.state.ledger.cap(account))
            spent = columns_of(self.state.ledger.spent(tx, account))
            for name in CURRENCIES:
                if cap[name]:
                    labels = (dataset.partition("/")[2], name.removeprefix("nano_"))
                    family.add_metric(labels, spent[name] / cap[name])
        return family

    def _certificates(self) -> Metric:
        family = GaugeMetricFamily(
            "gencard_certificate_end_timestamp_seconds",
            "Time at which it expires.",
            labels=("certificate",),
        )
        server = self.state.settings.server
        for name in ("certificate", "authority"):
            for _, end in certificate_ends(getattr(server, name)):
                family.add_metric((f"server.{name}",), end.timestamp())
        return family


def _verdicts(tx: Connection) -> Metric:
    family = GaugeMetricFamily("gencard_audits", "Audits that have ended.", labels=("verdict",))
    query = select(audits.c.verdict, func.count()).where(audits.c.verdict.is_not(None))
    for verdict, count in tx.execute(query.group_by(audits.c.verdict).order_by(audits.c.verdict)):
        family.add_metric((verdict,), count)
    return family


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """No line for each request."""


class _Server(ThreadingWSGIServer):
    """Answers a few at a time; what comes beside them is closed at once."""

    _places = threading.BoundedSemaphore(MOST_AT_A_TIME)

    def process_request(self, request: object, client_address: object) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke; its traceback is nobody's business."""


class _Server6(_Server):
    address_family = socket.AF_INET6


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A started port of metrics."""

    server: _Server
    port: int

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def start_metrics(address: str, state: ControllerState, calls: Counts, report: Report) -> MetricsServer:
    """Serve metrics; raises InvalidInputError where the address is taken."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Watched(state, calls))
    host, _, port = address.rpartition(":")
    application = partial(_answer, registry, report)
    try:
        server = make_server(
            host.strip("[]"), int(port), application, _Server6 if ":" in host else _Server, _Handler
        )
    except OSError:
        problem = "is in use, or not an address of this machine"
        raise InvalidInputError(field="metrics.address", problem=problem) from None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return MetricsServer(server, server.server_port)


def _answer(
    registry: CollectorRegistry, report: Report, request: WSGIEnvironment, start: StartResponse
) -> Iterable[bytes]:
    if request["PATH_INFO"] != PATH or request["REQUEST_METHOD"] != "GET":
        start("404 Not Found", [("Content-Length", "0")])
        return []
    try:
        body: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # the library's
    except Exception as error:  # its text may quote the state: only its class is logged
        report("metrics", secrets.token_hex(8), type(error).__name__)
        start("503 Service Unavailable", [("Content-Length", "0")])
        return []
    start("200 OK", [("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body)))])
    return [body]
