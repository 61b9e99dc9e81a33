"""Parts of receiving a release, each measured alone, over mutual TLS or without a network.

What gRPC takes for the same messages, from memory to nowhere and without any code of Gencard, bounds
what a release can reach; so does the digest, which one thread computes.
"""

import multiprocessing
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from benchmarks import bench
from gencard.client import Analyst
from gencard.controller.jobs.synthesis import RowsFile
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.v1.synthesis_pb2 import StreamRowsRequest, StreamRowsResponse
from gencard.wire.tables import DatasetColumns, dataset_of_chunks, encoded_chunks

_METHOD = "/benchmarks.Messages/Send"
_TURNS = 5
LAYOUTS = {"packed": True, "a byte a code": False}


def measured(home: Path, card: str, release: str, sizes: Sequence[int], rows: int) -> bench.Table:
    """A table of the parts of a release of so many rows, with attributes of these sizes."""
    parts = {"call until its first message": bench.alone(first_message, home, card, release)}
    parts |= bench.alone(without_network, sizes, rows)
    with process(serve_messages, home, sizes, rows) as port:
        for layout in LAYOUTS:
            times = [bench.alone(receive_messages, home, port, layout) for _ in range(_TURNS)]
            parts[f"gRPC over TLS alone, {layout}"] = statistics.median(times)
    lines = [(name, 1e3 * seconds, f"{rows / seconds:,.0f}") for name, seconds in parts.items()]
    return bench.Table(f"Each part of {rows:,} rows alone", ("part", "ms", "rows/s"), lines)


def first_message(home: Path, card: str, release: str) -> float:
    """Seconds until the controller's first message: the caller is known, the release is found."""
    with Analyst.connect(folder=home / "people/ana") as analyst:
        stub = analyst.card(card).agreement.connection.synthesis
        return bench.seconds(lambda: next(stub.StreamRows(StreamRowsRequest(name=release))))


def made(sizes: Sequence[int], rows: int) -> Dataset:
    rng = np.random.default_rng(1)
    domain = Domain.of({f"attribute {axis}": size for axis, size in enumerate(sizes)})
    return Dataset.of_columns(domain, [rng.integers(0, size, rows, np.uint8) for size in sizes])


def messages(dataset: Dataset, layout: str) -> list[bytes]:
    columns = DatasetColumns(dataset)
    return list(encoded_chunks(columns, dataset.digest(), packed=LAYOUTS[layout]))


def without_network(sizes: Sequence[int], rows: int) -> dict[str, float]:
    """Seconds of what the controller does before gRPC, and the client after it."""
    dataset = made(sizes, rows)
    seconds = {"memory that is new": new_memory(dataset), "digest": bench.seconds(dataset.digest)}
    with tempfile.TemporaryDirectory() as folder:
        file = RowsFile(Path(folder) / "rows")
        file.write(dataset)
        for layout in LAYOUTS:
            ours = bench.seconds(partial(read, file, layout))
            theirs = bench.seconds(partial(decode, messages(dataset, layout), dataset.domain, rows))
            seconds[f"controller: read, {layout}"] = ours
            seconds[f"client: decode and digest, {layout}"] = theirs
    return seconds


def new_memory(dataset: Dataset) -> float:
    """Seconds of a write to as much memory as the codes take, which the process did not have before."""
    kept: list[Any] = []

    def fill() -> None:
        kept.append(np.empty(dataset.codes.shape, dtype=dataset.codes.dtype, order="F"))
        kept[-1].fill(1)

    return statistics.median(bench.once(fill) for _ in range(_TURNS))


def read(file: RowsFile, layout: str) -> None:
    with file.opened() as columns:
        for _ in encoded_chunks(columns, "", packed=LAYOUTS[layout]):
            pass


def decode(sent: Sequence[bytes], domain: Domain, rows: int) -> None:
    chunks = (StreamRowsResponse.FromString(message).chunk for message in sent)
    dataset_of_chunks(chunks, domain=domain, most_rows=rows)


@contextmanager
def process(serve: Callable[..., None], *arguments: object) -> Iterator[int]:
    """The port of a server in a process of its own, which puts it into a queue and ends by an event."""
    context = multiprocessing.get_context("spawn")
    port, end = context.Queue(), context.Event()
    server = context.Process(target=serve, args=(*arguments, port, end), daemon=True)
    server.start()
    try:
        yield port.get(timeout=60)
    finally:
        end.set()
        server.join(10)


def serve_messages(home: Path, sizes: Sequence[int], rows: int, port: Any, end: Any) -> None:
    """The messages of a release from memory, to whoever names their layout."""
    dataset = made(sizes, rows)
    kept = {layout.encode(): messages(dataset, layout) for layout in LAYOUTS}
    send: Any = grpc.unary_stream_rpc_method_handler(lambda layout, _context: iter(kept[layout]))
    service, method = _METHOD[1:].split("/")
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: send})])
    key, chain = ((home / "server" / name).read_bytes() for name in ("key.pem", "certificate.pem"))
    authority = (home / "authority/certificate.pem").read_bytes()
    tls = grpc.ssl_server_credentials([(key, chain)], authority, require_client_auth=True)
    port.put(server.add_secure_port("localhost:0", tls))
    server.start()
    end.wait()
    server.stop(0).wait()


def receive_messages(home: Path, port: int, layout: str) -> float:
    """Seconds until the last message has come, on a connection that stands."""
    person = home / "people/ana"
    files = [(person / name).read_bytes() for name in ("authority.pem", "key.pem", "certificate.pem")]
    with grpc.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(*files)) as channel:
        grpc.channel_ready_future(channel).result(60)
        received: Any = channel.unary_stream(_METHOD)
        return bench.once(lambda: [len(message) for message in received(layout.encode())])
