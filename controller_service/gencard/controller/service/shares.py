"""How much of the service one caller may use, and how long a call may wait for its caller.

Until a message has come, gRPC keeps a thread waiting for it without a limit. A few callers that open
calls and send nothing would otherwise hold all threads.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import grpc

from gencard.core.errors import ServiceBusyError

EXEMPT_AT_A_TIME = 4
"""Of calls that count against no other limit, for each caller: they take threads, too."""

BURST_SECONDS = 10
"""So many seconds' calls may come at once, after as long a pause."""


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

    def _until_done(self, counter: Counter[str], who: str) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                counter[who] -= 1

    def _draw(self, who: str) -> None:
        """Take one call out of a bucket that fills by the second."""
        rate, now = self.bounds.per_second, self.now()
        most = max(rate * BURST_SECONDS, 1.0)
        left, before = self._buckets.get(who, (most, now))
        left = min(most, left + rate * (now - before))
        if left < 1:
            raise ServiceBusyError(what="calls per second of one certificate")
        self._buckets[who] = left - 1, now


class Patience:
    """Cancels calls that keep a thread waiting; one thread of its own looks after all of them.

    Args:
        seconds: How long one message may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._numbers = count()
        self._waiting: dict[int, tuple[float, grpc.ServicerContext]] = {}
        """By number, earliest end first: all have the same time."""
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None
        self._asleep = self._stopped = False

    @contextmanager
    def waiting(self, context: grpc.ServicerContext) -> Iterator[None]:
        """The block waits for the caller; the call is cancelled where that takes too long."""
        number = next(self._numbers)
        with self._changed:
            self._waiting[number] = time.monotonic() + self._seconds, context
            self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._waiting.pop(number, None)

    def stop(self) -> None:
        """End the thread; no call is cancelled any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _wake(self) -> None:
        """A watcher that waits for some earlier end need not be told of a later one."""
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="patience", daemon=True)
            self._watcher.start()
        elif self._asleep:
            self._changed.notify()

    def _watch(self) -> None:
        while (context := self._next_late()) is not None:
            context.cancel()

    def _next_late(self) -> grpc.ServicerContext | None:
        """The next call that is late, once there is one; None when nobody looks any more."""
        with self._changed:
            while not self._stopped:
                number, (end, context) = next(iter(self._waiting.items()), (-1, (None, None)))
                left = None if end is None else end - time.monotonic()
                if context is not None and left is not None and left <= 0:
                    del self._waiting[number]
                    return context
                self._asleep = left is None
                self._changed.wait(left)
        return None
