"""Patience with callers: a call whose next message does not come, or is not taken, is ended.

Until a message has come, gRPC keeps a thread waiting for it, and for ever. Whoever opened calls and said
nothing would need few of them to have all threads.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import grpc


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
