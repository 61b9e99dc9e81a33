"""A worker with a valid certificate that answers as an attacker wants, in a process of the tests."""

import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import grpc

from gencard.controller.jobs.cluster.executor import parts_of
from gencard.controller.jobs.cluster.orders import Performer, code_digest
from gencard.controller.jobs.tasks import JOBS, ClusterPart
from gencard.controller.people.keys import KeyPair
from gencard.controller.sandbox.boxes import Recipe
from gencard.v1 import worker_pb2, worker_pb2_grpc
from gencard.v1.worker_pb2 import RunAnswer, RunOrder
from tests.system.clusters import Cluster, write_member

Lie = Callable[[bytes], Iterable[bytes]]
"""Parts of the answer to an order."""


class Command:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self.folder,)


class Truth:
    """Answers with the rows of the box; counts its orders."""

    def __init__(self) -> None:
        self.orders: list[RunOrder] = []
        self._performers: dict[str, Performer] = {}

    def __call__(self, content: bytes) -> Iterable[bytes]:
        self.orders.append(RunOrder.FromString(content))
        return parts_of(self.answer(content))

    def answer(self, content: bytes) -> bytes:
        """Answer as an honest worker does."""
        job = self.orders[-1].job if self.orders else ""
        return self._performers.setdefault(job, Performer())(content)


class OtherBox(Truth):
    """Answers with the rows of another box for some of the orders.

    Args:
        recipe: Recipe of the other box.
        chosen: Whether the worker lies in a run; called with the number of orders before.
    """

    def __init__(self, recipe: Recipe, chosen: Callable[[int], bool] = lambda _: True) -> None:
        super().__init__()
        self.recipe, self.chosen = recipe, chosen
        self.lies = 0

    def answer(self, content: bytes) -> bytes:
        """The other box's rows, as the answer to this order."""
        order = self.orders[-1]
        if not self.chosen(len(self.orders) - 1):
            return Performer()(content)
        self.lies += 1
        changed = RunOrder()
        changed.CopyFrom(order)
        changed.recipe = json.dumps(JOBS.write(self.recipe))
        answer = RunAnswer.FromString(Performer()(changed.SerializeToString()))
        return _bound(answer.codes, content)


class Replay(Truth):
    """Answers all orders of one size with the rows of the first."""

    def __init__(self, *, bound: bool) -> None:
        super().__init__()
        self.bound = bound
        self._first: bytes | None = None

    def answer(self, content: bytes) -> bytes:
        """The first answer, for whatever order."""
        if self._first is None:
            self._first = Performer()(content)
        if not self.bound:
            return self._first
        return _bound(RunAnswer.FromString(self._first).codes, content)


def _bound(codes: bytes, order: bytes) -> bytes:
    return RunAnswer(order=sha256(order).digest(), codes=codes).SerializeToString()


def malformed(folder: Path) -> dict[str, Lie]:
    """Answers that no worker of this version gives, by name.

    Args:
        folder: Pickled answers make folders in it, if they are loaded.
    """

    def with_codes(change: Callable[[RunOrder], bytes]) -> Lie:
        return lambda content: [_bound(change(RunOrder.FromString(content)), content)]

    def endless(_: bytes) -> Iterator[bytes]:
        while True:
            yield b""

    pickled = pickle.dumps(Command(folder / "whole"))
    return {
        "pickled": lambda _: [pickled],
        "pickled inside": with_codes(lambda _: pickle.dumps(Command(folder / "inside"))),
        "empty": lambda _: [],
        "no outcome": lambda content: [_bound(b"", content)[:34]],
        "another order": lambda content: [_bound(bytes(4), content + b"x")],
        "no order": lambda _: [RunAnswer(codes=bytes(4)).SerializeToString()],
        "too few rows": with_codes(lambda order: bytes(len(order.sizes) * (order.rows - 1))),
        "too many rows": with_codes(lambda order: bytes(len(order.sizes) * (order.rows + 1))),
        "codes outside the domain": with_codes(lambda o: b"\xff" * (len(o.sizes) * o.rows)),
        "a gibibyte": lambda _: (bytes(1 << 20) for _ in range(1 << 10)),
        "one large message": lambda _: [bytes(8 << 20)],
        "endless empty parts": endless,
        "not failed": lambda content: [
            RunAnswer(order=sha256(content).digest(), failed=False).SerializeToString()
        ],
    }


class _Servicer(worker_pb2_grpc.WorkerServiceServicer):
    def __init__(self, lie: Lie, runs: int) -> None:
        self._lie, self._runs = lie, runs

    def DescribeWorker(
        self, _request: worker_pb2.DescribeWorkerRequest, _context: grpc.ServicerContext
    ) -> worker_pb2.DescribeWorkerResponse:
        """Claim the controller's code."""
        return worker_pb2.DescribeWorkerResponse(code=code_digest(), runs=self._runs)

    def PerformRun(
        self, requests: Iterable[worker_pb2.PerformRunRequest], context: grpc.ServicerContext
    ) -> Iterator[worker_pb2.PerformRunResponse]:
        """Lie."""
        order = b"".join(request.part for request in requests)
        try:
            for part in self._lie(order):
                yield worker_pb2.PerformRunResponse(part=part)
        except PickledError as error:
            names = ("error-bin", "grpc-status-details-bin")
            context.set_trailing_metadata(tuple((name, error.content) for name in names))
            context.abort(grpc.StatusCode.INTERNAL, error.content.hex())


class PickledError(Exception):
    """Raised by a lie: the call ends in an error whose details are pickled."""

    def __init__(self, folder: Path) -> None:
        self.content = pickle.dumps(Command(folder))


@contextmanager
def lying_worker(
    folder: Path, authority: KeyPair, lie: Lie, *, name: str = "liar", runs: int = 1
) -> Iterator[str]:
    """Serve a worker that answers so; yields its address."""
    files = write_member(folder / name, authority, name)
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(runs + 2), options=options)
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(_Servicer(lie, runs), server)
    own = ((files / "key.pem").read_bytes(), (files / "certificate.pem").read_bytes())
    root = (files / "authority.pem").read_bytes()
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([own], root, require_client_auth=True)
    )
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


@contextmanager
def lying_cluster(folder: Path, lie: Lie, *, runs: int = 1) -> Iterator[ClusterPart]:
    """A cluster whose one worker is a liar; yields the job's part about it."""
    with Cluster(folder) as cluster, lying_worker(folder, cluster.authority, lie, runs=runs) as address:
        cluster.addresses["liar"] = address
        yield cluster.job()
