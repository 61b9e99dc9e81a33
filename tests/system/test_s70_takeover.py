"""S70: what a standby takes over, what it refuses, and what it says until then; both in this process."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sqlalchemy import make_url
from typer.testing import CliRunner

from gencard.client import Analyst
from gencard.controller.records.records import entry_of
from gencard.controller.shell.main import app
from gencard.controller.wiring import opening
from gencard.controller.wiring import serving as wiring
from gencard.controller.wiring.serving import lead, serve
from gencard.core.card.card import CardState
from gencard.core.errors import (
    BudgetExceededError,
    DatasetChangedError,
    GencardError,
    InvalidInputError,
    NotLeadingError,
)
from tests.controller.state import postgres
from tests.system import consistency
from tests.system.house import House, build, survey
from tests.system.raw_calls import agreed
from tests.system.standbys import copy_of
from tests.system.thread_jobs import run_jobs_in_threads


@pytest.fixture(scope="module")
def drafted(tmp_path_factory) -> Iterator[tuple[House, str]]:
    """A controller that nobody served yet, and the socket of a database server."""
    house = build(tmp_path_factory.mktemp("drafted"), survey(300))
    house.raise_caps()
    with postgres.server() as socket, pytest.MonkeyPatch.context() as patch:
        run_jobs_in_threads(patch)
        yield house, socket


@dataclass
class Standby:
    """The second controller, which waits in a thread of its own until it leads."""

    house: House
    ended: threading.Event
    thread: threading.Thread | None = None
    refusal: Exception | None = None

    def wait(self) -> None:
        waits = threading.Event()
        self.thread = threading.Thread(target=self._take_over, args=(waits,))
        self.thread.start()
        assert waits.wait(60)

    def _take_over(self, waits: threading.Event) -> None:
        settings = self.house.settings()
        try:
            leading = lead(settings, self.ended, waits.set)
            if leading is not None:
                self.house.controller = serve(settings, leading=leading)
        except InvalidInputError as refusal:
            self.refusal = refusal

    def taken_over(self) -> House:
        assert self.thread is not None
        self.thread.join(60)
        if self.refusal is not None:
            raise self.refusal
        return self.house

    def stop(self) -> None:
        self.ended.set()
        if self.thread is not None:
            self.thread.join(60)
        self.house.stop()


@dataclass
class Pair:
    """``first`` leads, ``standby`` waits."""

    first: House
    standby: Standby
    socket: str
    url: str

    @property
    def addresses(self) -> str:
        return ",".join(house.settings().server.address for house in (self.first, self.standby.house))

    def analyst(self) -> Analyst:
        return Analyst.connect(self.addresses, folder=self.first.person("ana"))

    def channel(self):
        """To the standby, with ana's certificate."""
        return self.standby.house.channel(address=self.standby.house.settings().server.address)


@pytest.fixture
def pair(drafted, tmp_path) -> Iterator[Pair]:
    house, socket = drafted
    url = postgres.new_database(socket)
    shutil.copy(house.folder.parent / "survey.csv", tmp_path)
    first, second = (copy_of(house, tmp_path / name, url) for name in ("first", "second"))
    standby = Standby(second, threading.Event())
    first.start()
    yield Pair(first, standby, socket, url)
    standby.stop()
    first.stop()


def _noted(read, place, table, salt):
    read.append(place)
    return entry_of(table, salt)


def run(house: House, *words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--config", str(house.settings_file)])
    if isinstance(result.exception, GencardError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


class TestS69Standby:
    def test_s69_it_says_that_it_stands_by_and_serves_nothing(self, pair):
        pair.standby.wait()
        channel = pair.channel()
        health = health_pb2_grpc.HealthStub(channel)
        states = [
            health.Check(health_pb2.HealthCheckRequest(service=name)).status for name in ("", "standby")
        ]
        assert states == [
            health_pb2.HealthCheckResponse.NOT_SERVING,
            health_pb2.HealthCheckResponse.SERVING,
        ]
        address = pair.standby.house.settings().server.address
        with (
            Analyst.connect(address, folder=pair.first.person("ana")) as ana,
            pytest.raises(NotLeadingError, match="addresses of all controllers"),
        ):
            ana.datasets()

    def test_s69_an_analyst_of_both_goes_on_at_the_one_that_leads(self, pair):
        with pair.analyst() as ana:
            card = agreed(ana)
            rows = card.generate(50, seed=1, progress=False)
            pair.standby.wait()
            pair.first.stop()
            assert card.generate(50, seed=1, progress=False).equals(rows)
            again = pair.standby.taken_over()
            kept = [card.agreement.fetch(one.name, progress=False) for one in card.agreement.receipts()]
            assert len(kept) == 2
            card.replay(kept[0])
        consistency.assert_consistent(again.controller.controller_state)

    def test_s69_a_takeover_does_not_wait_for_records_that_were_read_before(self, pair, monkeypatch):
        """Each measurement still looks at their version."""
        read = []
        for module in (wiring, opening):
            noted = partial(_noted, read, module.__name__.rpartition(".")[2])
            monkeypatch.setattr(module, "entry_of", noted)
        with pair.analyst() as ana:
            card, other = agreed(ana), agreed(ana, ("sex", "region"))
            rows = card.generate(50, seed=1, progress=False)
            pair.standby.wait()
            pair.first.stop()
            pair.standby.taken_over()
            assert read == ["serving"], "while it stood by, and not again"
            assert card.generate(50, seed=1, progress=False).equals(rows)
            (table,) = pair.first.settings().datasets
            text = table.data.read_text()
            table.data.write_text(f"{text}female,good,none,north,50\n")
            with pytest.raises(DatasetChangedError):
                other.generate(50, seed=1, progress=False)
            table.data.write_text(text)

    def test_s69_commands_decide_on_the_machine_of_the_leader_alone(self, pair):
        """Another machine's settings and people are not those in force; there commands can read."""
        with pair.analyst() as ana:
            cards = agreed(ana), agreed(ana, ("sex", "region"))
            pair.standby.wait()
            there, here = pair.standby.house, pair.first
            for card in cards:
                decision = (
                    "emergency",
                    "revoke",
                    card.name,
                    "--reason",
                    "a test",
                    "--steward",
                    "sam",
                    "--yes",
                )
                assert card.name in run(there, "emergency", "cards")
                with pytest.raises(NotLeadingError, match="on the machine of the leading controller"):
                    run(there, *decision)
                assert card.refresh().state is CardState.AGREED
                run(here, *decision)
                assert card.refresh().state is CardState.REVOKED
                pair.first.stop()
                pair.standby.taken_over()
                there, here = here, there

    def test_s69_the_wait_ends_when_it_is_told_to(self, pair):
        pair.standby.wait()
        pair.standby.stop()
        assert pair.standby.house.controller is None


class TestS70Takeover:
    def test_s70_after_a_rotation_the_new_keys_must_be_there(self, pair):
        """A standby with the old ones would sign what nobody believes; it does not lead."""
        with pair.analyst() as ana:
            card = agreed(ana)
            run(pair.first, "keys", "rotate", "--steward", "sam")
            card.generate(20, seed=1, progress=False)
            pair.standby.wait()
            pair.first.stop()
            with pytest.raises(InvalidInputError, match="is not the key that the last rotation made"):
                pair.standby.taken_over()
            shutil.copytree(
                pair.first.folder / "signing", pair.standby.house.folder / "signing", dirs_exist_ok=True
            )
            pair.standby.house.start()
            card.generate(20, seed=2, progress=False)

    def test_s70_a_restored_database_waits_for_a_steward(self, pair):
        """A standby that saw more does not serve it; once restored, budgets are held and both lead."""
        with pair.analyst() as ana:
            card = agreed(ana)
            card.generate(20, seed=1, progress=False)
            pair.first.stop()
            dump = copy_database(pair.socket, pair.url)
            pair.first.start()
            card.generate(20, seed=2, progress=False)
            pair.standby.wait()
            with pytest.raises(InvalidInputError, match="in use by another service"):
                run(pair.first, "restore", "--steward", "sam")
            put_back(pair.socket, pair.url, dump)  # under a running leader and a standby
            with pytest.raises(InvalidInputError, match="older state than this controller has seen"):
                pair.standby.taken_over()
            pair.first.stop()
            with pytest.raises(InvalidInputError, match="older state than this controller has seen"):
                pair.first.start()
            assert "Blocked" in run(pair.first, "restore", "--steward", "sam")
            pair.standby.house.start()
            with pytest.raises(BudgetExceededError):
                agreed(ana, ("sex", "region")).generate(20, seed=1, progress=False)


def copy_database(socket: str, url: str) -> str:
    """Copy the database as ``pg_dump`` does, into another database; return its name."""
    name = str(make_url(url).database)
    with psycopg.connect(host=socket, user="gencard", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}_dump TEMPLATE {name}")
    return f"{name}_dump"


def put_back(socket: str, url: str, dump: str) -> None:
    """Restore the database as ``pg_restore`` does, over the present one."""
    name = str(make_url(url).database)
    with psycopg.connect(host=socket, user="gencard", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {dump}")
