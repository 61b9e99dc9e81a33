"""When an operation may tell that something is done: at the ticks of a grid that starts with it."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ticks:
    """A grid of times, from the moment at which an operation was begun.

    How long work at records takes depends on them. Who hears of its end at the next tick alone knows
    between which two ticks it ended, and no more.

    Args:
        seconds: From one tick to the next; 0 for no grid.
        begun: When, by the monotonic clock.
    """

    seconds: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    def left(self) -> float | None:
        """Seconds to the next tick; None without a grid."""
        return self.seconds - self._since() if self.seconds else None

    def last(self) -> float:
        """The latest tick, in seconds since 1970; without a grid the present."""
        return time.time() - (self._since() if self.seconds else 0.0)

    def _since(self) -> float:
        """Seconds since the latest tick."""
        return (time.monotonic() - self.begun) % self.seconds
