"""How many calls one caller, and all together, may have at a time."""

import threading
from contextlib import ExitStack

import pytest

from gencard.controller.service.access import PARTS_PER_CALL, Bounds, Shares
from gencard.core.errors import ServiceBusyError

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
    """Its sender is refused for it, and nobody else."""
    shares = shares_of(WIDE, WIDE)
    with shares.taken("ana"):
        shares.weigh("ana", 10 * WIDE * PARTS_PER_CALL)
    with pytest.raises(ServiceBusyError), shares.taken("ana"):
        pass
    with shares.taken("bea"):
        shares.weigh("bea", PARTS_PER_CALL - 1)
    with shares.taken("bea"):
        pass


class TestS11Queues:
    def test_s11_calls_of_one_caller_are_served_one_after_another(self):
        shares, overlaps, at_work = shares_of(WIDE, WIDE), [], []

        def call():
            for _ in range(50):
                with shares.taken("ana"), shares.turn("ana"):
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
        shares = shares_of(WIDE, WIDE)
        with ExitStack() as served:
            for who in ("ana", "bea", "cem"):
                served.enter_context(shares.taken(who))
                served.enter_context(shares.turn(who))
            assert shares._turns.keys() == {"ana", "bea", "cem"}

    def test_a_queue_is_forgotten_with_its_last_call_however_it_ends(self):
        shares = shares_of(WIDE, WIDE)
        with shares.taken("ana"):
            for _ in range(3):
                with pytest.raises(KeyError), shares.taken("ana"), shares.turn("ana"):
                    raise KeyError
            assert shares._turns.keys() == {"ana"}
        assert not shares._turns
