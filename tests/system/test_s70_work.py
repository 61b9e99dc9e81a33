"""S70: a leader is killed while an audit or a release runs; the next one goes on, and pays once."""

import json
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import combinations

import pytest

from gencard.core.card.budget import SpendState
from gencard.core.card.terms import AuditTerms
from gencard.core.errors import ServiceUnavailableError
from gencard.v1 import audit_pb2
from tests.system import consistency, held_worker
from tests.system.house import request_id
from tests.system.prepared_audits import ended_audit
from tests.system.raw_calls import eventually
from tests.system.sandboxes import needs_sandbox
from tests.system.standbys import controllers
from tests.system.stewards import Steward

pytestmark = needs_sandbox

PAIRS = list(combinations(("sex", "health", "work"), 2))
ROWS = 300
BEYOND = 15
"""Runs of 70 after which a held audit waits."""
STORED = 5
"""Least stored runs among these: they reach the database when progress is reported."""
BOX = """
[[black_boxes]]
name = "mst"
kind = "built_in"
box = "mst"
parameters = { epsilon = "1", delta = "0.000001", neighbouring = "replace-one" }
"""
HELD = """
from gencard.controller import audits
from gencard.controller.jobs import process
audits._drawn = lambda seed: seed + 1_000
process._COMMAND = {command!r}
"""
"""Runs in each controller: seeds of audits are known, and jobs can be held."""


def prepare(house):
    house.offer_private('["ipf", "honest", "mst"]')
    with house.settings_file.open("a") as settings:
        settings.write(BOX)
    house.review("honest")


@pytest.fixture(scope="module")
def hold(tmp_path_factory):
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def pair(tmp_path_factory, hold):
    """Two controllers, of which one leads; work waits for as long as there is the file ``hold``."""
    command = held_worker.command(hold, BEYOND)
    folder = tmp_path_factory.mktemp("pair")
    with controllers(folder, prepare=prepare, program=HELD.format(command=command)) as pair:
        for one in pair.two:
            one.start()
        pair.leader()
        yield pair


@pytest.fixture(scope="module")
def ana(pair):
    with pair.analyst(pair.people[0]) as analyst:
        yield analyst


def both(pair):
    """The leader, and the other one once it stands by; started where the test before ended it."""
    leader = pair.leader()
    other = pair.other(leader)
    if other.running.poll() is not None:
        other.start()
    assert eventually(other.stands_by)
    return leader, other


@contextmanager
def taken_over(pair, hold, work, reached):
    """Kill the leader once held work has reached a point; yields the future of the work."""
    leader, other = both(pair)
    hold.touch()
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(work)
        try:
            assert eventually(lambda: reached() or future.done()), "it did not get so far"
            assert not future.done(), future.exception()
            leader.send(signal.SIGKILL)
            assert eventually(other.leads)
        finally:
            hold.unlink()
        yield future
    leader.end()
    consistency.assert_ledger_and_log(pair.state)


def lines(pair, card):
    """Number of lines of the ledger for a card, by their state."""
    spent = consistency.lines_of(pair.state)
    return Counter(line.state for line in spent if line.resource.startswith(card.name))


def logged(pair, card, action):
    """Number of entries of the log with this event of a card."""
    with pair.state.database.reading() as tx:
        entries = [json.loads(entry.body) for entry in pair.state.log.entries(tx)]
    return sum((one["resource"], one["action"]) == (card.name, action) for one in entries)


def agreed(analyst, generator, **terms):
    terms = {"purpose": "a test", "rows": ROWS} | terms
    return analyst.propose("survey", PAIRS, generator=generator, **terms).accept()


def begun(analyst, card):
    connection = analyst._connection
    request = audit_pb2.RunAuditRequest(card=card.name, request_id=request_id())
    return connection.call(connection.audit.RunAudit, request)


def receipts_of(card, number):
    """Receipts of a card once it has so many."""
    assert eventually(lambda: len(list(card.agreement.receipts())) == number)
    return list(card.agreement.receipts())


def ended(future):
    """Await a call; the caller may learn that the leader was gone, but the operation continues."""
    if future.exception() is not None:
        assert isinstance(future.exception(), ServiceUnavailableError), future.exception()


def test_s70_an_audit_goes_on_with_the_runs_that_ended_and_has_the_report_of_an_undisturbed_one(
    pair, ana, hold
):
    undisturbed = agreed(ana, "honest", audit=AuditTerms(runs=10))
    _, report = ended_audit(pair, ana, begun(ana, undisturbed).name)
    Steward(pair.state).clear("datasets/survey", "honest", "For a first try.")
    card = agreed(ana, "honest", audit=AuditTerms(runs=10))
    assert eventually(lambda: not pair.state.files.stored("journals/"))
    journals = pair.leader().house.folder / "state" / "copies" / "journals"

    def reached():
        here = len(list(journals.glob("*/*.run")))
        return here >= BEYOND and len(pair.state.files.stored("journals/")) >= STORED

    with taken_over(pair, hold, lambda: hold_open(ana, card, hold), reached) as operation:
        assert ended_audit(pair, ana, operation.result())[1] == report
    assert lines(pair, card) == lines(pair, undisturbed) == {SpendState.SETTLED: 1}
    assert eventually(lambda: not pair.state.files.stored("journals/"))
    rows = card.refresh().generate(ROWS, progress=False)
    kill(pair)
    again = card.refresh().generate(ROWS, progress=False)
    assert same_rows(rows, again), "all rows of its one run, in another order"
    assert logged(pair, card, "run") == 1


def hold_open(analyst, card, hold):
    """Begin an audit, and wait until it may go on; its operation."""
    name = begun(analyst, card).name
    assert eventually(lambda: not hold.exists(), seconds=120)
    return name


def same_rows(one, other):
    return Counter(map(tuple, one.to_numpy())) == Counter(map(tuple, other.to_numpy()))


def kill(pair):
    """The other one leads."""
    leader, other = both(pair)
    leader.send(signal.SIGKILL)
    assert eventually(other.leads)
    leader.end()


@pytest.mark.parametrize("generator", ["ipf", "mst"])
def test_s70_a_release_goes_on_with_the_one_look_at_the_records_and_is_paid_once(
    pair, ana, hold, generator
):
    """Psi or the fit is there when the leader dies, and no rows are."""
    card = agreed(ana, generator)
    look, seed = {"ipf": ("measure", 5), "mst": ("run", 0)}[generator]
    kept = f"kept/{card.name.rpartition('/')[2]}/fit"

    def reached():
        return bool(logged(pair, card, "measure") or pair.state.files.stored(kept))

    def work():
        return card.generate(ROWS, seed=seed, progress=False)

    with taken_over(pair, hold, work, reached) as future:
        ended(future)
    (receipt,) = receipts_of(card, 1)
    assert logged(pair, card, look) == 1
    assert lines(pair, card) == {SpendState.SETTLED: 1}
    if seed:
        card.replay(card.agreement.fetch(receipt.name, progress=False))
    assert len(card.generate(ROWS, seed=seed, progress=False)) == ROWS
    assert (logged(pair, card, look), lines(pair, card)) == (1, {SpendState.SETTLED: 1})
