"""S13, S19: what becomes of work when its process dies, or the service stops, or dies, under it."""

import os
import signal
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from gencard.controller.jobs import process
from gencard.controller.state.cards import list_cards
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.card.budget import SpendState
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.v1 import synthesis_pb2
from gencard.v1.common_pb2 import TableChunk
from gencard.wire.tables import ACCEPT_PACKED, dataset_of_chunks
from tests.system import canaries, consistency, gated_worker
from tests.system.every_method import Visitor
from tests.system.house import House, build, request_id, survey
from tests.system.killable_controllers import fork_server
from tests.system.raw_calls import eventually, is_alive
from tests.system.test_s14_faults import failure_in, failure_of

GONE_WITHIN = 2.0
"""Seconds after which nothing may be left of work that nobody wants."""


class Gate:
    """Gate at which workers wait before they work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def worker(self) -> int:
        """Number of the one process that waits."""
        assert eventually(lambda: len(self.waiting()) == 1)
        return self.waiting()[0]

    def waiting(self) -> list[int]:
        numbers = (int(path.name.removeprefix("worker-")) for path in self.folder.glob("worker-*"))
        return [number for number in numbers if is_alive(number)]

    def open(self) -> None:
        (self.folder / "open").touch()


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Workers of controllers started from now on wait until it is opened."""
    folder = tmp_path / "gate"
    folder.mkdir()
    monkeypatch.setattr(process, "_COMMAND", gated_worker.command(folder))
    return Gate(folder)


@pytest.fixture
def house(tmp_path: Path, gate: Gate) -> Iterator[House]:
    """A controller whose workers wait at the gate."""
    started = build(tmp_path, survey(300)).start()
    yield started
    started.stop()


@pytest.fixture
def ana(house: House) -> Iterator[Visitor]:
    visitor = Visitor(house, "ana", house.address)
    yield visitor
    visitor.close()


def spends(house: House, card: str) -> list[SpendState]:
    assert house.controller is not None
    return [line.state for line in consistency.lines_of(house.controller.controller_state, card)]


def test_s19_a_worker_that_is_killed_costs_its_reservation(
    house: House, gate: Gate, ana: Visitor
) -> None:
    """The failure costs one statistic; asking again holds the price, and settles it."""
    card = ana.agreed().name
    operation = ana.begun(card)
    os.kill(gate.worker(), signal.SIGKILL)
    failure = failure_of(ana.ended(operation))
    assert failure is not None
    assert failure.reason == "MEASUREMENT_REFUSED"
    assert spends(house, card) == [SpendState.SETTLED]
    gate.open()
    ana.released(card)
    assert spends(house, card) == [SpendState.SETTLED] * 2
    assert house.controller is not None
    consistency.assert_consistent(house.controller.controller_state)


def test_s19_a_stop_keeps_reservation_and_operation_for_the_next_start(
    house: House, gate: Gate, ana: Visitor
) -> None:
    """A graceful stop kills the job, ends nothing, frees nothing; the next start carries on."""
    card, request = ana.agreed().name, request_id()
    operation, worker = ana.begun(card, request=request), gate.worker()
    stopping = threading.Thread(target=house.stop, args=(0.5,))
    stopping.start()
    assert eventually(lambda: not stopping.is_alive(), 5)
    assert not is_alive(worker)
    controller_state = open_controller_state(house.settings())
    assert [line.state for line in consistency.lines_of(controller_state, card)] == [SpendState.RESERVED]
    controller_state.database.close()

    gate.open()
    again = Visitor(house, "ana", house.start().address)
    resumed = again.begun(card, request=request)
    assert resumed.name == operation.name
    assert again.ended(resumed).HasField("response")
    assert spends(house, card) == [SpendState.SETTLED]
    assert house.controller is not None
    consistency.assert_consistent(house.controller.controller_state)
    again.close()


def test_s19_no_process_to_be_had_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has no process to give: the job fails, and the next job gets a process again."""

    def none(*_: object, **__: object) -> None:
        raise BlockingIOError(11, f"no process for {canaries.WORD}")

    monkeypatch.setattr(process.subprocess, "Popen", none)
    house = build(tmp_path, survey(300)).start()
    ana = Visitor(house, "ana", house.address)
    card = ana.agreed().name
    failure = failure_of(ana.ended(ana.begun(card)))
    assert failure is not None
    assert failure.reason == "MEASUREMENT_REFUSED"
    assert spends(house, card) == [SpendState.SETTLED]
    monkeypatch.undo()
    ana.released(card)
    assert spends(house, card) == [SpendState.SETTLED] * 2
    ana.close()
    house.stop()


def test_s19_a_service_killed_under_its_worker(tmp_path: Path, gate: Gate) -> None:
    """The worker goes with the service; the next start carries the operation on."""
    with fork_server(build(tmp_path, survey(300))) as server:
        controller = server.serve(gate=gate.folder)
        card, request = controller.ana.agreed().name, request_id()
        operation, worker = controller.ana.begun(card, request=request), gate.worker()
        controller.kill()
        assert eventually(lambda: not is_alive(worker), seconds=GONE_WITHIN)

        controller = server.serve(gate=gate.folder)
        gate.worker()
        gate.open()
        again = controller.ana.begun(card, request=request)
        assert again.name == operation.name
        assert controller.ana.ended(again).HasField("response")
        controller.kill()
    controller_state = open_controller_state(House(tmp_path / "controller").settings())
    assert [line.state for line in consistency.lines_of(controller_state, card)] == [SpendState.SETTLED]
    consistency.assert_consistent(controller_state)
    controller_state.database.close()


def test_s14_a_full_disk_is_a_typed_error_and_changes_nothing(tmp_path: Path) -> None:
    """No file can grow beyond a bound, in the service or in its jobs; with room again, all is well."""
    house = canaries.haunted(tmp_path, crowd=300)
    with fork_server(house) as server:
        controller = server.serve()
        card = controller.ana.agreed().name
        controller.kill()
        log = house.folder / "state" / "state.sqlite-wal"
        controller = server.serve(file_bytes=log.stat().st_size + 140_000)
        controller.arm()
        failures = [failure_in(controller.ana.proposed) for _ in range(30)]
        assert {failure and failure.reason for failure in failures} == {None, "STORAGE"}
        failure = failure_in(lambda: controller.ana.begun(card))
        assert failure is not None
        assert failure.reason == "STORAGE"
        said = controller.ana.recorder.said
        controller.kill()

        controller = server.serve()
        controller.ana.released(card)
        said += controller.ana.recorder.said
        controller.kill()
    controller_state = open_controller_state(house.settings())
    consistency.assert_consistent(controller_state)
    assert [line.state for line in consistency.lines_of(controller_state, card)] == [SpendState.SETTLED]
    with controller_state.database.reading() as tx:
        assert len(list_cards(tx, limit=100).rows) == 1 + failures.count(None)
    controller_state.database.close()
    sinks = canaries.files_below(house.folder) | {"decoded": "\n".join(said).encode()}
    del sinks[str(house.settings_file)]
    canaries.assert_none(sinks)


def test_memory_stays_flat_while_a_million_rows_are_sent(tmp_path: Path) -> None:
    """The service holds one message of a stream, not the release."""
    house = build(tmp_path, survey(300))
    house.edit({"most_rows": "2_000_000"})
    with fork_server(house) as server:
        gate = Gate(tmp_path / "gate")
        gate.folder.mkdir()
        gate.open()
        controller = server.serve(gate=gate.folder)
        card = controller.ana.agreed(rows=1_000_000).name
        operation = controller.ana.begun(card, rows=1_000_000)
        release = synthesis_pb2.Release()
        assert controller.ana.ended(operation).response.Unpack(release)
        Path(f"/proc/{controller.pid}/clear_refs").write_text("5")  # the peak is measured from here on
        before = _peak_mib(controller.pid)
        request = synthesis_pb2.StreamRowsRequest(name=release.name)
        for asks in (None, (ACCEPT_PACKED,)):  # as clients first asked, and as they ask now
            answers = controller.ana.connection.synthesis.StreamRows(request, metadata=asks)
            first = next(answers).chunk
            assert first.header.packed is (asks is not None)
            rows = _received([first], (answer.chunk for answer in answers))
            assert (len(rows), rows.digest()) == (1_000_000, release.digest)
        assert _peak_mib(controller.pid) - before < 50
        controller.kill()


def _received(first: list[TableChunk], others: Iterator[TableChunk]) -> Dataset:
    header = first[0].header
    domain = Domain(tuple(header.attributes), tuple(header.sizes))
    return dataset_of_chunks(chain(first, others), domain=domain, most_rows=header.rows)


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
