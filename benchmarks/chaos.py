"""The leader dies or is stopped while eight analysts work: who takes over, when, and what is lost.

``python -m benchmarks.chaos [--rounds 20] [--analysts 8] [--quick] [--json FILE]``

Two controllers on loopback share a PostgreSQL server of the benchmark's own; analysts propose cards and
take releases over mutual TLS, at both addresses. In each round the leader is killed with SIGKILL; in
every fourth it is stopped with SIGSTOP, and woken once the other one leads. After each round all of the
state is checked as ``restore`` checks it, and compared with the round before.
"""

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select

from benchmarks import bench
from gencard.client import Analyst
from gencard.controller.backup import check_state
from gencard.controller.state import tables
from gencard.core.card.budget import SpendState
from gencard.core.errors import GencardError, ServiceUnavailableError
from gencard.wire.documents import receipt_of_document
from gencard.wire.dsse import RECEIPT, opened, predicate_of
from tests.system.raw_calls import eventually
from tests.system.standbys import Controller, Controllers, controllers

MOST_SECONDS = 10.0
OVERTAKEN = 3
"""Exit code of a leader that finds another one in its place."""
_PAIRS = (("sex", "health"), ("work", "region"), ("health", "region"))


@dataclass
class Load:
    """Releases that analysts received, by the name that the controller gave, and refusals."""

    received: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    waited: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def work(self, analyst: Analyst) -> None:
        """Card after card, and releases of each, until the end."""
        while not self.ended.is_set():
            try:
                self._one_card(analyst)
            except ServiceUnavailableError:
                self.waited += 1
            except GencardError as error:
                self.refused.append(error.reason)

    def _one_card(self, analyst: Analyst) -> None:
        card = analyst.propose("survey", list(_PAIRS), purpose="chaos", rows=200).accept()
        for seed in range(3):
            if self.ended.is_set():
                return
            release = card.release(rows=100, seed=seed + 1, progress=False)
            self.received[release.receipt.name] = release.receipt.rows_digest


@contextmanager
def load(pair: Controllers) -> Iterator[Load]:
    """Every person of the pair works in a thread."""
    work, analysts = Load(), [pair.analyst(name) for name in pair.people]
    threads = [threading.Thread(target=work.work, args=(analyst,)) for analyst in analysts]
    for thread in threads:
        thread.start()
    try:
        yield work
    finally:
        work.ended.set()
        for thread in threads:
            thread.join()
        for analyst in analysts:
            analyst.close()


@dataclass(frozen=True, slots=True)
class Seen:
    """State that must not shrink in a later round: lines of the ledger by number, releases, the log."""

    lines: dict[int, SpendState]
    releases: dict[str, str]
    entries: int


def seen(pair: Controllers) -> Seen:
    """The state, checked: log, ledger, and the rows of all releases against their receipts.

    Raises:
        VerificationError, StorageError: It is not whole.
    """
    state = pair.state
    with state.database.reading() as tx:
        check_state(state, tx)
        lines = {line.line: line.state for line in state.ledger.all(tx)}
        rows = tx.execute(select(tables.releases.c.name, tables.releases.c.receipt)).all()
        releases = {}
        for name, envelope in rows:
            receipt = receipt_of_document(predicate_of(opened(bytes(envelope))[0], RECEIPT))
            entry = state.log.entry(tx, receipt.log_index)
            assert receipt.rows_digest.encode() in entry, f"{name} is not the entry it names"
            releases[name] = receipt.rows_digest
        return Seen(lines, releases, state.log.size(tx))


def losses(before: Seen, now: Seen, received: dict[str, str]) -> list[str]:
    """Return what is lost, or is free again, since the round before; empty in every good round."""
    lost = [f"line {line} is lost" for line in before.lines.keys() - now.lines.keys()]
    lost += [
        f"line {line} is free again"
        for line, state in before.lines.items()
        if state is SpendState.SETTLED and now.lines.get(line) is not SpendState.SETTLED
    ]
    kept = before.releases | received
    lost += [f"{name} is lost" for name in kept if now.releases.get(name) != kept[name]]
    return lost + (["the log is shorter"] if now.entries < before.entries else [])


@dataclass(frozen=True, slots=True)
class Round:
    """End of one leader.

    Args:
        seconds: Until the other one answered that it serves.
    """

    kind: str
    seconds: float
    releases: int
    lost: tuple[str, ...]


def play(pair: Controllers, work: Load, before: Seen, *, stopped: bool) -> tuple[Round, Seen]:
    """End the leader in one way, and look at everything once the other one leads."""
    leader = pair.leader()
    other = pair.other(leader)
    assert eventually(other.stands_by), "no standby"
    received = len(work.received)
    eventually(lambda: len(work.received) > received, 3.0)  # in the middle of work
    begin = time.monotonic()
    leader.send(signal.SIGSTOP if stopped else signal.SIGKILL)
    assert eventually(other.leads), "nobody took over"
    seconds = time.monotonic() - begin
    lost = _woken(leader) if stopped else []
    leader.end()
    known = dict(work.received)
    now = seen(pair)
    leader.start()
    lost += losses(before, now, known)
    kind = "stopped" if stopped else "killed"
    return Round(kind, seconds, len(now.releases), tuple(lost)), now


def _woken(leader: Controller) -> list[str]:
    """A leader that comes back late ends by itself, and says so."""
    leader.send(signal.SIGCONT)
    if not eventually(lambda: leader.running.poll() is not None, 30.0):
        return ["a leader that was stopped goes on"]
    code = leader.running.returncode
    return [] if code == OVERTAKEN else [f"a leader that was stopped ended with {code}"]


def rounds_of(folder: Path, rounds: int, analysts: int, every: int = 4) -> tuple[list[Round], Load]:
    """All rounds; in every ``every``-th the leader is stopped and not killed."""
    played: list[Round] = []
    with controllers(folder, analysts) as pair:
        for one in pair.two:
            one.start()
        pair.leader()
        with load(pair) as work:
            assert eventually(lambda: bool(work.received)), "no release"
            before = seen(pair)
            for number in range(1, rounds + 1):
                outcome, before = play(pair, work, before, stopped=number % every == 0)
                played.append(outcome)
                print(f"{number}: {outcome.kind}, {outcome.seconds:.1f} s", file=sys.stderr, flush=True)
        last = seen(pair)
        if lost := losses(before, last, work.received):
            played.append(Round("end", 0.0, len(last.releases), tuple(lost)))
    return played, work


def run(rounds: int, analysts: int) -> bench.Result:
    """All rounds, as one table."""
    with tempfile.TemporaryDirectory() as folder:
        played, work = rounds_of(Path(folder), rounds, analysts)
    columns = ("round", "the leader was", "takeover, s", "releases by then", "lost or wrong")
    rows = [
        (number, one.kind, round(one.seconds, 2), one.releases, "; ".join(one.lost) or "nothing")
        for number, one in enumerate(played, 1)
    ]
    table = bench.Table(f"A leader ends while {analysts} analysts work", columns, rows)
    slowest = max(one.seconds for one in played)
    targets = [
        bench.Target("slowest takeover", slowest, MOST_SECONDS, "at most", "s"),
        bench.Target("lost or wrong", sum(len(one.lost) for one in played), 0, "at most"),
        bench.Target("errors but unavailable", len(work.refused), 0, "at most"),
        bench.Target("releases received", len(work.received), rounds, "at least"),
    ]
    return bench.Result([table], targets, {"refused": sorted(set(work.refused)), "waited": work.waited})


def main() -> None:
    """Run it as a program; exit 1 where a target is missed."""
    parser = bench.parser("chaos")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--analysts", type=int, default=8)
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    bench.finish("chaos", lambda _quick: run(rounds, options.analysts), options)


if __name__ == "__main__":
    main()
