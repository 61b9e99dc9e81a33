"""An audit that was cancelled or stopped ends as an undisturbed one, once it is carried on."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest
from google.longrunning import operations_pb2

from gencard.client.analyst import Analyst
from gencard.client.card import Card
from gencard.client.connection.connection import cancel, progress_of
from gencard.controller.jobs import process
from gencard.controller.state import results
from gencard.core.card.budget import SpendState
from gencard.core.card.card import CardState
from gencard.core.card.terms import AuditTerms
from gencard.core.errors import InvalidInputError, NotFoundError
from gencard.v1 import audit_pb2
from gencard.v1.synthesis_pb2 import OperationProgress
from tests.system import held_worker
from tests.system.house import House, build, request_id, survey
from tests.system.prepared_audits import ended_audit, operation_of
from tests.system.raw_calls import enrolled, eventually, known_seeds
from tests.system.stewards import Steward

PAIRS = list(combinations(("sex", "health", "work"), 2))
HALF = 500
"""Permille at which an audit is disturbed."""

BEYOND = 70
"""Runs of 150 after which a held audit waits: more than half of it is done, and much is left."""


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Audits wait beyond their half for as long as it is there."""
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture
def held(hold: Path) -> Iterator[Path]:
    """The hold, there until it is taken away."""
    hold.touch()
    yield hold
    hold.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, hold: Path) -> Iterator[House]:
    """A controller that draws the same part of all seeds, and whose audits can be held."""
    with known_seeds(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_COMMAND", held_worker.command(hold, BEYOND))
        built = build(tmp_path_factory.mktemp("resume"), survey(2_000))
        built.raise_caps()
        built.edit({"generators": '["ipf", "honest"]'})
        built.review("honest")
        yield built.start()
        built.stop()


def agreed(analyst: Analyst) -> Card:
    terms = {"purpose": "a test", "rows": 2_000, "audit": AuditTerms(runs=30)}
    return analyst.propose("survey", PAIRS, generator="honest", **terms).accept()


def begun(analyst: Analyst, card: Card, resume: str = "", seed: int = 0) -> operations_pb2.Operation:
    connection = analyst._connection
    request = audit_pb2.RunAuditRequest(
        card=card.name, resume=resume, seed=seed, request_id=request_id()
    )
    return connection.call(connection.audit.RunAudit, request)


def at_half(analyst: Analyst, name: str) -> OperationProgress:
    """Wait until about half of it is done; what it then says."""
    assert eventually(lambda: progress_of(operation_of(analyst, name)).permille >= HALF, seconds=120)
    return progress_of(operation_of(analyst, name))


def journals(house: House) -> list[Path]:
    """List the journals of runs; a folder may go while it is listed, which `os.walk` passes over."""
    kept = os.walk(house.settings().state.journals)
    return sorted(Path(folder, name) for folder, _, names in kept for name in names)


@pytest.fixture(scope="module")
def undisturbed(house: House) -> tuple[audit_pb2.Audit, bytes]:
    with house.analyst() as ana:
        audit_and_report = ended_audit(house, ana, begun(ana, agreed(ana)).name)
    assert eventually(lambda: not journals(house))
    return audit_and_report


@pytest.fixture(autouse=True)
def forgotten(house: House, undisturbed: tuple[audit_pb2.Audit, bytes]) -> None:
    """Each audit is the first try of its family, as the undisturbed one was."""
    assert house.controller is not None
    clearing = Steward(house.controller.controller_state)
    with suppress(NotFoundError):
        clearing.clear("datasets/survey", "honest", "Tests compare first tries.")


def states(analyst: Analyst, card: Card) -> list[SpendState]:
    return [line.state for line in analyst.spends() if line.resource.startswith(card.name)]


def test_cancelled_at_half_and_carried_on_after_a_restart(
    house: House, undisturbed: tuple[audit_pb2.Audit, bytes], held: Path
) -> None:
    name = enrolled(house, "bob", project="other")
    with house.analyst(name) as bob:
        card = agreed(bob)
        operation = begun(bob, card)
        assert card.refresh().state is CardState.AUDITING
        assert at_half(bob, operation.name).permille < 900
        cancel(bob._connection, operation.name)
        assert eventually(lambda: operation_of(bob, operation.name).done)
        assert card.refresh().state is CardState.AGREED
        assert states(bob, card) == [SpendState.VOIDED]
    house.stop()
    runs = {path: path.stat().st_mtime_ns for path in journals(house)}
    assert len(runs) >= 40
    assert {path.stat().st_mode & 0o777 for path in runs} == {0o600}
    held.unlink()
    house.start()
    assert {path: path.stat().st_mtime_ns for path in journals(house)} == runs
    with house.analyst(name) as bob:
        again = begun(bob, card, resume=operation.name)
        audit, report = ended_audit(house, bob, again.name)
        assert report == undisturbed[1]
        assert (audit.attempt, audit.level) == (1, undisturbed[0].level)
        assert bob.card(card.name).state is CardState.AUDITED
        assert states(bob, card) == [SpendState.SETTLED, SpendState.VOIDED]
    assert eventually(lambda: not journals(house))


def test_stopped_at_half_it_carries_itself_on(
    house: House, undisturbed: tuple[audit_pb2.Audit, bytes], held: Path
) -> None:
    name = enrolled(house, "cyd", project="third")
    with house.analyst(name) as cyd:
        card = agreed(cyd)
        operation = begun(cyd, card)
        at_half(cyd, operation.name)
    house.stop(grace=0.2)
    assert journals(house)
    held.unlink()
    house.start()
    with house.analyst(name) as cyd:
        _, report = ended_audit(house, cyd, operation.name)
        assert report == undisturbed[1]
        assert states(cyd, card) == [SpendState.SETTLED]
    assert eventually(lambda: not journals(house))


def refusal(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as refused:
        call()
    return str(refused.value)


@pytest.mark.usefixtures("held")
def test_what_cannot_be_carried_on(house: House) -> None:
    with house.analyst(enrolled(house, "dot", project="fourth")) as dot, house.analyst() as ana:
        card, other = agreed(dot), agreed(dot)
        operation = begun(dot, card)
        running = refusal(lambda: begun(dot, card, resume=operation.name), InvalidInputError)
        assert "not cancelled" in running
        cancel(dot._connection, operation.name)
        refusal(lambda: begun(dot, other, resume=operation.name), NotFoundError)
        refusal(lambda: begun(ana, card, resume=operation.name), NotFoundError)
        refusal(lambda: begun(dot, card, resume="operations/none"), NotFoundError)
        assert "seed" in refusal(
            lambda: begun(dot, card, resume=operation.name, seed=7), InvalidInputError
        )
        again = begun(dot, card, resume=operation.name)
        cancel(dot._connection, again.name)
        assert "already resumed" in refusal(
            lambda: begun(dot, card, resume=operation.name), InvalidInputError
        )
        third = begun(dot, card, resume=again.name)  # each cancelled operation once
        cancel(dot._connection, third.name)
        counted = begun(dot, card)
        cancel(dot._connection, counted.name)
    controller_state = house.controller.controller_state if house.controller else None
    assert controller_state is not None
    with controller_state.database.reading() as tx:
        assert results.count_attempts(tx, "datasets/survey", dot.identity.uri) == 2


@pytest.mark.usefixtures("held")
def test_runs_that_nobody_can_carry_on_are_thrown_away(house: House) -> None:
    """At the first start after their card has ended."""
    with house.analyst(enrolled(house, "flo", project="fifth")) as flo:
        given_back, waiting = agreed(flo), agreed(flo)
        for card in (given_back, waiting):
            operation = begun(flo, card)
            at_half(flo, operation.name)
            cancel(flo._connection, operation.name)
            assert eventually(lambda name=operation.name: operation_of(flo, name).done)
        given_back.refresh().terminate()
        before = {path.parent for path in journals(house)}
    house.stop()
    house.start()
    kept = {path.parent for path in journals(house)}
    assert kept < before
    assert len(before - kept) == 1
