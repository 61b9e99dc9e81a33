"""S13: what is not wanted any more stops, its process too, and the budget is as it should be."""

from collections.abc import Callable
from dataclasses import replace

import grpc
import pytest
from google.longrunning import operations_pb2

from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.state import results
from gencard.core.card.budget import SpendState
from gencard.core.card.terms import Proposal
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.v1 import audit_pb2, synthesis_pb2
from gencard.v1.synthesis_pb2 import OperationProgress as Progress
from gencard.wire.tables import table_chunks
from tests.memory import endless_records
from tests.system.house import House, request_id, running
from tests.system.raw_calls import agreed, call, eventually, is_alive, is_idle
from tests.system.stewards import Steward

GENERATE = "/gencard.v1.SynthesisService/GenerateRelease"
RUN_AUDIT = "/gencard.v1.AuditService/RunAudit"
GET = "/google.longrunning.Operations/GetOperation"
CANCEL = "/google.longrunning.Operations/CancelOperation"


@pytest.fixture(scope="module")
def slow_house(tmp_path_factory):
    """House whose records never end: a measurement or an audit reads on until it is stopped."""
    folder, describe = tmp_path_factory.mktemp("slow"), Descriptions.records

    def endless(*args, **more):
        records = describe(*args, **more)
        return replace(records, data=str(endless_records())) if str(folder) in records.data else records

    with running(folder) as house, pytest.MonkeyPatch.context() as patched:
        patched.setattr(Descriptions, "records", endless)
        yield house


@pytest.fixture
def card(slow_house):
    with slow_house.analyst() as analyst:
        yield agreed(analyst).name


def begun(house: House, path: str, **fields) -> str:
    """Name of a new operation."""
    kind = synthesis_pb2.GenerateReleaseRequest if path == GENERATE else audit_pb2.RunAuditRequest
    answer = call(house.channel(), path, kind(request_id=request_id(), **fields)).answers[0]
    return operations_pb2.Operation.FromString(answer).name


def progress(house: House, name: str) -> Progress:
    asked = operations_pb2.GetOperationRequest(name=name)
    operation = operations_pb2.Operation.FromString(call(house.channel(), GET, asked).answers[0])
    found = Progress()
    operation.metadata.Unpack(found)
    return found


def is_in(house: House, name: str, state: int) -> Callable[[], bool]:
    return lambda: progress(house, name).state == state


def cancel(house: House, name: str) -> None:
    asked = operations_pb2.CancelOperationRequest(name=name)
    assert call(house.channel(), CANCEL, asked).code is grpc.StatusCode.OK


def workers(house: House) -> list[int]:
    """Processes that do a job right now."""
    jobs = house.controller.operations._executor._jobs.values()
    return [process.pid for process in jobs if process is not None]


def lines(house: House, resource: str) -> list[SpendState]:
    with house.controller.controller_state.database.reading() as tx:
        found = house.controller.controller_state.ledger.lines(tx, limit=500).rows
    return [line.state for line in found if line.resource.startswith(resource)]


def test_s13_a_cancelled_release_leaves_no_process_and_no_price(slow_house, card):
    name = begun(slow_house, GENERATE, card=card, rows=10)
    assert eventually(lambda: len(workers(slow_house)) == 1)
    (pid,) = workers(slow_house)
    assert lines(slow_house, card) == [SpendState.RESERVED]
    cancel(slow_house, name)
    assert eventually(lambda: not is_alive(pid), 2)
    assert is_in(slow_house, name, Progress.STATE_CANCELLED)()
    assert lines(slow_house, card) == [SpendState.VOIDED]
    with slow_house.analyst() as analyst:
        assert analyst.budget("survey").spent.statistics == 0


def test_s13_a_cancelled_audit_counts_as_an_attempt_and_costs_nothing(slow_house, card):
    name = begun(slow_house, RUN_AUDIT, card=card)
    assert eventually(lambda: len(workers(slow_house)) == 1)
    (pid,) = workers(slow_house)
    cancel(slow_house, name)
    assert eventually(lambda: not is_alive(pid), 2)
    assert lines(slow_house, card) == [SpendState.VOIDED]
    with slow_house.controller.controller_state.database.reading() as tx:
        assert slow_house.controller.controller_state.cards.card(tx, card).state == "agreed"


def test_s13_what_waits_in_the_queue_ends_at_once(slow_house, card):
    with slow_house.analyst() as analyst:
        others = [agreed(analyst).name for _ in range(1)]
    first = [begun(slow_house, GENERATE, card=other, rows=10) for other in others]
    assert eventually(lambda: len(workers(slow_house)) == 1)
    waiting = begun(slow_house, GENERATE, card=card, rows=10)
    cancel(slow_house, waiting)
    assert is_in(slow_house, waiting, Progress.STATE_CANCELLED)()
    assert lines(slow_house, card) == [SpendState.VOIDED]
    for name in first:
        cancel(slow_house, name)
    assert eventually(lambda: not workers(slow_house), 5)
    assert eventually(lambda: is_idle(slow_house))


def test_s13_one_of_two_releases_keeps_the_price_that_the_other_waits_for(slow_house, card):
    first, second = (begun(slow_house, GENERATE, card=card, rows=10) for _ in range(2))
    assert eventually(lambda: len(workers(slow_house)) == 1)
    cancel(slow_house, first)
    assert lines(slow_house, card) == [SpendState.RESERVED]
    assert eventually(lambda: len(workers(slow_house)) == 1)
    cancel(slow_house, second)
    assert lines(slow_house, card) == [SpendState.VOIDED]
    assert eventually(lambda: not workers(slow_house), 5)


def test_s13_cancelling_again_changes_nothing(slow_house, card):
    name = begun(slow_house, GENERATE, card=card, rows=10)
    for _ in range(3):
        cancel(slow_house, name)
    assert lines(slow_house, card) == [SpendState.VOIDED]


@pytest.mark.parametrize("state", ["revoked", "terminated"])
def test_s13_a_card_that_ends_while_psi_is_measured_releases_nothing(house, monkeypatch, state):
    """The measurement waits until the card has ended."""
    with house.analyst() as analyst:
        card = agreed(analyst)
        job = house.controller.operations._executor.submit

        def submit(task, *args, **more):
            future = job(task, *args, **more)
            if task is tasks.MEASURE:
                if state == "revoked":
                    Steward(house.controller.controller_state).revoke(card.name, "why")
                else:
                    card.terminate()
            return future

        monkeypatch.setattr(house.controller.operations._executor, "submit", submit)
        name = begun(house, GENERATE, card=card.name, rows=10)
        assert eventually(is_in(house, name, Progress.STATE_FAILED))
        assert card.refresh().state == state
    assert lines(house, card.name) == [SpendState.VOIDED]
    with house.controller.controller_state.database.reading() as tx:
        assert results.find_psi(tx, card.name) is None


def test_s13_a_client_that_goes_away_stops_its_black_box(slow_house, card, monkeypatch):
    monkeypatch.setattr(tasks, "RUN_BLACK_BOX", tasks.MEASURE)
    endless = slow_house.controller.controller_state.cards.catalogue.named("datasets/survey")
    terms = Proposal("survey", "to see", (("sex",),), "ipf", 10)
    description = Descriptions(b"salt", 1).measure(endless, "0", terms)
    monkeypatch.setattr(Descriptions, "run_black_box", lambda *_, **__: description)
    domain = Domain(("sex", "health", "work", "region"), (2, 4, 3, 2))
    chunks = table_chunks(Dataset(domain, [[0, 0, 0, 0]]))
    start = audit_pb2.RunBlackBoxRequest(start=audit_pb2.RunBlackBoxStart(card=card, rows=10))
    requests = [start, *(audit_pb2.RunBlackBoxRequest(chunk=chunk) for chunk in chunks)]
    stub = slow_house.channel().stream_stream("/gencard.v1.AuditService/RunBlackBox")
    stream = stub(iter([part.SerializeToString() for part in requests]), timeout=60)
    assert eventually(lambda: len(workers(slow_house)) == 1)
    (pid,) = workers(slow_house)
    stream.cancel()
    assert eventually(lambda: not is_alive(pid), 2)
    assert lines(slow_house, card) == []
    work = slow_house.folder / "state" / "work"
    assert eventually(lambda: not list(work.glob("*")), 2)
