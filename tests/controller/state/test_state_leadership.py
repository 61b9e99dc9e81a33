"""S69: of the controllers that share a database one leads, and none of an earlier time writes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select, text

from gencard.controller.state import sharing as leadership_module
from gencard.controller.state.database import SESSIONS, Database
from gencard.controller.state.log import EventLog
from gencard.controller.state.sharing import Leadership
from gencard.controller.state.tables import cards, events, leader
from gencard.core.errors import InvalidInputError, NotLeadingError
from tests.controller.state import postgres
from tests.controller.state.samples import NOW, insert_card
from tests.system.raw_calls import eventually


@pytest.fixture
def url(migrated_postgres: str, postgres_socket: str) -> str:
    return postgres.new_database(postgres_socket, migrated_postgres)


def one_of(url: str, folder: Path, name: str) -> Leadership:
    (folder / name).mkdir(exist_ok=True)
    return Leadership(url, folder / name)


@pytest.fixture
def two(url: str, tmp_path: Path) -> Iterator[tuple[Leadership, Leadership]]:
    """The first leads."""
    first, second = one_of(url, tmp_path, "first"), one_of(url, tmp_path, "second")
    assert first.try_lead()
    yield first, second
    first.close()
    second.close()


def writes(url: str, leads: Leadership) -> bool:
    database = Database(url, leads.fence)
    try:
        with database.transaction() as tx:
            insert_card(tx)
            raise KeyError  # nothing stays
    except KeyError:
        return True
    except NotLeadingError:
        return False
    finally:
        database.close()


def end_session(url: str) -> None:
    """End a session as the database ends a silent one."""
    database = Database(url)
    with database.transaction() as tx:
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name"
        tx.execute(text(end), {"name": f"{SESSIONS}lock"})
    database.close()


class TestS69OneLeader:
    def test_s69_the_second_leads_once_the_first_is_gone(self, two, url):
        first, second = two
        assert not second.try_lead()
        first.close()
        assert eventually(second.try_lead)
        assert second.fence.number == first.fence.number + 1
        assert writes(url, second)

    def test_s69_an_earlier_leader_reads_and_does_not_write(self, two, url):
        first, second = two
        first.close()
        assert eventually(second.try_lead)
        assert not writes(url, first)
        assert first.lost.is_set()
        database = Database(url, first.fence)
        with database.reading() as tx:
            assert tx.scalar(select(cards.c.name)) is None
        database.close()

    def test_s69_a_number_that_came_again_is_not_enough(self, two, url):
        """After a restore the numbers of leaderships are given once more."""
        first, second = two
        first.close()
        assert eventually(second.try_lead)
        database = Database(url)
        with database.transaction() as tx:
            tx.execute(leader.update().values(fence=first.fence.number))
        database.close()
        assert not writes(url, first)

    def test_s69_a_write_that_a_stopped_leader_left_open_is_undone(self, two, url):
        first, second = two
        stopped = Database(url, first.fence)
        with pytest.raises(NotLeadingError), stopped.transaction() as tx:  # noqa: PT012
            insert_card(tx)
            first.close()  # its lock alone
            assert eventually(second.try_lead)
        with stopped.reading() as tx:
            assert tx.scalar(select(cards.c.name)) is None
        stopped.close()

    def test_s69_a_leader_whose_session_ends_leads_on_where_nobody_else_does(self, two, url):
        first, _ = two
        held = first._held
        end_session(url)
        assert eventually(lambda: first._held not in (held, None))
        assert not first.lost.is_set()
        assert writes(url, first)

    def test_s69_a_leader_whose_session_ended_too_long_ago_hears_of_it(self, two, url, monkeypatch):
        first, second = two
        monkeypatch.setattr(first, "_try_lock", lambda: eventually(second.try_lead) and False)
        end_session(url)
        assert eventually(first.lost.is_set)
        assert not writes(url, first)

    def test_s69_the_database_gives_a_silent_leader_up(self, url, tmp_path, monkeypatch):
        monkeypatch.setattr(leadership_module, "SILENCE", 1)
        silent, second = one_of(url, tmp_path, "silent"), one_of(url, tmp_path, "second")
        monkeypatch.setattr(silent, "_watching", lambda: None)
        silent._watch._target = lambda: None
        assert silent.try_lead()
        assert eventually(second.try_lead)
        assert not writes(url, silent)
        silent.close()
        second.close()


class TestS70AStateThatWentBack:
    """State after a ``pg_restore``: the ledger lacks later decisions, which are known elsewhere."""

    @pytest.fixture
    def grown(self, two, url) -> tuple[Leadership, Leadership]:
        """Both have seen a log of three entries."""
        append_to(url, 3)
        first, second = two
        assert eventually(lambda: first._seen.entries == 3)
        assert not second.try_lead()
        assert second._seen == first._seen
        first.close()
        return first, second

    def test_s70_a_state_that_only_grew_is_served(self, grown, url):
        append_to(url, 1)
        assert eventually(grown[1].try_lead)
        grown[1].check()

    def test_s70_a_standby_that_has_seen_more_does_not_serve_it(self, grown, url):
        go_back(url)
        assert eventually(grown[1].try_lead)
        with pytest.raises(InvalidInputError, match="older state than this controller has seen"):
            grown[1].check()

    def test_s70_nor_does_the_leader_that_starts_again(self, grown, url, tmp_path):
        go_back(url)
        again = one_of(url, tmp_path, "first")
        assert eventually(again.try_lead)
        with pytest.raises(InvalidInputError, match="gencard-controller restore"):
            again.check()
        again.close()

    def test_s70_once_it_was_restored_all_serve_it(self, grown, url, tmp_path):
        _, second = grown
        go_back(url)
        steward = one_of(url, tmp_path, "first")
        assert eventually(steward.try_lead)
        steward.restored()
        steward.close()
        assert eventually(second.try_lead)
        second.check()
        second.close()
        again = one_of(url, tmp_path, "first")
        assert eventually(again.try_lead)
        again.check()
        again.close()


def append_to(url: str, entries: int) -> None:
    database = Database(url)
    with database.transaction() as tx:
        for _ in range(entries):
            EventLog(lambda _: Ed25519PrivateKey.generate()).append(
                tx, action="start", actor="x", resource="x", details={}, now=NOW
            )
    database.close()


def go_back(url: str) -> None:
    """To the log's first entry."""
    database = Database(url)
    with database.transaction() as tx:
        tx.execute(events.delete().where(events.c.index > 0))
    database.close()
