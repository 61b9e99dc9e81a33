"""Whose work begins next: owners and callers take turns; lent boxes never run beside work at records."""

import secrets
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gencard.core.errors import ServiceBusyError, StorageError

_PROCESS = secrets.token_hex(16)
_TRACE: ContextVar[str] = ContextVar("trace", default=_PROCESS)
_OWNER: ContextVar[str] = ContextVar("owner", default="")


def trace_id() -> str:
    """Which call or operation this thread works for, 32 hex digits; outside of any, the process's."""
    return _TRACE.get()


@contextmanager
def traced(trace: str) -> Iterator[None]:
    """Lines of this thread carry a trace id. It is random: nobody else's text enters the log."""
    with _set(_TRACE, trace):
        yield


@contextmanager
def working_for(owner: str) -> Iterator[None]:
    """What this thread writes waits in the turn of ``owner``; outside of any, in the controller's."""
    with _set(_OWNER, owner):
        yield


@contextmanager
def _set(variable: ContextVar[str], value: str) -> Iterator[None]:
    before = variable.get()
    variable.set(value)
    try:
        yield
    finally:
        variable.set(before)  # no token: a stream that was given up may end in another thread


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, eq=False)
class WorkTurn(Generic[Item]):
    """One piece of work that waits or runs; equal to no other.

    Args:
        at_records: Whether it reads records. Work at records and lent work exclude each other.
        lent: Whether it runs a black box on a caller's own dataset.
    """

    item: Item
    owner: str
    at_records: bool = False
    lent: bool = False

    def excludes(self, other: "WorkTurn[Item]") -> bool:
        """Whether the two must not run at the same time."""
        return (self.lent and other.at_records) or (self.at_records and other.lent)


class Turns(Generic[Item]):
    """Waiting and running work; owners take turns, each owner's own work keeps its order.

    The next to begin is the first in the turn of owners that may. One that may not, because what runs
    excludes it, keeps its place, and nothing that excludes it begins before it: it waits for what runs
    now and for no more, so neither lent work nor work at records can keep the other out. An owner
    has all places but one at most, so that another's work begins while the rest of it goes on.

    Not safe for threads: callers hold their own lock.

    Args:
        places: How much runs at a time.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._most_of_one = max(1, places - 1)
        self._waiting: dict[str, deque[WorkTurn[Item]]] = {}
        """By owner, in the order of their turns; no queue is empty."""
        self._running: set[WorkTurn[Item]] = set()

    def add(self, turn: WorkTurn[Item]) -> None:
        """Put work at the end of its owner's queue; an owner with none waiting goes to the end."""
        self._waiting.setdefault(turn.owner, deque()).append(turn)

    def withdraw(self, turn: WorkTurn[Item]) -> bool:
        """Take out work that waits; False where it does not wait, as it has begun or ended."""
        queue = self._waiting.get(turn.owner, deque())
        if turn not in queue:
            return False
        queue.remove(turn)
        if not queue:
            del self._waiting[turn.owner]
        return True

    def end(self, turn: WorkTurn[Item]) -> None:
        """Free the place of work that has begun."""
        self._running.remove(turn)

    def begin(self) -> tuple[WorkTurn[Item], ...]:
        """What may begin now, in order; each counts as running until its ``end``."""
        return tuple(self._beginning())

    def _beginning(self) -> Iterator[WorkTurn[Item]]:
        while (turn := self._next()) is not None:
            queue = self._waiting.pop(turn.owner)
            queue.popleft()
            if queue:
                self._waiting[turn.owner] = queue
            self._running.add(turn)
            yield turn

    def _next(self) -> WorkTurn[Item] | None:
        if len(self._running) >= self._places:
            return None
        held_back: list[WorkTurn[Item]] = []
        for owner, queue in self._waiting.items():
            turn = queue[0]
            if sum(running.owner == owner for running in self._running) >= self._most_of_one:
                continue
            if any(turn.excludes(other) for other in (*self._running, *held_back)):
                held_back.append(turn)
                continue
            return turn
        return None


class Door:
    """Lets one thread in at a time; those that wait are served in turns of those whom they work for.

    Args:
        seconds: How long a thread waits, at most.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turns: Turns[threading.Event] = Turns(places=1)
        self._lock = threading.Lock()

    @contextmanager
    def passed(self) -> Iterator[None]:
        """The block runs alone.

        Raises:
            StorageError: Others kept the door for too long.
        """
        turn = WorkTurn(threading.Event(), _OWNER.get())
        with self._lock:
            self._turns.add(turn)
            self._open()
        try:
            if not turn.item.wait(self._seconds):
                raise StorageError
            yield
        finally:
            with self._lock:
                if not self._turns.withdraw(turn):
                    self._turns.end(turn)
                self._open()

    def _open(self) -> None:
        for turn in self._turns.begin():
            turn.item.set()


MODERATE_SECONDS = 0.25
"""Of work done for one caller without a pause; beyond, the caller is busy."""

MODERATE_SHARE = 0.05
"""Of a processor, in the long run; who looks at cards and fetches releases takes a hundredth."""

MOST_SECONDS_BEHIND = 0.5
"""A call of a busy caller waits no longer for those of others."""


class CallTurns:
    """Serves calls of one caller one after another, and those of a busy caller between those of others.

    All calls share one interpreter: ten calls of one caller at work would leave a tenth of it to others,
    and calls that follow each other without a pause take half of it from every call beside them.

    Args:
        now: Seconds, never going back.
        worked: Seconds of processor time of this thread.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.thread_time
    ) -> None:
        self._now, self._worked = now, worked
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._calls: Counter[str] = Counter()
        """Served and waiting; a caller without one has no turn."""
        self._work: dict[str, tuple[float, float]] = {}
        """Seconds of work at a moment, of callers who are or were enrolled."""
        self._moderate = 0
        """Calls of moderate callers that are served now."""
        self._changed = threading.Condition()

    @contextmanager
    def served(self, who: str) -> Iterator[None]:
        """The block works for one call."""
        with self._changed:
            self._calls[who] += 1
            turn = self._turns[who]
        try:
            with turn, self._in_a_gap(who):
                yield
        finally:
            with self._changed:
                self._calls[who] -= 1
                if not self._calls[who]:
                    del self._calls[who], self._turns[who]

    @contextmanager
    def _in_a_gap(self, who: str) -> Iterator[None]:
        """Where the caller is busy, the block begins when no call of a moderate one is served."""
        with self._changed:
            moderate = self._work_of(who) <= MODERATE_SECONDS
            if not moderate:
                self._changed.wait_for(lambda: not self._moderate, MOST_SECONDS_BEHIND)
            self._moderate += moderate
        begin = self._worked()
        try:
            yield
        finally:
            work = self._worked() - begin
            with self._changed:
                self._work[who] = self._work_of(who) + work, self._now()
                self._moderate -= moderate
                if not self._moderate:
                    self._changed.notify_all()

    def _work_of(self, who: str) -> float:
        """Seconds beyond the share that is moderate."""
        work, before = self._work.get(who, (0.0, 0.0))
        return max(0.0, work - MODERATE_SHARE * (self._now() - before))


EXEMPT_AT_A_TIME = 4
"""Of calls that count against no other limit, for each caller: they take threads, too."""


MOST_BUCKETS = 1_000
"""Beyond so many callers, those who have their whole share again are forgotten."""


BURST_SECONDS = 10
"""So many seconds' calls may come at once, after as long a pause."""


PARTS_PER_CALL = 1_000
"""Every so many parts of one message count as one call more: their check costs as much time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of the service callers may have.

    Args:
        per_identity: Calls of one identity at a time.
        calls: Calls of everybody at a time; what is exempt comes on top.
        per_second: Calls of one identity by the second, in the long run.
        request_seconds: How long a caller may take for one message.
    """

    per_identity: int
    calls: int
    per_second: float
    request_seconds: float

    @property
    def streams(self) -> int:
        """Of one connection at a time: as many calls as the guard would admit of one caller."""
        return self.per_identity + EXEMPT_AT_A_TIME


@dataclass(slots=True)
class Shares:
    """Counts calls by the URI of their caller.

    Args:
        now: Seconds, never going back.
    """

    bounds: Bounds
    now: Callable[[], float] = time.monotonic
    _running: Counter[str] = field(default_factory=Counter)
    _exempt: Counter[str] = field(default_factory=Counter)
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Calls left at a moment."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def taken(self, who: str) -> Iterator[None]:
        """Room for one call, given back at the end.

        Raises:
            ServiceBusyError: The caller has too many at a time or by the second, or everybody together.
        """
        with self._lock:
            # the caller's own limit comes first: otherwise a busy caller learns the load of others
            if self._running[who] >= self.bounds.per_identity:
                raise ServiceBusyError(what="concurrent calls of one certificate")
            if self._running.total() >= self.bounds.calls:
                raise ServiceBusyError(what="concurrent calls")
            self._draw(who)
            self._running[who] += 1
        yield from self._until_done(self._running, who)

    @contextmanager
    def exempt(self, who: str) -> Iterator[None]:
        """Room for one call that counts against no other limit.

        Raises:
            ServiceBusyError: The caller has ``EXEMPT_AT_A_TIME`` already.
        """
        with self._lock:
            if self._exempt[who] >= EXEMPT_AT_A_TIME:
                raise ServiceBusyError(what="concurrent calls of one certificate")
            self._exempt[who] += 1
        yield from self._until_done(self._exempt, who)

    def weigh(self, who: str, parts: int) -> None:
        """Count a message of many parts as more calls than one; those that follow are refused for it."""
        if parts >= PARTS_PER_CALL:
            with self._lock:
                left, before = self._buckets.get(who, (0.0, self.now()))
                self._buckets[who] = left - parts // PARTS_PER_CALL, before

    def _until_done(self, counter: Counter[str], who: str) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                counter[who] -= 1
                if not counter[who]:  # addresses of strangers are without end
                    del counter[who]

    def _draw(self, who: str) -> None:
        """Take one call out of a bucket that fills by the second."""
        rate, now = self.bounds.per_second, self.now()
        most = max(rate * BURST_SECONDS, 1.0)
        left, before = self._buckets.get(who, (most, now))
        left = min(most, left + rate * (now - before))
        # a refused call takes nothing from the bucket: retrying does not extend the wait
        if left < 1:
            raise ServiceBusyError(what="calls per second of one certificate")
        if len(self._buckets) > MOST_BUCKETS:
            full = {
                one for one, (left, then) in self._buckets.items() if left + rate * (now - then) >= most
            }
            self._buckets = {one: bucket for one, bucket in self._buckets.items() if one not in full}
        self._buckets[who] = left - 1, now
