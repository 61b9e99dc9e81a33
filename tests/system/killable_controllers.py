"""Controllers in processes of their own, which can be killed and started again on the same folder."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.every_method import Visitor
from tests.system.house import House
from tests.system.raw_calls import eventually, is_alive


@dataclass
class KillableController:
    """A controller that serves, and ana at its door."""

    pid: int
    ana: Visitor
    fork_server: "ForkServer"

    def arm(self) -> None:
        """Count steps from now on."""
        os.kill(self.pid, signal.SIGUSR1)
        assert self.fork_server.heard() == {"armed": True}

    def is_alive(self) -> bool:
        return is_alive(self.pid)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        assert eventually(lambda: not self.is_alive())
        self.ana.close()


@dataclass
class ForkServer:
    """Starts killable controllers."""

    house: House
    process: "subprocess.Popen[str]"

    def serve(
        self, *, die_at: int | None = None, file_bytes: int | None = None, gate: Path | None = None
    ) -> KillableController:
        settings = {
            "file_bytes": file_bytes,
            "settings": str(self.house.settings_file),
            "die_at": die_at,
            "gate": gate and str(gate),
        }
        assert self.process.stdin is not None
        print(json.dumps(settings), file=self.process.stdin, flush=True)
        born = self.heard()
        ana = Visitor(self.house, "ana", f"localhost:{born['port']}")
        return KillableController(born["pid"], ana, self)

    def heard(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message


@contextmanager
def fork_server(house: House) -> Iterator[ForkServer]:
    process = subprocess.Popen(
        (sys.executable, "-m", "tests.system.fork_server"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        yield ForkServer(house, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
