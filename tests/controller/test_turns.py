"""S11: whose work begins next: owners take turns, and lent boxes and work at records stay apart."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.controller.base.fair_use import FairLock, Turns, WorkTurn, working_for
from gencard.controller.jobs import tasks
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.core.errors import StorageError
from tests.system.raw_calls import eventually

SECONDS = 60.0


def filled(places: int, *work: tuple[str, str]) -> Turns[str]:
    """Turns with work by (owner, kind), all waiting."""
    turns: Turns[str] = Turns(places)
    for number, (owner, kind) in enumerate(work):
        turns.add(turn_of(owner, kind, f"{owner}{number}"))
    return turns


def turn_of(owner: str, kind: str = "psi", item: str = "") -> WorkTurn[str]:
    return WorkTurn(item, owner, at_records=kind == "records", lent=kind == "lent")


def drained(turns: Turns[str]) -> list[str]:
    """Owners in the order in which their work begins, where the work that began first ends first."""
    owners, running = [], []
    while began := turns.begin() or running:
        if began is not running:
            running += began
            owners += [turn.owner for turn in began]
        else:
            turns.end(running.pop(0))
    return owners


class TestS11Turns:
    def test_s11_the_second_owner_does_not_wait_for_the_first_ones_queue(self):
        turns = filled(2, *[("ana", "psi")] * 50, ("bob", "psi"))
        assert drained(turns)[:3].index("bob") <= 1

    @pytest.mark.parametrize("places", [1, 2, 3, 8])
    def test_s11_owners_alternate_as_long_as_each_has_work(self, places):
        turns = filled(places, *[("ana", "psi")] * 20, *[("bob", "psi")] * 20, *[("cy", "psi")] * 20)
        owners = drained(turns)
        assert all(len(set(owners[start : start + 3])) == 3 for start in range(0, 60, 3))

    @pytest.mark.parametrize(("places", "most"), [(1, 1), (2, 1), (3, 2), (8, 7)])
    def test_s11_one_owner_leaves_a_place_free(self, places, most):
        turns = filled(places, *[("ana", "psi")] * 20)
        assert len(turns.begin()) == most
        turns.add(turn_of("bob"))
        assert [turn.owner for turn in turns.begin()] == ["bob"] * (places > 1)

    def test_one_owners_work_keeps_its_order(self):
        turns = filled(1, *[("ana", "psi")] * 5)
        items = []
        while began := turns.begin():
            items += [turn.item for turn in began]
            turns.end(began[0])
        assert items == [f"ana{number}" for number in range(5)]

    def test_what_is_withdrawn_never_begins(self):
        turns: Turns[str] = Turns(1)
        first, second = turn_of("ana"), turn_of("ana")
        turns.add(first)
        turns.add(second)
        assert (turns.withdraw(second), turns.withdraw(second)) == (True, False)
        assert turns.begin() == (first,)
        assert not turns.withdraw(first)
        turns.end(first)
        assert turns.begin() == ()


KINDS = st.sampled_from(["psi", "records", "lent"])
WORK = st.lists(st.tuples(st.sampled_from("abcd"), KINDS), min_size=1, max_size=30)


class TestS11Exclusion:
    @given(WORK, st.integers(1, 5), st.data())
    def test_s11_lent_work_and_work_at_records_never_run_together(self, work, places, data):
        """In whatever order work comes and ends: all runs, and never two that exclude each other."""
        turns: Turns[str] = Turns(places)
        waiting, running, ended = list(work), [], 0
        while waiting or running:
            if waiting and (not running or data.draw(st.booleans())):
                turns.add(turn_of(*waiting.pop(0)))
            elif running:
                turns.end(running.pop(data.draw(st.integers(0, len(running) - 1))))
                ended += 1
            running += turns.begin()
            assert len(running) <= places
            assert not {turn.lent for turn in running} & {turn.at_records for turn in running} & {True}
        assert ended == len(work)

    @pytest.mark.parametrize("kinds", [("records", "lent"), ("lent", "records")])
    def test_s11_neither_keeps_the_other_out(self, kinds):
        """Two owners with work of one kind without end, and a third with one of the other."""
        many, one = kinds
        turns = filled(3, *[("ana", many)] * 2, *[("bob", many)] * 2)
        running = list(turns.begin())
        turns.add(turn_of("cy", one))
        begun_meanwhile = 0
        while not any(turn.owner == "cy" for turn in running):
            assert begun_meanwhile <= 4
            turns.end(running.pop(0))
            began = turns.begin()
            begun_meanwhile += len(began)
            running += began
            turns.add(turn_of("ana", many))
            turns.add(turn_of("bob", many))
        assert [turn.owner for turn in running] == ["cy"]

    def test_work_that_excludes_nothing_goes_on_beside_both(self):
        turns = filled(3, ("ana", "records"), ("bob", "lent"), ("cy", "psi"))
        assert [turn.owner for turn in turns.begin()] == ["ana", "cy"]


@pytest.fixture
def executor():
    executor = ProcessExecutor(2, cpu_seconds=60, memory_mib=2_048, report=lambda *_: None)
    yield executor
    executor.shutdown(cancel_futures=True)


class Gate:
    """Jobs that keep their places until the gate opens, and in which order they came to it."""

    def __init__(self) -> None:
        self.opened, self.order = threading.Event(), []

    def hold(self, name: str):
        def hold() -> None:
            self.order.append(name)
            assert self.opened.wait(SECONDS)

        return hold


class TestS11Executor:
    def submit(self, executor, gate, owner, task=tasks.MEASURE):
        return executor.submit(task, {}, owner=owner, hold=gate.hold(owner))

    def test_s11_another_owners_job_begins_while_one_has_fifty(self, executor):
        gate = Gate()
        jobs = [self.submit(executor, gate, "ana") for _ in range(50)]
        other = self.submit(executor, gate, "bob")
        assert eventually(lambda: sorted(gate.order) == ["ana", "bob"])
        for job in jobs[1:]:
            job.cancel()
        gate.opened.set()
        assert other.exception(SECONDS)
        assert gate.order.count("ana") == 1

    @pytest.mark.parametrize("first", [tasks.MEASURE, tasks.AUDIT, tasks.KEEP, tasks.DRAW])
    def test_s11_a_lent_box_waits_for_work_at_records_and_the_other_way_round(self, executor, first):
        for early, late in ((first, tasks.RUN_BLACK_BOX), (tasks.RUN_BLACK_BOX, first)):
            gate = Gate()
            one = self.submit(executor, gate, "ana", early)
            assert eventually(lambda gate=gate: gate.order == ["ana"])
            two = self.submit(executor, gate, "bob", late)
            three = self.submit(executor, gate, "cy", tasks.SYNTHESISE)
            assert eventually(lambda gate=gate: gate.order == ["ana", "cy"])
            assert executor._jobs[two] is None
            gate.opened.set()
            assert all(job.exception(SECONDS) for job in (one, two, three))
            assert gate.order == ["ana", "cy", "bob"]

    def test_a_cancelled_job_lets_what_it_held_back_begin(self, executor):
        """Bob's lent job waits for ana's at records, cy's at records for bob's; bob gives up."""
        gate = Gate()
        self.submit(executor, gate, "ana")
        assert eventually(lambda: gate.order == ["ana"])
        lent = self.submit(executor, gate, "bob", tasks.RUN_BLACK_BOX)
        self.submit(executor, gate, "cy")
        assert executor._jobs[lent] is None
        assert lent.cancel()
        assert eventually(lambda: gate.order == ["ana", "cy"])
        gate.opened.set()

    def test_a_shutdown_begins_nothing_more(self, executor):
        gate = Gate()
        self.submit(executor, gate, "ana")
        assert eventually(lambda: gate.order == ["ana"])
        waiting = [self.submit(executor, gate, "ana") for _ in range(5)]
        gate.opened.set()
        executor.shutdown(cancel_futures=True)
        assert all(job.cancelled() or job.exception() for job in waiting)
        assert gate.order.count("ana") <= 2


def order_of(lock: FairLock, owners: Sequence[str]) -> list[str]:
    """Return the order in which owners pass who began to wait one after another."""
    passed: list[str] = []

    def wait(owner: str) -> None:
        with working_for(owner), lock.passed():
            passed.append(owner)

    with ThreadPoolExecutor(len(owners)) as pool:
        with lock.passed():
            for number, owner in enumerate(owners, 1):
                pool.submit(wait, owner)
                assert eventually(lambda n=number: waiting_at(lock) == n)
        pool.shutdown(wait=True)
    return passed


def waiting_at(lock: FairLock) -> int:
    return sum(map(len, lock._turns._waiting.values()))


class TestS11Door:
    def test_s11_who_has_many_writes_waiting_waits_behind_himself(self):
        owners = order_of(FairLock(SECONDS), [*["mallory"] * 10, "ana", "bob", "ana"])
        assert owners == ["mallory", "ana", "bob", "mallory", "ana", *["mallory"] * 8]

    def test_one_at_a_time(self):
        lock, inside, most = FairLock(SECONDS), [0], [0]

        def pass_often() -> None:
            for _ in range(50):
                with lock.passed():
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    threading.Event().wait(0)
                    inside[0] -= 1

        with ThreadPoolExecutor(4) as pool:
            for passing in [pool.submit(pass_often) for _ in range(4)]:
                passing.result(SECONDS)
        assert most == [1]

    def test_who_waits_too_long_or_fails_leaves_the_door_open(self):
        lock = FairLock(0.01)
        with lock.passed(), ThreadPoolExecutor(1) as pool:
            late = pool.submit(order_of, lock, ["ana"])
            assert isinstance(late.exception(SECONDS), StorageError)
        with pytest.raises(ZeroDivisionError), lock.passed():
            raise ZeroDivisionError
        with lock.passed():
            assert waiting_at(lock) == 0
