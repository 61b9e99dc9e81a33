"""Controllers in processes of their own, which can be killed and started again on the same folder."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.house import House
from tests.system.tour import Visitor


@dataclass
class Mortal:
    """A controller that serves, and ana at its door."""

    pid: int
    ana: Visitor
    zygote: "Zygote"

    def arm(self) -> None:
        """Count steps from now on."""
        os.kill(self.pid, signal.SIGUSR1)
        assert self.zygote.heard() == {"armed": True}

    def is_alive(self) -> bool:
        return is_alive(self.pid)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: not self.is_alive())
        self.ana.close()


@dataclass
class Zygote:
    """Where mortals come from."""

    house: House
    process: "subprocess.Popen[str]"

    def serve(self, *, die_at: int | None = None, gate: Path | None = None) -> Mortal:
        asked = {
            "settings": str(self.house.settings_file),
            "die_at": die_at,
            "gate": gate and str(gate),
        }
        assert self.process.stdin is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        born = self.heard()
        ana = Visitor(self.house, "ana", f"localhost:{born['port']}")
        return Mortal(born["pid"], ana, self)

    def heard(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        return said


@contextmanager
def zygote(house: House) -> Iterator[Zygote]:
    process = subprocess.Popen(
        (sys.executable, "-m", "tests.system.zygote"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        yield Zygote(house, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(true: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What is true in the end; fails where it is not within the time."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
    return found
