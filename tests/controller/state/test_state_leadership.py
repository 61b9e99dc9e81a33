"""S69: of the controllers that share a database one leads, and none of an earlier time writes."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select, text

from gencard.controller.state import leadership as leadership_module
from gencard.controller.state.database import SESSIONS, Database
from gencard.controller.state.leadership import Leadership
from gencard.controller.state.tables import cards, leader
from gencard.core.errors import NotLeadingError
from tests.controller.state import postgres
from tests.controller.state.samples import insert_card
from tests.system.raw_calls import eventually


@pytest.fixture
def url(migrated_postgres: str, postgres_socket: str) -> str:
    return postgres.new_database(postgres_socket, migrated_postgres)


@pytest.fixture
def two(url: str) -> Iterator[tuple[Leadership, Leadership]]:
    """The first leads."""
    first, second = Leadership(url), Leadership(url)
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
    """As the database does with one that is silent."""
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

    def test_s69_the_database_gives_a_silent_leader_up(self, url, monkeypatch):
        monkeypatch.setattr(leadership_module, "SILENCE", 1)
        silent, second = Leadership(url), Leadership(url)
        monkeypatch.setattr(silent, "_watching", lambda: None)
        silent._watch._target = lambda: None
        assert silent.try_lead()
        assert eventually(second.try_lead)
        assert not writes(url, silent)
        silent.close()
        second.close()
