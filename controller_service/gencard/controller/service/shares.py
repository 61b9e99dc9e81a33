"""What one caller may have of the service at a time and by the second, and all of them together."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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
