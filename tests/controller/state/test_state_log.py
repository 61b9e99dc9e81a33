from datetime import timedelta
from itertools import pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, update

from gencard.controller.state import log as log_module
from gencard.controller.state.log import (
    FIRST,
    Entry,
    Event,
    EventLog,
    LogClock,
    checkpoint_of,
    event_of,
    verify,
)
from gencard.controller.state.tables import events
from gencard.core.errors import InvalidInputError, InvalidNumberError, StorageError, VerificationError
from gencard.wire import log as merkle
from gencard.wire.canonical import time_text
from gencard.wire.keys import LOG, KeyHistory
from tests.controller.state.samples import ANA, CARD, NOW

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KeyHistory(KEY.public_key(), LOG)
SIZE = 13
CHECKED = (5, 9, 13)
"""Sizes at which the sample log was signed."""


def append(log, tx, number, now=None):
    return log.append(
        tx,
        action="offer",
        actor=ANA,
        resource=CARD,
        details={"etag": f"etag-{number}", "state": "offered"},
        now=NOW + timedelta(seconds=number) if now is None else now,
    )


@pytest.fixture
def log():
    return EventLog(lambda _tx: KEY)


@pytest.fixture
def filled(database, log):
    """A log of 13 entries, signed at 5, 9 and 13."""
    for number in range(SIZE):
        with database.transaction() as tx:
            append(log, tx, number)
            if number + 1 in CHECKED:
                log.checkpoint(tx, NOW)
    return database


@pytest.fixture
def entries(filled, log):
    with filled.reading() as tx:
        return list(log.entries(tx))


@pytest.fixture
def checkpoints(filled, log):
    with filled.reading() as tx:
        return log.checkpoints(tx)


def problem_of(entries, checkpoints):
    with pytest.raises(VerificationError) as caught:
        verify(entries, checkpoints, PUBLIC)
    return caught.value.fields["problem"]


def rechained(entries, change):
    """The log as somebody would rewrite it who makes all hashes anew after changing one entry."""
    previous, rewritten = FIRST, []
    for index, entry in enumerate(entries):
        old = event_of(entry.body)
        action = "accept" if index == change else old.action
        event = Event(index, old.time, action, old.actor, old.resource, old.details, previous)
        previous = merkle.leaf_hash(event.body)
        rewritten.append(Entry(event.body, previous))
    return rewritten


class TestAppending:
    def test_entries_are_chained_numbered_and_read_back(self, filled, log):
        with filled.reading() as tx:
            found = [event_of(entry.body) for entry in log.entries(tx)]
            assert log.size(tx) == SIZE
        assert [event.index for event in found] == list(range(SIZE))
        assert found[0].previous == FIRST
        assert all(after.previous == merkle.leaf_hash(before.body) for before, after in pairwise(found))
        assert found[3].details == {"etag": "etag-3", "state": "offered"}
        assert found[3].time == NOW + timedelta(seconds=3)

    def test_s40_a_clock_set_back_is_said_and_time_does_not_go_back(self, database, log):
        with database.transaction() as tx:
            append(log, tx, 0)
            late = append(log, tx, 1, now=NOW - timedelta(seconds=90))
            same = append(log, tx, 2, now=NOW)
            assert (late.time, late.details["clock_behind_seconds"]) == (NOW, "90")
            assert "clock_behind_seconds" not in same.details
            assert verify(log.entries(tx), [], PUBLIC) == 3

    def test_s40_a_time_judged_by_the_log_still_shows_that_the_clock_is_behind(self, database):
        log = EventLog(lambda _tx: KEY, lambda: NOW - timedelta(seconds=90))
        with database.transaction() as tx:
            append(EventLog(lambda _tx: KEY), tx, 0)
            assert append(log, tx, 1, now=NOW).details["clock_behind_seconds"] == "90"

    @pytest.mark.parametrize("later", [timedelta(seconds=1), timedelta(seconds=90)])
    def test_time_that_passes_before_an_entry_is_written_leaves_no_trace_in_it(self, database, later):
        log = EventLog(lambda _tx: KEY, lambda: NOW + later)
        with database.transaction() as tx:
            first, second = append(log, tx, 0, now=NOW), append(log, tx, 1, now=NOW)
        for entry in (first, second):
            assert entry.time == NOW
            assert "clock_behind_seconds" not in entry.details

    def test_s40_the_clock_of_a_log_is_the_later_of_clock_and_newest_entry(self, database):
        machine = [NOW]
        log = EventLog(lambda _tx: KEY, lambda: machine[0])
        clock = LogClock(lambda: machine[0], database, log)
        assert clock() == NOW
        with database.transaction() as tx:
            append(log, tx, 0, now=NOW + timedelta(days=2))
        assert clock() == NOW + timedelta(days=2)
        machine[0] = NOW - timedelta(days=400)
        assert clock() == NOW + timedelta(days=2)
        machine[0] = NOW + timedelta(days=3)
        assert clock() == machine[0]

    def test_s40_entries_of_other_processes_count_too(self, database, monkeypatch):
        monkeypatch.setattr(log_module, "_FRESH_SECONDS", 0.0)
        clock = LogClock(lambda: NOW, database, EventLog(lambda _tx: KEY))
        with database.transaction() as tx:
            append(EventLog(lambda _tx: KEY), tx, 0, now=NOW + timedelta(days=2))
        assert clock() == NOW + timedelta(days=2)

    def test_s40_one_entry_may_go_back_and_only_if_it_says_so(self, database, log):
        with database.transaction() as tx:
            append(log, tx, 0, now=NOW + timedelta(days=3_650))
            event = log.correct(tx, actor=ANA, details={"reason": "a"}, now=NOW)
            after = append(log, tx, 2, now=NOW + timedelta(seconds=1))
            assert (event.time, after.time) == (NOW, NOW + timedelta(seconds=1))
            assert verify(log.entries(tx), [], PUBLIC) == 3
            with pytest.raises(InvalidInputError):
                log.correct(tx, actor=ANA, details={"reason": "a"}, now=NOW + timedelta(seconds=1))

    @pytest.mark.parametrize(("action", "before"), [("offer", True), ("correct-clock", False)])
    def test_s40_an_entry_that_does_not_say_so_may_not(self, action, before):
        first = Event(0, NOW, "offer", ANA, CARD, {}, FIRST)
        earlier = NOW - timedelta(days=1)
        details = {"before": time_text(NOW if before else earlier)}
        second = Event(1, earlier, action, ANA, CARD, details, merkle.leaf_hash(first.body))
        entries = [Entry(one.body, merkle.leaf_hash(one.body)) for one in (first, second)]
        with pytest.raises(VerificationError, match="goes back in time"):
            verify(entries, [], PUBLIC)

    @pytest.mark.parametrize("details", [{"name": "Ann"}, {"etag": "x" * 201}, {"etag": "a\nb"}])
    def test_only_listed_details_are_taken(self, database, log, details):
        with database.transaction() as tx:
            with pytest.raises(InvalidInputError) as refused:
                log.append(tx, action="a", actor=ANA, resource=CARD, details=details, now=NOW)
            assert log.size(tx) == 0
        assert "Ann" not in str(refused.value)

    def test_an_entry_undone_with_its_transaction_was_never_there(self, filled, log, checkpoints):
        with pytest.raises(KeyError), filled.transaction() as tx:  # noqa: PT012  raised inside
            append(log, tx, 99)
            raise KeyError
        with filled.reading() as tx:
            assert verify(log.entries(tx), checkpoints, PUBLIC) == SIZE


class TestProofs:
    def test_s38_every_entry_has_a_proof_against_every_checkpoint(
        self, filled, log, entries, checkpoints
    ):
        with filled.reading() as tx:
            for envelope in checkpoints:
                signed = checkpoint_of(envelope, PUBLIC)
                for index in range(signed.size):
                    leaf, path = log.inclusion(tx, index, signed.size)
                    assert leaf == entries[index].leaf
                    merkle.check_inclusion(leaf, index, signed.size, path, signed.root)

    def test_s38_every_checkpoint_is_continued_by_every_newer_one(self, filled, log, checkpoints):
        signed = [checkpoint_of(envelope, PUBLIC) for envelope in checkpoints]
        with filled.reading() as tx:
            for old, new in [(0, 1), (0, 2), (1, 2), (2, 2)]:
                path = log.consistency(tx, signed[old].size, signed[new].size)
                merkle.check_consistency(
                    signed[old].size, signed[new].size, path, signed[old].root, signed[new].root
                )

    def test_the_stored_nodes_are_those_of_the_tree(self, filled, log, entries, checkpoints):
        for envelope in checkpoints:
            signed = checkpoint_of(envelope, PUBLIC)
            leaves = [entry.leaf for entry in entries[: signed.size]]
            assert signed.root == merkle.Peaks(leaves).root()

    def test_a_log_that_has_not_grown_keeps_its_checkpoint(self, filled, log, checkpoints):
        with filled.transaction() as tx:
            assert log.checkpoint(tx, NOW + timedelta(days=1)) == checkpoints[-1]

    def test_the_checkpoint_of_a_log_that_has_not_grown_is_read_without_writing(
        self, filled, log, checkpoints
    ):
        with filled.reading() as tx:
            assert log.current_checkpoint(tx) == checkpoints[-1]
        with filled.transaction() as tx:
            append(log, tx, SIZE)
        with filled.reading() as tx:
            assert log.current_checkpoint(tx) is None

    def test_an_empty_log_can_be_signed(self, database, log):
        with database.transaction() as tx:
            signed = checkpoint_of(log.checkpoint(tx, NOW), PUBLIC)
            assert (signed.size, signed.root) == (0, merkle.EMPTY)
            assert verify(log.entries(tx), log.checkpoints(tx), PUBLIC) == 0

    @pytest.mark.parametrize(("index", "size"), [(13, 13), (0, 14), (-1, 3), (0, 0), (0, 2**64)])
    def test_proofs_beyond_the_log_are_refused(self, filled, log, index, size):
        with filled.reading() as tx, pytest.raises(InvalidNumberError):
            log.inclusion(tx, index, size)

    @pytest.mark.parametrize(("old", "new"), [(0, 3), (4, 3), (1, 14)])
    def test_proofs_between_sizes_out_of_order_are_refused(self, filled, log, old, new):
        with filled.reading() as tx, pytest.raises(InvalidNumberError):
            log.consistency(tx, old, new)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
class TestTampering:
    """S38: flip, drop, swap, truncate any entry, and the verifier names the index."""

    def test_s38_an_untouched_log_passes(self, entries, checkpoints):
        assert verify(entries, checkpoints, PUBLIC) == SIZE

    @pytest.mark.parametrize("index", range(SIZE))
    def test_s38_flip_a_bit(self, entries, checkpoints, index):
        for place in (0, len(entries[index].body) // 2, len(entries[index].body) - 1):
            body = bytearray(entries[index].body)
            body[place] ^= 1
            flipped = [*entries[:index], Entry(bytes(body), entries[index].leaf), *entries[index + 1 :]]
            assert f"entry {index} " in problem_of(flipped, checkpoints)

    @pytest.mark.parametrize("index", range(SIZE))
    def test_s38_flip_and_hash_again(self, entries, checkpoints, index):
        changed = [*entries]
        changed[index] = rechained(entries, index)[index]
        said = problem_of(changed, checkpoints)
        signed_there = index + 1 in CHECKED
        assert f" to {index} of" in said if signed_there else said.startswith(f"entry {index} ")

    @pytest.mark.parametrize("index", range(SIZE))
    def test_s38_drop(self, entries, checkpoints, index):
        assert f"entry {index} " in problem_of(entries[:index] + entries[index + 1 :], checkpoints)

    @pytest.mark.parametrize("size", range(SIZE))
    def test_s38_truncate(self, entries, checkpoints, size):
        assert f"entry {size} of the log is missing" in problem_of(entries[:size], checkpoints)

    @pytest.mark.parametrize("first", range(SIZE - 1))
    def test_s38_swap(self, entries, checkpoints, first):
        swapped = [*entries]
        swapped[first], swapped[-1] = swapped[-1], swapped[first]
        assert f"entry {first} " in problem_of(swapped, checkpoints)

    @pytest.mark.parametrize("index", range(SIZE))
    def test_s38_insert_again(self, entries, checkpoints, index):
        doubled = [*entries[: index + 1], *entries[index:]]
        assert f"entry {index + 1} " in problem_of(doubled, checkpoints)

    @pytest.mark.parametrize(
        ("index", "stretch"), [(0, "0 to 4"), (4, "0 to 4"), (5, "5 to 8"), (12, "9 to 12")]
    )
    def test_s38_rewrite_with_all_hashes_is_caught_by_a_checkpoint(
        self, entries, checkpoints, index, stretch
    ):
        assert f"entries {stretch} " in problem_of(rechained(entries, index), checkpoints)

    def test_s38_going_back_in_time_is_named(self, entries):
        early = event_of(entries[-1].body)
        event = Event(SIZE, early.time - timedelta(seconds=1), "a", ANA, CARD, {}, entries[-1].leaf)
        said = problem_of([*entries, Entry(event.body, merkle.leaf_hash(event.body))], [])
        assert said == f"entry {SIZE} of the log goes back in time"

    def test_s38_bytes_that_are_no_entry_are_named(self, entries):
        odd = entries[4].body.replace(b'"details"', b' "details"')
        forged = [*entries[:4], Entry(odd, merkle.leaf_hash(odd)), *entries[5:]]
        assert problem_of(forged, []) == "entry 4 of the log is not an entry"

    def test_s38_a_checkpoint_of_another_key_proves_nothing(self, database, entries):
        stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
        other = EventLog(lambda _tx: stranger)
        with database.transaction() as tx:
            envelope = other.checkpoint(tx, NOW)
        with pytest.raises(VerificationError):
            checkpoint_of(envelope.replace(b"sig", b"gis"), PUBLIC)
        with pytest.raises(VerificationError):
            verify(entries, [envelope], KeyHistory(stranger.public_key(), LOG))

    def test_s38_two_checkpoints_unmask_a_fork(self, filled, log, entries, checkpoints, tmp_path):
        """Two readers were shown two logs that part at entry 7: no proof joins their checkpoints."""
        mine, forked = checkpoint_of(checkpoints[-1], PUBLIC), rechained(entries, 7)
        theirs = merkle.Peaks(entry.leaf for entry in forked).root()
        with filled.reading() as tx:
            same, longer = log.consistency(tx, 13, 13), log.consistency(tx, 9, 13)
        with pytest.raises(VerificationError):
            merkle.check_consistency(13, 13, same, mine.root, theirs)
        with pytest.raises(VerificationError):
            merkle.check_consistency(9, 13, longer, checkpoint_of(checkpoints[1], PUBLIC).root, theirs)
        assert "entries 5 to 8 " in problem_of(forked, checkpoints)

    def test_s38_a_row_deleted_in_the_database_is_named(self, filled, log, checkpoints):
        with filled.transaction() as tx:
            tx.execute(delete(events).where(events.c.index == 6))
        with filled.reading() as tx:
            assert "entry 6 " in problem_of(log.entries(tx), checkpoints)
        with pytest.raises(StorageError), filled.reading() as tx:
            log.inclusion(tx, 6, SIZE)

    def test_s38_a_row_changed_in_the_database_is_named(self, filled, log, checkpoints):
        with filled.transaction() as tx:
            tx.execute(update(events).where(events.c.index == 6).values(body=b"{}"))
        with filled.reading() as tx:
            assert "entry 6 " in problem_of(log.entries(tx), checkpoints)
