"""Rows over mutual TLS: a release of 15 attributes, from the controller's file to the analyst.

``python -m benchmarks.stream [--quick] [--json FILE]``

The controller is a process of its own on loopback, each way of receiving another, whose first release
it is. Memory is what a process holds above what it held when it was idle. Beside it the same codes come
by Arrow Flight, over mutual TLS too, without a digest, a byte a code: by turns with ours, several times
each, and of these the median counts.

Where the time goes is a table of its own, of each part alone (``benchmarks.stream_parts``). The digest
and gRPC take a quarter each of 30 ms for 1,000,000 rows. A byte a code, gRPC alone takes more than all
of that. Memory that a process did not have takes 3 ms, or 40 ms where the host of a virtual machine
has to find it first.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import flight

from benchmarks import bench, stream_parts
from gencard.client import Analyst, all_marginals
from gencard.client.agreement import Agreement
from gencard.client.connection.tables import fetch_rows
from gencard.controller.drafting.folder import draft
from gencard.wire.keys import Role

SIZES = (4, 3, 3, 3, 3, *(2,) * 10)
"""Levels of the 15 attributes: 331,776 cells, and one byte for each code as up to 256 levels have."""

_MOST_ABOVE_IDLE = 300.0
_FEWEST_ROWS_A_SECOND = 25e6
_TURNS = 9


@dataclass(frozen=True, slots=True)
class Received:
    """One release, received in one way."""

    way: str
    rows: int
    seconds: float
    client_mib: float
    server_mib: float | None
    fastest: float | None = None


def nothing(_stage: str, _share: float) -> None:
    """Ignore the progress."""


def in_memory(agreement: Agreement, release: str, rows: int, _folder: Path) -> object:
    return fetch_rows(
        agreement.connection, release, rows, nothing, domain=agreement.domain, scratch=None
    )


def in_a_file(agreement: Agreement, release: str, rows: int, folder: Path) -> object:
    return fetch_rows(
        agreement.connection, release, rows, nothing, domain=agreement.domain, scratch=folder
    )


def as_a_frame(agreement: Agreement, release: str, _rows: int, _folder: Path) -> object:
    return agreement.fetch(release, progress=False).frame


def to_parquet(agreement: Agreement, release: str, _rows: int, folder: Path) -> object:
    agreement.fetch(release, progress=False, scratch=folder).write(folder / "rows.parquet")
    return None


def to_csv(agreement: Agreement, release: str, _rows: int, folder: Path) -> object:
    agreement.fetch(release, progress=False, scratch=folder).write(folder / "rows.csv")
    return None


WAYS: dict[str, Callable[[Agreement, str, int, Path], object]] = {
    "codes, in memory": in_memory,
    "codes, in a file": in_a_file,
    "data frame": as_a_frame,
    "Parquet file": to_parquet,
    "CSV file": to_csv,
}
"""Every way checks the digest of the rows."""


def run(quick: bool) -> bench.Result:
    counts = (100_000,) if quick else (1_000_000, 4_000_000)
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (folder, server):
        made = releases(folder, counts)
        received = [
            receive(folder, server, way, *one, rows)
            for rows, one in zip(counts, made, strict=True)
            for way in WAYS
        ]
        received[0], flight = by_turns(folder, server, received[0], made[0], 1 if quick else _TURNS)
        received += [flight, *(by_flight(folder, rows) for rows in counts[1:])]
        parts = stream_parts.measured(folder, *made[0], SIZES, counts[0])
    first = [one for one in received if one.rows == counts[0]]
    least = 1e6 if quick else _FEWEST_ROWS_A_SECOND  # starting takes most of a small release's time
    return bench.Result(
        [_table(received), parts],
        [
            _bound("client", max(one.client_mib for one in first)),
            _bound("server", max(one.server_mib or 0.0 for one in received)),
            bench.Target("codes", first[0].rows / first[0].seconds, least, "at least", "rows/s"),
        ],
    )


def by_turns(
    folder: Path, server: int, first: Received, made: tuple[str, str], turns: int
) -> tuple[Received, Received]:
    """A release that was received once, and Arrow Flight: several more of each, and their medians."""
    ours, flight = [first], [by_flight(folder, first.rows)]
    for _ in range(turns - 1):
        ours.append(receive(folder, server, first.way, *made, first.rows))
        flight.append(by_flight(folder, first.rows))
    return median(ours), median(flight)


def median(received: Sequence[Received]) -> Received:
    """The middle one of several, with the most memory of any."""
    seconds = sorted(one.seconds for one in received)
    middle = replace(received[0], seconds=seconds[len(seconds) // 2], fastest=seconds[0])
    return replace(middle, client_mib=max(one.client_mib for one in received))


def _bound(side: str, mib: float) -> bench.Target:
    return bench.Target(f"{side} above idle", mib, _MOST_ABOVE_IDLE, "at most", "MiB")


@contextmanager
def serving(folder: Path, analysts: Sequence[str] = ()) -> Iterator[tuple[Path, int]]:
    """A controller on a free port, where ana and these are enrolled: its folder and its process."""
    home = folder / "controller"
    _prepare(folder, home, analysts)
    command = [str(Path(sys.executable).with_name("gencard-controller"))]
    command += ["serve", "--unreviewed", "--config", str(home / "controller.toml")]
    environment = {**os.environ, "GENCARD_SERVER__ADDRESS": "localhost:0", "NO_COLOR": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stdout or () if "Serving on" in line)
            port = re.findall(r"\d+", line)[-1]
            for person in (home / "people").iterdir():
                (person / "connection.toml").write_text(f'address = "localhost:{port}"\n')
            yield home, process.pid
        finally:
            process.terminate()


def _prepare(folder: Path, home: Path, analysts: Sequence[str]) -> None:
    """Records, settings and certificates; as many rows and cards may be asked for as benchmarks want."""
    rng = np.random.default_rng(1)
    levels = [np.array([f"level {code}" for code in range(size)]) for size in SIZES]
    records = {
        f"attribute {i}": names[rng.integers(0, len(names), 5_000)] for i, names in enumerate(levels)
    }
    pd.DataFrame(records).to_csv(folder / "records.csv", index=False)
    roles = dict.fromkeys(analysts, Role.ANALYST)
    draft(home, folder / "records.csv", now=datetime.now(UTC), demo_people=True, people=roles)
    settings = home / "controller.toml"
    text = re.sub(r"(?m)^most_rows = .*$", "most_rows = 4_000_000", settings.read_text())
    caps = r"(?m)^(dataset|project|analyst) = \{.*$"
    settings.write_text(re.sub(caps, r"\1 = { statistics = 1_000_000, rho = 1_000 }", text))


def releases(folder: Path, counts: tuple[int, ...]) -> list[tuple[str, str]]:
    """Card and release for each number of rows."""
    with Analyst.connect(folder=folder / "people/ana") as analyst:
        card = analyst.propose(
            "records", all_marginals(1), purpose="a benchmark", rows=4_000_000
        ).accept()
        return [(card.name, card.release(rows, seed=rows, progress=False).name) for rows in counts]


def receive(folder: Path, server: int, way: str, card: str, release: str, rows: int) -> Received:
    """Receive a release in a process of its own, and look at the server's memory meanwhile."""
    Path(f"/proc/{server}/clear_refs").write_text("5")  # sets the kernel's high-water mark back
    idle = status_mib(server, "VmRSS")
    seconds, client = bench.alone(received_in, folder, way, card, release, rows)
    return Received(way, rows, seconds, client, status_mib(server, "VmHWM") - idle)


def status_mib(process: int, field: str) -> float:
    """Memory of another process, in MiB (Linux)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]  # is there


def received_in(folder: Path, way: str, card: str, release: str, rows: int) -> tuple[float, float]:
    """Seconds, and peak memory above an idle connection in MiB."""
    took: list[float] = []
    with (
        Analyst.connect(folder=folder / "people/ana") as analyst,
        tempfile.TemporaryDirectory() as scratch,
    ):
        agreement = analyst.card(card).agreement
        fetch = WAYS[way]
        above = bench.peak_mib(
            lambda: took.append(bench.once(lambda: fetch(agreement, release, rows, Path(scratch))))
        )
    return took[0], above


def by_flight(home: Path, rows: int) -> Received:
    """Receive as many codes by Arrow Flight, with the same certificates, in processes of their own."""
    with stream_parts.process(serve_flight, home, rows) as port:
        seconds, client = bench.alone(received_by_flight, home, port)
    return Received("Arrow Flight", rows, seconds, client, None)


def serve_flight(home: Path, rows: int, port: Any, end: Any) -> None:
    rng = np.random.default_rng(1)
    codes = {f"attribute {i}": rng.integers(0, size, rows, np.uint8) for i, size in enumerate(SIZES)}
    table = pa.table(codes)

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_get(self, _context: object, _ticket: object) -> object:
            return flight.RecordBatchStream(table)

    server = Server(
        "grpc+tls://localhost:0",
        tls_certificates=[
            ((home / "server/certificate.pem").read_bytes(), (home / "server/key.pem").read_bytes())
        ],
        verify_client=True,
        root_certificates=(home / "authority/certificate.pem").read_bytes(),
    )
    port.put(server.port)
    end.wait()
    server.shutdown()


def received_by_flight(home: Path, port: int) -> tuple[float, float]:
    """Seconds, and peak memory above an idle connection in MiB."""
    took: list[float] = []
    person = home / "people/ana"
    with flight.FlightClient(
        f"grpc+tls://localhost:{port}",
        tls_root_certs=(person / "authority.pem").read_bytes(),
        cert_chain=(person / "certificate.pem").read_bytes(),
        private_key=(person / "key.pem").read_bytes(),
    ) as client:
        client.wait_for_available()
        ticket = flight.Ticket(b"rows")
        above = bench.peak_mib(lambda: took.append(bench.once(lambda: client.do_get(ticket).read_all())))
    return took[0], above


def _table(received: list[Received]) -> bench.Table:
    width = len(SIZES)
    return bench.Table(
        f"A release of {width} attributes over mutual TLS",
        ("rows", "way", "seconds", "fastest", "rows/s", "MB/s", "client MiB", "server MiB"),
        [
            (
                f"{one.rows:,}",
                one.way,
                one.seconds,
                one.fastest,
                f"{one.rows / one.seconds:,.0f}",
                one.rows * width / one.seconds / 1e6,
                one.client_mib,
                one.server_mib,
            )
            for one in received
        ],
    )


if __name__ == "__main__":
    bench.main("stream", run)
