"""The user that a cell's programs run as: one that no other cell has at the time.

The kernel counts processes by their user. Two cells of one user would have their processes counted
together, and what one starts would be missing to the other.
"""

import secrets
import socket
from types import TracebackType

_USERS = range(61_184, 65_520)
"""Users that belong to nobody, by convention of systemd."""

_TRIES = 50


class CellUser:
    """A user's number, drawn anew for each run, and held until it is let go.

    It is held by a name that the system gives to one socket at a time, and takes back when its process
    dies.

    Raises:
        OSError: Each one that was tried belongs to another cell.
    """

    def __init__(self) -> None:
        for number in secrets.SystemRandom().sample(_USERS, _TRIES):
            held = _held(number)
            if held is not None:
                self.number, self._held = number, held
                return
        raise OSError("no user is free")

    def __enter__(self) -> "CellUser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()


def _held(number: int) -> socket.socket | None:
    """A socket of the user's name; None where somebody has it."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0gencard-cell-user-{number}")
    except OSError:
        held.close()
        return None
    return held
