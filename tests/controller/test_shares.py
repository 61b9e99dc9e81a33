"""Number of calls that one caller, and all together, may have at a time, and the order of service."""

import threading
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from gencard.controller.base import fair_use as turns_module
from gencard.controller.base.fair_use import (
    MODERATE_SECONDS,
    MODERATE_SHARE,
    PARTS_PER_CALL,
    Bounds,
    CallTurns,
    Shares,
)
from gencard.core.errors import ServiceBusyError
from tests.system.raw_calls import eventually

WIDE = 1_000


def shares_of(per_identity, calls):
    return Shares(Bounds(per_identity, calls, per_second=WIDE, request_seconds=1), lambda: 0.0)


@pytest.mark.parametrize(("per_identity", "calls"), [(3, WIDE), (WIDE, 3)])
def test_so_many_calls_at_a_time_and_not_one_more(per_identity, calls):
    shares = shares_of(per_identity, calls)
    with ExitStack() as running:
        for _ in range(3):
            running.enter_context(shares.taken("ana"))
        with pytest.raises(ServiceBusyError), shares.taken("ana"):
            pass


def test_the_share_of_one_caller_is_no_others():
    shares = shares_of(1, 2)
    with shares.taken("ana"), shares.taken("bea"), pytest.raises(ServiceBusyError), shares.taken("cem"):
        pass


@pytest.mark.parametrize("kind", ["taken", "exempt"])
def test_a_call_gives_its_place_back_however_it_ends(kind):
    shares = shares_of(1, 1)
    for _ in range(20):
        with pytest.raises(KeyError), getattr(shares, kind)("ana"):
            raise KeyError


def test_s71_a_message_of_many_parts_counts_as_many_calls():
    """The sender of such a message is refused, and no other caller."""
    shares = shares_of(WIDE, WIDE)
    with shares.taken("ana"):
        shares.weigh("ana", 10 * WIDE * PARTS_PER_CALL)
    with pytest.raises(ServiceBusyError), shares.taken("ana"):
        pass
    with shares.taken("bea"):
        shares.weigh("bea", PARTS_PER_CALL - 1)
    with shares.taken("bea"):
        pass


class TestS11Turns:
    def test_s11_calls_of_one_caller_are_served_one_after_another(self):
        turns, overlaps, at_work = CallTurns(), [], []

        def call():
            for _ in range(50):
                with turns.served("ana"):
                    at_work.append(1)
                    overlaps.append(len(at_work))
                    at_work.pop()

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert overlaps == [1] * 400

    def test_s11_nobody_waits_in_the_queue_of_another(self):
        turns = CallTurns()
        with ExitStack() as served:
            for who in ("ana", "bea", "cem"):
                served.enter_context(turns.served(who))
            assert turns._turns.keys() == {"ana", "bea", "cem"}

    def test_a_queue_is_forgotten_with_its_last_call_however_it_ends(self):
        turns = CallTurns()
        for _ in range(3):
            with pytest.raises(KeyError), turns.served("ana"):
                raise KeyError
        assert not turns._turns
        assert not turns._calls


class TestS11BusyCallers:
    """One who calls without a pause is served when no moderate caller is."""

    @pytest.fixture
    def clock(self):
        return SimpleNamespace(now=0.0, work=0.0)

    @pytest.fixture
    def turns(self, clock):
        return CallTurns(lambda: clock.now, lambda: clock.work)

    @pytest.fixture
    def long_wait(self, monkeypatch):
        monkeypatch.setattr(turns_module, "MOST_SECONDS_BEHIND", 60.0)

    def work(self, turns, clock, who, seconds):
        with turns.served(who):
            clock.work += seconds

    def late(self, clock):
        clock.work += 2 * MODERATE_SECONDS
        return KeyError()

    def in_a_thread(self, turns, who):
        """A call that sets the event when it begins to work."""
        begun = threading.Event()

        def call():
            with turns.served(who):
                begun.set()

        thread = threading.Thread(target=call)
        thread.start()
        return begun, thread

    @pytest.mark.usefixtures("long_wait")
    def test_s11_a_busy_caller_waits_until_no_moderate_one_is_served(self, turns, clock):
        self.work(turns, clock, "mallory", 2 * MODERATE_SECONDS)
        with turns.served("ana"):
            with turns.served("bea"):
                begun, thread = self.in_a_thread(turns, "mallory")
                assert eventually(lambda: turns._changed._waiters)
            assert not begun.is_set(), "ana is served"
        assert begun.wait(60)
        thread.join(60)

    @pytest.mark.usefixtures("long_wait")
    def test_s11_a_moderate_caller_waits_for_nobody(self, turns, clock):
        self.work(turns, clock, "mallory", 2 * MODERATE_SECONDS)
        with turns.served("mallory"), turns.served("ana"), turns.served("bea"):
            assert turns._moderate == 2

    @pytest.mark.usefixtures("long_wait")
    def test_busy_callers_do_not_wait_for_each_other(self, turns, clock):
        for who in ("mallory", "oscar"):
            self.work(turns, clock, who, 2 * MODERATE_SECONDS)
        with turns.served("mallory"), turns.served("oscar"):
            assert not turns._moderate

    def test_a_busy_caller_is_served_in_the_end(self, turns, clock, monkeypatch):
        monkeypatch.setattr(turns_module, "MOST_SECONDS_BEHIND", 0.01)
        self.work(turns, clock, "mallory", 2 * MODERATE_SECONDS)
        with turns.served("ana"):
            begun, thread = self.in_a_thread(turns, "mallory")
            assert begun.wait(60)
        thread.join(60)

    @pytest.mark.usefixtures("long_wait")
    def test_who_pauses_is_moderate_again(self, turns, clock):
        self.work(turns, clock, "ana", 2 * MODERATE_SECONDS)
        clock.now += MODERATE_SECONDS / MODERATE_SHARE
        with turns.served("bea"), turns.served("ana"):
            assert turns._moderate == 2

    @pytest.mark.usefixtures("long_wait")
    def test_who_takes_a_moderate_share_stays_moderate(self, turns, clock):
        for _ in range(1_000):
            self.work(turns, clock, "ana", 0.9 * MODERATE_SHARE)
            clock.now += 1.0
        with turns.served("bea"), turns.served("ana"):
            assert turns._moderate == 2

    def test_a_call_that_fails_counts_as_work_and_keeps_nobody_waiting(self, turns, clock):
        with pytest.raises(KeyError), turns.served("ana"):
            raise self.late(clock)
        assert turns._moderate == 0
        with turns.served("ana"):
            assert turns._moderate == 0, "ana is busy"
