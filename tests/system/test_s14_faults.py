"""S14, S15, S19: when any step of input or output fails, the error is typed, no canary is in it, the
service goes on, and the ledger adds up."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import grpc
import pytest
from google.longrunning import operations_pb2
from google.rpc import status_pb2

from gencard.controller import operations
from gencard.controller.controller_state import ControllerState
from gencard.controller.service import operations as watching
from gencard.core.card.budget import SpendState
from gencard.core.errors import GencardError
from gencard.v1 import catalog_pb2
from gencard.wire.error_table import error_of, error_of_call
from tests.system import canaries, consistency, every_method, thread_jobs
from tests.system.every_method import Visitor
from tests.system.faults import Faults
from tests.system.house import House
from tests.system.raw_calls import eventually

TYPED = {"STORAGE", "DATASET_UNAVAILABLE", "UNAUTHENTICATED"}
"""Errors of a call at a failing disk, database or engine; unknown callers are rejected."""


@dataclass
class Frail:
    """A controller whose every step can be made to fail, and ana at its door."""

    house: House
    faults: Faults
    ana: Visitor

    @property
    def controller_state(self) -> ControllerState:
        assert self.house.controller is not None
        return self.house.controller.controller_state

    @cached_property
    def card(self) -> str:
        return self.ana.agreed().name

    @cached_property
    def release(self) -> str:
        return self.ana.released(self.card).name

    def ended(self, operation: Any) -> operations_pb2.Operation:
        """The operation once it has ended, and has tidied up."""
        ended = self.ana.ended(operation)
        assert eventually(self.is_idle)
        return ended

    def is_idle(self) -> bool:
        assert self.house.controller is not None
        return not self.house.controller.operations._runs

    def check(self, failure: GencardError | None) -> None:
        """After a step failed: how it was told, and that all is well again."""
        site = self.faults.failed[-1]
        assert failure is None or failure.reason in TYPED, (site, failure)
        alive = self.ana.call(self.ana.catalog.ListDatasets, catalog_pb2.ListDatasetsRequest())
        assert len(alive.datasets) == 5, site
        consistency.assert_balanced(self.controller_state)


@pytest.fixture(scope="module")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frail]:
    """Starts it all, and at the end searches everything for canaries."""
    folder = tmp_path_factory.mktemp("frail")
    house = canaries.haunted(folder, crowd=300)
    faults = Faults(folder)
    with pytest.MonkeyPatch.context() as patch, canaries.all_logs() as logs:
        thread_jobs.run_jobs_in_threads(patch)
        patch.setattr(operations, "RETRY_SECONDS", 0.02)
        patch.setattr(watching, "LOOK_EVERY", 0.01)
        house.start()
        assert house.controller is not None
        faults.watch_database(house.controller.controller_state.database._engine)
        faults.watch_folders(patch)
        faults.watch_files(patch)
        faults.watch_engine(patch)
        ana = Visitor(house, "ana", house.address)
        yield Frail(house, faults, ana)
        ana.close()
        house.stop()
    sinks = canaries.files_below(house.folder)
    del sinks[str(house.settings_file)]
    sinks["logs"] = "\n".join(logs).encode()
    sinks["decoded"] = "\n".join(ana.recorder.said).encode()
    canaries.assert_none(sinks)


def failure_of(operation: operations_pb2.Operation) -> GencardError | None:
    status = status_pb2.Status.FromString(operation.error.SerializeToString())
    return error_of(status) if operation.HasField("error") else None


JOB = ("operation", "job")
SITES = {"before_cursor_execute", "commit", "open", "fsync", "os.rename", "os.mkdir", "os.stat"}
SITES |= {"file.read", "file.writelines", "file.flush"}
SITES |= {"duckdb.connect", "duckdb.execute", "duckdb.sql", "duckdb.next", "duckdb.close"}


def test_s19_any_step_of_a_release_may_fail(frail: Frail) -> None:
    """Each step from the records to the signed receipt fails once; then the same is asked again."""
    frail.ended(frail.ana.begun(frail.card))
    fresh = frail.ana.agreed().name
    with frail.faults.armed(0, JOB):
        frail.ended(frail.ana.begun(fresh))
    steps = Counter(frail.faults.seen)
    assert steps.keys() >= SITES
    for site in steps:
        for nth in range(1, steps[site] + 1):
            _fails_once_then_works(frail, site, nth)
    consistency.assert_consistent(frail.controller_state)


def _fails_once_then_works(frail: Frail, site: str, nth: int) -> None:
    card = frail.ana.agreed().name
    with frail.faults.armed(nth, JOB, site=site):
        ended = frail.ended(frail.ana.begun(card))
    if not frail.faults.failed:  # how often progress is told differs from run to run
        return
    frail.check(failure_of(ended))
    assert frail.ended(frail.ana.begun(card)).HasField("response"), (site, nth)
    paid = [line.state for line in consistency.lines_of(frail.controller_state, card)]
    assert paid.count(SpendState.SETTLED) == 1, (site, nth)
    assert SpendState.RESERVED not in paid, (site, nth)


@pytest.mark.parametrize("nth", [1, 9, 25, 60])
def test_s19_a_disk_that_fails_for_a_while_ends_the_operation_late(frail: Frail, nth: int) -> None:
    """No caller waits for ever: the end of an operation is written down once it can be."""
    card = frail.ana.agreed().name
    with frail.faults.armed(nth, JOB, lasting=True):
        operation = frail.ana.begun(card)
        assert eventually(lambda: len(frail.faults.failed) > 3)
    frail.check(failure_of(frail.ended(operation)))
    assert frail.ended(frail.ana.begun(card)).HasField("response")


@pytest.mark.parametrize("name", [name for name, _ in every_method.WELL])
def test_s15_any_step_of_a_call_may_fail(frail: Frail, name: str) -> None:
    """Each step of each call fails once: a typed error, or the answer where it was not needed."""
    prepare = dict(every_method.WELL)[name]
    for nth in count(1):
        assert eventually(frail.is_idle)  # unfinished operations count against the quota
        call = prepare(frail.ana, frail.card, frail.release)
        with frail.faults.armed(nth, ("call", "job")):
            failure = failure_in(call)
        if not frail.faults.failed:
            break
        frail.check(failure)
    assert failure is None, f"the call does not work at all: {failure!r}"
    assert nth > 1 or name in WITHOUT_STATE


WITHOUT_STATE = {"ListDatasets", "GetDataset", "ListGenerators"}


def failure_in(call: Callable[[], Any]) -> GencardError | None:
    """The typed error that a call ends with."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error_of_call(error)
    return error_of_call(answer) if isinstance(answer, grpc.RpcError) else None
