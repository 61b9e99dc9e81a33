"""Metrics for operators, in OpenMetrics, on a port of its own: ``[metrics] address``.

The operator who reads metrics need not be a steward, so no label or value depends on a record. Whether
work on the records succeeded, failed or waits for a steward can depend on one record, and so can all
consequences. The metrics therefore show which work was requested, not how it ended:

* operations are queued, running or ended;
* calls that fetch results or read a card again are not counted, since a client makes them after a
  success, or after a failure; only faults of the service and refused callers are;
* runs, evaluations and measurements count with the reserved price, not with the final price;
* neither verdicts of audits, nor answers and failures that wait for a steward, nor the length of the log
  are shown. Stewards see them.

Times are shown as ages of operations that have not ended: see docs/threat-model.md for the facts that
durations disclose.
"""

import json
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from wsgiref.simple_server import WSGIRequestHandler
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from sqlalchemy import Connection, func, select

from gencard.controller.answers.answers import KIND as RUN
from gencard.controller.base.listening import bound
from gencard.controller.controller_state import ControllerState
from gencard.controller.evaluations import KIND as EVALUATION
from gencard.controller.people.keys import certificate_ends
from gencard.controller.releases import SPENT_ON
from gencard.controller.state.cards import offer_of
from gencard.controller.state.ledger import Account, Scope, columns_of
from gencard.controller.state.requests import UNFINISHED
from gencard.controller.state.tables import CURRENCIES, lines, operations
from gencard.core.card.budget import SpendState
from gencard.wire.steward import WaitingKind

Counts = Callable[[], dict[tuple[str, str], int]]
"""Calls that have ended, by method and status."""

Report = Callable[[str, str, str], None]
"""Called with (place, incident, exception's class name)."""

REQUEST_SECONDS = 10
"""A connection that sends no whole request by then is closed."""


@dataclass(frozen=True, slots=True, eq=False)
class Watched(Collector):
    """Collector that reads the state anew for each request."""

    state: ControllerState
    calls: Counts

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; raises StorageError if the state cannot be read."""
        yield self._calls()
        with self.state.database.reading() as tx:
            # proposals alone: whether an answer or a failure waits can depend on a record
            proposals = self.state.desk().waiting.count(tx, WaitingKind.PROPOSAL)
            waiting = GaugeMetricFamily(
                "gencard_waiting", "Items waiting for a steward.", labels=("kind",)
            )
            waiting.add_metric((WaitingKind.PROPOSAL,), proposals)
            metrics = [*self._operations(tx), waiting, self._shares(tx)]
        yield from metrics
        yield self._certificates()

    def _calls(self) -> Metric:
        family = CounterMetricFamily(
            "gencard_calls", "Calls that have ended.", labels=("method", "code")
        )
        counts = Counter[tuple[str, str]]()
        for (method, code), count in self.calls().items():
            if code in _FAULTS or method.startswith(_BEFORE_RECORDS):
                label = "" if method in _LOOKS and code == "OK" else code
            else:
                label = "ENDED" if method in _ASKS else ""
            if label:
                counts[method, label] += count
        for labels, count in sorted(counts.items()):
            family.add_metric(labels, count)
        return family

    def _operations(self, tx: Connection) -> Iterator[Metric]:
        number = GaugeMetricFamily(
            "gencard_operations", "Operations; ended ones however they ended.", labels=("kind", "state")
        )
        age = GaugeMetricFamily(
            "gencard_operation_oldest_age_seconds",
            "Age of the oldest operation that has not ended.",
            labels=("kind", "state"),
        )
        by = operations.c.kind, operations.c.state
        query = select(*by, func.count(), func.min(operations.c.created)).group_by(*by).order_by(*by)
        ended = Counter[str]()
        for kind, state, count, created in tx.execute(query):
            if state not in UNFINISHED:
                ended[kind] += count
            else:
                number.add_metric((kind, state), count)
                seconds = (self.state.cards.clock() - created).total_seconds()
                age.add_metric((kind, state), max(0.0, seconds))
        for kind, count in sorted(ended.items()):
            number.add_metric((kind, "ended"), count)
        yield from (number, age)

    def _shares(self, tx: Connection) -> Metric:
        family = GaugeMetricFamily(
            "gencard_ledger_used_ratio",
            "Share of a dataset's cap that is spent or reserved; work counts as when it began.",
            labels=("dataset", "currency"),
        )
        for dataset in sorted(self.state.ledger.caps):
            account = Account(Scope.DATASET, dataset)
            cap = columns_of(self.state.ledger.cap(account))
            spent = columns_of(self.state.ledger.spent(tx, account))
            spent["statistics"] += self._given_back(tx, dataset)
            for name in CURRENCIES:
                if cap[name]:
                    labels = (dataset.partition("/")[2], name.removeprefix("nano_"))
                    family.add_metric(labels, spent[name] / cap[name])
        return family

    def _given_back(self, tx: Connection, dataset: str) -> int:
        """Return the statistics that work on records reserved beyond its final price.

        The final price depends on how the work ended: the price of its numbers, or one statistic for a
        failure.
        """
        kept = lines.c.state != SpendState.VOIDED
        query = select(lines).where(lines.c.dataset == dataset, kept)
        cost, runs, most = 0, Counter[str](), 0
        requests = tx.execute(select(operations.c.request).where(operations.c.kind == EVALUATION))
        evaluations = map(json.loads, requests.scalars())
        evaluated = {
            one["line"]: one.get("statistics", 0) for one in evaluations if one.get("line") is not None
        }
        for line in tx.execute(query).mappings():
            if line["kind"] == RUN:
                cost += line["statistics"]
                runs[line["resource"].partition("/answers/")[0]] += 1
            elif line["kind"] == SPENT_ON:
                price = offer_of(self.state.cards.card(tx, line["resource"])).price
                most += max(0, price.statistics - line["statistics"])
            elif line["kind"] == EVALUATION:
                most += max(0, evaluated.get(line["number"], 0) - line["statistics"])
        for card, number in runs.items():
            terms = offer_of(self.state.cards.card(tx, card)).terms
            most += number * terms.analyses.run_price.statistics
        return most - cost

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


_ASKS = frozenset(
    {
        "/gencard.v1.SynthesisService/GenerateRelease",
        "/gencard.v1.AuditService/RunAudit",
        "/gencard.v1.AuditService/RunBlackBox",
        "/gencard.v1.MeasuresService/RunMeasures",
        "/gencard.v1.AnswersService/RunAnalysis",
        "/gencard.v1.AnswersService/RunProgram",
    }
)
"""Methods that ask for work on the records: refused, too, after failures that depended on them."""

_BEFORE_RECORDS = (
    "/gencard.v1.CatalogService/",
    "/gencard.v1.NegotiationService/",
    "/grpc.health.v1.Health/",
)
"""Services whose answers depend on no record: S29."""

_LOOKS = frozenset(
    {"/gencard.v1.NegotiationService/GetCard", "/gencard.v1.NegotiationService/ListCards"}
)
"""Methods by which a client looks at a card again after work has failed."""

_FAULTS = frozenset({"INTERNAL", "UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"})


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """No line for each request."""


class _Server(ThreadingWSGIServer):
    """Server that answers a few requests at a time; further connections are closed at once."""

    def __init__(
        self,
        listener: socket.socket,
        places: threading.BoundedSemaphore,
        application: Callable[..., Iterable[bytes]],
    ) -> None:
        host, port = listener.getsockname()[:2]
        super().__init__((host, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.server_name, self.server_port = listener, host, port
        self._places = places
        self.server_activate()
        self.setup_environ()
        self.set_app(application)

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
        """Ignore a broken connection: its traceback is not printed."""


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A started port of metrics, at every address of its host."""

    servers: Sequence[_Server]
    port: int

    def stop(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()


def start_metrics(address: str, state: ControllerState, calls: Counts, report: Report) -> MetricsServer:
    """Serve metrics; raises InvalidInputError if one of the host's addresses is taken."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Watched(state, calls))
    application, places = partial(_answer, registry, report), threading.BoundedSemaphore(4)
    listeners = bound(address, "metrics.address")
    servers = [_Server(listener, places, application) for listener in listeners]
    for server in servers:
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return MetricsServer(servers, servers[0].server_port)


def _answer(
    registry: CollectorRegistry, report: Report, request: WSGIEnvironment, start: StartResponse
) -> Iterable[bytes]:
    if request["PATH_INFO"] != "/metrics" or request["REQUEST_METHOD"] != "GET":
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
