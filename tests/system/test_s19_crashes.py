"""S19, S39: a controller killed at any moment loses no line of its ledger, frees none, and goes on."""

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from sqlalchemy import select

from gencard.controller.controller_state import ControllerState
from gencard.controller.state import tables
from gencard.controller.state.requests import OperationState
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.card.budget import SpendState
from gencard.v1 import synthesis_pb2
from tests.system import consistency
from tests.system.house import build, request_id, survey
from tests.system.killable_controllers import ForkServer, KillableController, fork_server
from tests.system.raw_calls import eventually

OVER = {OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    house = build(tmp_path_factory.mktemp("controller"), survey(300))
    house.raise_caps()
    with fork_server(house) as started:
        yield started


@pytest.fixture(scope="module")
def controller_state(server: ForkServer) -> Iterator[ControllerState]:
    """The state of the controller, read beside it."""
    opened = open_controller_state(server.house.settings())
    yield opened
    opened.database.close()


def operations_of(controller_state: ControllerState, card: str) -> list[tuple[str, OperationState]]:
    query = select(tables.operations.c.name, tables.operations.c.state)
    with controller_state.database.reading() as tx:
        rows = tx.execute(query.where(tables.operations.c.resource == card))
        return [(name, OperationState(state)) for name, state in rows]


def is_over(controller_state: ControllerState, controller: KillableController, card: str) -> bool:
    """Whether the controller died, or the release of the card ended."""
    return not controller.is_alive() or any(
        state in OVER for _, state in operations_of(controller_state, card)
    )


def check_wreck(controller_state: ControllerState, card: str) -> None:
    """Right after a crash: what was promised is paid for or held, and the log says so."""
    consistency.assert_ledger_and_log(controller_state)
    spends = [line.state for line in consistency.lines_of(controller_state, card)]
    promised = operations_of(controller_state, card)
    assert len(spends) == len(promised) <= 1
    assert set(spends) <= {SpendState.RESERVED, SpendState.SETTLED}
    if (promised and promised[0][1]) is OperationState.SUCCEEDED:
        assert spends == [SpendState.SETTLED]


def test_s19_killed_at_any_step_of_a_release(
    server: ForkServer, controller_state: ControllerState
) -> None:
    """Before and after each commit and each touch of a file, from the request to the operation's end."""
    controller = server.serve(die_at=1)
    for nth in count(1):
        card, request = controller.ana.agreed().name, request_id()
        controller.arm()
        controller.ana.begun(card, request=request)
        assert eventually(partial(is_over, controller_state, controller, card))
        if controller.is_alive():
            break
        controller.kill()
        check_wreck(controller_state, card)
        before = operations_of(controller_state, card)

        controller = server.serve(die_at=nth + 1)
        again = controller.ana.begun(card, request=request)
        release = synthesis_pb2.Release()
        assert controller.ana.ended(again).response.Unpack(release), nth
        assert operations_of(controller_state, card) == [(again.name, OperationState.SUCCEEDED)]
        assert not before or before[0][0] == again.name
        assert [line.state for line in consistency.lines_of(controller_state, card)] == [
            SpendState.SETTLED
        ]
        consistency.assert_consistent(controller_state)
    controller.kill()
    assert nth > 25
