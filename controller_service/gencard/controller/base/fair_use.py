"""Fair queues: owners and callers take turns, and lent black boxes never run during work on records."""

import secrets
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gencard.core.errors import ServiceBusyError, StorageError

_PROCESS = secrets.token_hex(16)
_TRACE: ContextVar[str] = ContextVar("trace", default=_PROCESS)
_OWNER: ContextVar[str] = ContextVar("owner", default="")


def trace_id() -> str:
    """Return the trace id of this thread's call or operation, 32 hex digits; else the process's."""
    return _TRACE.get()


def traced(trace: str) -> AbstractContextManager[None]:
    """Mark log lines of this thread with a random trace id: no caller's text enters the log."""
    return _set(_TRACE, trace)


def working_for(owner: str) -> AbstractContextManager[None]:
    """Queue writes of this thread for ``owner``; outside the block they are the controller's."""
    return _set(_OWNER, owner)


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
    """A piece of work that waits or runs; compared by identity.

    Args:
        at_records: Whether the work reads records. Work on records and lent work exclude each other.
        lent: Whether the work runs a black box on a caller's own dataset.
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

    The next work to begin is the first, in the turn of owners, that may. Work that running work excludes
    keeps its place, and no work that excludes it begins before it. It waits only for work that runs now,
    so neither lent work nor work on records can starve the other. An owner may use all places but one,
    so that work of another owner can begin meanwhile.

    Not safe for threads: callers hold their own lock.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._most_of_one = max(1, places - 1)
        self._waiting: dict[str, deque[WorkTurn[Item]]] = {}
        """By owner, in the order of their turns; no queue is empty."""
        self._running: set[WorkTurn[Item]] = set()

    def add(self, turn: WorkTurn[Item]) -> None:
        """Append work to its owner's queue; an owner without waiting work moves to the end."""
        self._waiting.setdefault(turn.owner, deque()).append(turn)

    def withdraw(self, turn: WorkTurn[Item]) -> bool:
        """Remove waiting work; False if the work has begun or ended."""
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
        """Return the work that may begin now, in order; it counts as running until its ``end``."""
        begun: list[WorkTurn[Item]] = []
        while (turn := self._next()) is not None:
            queue = self._waiting.pop(turn.owner)
            queue.popleft()
            if queue:
                self._waiting[turn.owner] = queue
            self._running.add(turn)
            begun.append(turn)
        return tuple(begun)

    def _next(self) -> WorkTurn[Item] | None:
        if len(self._running) >= self._places:
            return None
        held_back: list[WorkTurn[Item]] = []
        for owner, queue in self._waiting.items():
            if sum(running.owner == owner for running in self._running) >= self._most_of_one:
                continue
            if not any(queue[0].excludes(other) for other in (*self._running, *held_back)):
                return queue[0]
            held_back.append(queue[0])
        return None


class FairLock:
    """A fair lock: one thread holds it at a time, and waiting threads are served by owners in turn."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turns: Turns[threading.Event] = Turns(places=1)
        self._lock = threading.Lock()

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Run the block alone; raises StorageError if others kept the door for too long."""
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
"""Work in seconds that one caller may cause without a pause before counting as busy."""

MODERATE_SHARE = 0.05
"""Share of a processor that a caller may use in the long run before counting as busy.

A caller who views cards and fetches releases uses about a hundredth.
"""

MOST_SECONDS_BEHIND = 0.5
"""Longest time in seconds that a busy caller's call waits for calls of others."""


class CallTurns:
    """Serves the calls of one caller one by one, and a busy caller's calls between calls of others.

    All calls share one interpreter: ten concurrent calls of one caller would leave a tenth of it to
    others, and calls that follow each other without a pause take half of it from every concurrent
    call. Both clocks are in seconds: ``now`` never goes back, ``worked`` is processor time of this
    thread.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.thread_time
    ) -> None:
        self._now, self._worked = now, worked
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._calls: Counter[str] = Counter()
        """Number of served and waiting calls by caller; callers without calls are left out."""
        self._work: dict[str, tuple[float, float]] = {}
        """Seconds of work at a moment, of callers who are or were enrolled."""
        self._moderate = 0
        """Calls of moderate callers that are served now."""
        self._changed = threading.Condition()

    @contextmanager
    def served(self, who: str) -> Iterator[None]:
        """Serve one call of the caller in the block."""
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
        """Serve the call; that of a busy caller begins when no call of a moderate caller is served."""
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
"""Number of concurrent calls of one caller that count against no other limit: they take threads, too."""

MOST_BUCKETS = 1_000
"""Number of callers from which on callers with a full bucket are forgotten."""

BURST_SECONDS = 10
"""Seconds' worth of calls that may come at once, after a pause of the same length."""

PARTS_PER_CALL = 1_000
"""Number of parts of a message that count as one more call: their check costs as much time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on the use of the service by callers.

    Args:
        per_identity: Concurrent calls of one identity.
        calls: Concurrent calls of all identities; exempt calls come on top.
        per_second: Calls of one identity per second, in the long run.
        request_seconds: Longest time that a caller may take for one message.
    """

    per_identity: int
    calls: int
    per_second: float
    request_seconds: float

    @property
    def streams(self) -> int:
        """Number of concurrent streams of a connection: the calls that the guard admits of a caller."""
        return self.per_identity + EXEMPT_AT_A_TIME


@dataclass(slots=True)
class Shares:
    """Counts calls by the URI of their caller; ``now`` is a clock in seconds that never goes back."""

    bounds: Bounds
    now: Callable[[], float] = time.monotonic
    _running: Counter[str] = field(default_factory=Counter)
    _exempt: Counter[str] = field(default_factory=Counter)
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Calls left at a moment."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def taken(self, who: str) -> Iterator[None]:
        """Admit one call for the length of the block; raises ServiceBusyError over a limit."""
        with self._lock:
            # the caller's own limit comes first: otherwise a busy caller learns the load of others
            if self._running[who] >= self.bounds.per_identity:
                raise ServiceBusyError(what="concurrent calls of one certificate")
            if self._running.total() >= self.bounds.calls:
                raise ServiceBusyError(what="concurrent calls")
            # one call out of the token bucket of the caller, which fills per second
            rate, now = self.bounds.per_second, self.now()
            most = max(rate * BURST_SECONDS, 1.0)
            left, before = self._buckets.get(who, (most, now))
            left = min(most, left + rate * (now - before))
            # a refused call takes nothing from the bucket: retrying does not extend the wait
            if left < 1:
                raise ServiceBusyError(what="calls per second of one certificate")
            if len(self._buckets) > MOST_BUCKETS:
                self._buckets = {
                    one: (rest, then)
                    for one, (rest, then) in self._buckets.items()
                    if rest + rate * (now - then) < most
                }
            self._buckets[who] = left - 1, now
            self._running[who] += 1
        yield from self._until_done(self._running, who)

    @contextmanager
    def exempt(self, who: str) -> Iterator[None]:
        """Admit one call beside all other limits; ServiceBusyError above ``EXEMPT_AT_A_TIME``."""
        with self._lock:
            if self._exempt[who] >= EXEMPT_AT_A_TIME:
                raise ServiceBusyError(what="concurrent calls of one certificate")
            self._exempt[who] += 1
        yield from self._until_done(self._exempt, who)

    def weigh(self, who: str, parts: int) -> None:
        """Count a message of many parts as several calls, at the expense of the calls that follow."""
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
