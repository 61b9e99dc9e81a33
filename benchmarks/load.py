"""Many analysts at once: the time of each method over mutual TLS, and the same beside one who abuses it.

``python -m benchmarks.load [--quick] [--json FILE]``

Each of 50 analysts makes 200 calls of the mix of ``MIX``, at random moments of 100 seconds, over a
connection of its own; a call that comes late because the one before took long is not counted from when
it was due. Then the same calls again, while one analyst floods the service from several connections,
sends requests as large as it can, opens streams without reading them, uploads without sending, and
cancels calls. All run on this machine: those who call take processor time of the service, and the
abuser takes only processor time that nobody else wants, as it would have a machine of its own: at
``nice`` 19 it would still keep a core from others for milliseconds at a time. What it costs the machine
all the same, in the kernel and in a service that refuses it, is seen where it abuses another
controller's service on this machine meanwhile: what comes on top, the service itself lets one analyst
cost the others. Memory is that of the service's own process at the start, in the middle and at the end.
"""

import multiprocessing
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from uuid import uuid4

import grpc
import numpy as np
from google.longrunning import operations_pb2

from benchmarks import bench
from benchmarks.stream import serving, status_mib
from gencard.client import Analyst, all_marginals
from gencard.client.connection.connection import Connection
from gencard.core.errors import GencardError
from gencard.v1 import audit_pb2, catalog_pb2, ledger_pb2, negotiation_pb2
from gencard.v1 import common_pb2 as common
from gencard.v1 import synthesis_pb2 as pb

ROWS = 2_000
DATASET = "datasets/records"
ABUSER = "mallory"

ALONE, ELSEWHERE, HERE = "alone", "abuse elsewhere", "abuse here"
_MOST_SLOWER = 2.0
_MOST_GROWTH = 32.0


@dataclass(frozen=True, slots=True)
class Caller:
    """One analyst, with a card and a release."""

    connection: Connection
    card: str
    release: str

    def get_card(self) -> None:
        self.connection.call(
            self.connection.negotiation.GetCard, negotiation_pb2.GetCardRequest(name=self.card)
        )

    def list_cards(self) -> None:
        request = negotiation_pb2.ListCardsRequest(parent=DATASET)
        self.connection.call(self.connection.negotiation.ListCards, request)

    def propose_and_withdraw(self) -> None:
        """Two calls that write, as one."""
        negotiation, call = self.connection.negotiation, self.connection.call
        request = negotiation_pb2.ProposeCardRequest(terms=_terms(), request_id=str(uuid4()))
        card = call(negotiation.ProposeCard, request).card
        call(
            negotiation.TerminateCard,
            negotiation_pb2.TerminateCardRequest(
                name=card.name, etag=card.etag, request_id=str(uuid4())
            ),
        )

    def generate_release(self) -> None:
        """Until it is queued; the work goes on while others call."""
        request = pb.GenerateReleaseRequest(card=self.card, rows=ROWS, seed=1, request_id=str(uuid4()))
        self.connection.call(self.connection.synthesis.GenerateRelease, request)

    def get_release(self) -> None:
        self.connection.call(
            self.connection.synthesis.GetRelease, pb.GetReleaseRequest(name=self.release)
        )

    def list_releases(self) -> None:
        request = pb.ListReleasesRequest(parent=self.card)
        self.connection.call(self.connection.synthesis.ListReleases, request)

    def stream_rows(self) -> None:
        request = pb.StreamRowsRequest(name=self.release)
        for _ in self.connection.stream(self.connection.synthesis.StreamRows, request):
            pass

    def stream_psi(self) -> None:
        request = pb.StreamPsiRequest(card=self.card)
        for _ in self.connection.stream(self.connection.synthesis.StreamPsi, request):
            pass

    def list_operations(self) -> None:
        request = operations_pb2.ListOperationsRequest(page_size=10)
        self.connection.call(self.connection.operations.ListOperations, request)

    def list_datasets(self) -> None:
        self.connection.call(self.connection.catalog.ListDatasets, catalog_pb2.ListDatasetsRequest())

    def get_dataset(self) -> None:
        request = catalog_pb2.GetDatasetRequest(name=DATASET)
        self.connection.call(self.connection.catalog.GetDataset, request)

    def get_budget(self) -> None:
        request = ledger_pb2.GetBudgetRequest(dataset=DATASET)
        self.connection.call(self.connection.ledger.GetBudget, request)

    def list_spends(self) -> None:
        self.connection.call(self.connection.ledger.ListSpends, ledger_pb2.ListSpendsRequest())

    def get_checkpoint(self) -> None:
        self.connection.call(self.connection.log.GetCheckpoint, ledger_pb2.GetCheckpointRequest())


MIX: dict[str, tuple[int, Callable[[Caller], None]]] = {
    "GetCard": (15, Caller.get_card),
    "ListCards": (6, Caller.list_cards),
    "ProposeCard, TerminateCard": (4, Caller.propose_and_withdraw),
    "GenerateRelease": (1, Caller.generate_release),
    "GetRelease": (14, Caller.get_release),
    "ListReleases": (6, Caller.list_releases),
    "StreamRows": (14, Caller.stream_rows),
    "StreamPsi": (6, Caller.stream_psi),
    "ListOperations": (6, Caller.list_operations),
    "ListDatasets": (8, Caller.list_datasets),
    "GetDataset": (6, Caller.get_dataset),
    "GetBudget": (6, Caller.get_budget),
    "ListSpends": (4, Caller.list_spends),
    "GetCheckpoint": (4, Caller.get_checkpoint),
}
"""Calls by the hundred, as of analysts who look at cards and fetch releases."""


def _terms() -> common.Terms:
    return common.Terms(
        dataset=DATASET,
        purpose="load",
        marginals=[common.Clique(attributes=["attribute 0", "attribute 1"])],
        privacy=common.Privacy(
            mechanism=common.Privacy.MECHANISM_GAUSSIAN,
            neighbouring=common.Privacy.NEIGHBOURING_ADD_REMOVE,
            rho="0.01",
        ),
        generator="ipf",
        rows=ROWS,
        audit=common.AuditTerms(runs=6, order=3, alpha="0.05"),
    )


@dataclass(slots=True)
class Timings:
    """Seconds of calls that succeeded, by method, and how many ended in which error."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MIX})
    errors: Counter[str] = field(default_factory=Counter)

    def made(self, name: str, caller: Caller) -> None:
        begin = time.perf_counter()
        try:
            MIX[name][1](caller)
        except GencardError as error:
            self.errors[f"{name}: {type(error).__name__}"] += 1
        else:
            self.seconds[name].append(time.perf_counter() - begin)

    def of(self, name: str = "") -> list[float]:
        """Seconds of one method's calls, or of all."""
        return self.seconds[name] if name else list(chain(*self.seconds.values()))

    def percentiles(self, name: str = "") -> tuple[float, float, float]:
        """p50, p95 and p99 of one method, or of all, in milliseconds."""
        values = self.of(name)
        if not values:
            return np.nan, np.nan, np.nan
        p50, p95, p99 = np.percentile(values, (50, 95, 99)) * 1e3
        return float(p50), float(p95), float(p99)


@dataclass(frozen=True, slots=True)
class Phase:
    """One time of all calls.

    Args:
        memory: Of the service at the start, in the middle and at the end, in MiB.
        abuse: How the abuser's calls ended.
    """

    timings: Timings
    memory: tuple[float, float, float]
    seconds: float
    abuse: Counter[str] = field(default_factory=Counter)


@contextmanager
def callers(home: Path, names: Sequence[str]) -> Iterator[list[Caller]]:
    """The analysts connected, each with an agreed card and a release."""
    analysts = [Analyst.connect(folder=home / "people" / name) for name in names]
    try:
        with ThreadPoolExecutor(8) as pool:
            yield list(pool.map(_prepared, analysts))
    finally:
        for analyst in analysts:
            analyst.close()


def _prepared(analyst: Analyst) -> Caller:
    card = analyst.propose("records", all_marginals(1), purpose="load", rows=ROWS).accept()
    release = card.release(ROWS, seed=1, progress=False)
    return Caller(card.agreement.connection, card.name, release.name)


def phase(server: int, people: Sequence[Caller], calls: int, seconds: float) -> Phase:
    """All calls of all analysts, spread over so many seconds."""
    timings, begin = Timings(), time.monotonic()
    middle: list[float] = []
    halfway = threading.Timer(seconds / 2, lambda: middle.append(status_mib(server, "VmRSS")))
    start = status_mib(server, "VmRSS")
    halfway.start()
    with ThreadPoolExecutor(len(people)) as pool:
        for number, caller in enumerate(people):
            pool.submit(_day, caller, timings, np.random.default_rng(number), calls, seconds)
    halfway.join()
    memory = start, middle[0], status_mib(server, "VmRSS")
    return Phase(timings, memory, time.monotonic() - begin)


def _day(caller: Caller, timings: Timings, rng: np.random.Generator, calls: int, seconds: float) -> None:
    """One analyst's calls, at random moments of so many seconds."""
    weights = np.array([weight for weight, _ in MIX.values()], dtype=float)
    names = rng.choice(list(MIX), size=calls, p=weights / weights.sum())
    begin = time.monotonic()
    for name, moment in zip(names, np.sort(rng.uniform(0, seconds, calls)), strict=True):
        time.sleep(max(0.0, begin + moment - time.monotonic()))
        timings.made(str(name), caller)


@contextmanager
def abused(home: Path, card: str, release: str, endings: Counter[str]) -> Iterator[None]:
    """Mallory at work in a process of its own, until the block ends; then ``endings`` is filled."""
    context = multiprocessing.get_context("spawn")
    end, results = context.Event(), context.Queue()
    process = context.Process(
        target=abuse, args=(str(home / "people" / ABUSER), card, release, end, results), daemon=True
    )
    process.start()
    endings.update(results.get(timeout=60))  # an empty one: it has begun
    try:
        yield
    finally:
        end.set()
        endings.update(results.get(timeout=60))
        process.join(10)


def abuse(folder: str, card: str, release: str, end: threading.Event, results: object) -> None:
    """Every kind of abuse in threads of its own, over three connections, until ``end`` is set."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    endings: Counter[str] = Counter()
    analysts = [Analyst.connect(folder=Path(folder)) for _ in range(3)]
    results.put(endings)  # type: ignore[attr-defined]
    kinds = [(kind, each._connection) for each in analysts for kind in KINDS]
    with ThreadPoolExecutor(len(kinds)) as pool:
        for kind, connection in kinds:
            pool.submit(_repeat, kind, Caller(connection, card, release), end, endings)
    results.put(endings)  # type: ignore[attr-defined]


def _repeat(
    kind: Callable[[Caller], None], caller: Caller, end: threading.Event, endings: Counter[str]
) -> None:
    while not end.is_set():
        try:
            kind(caller)
            endings[f"{kind.__name__}: OK"] += 1
        except grpc.RpcError as error:
            endings[f"{kind.__name__}: {error.code().name}"] += 1
        except GencardError as error:
            endings[f"{kind.__name__}: {type(error).__name__}"] += 1


def flood(caller: Caller) -> None:
    caller.connection.negotiation.ListCards(negotiation_pb2.ListCardsRequest(parent=DATASET))


def huge(caller: Caller) -> None:
    """Send as many parts and bytes as one message may have."""
    terms = _terms()
    terms.marginals.extend([common.Clique(attributes=["attribute 0", "attribute 1"])] * 100_000)
    request = negotiation_pb2.ProposeCardRequest(terms=terms, request_id=str(uuid4()))
    caller.connection.negotiation.ProposeCard(request)


def half_read(caller: Caller) -> None:
    """Opens streams and takes nothing of them."""
    request = pb.StreamRowsRequest(name=caller.release)
    streams = [caller.connection.synthesis.StreamRows(request) for _ in range(4)]
    time.sleep(2)
    for stream in streams:
        stream.cancel()


def half_sent(caller: Caller) -> None:
    """Opens an upload and sends nothing."""
    gate = threading.Event()

    def nothing() -> Iterator[audit_pb2.RunBlackBoxRequest]:
        gate.wait(2)
        yield from ()

    stream = caller.connection.audit.RunBlackBox(nothing())
    with suppress(grpc.RpcError):
        next(stream, None)
    gate.set()


def cancelled(caller: Caller) -> None:
    request = pb.StreamRowsRequest(name=caller.release)
    for _ in range(20):
        caller.connection.synthesis.StreamRows(request).cancel()


KINDS: tuple[Callable[[Caller], None], ...] = (flood, flood, huge, half_read, half_sent, cancelled)


def run(quick: bool) -> bench.Result:
    analysts, calls, seconds = (5, 20, 4.0) if quick else (50, 200, 100.0)
    names = [f"analyst{number}" for number in range(analysts)]
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as other,
        serving(Path(folder), [*names, ABUSER]) as (home, server),
        serving(Path(other), [ABUSER]) as (elsewhere, _),
        callers(home, [*names, ABUSER]) as (*people, mallory),
        callers(elsewhere, [ABUSER]) as (stranger,),
    ):
        phase(server, people, max(calls // 10, 5), seconds / 10)  # connections and caches are warm
        phases = {ALONE: phase(server, people, calls, seconds)}
        for name, abused_home, who in ((ELSEWHERE, elsewhere, stranger), (HERE, home, mallory)):
            endings: Counter[str] = Counter()
            with abused(abused_home, who.card, who.release, endings):
                phases[name] = phase(server, people, calls, seconds)
            phases[name].abuse.update(endings)
    return bench.Result([_table(phases), _memory(phases), _abuse(phases)], _targets(phases))


def _targets(phases: dict[str, Phase]) -> list[bench.Target]:
    p95 = {name: each.timings.percentiles()[1] for name, each in phases.items()}
    errors = [
        bench.Target(f"errors, {name}", each.timings.errors.total(), 0, "at most")
        for name, each in phases.items()
    ]
    slower = p95[HERE] / p95[ELSEWHERE]
    growth = max(each.memory[2] - each.memory[1] for each in phases.values())
    return [
        *errors,
        bench.Target(f"p95, {HERE}", slower, _MOST_SLOWER, "at most", f"times p95, {ELSEWHERE}"),
        bench.Target("service's growth in the second half", growth, _MOST_GROWTH, "at most", "MiB"),
    ]


def _table(phases: dict[str, Phase]) -> bench.Table:
    columns = [f"{name} p{percent}" for name in phases for percent in (50, 95, 99)]
    rows: list[Sequence[bench.Cell]] = [
        (
            name or "all",
            len(phases[ALONE].timings.of(name)),
            *(figure for each in phases.values() for figure in each.timings.percentiles(name)),
        )
        for name in (*MIX, "")
    ]
    title = f"Milliseconds of a call; phases of {phases[ALONE].seconds:.0f} seconds"
    return bench.Table(title, ("method", "calls", *columns), rows)


def _memory(phases: dict[str, Phase]) -> bench.Table:
    rows = [(name, *each.memory) for name, each in phases.items()]
    return bench.Table("Memory of the service, MiB", ("", "start", "middle", "end"), rows)


def _abuse(phases: dict[str, Phase]) -> bench.Table:
    there, here = phases[ELSEWHERE].abuse, phases[HERE].abuse
    rows = [(ending, there[ending], here[ending]) for ending in sorted({*there, *here})]
    return bench.Table("How the abuser's calls ended", ("", ELSEWHERE, HERE), rows)


if __name__ == "__main__":
    bench.main("load", run)
