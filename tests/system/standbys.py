"""Two controllers on one PostgreSQL database, in processes that may be killed, stopped and woken."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gencard.client import Analyst
from gencard.controller.controller_state import ControllerState
from gencard.controller.service.health import is_serving
from gencard.controller.wiring.opening import open_controller_state
from tests.controller.state import postgres
from tests.system.house import House, build, survey
from tests.system.raw_calls import eventually, is_alive

_SERVE = """
from gencard.controller.sandbox.environment import CompiledCopies
from gencard.controller.shell.main import main
from tests.compiled_copies import copied
CompiledCopies._compile = copied
main()
"""


@dataclass
class Controller:
    """One of them: its own settings, folder and address; keys and people are those of all."""

    house: House
    port: int
    program: str = _SERVE
    process: "subprocess.Popen[str] | None" = None

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    @property
    def running(self) -> "subprocess.Popen[str]":
        assert self.process is not None
        return self.process

    def start(self) -> None:
        log = (self.house.folder / "process.log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.program, "serve", "--config", str(self.house.settings_file)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def leads(self) -> bool:
        return self._is_alive() and is_serving(self.port, self.house.folder / "health")

    def stands_by(self) -> bool:
        here = self.house.folder / "health"
        return self._is_alive() and not self.leads() and is_serving(self.port, here, alive=True)

    def send(self, number: int) -> None:
        os.kill(self.running.pid, number)

    def end(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _is_alive(self) -> bool:
        return self.process is not None and is_alive(self.process.pid)


@dataclass
class Controllers:
    """Two of them, and a look at what they share."""

    two: tuple[Controller, Controller]
    url: str
    state: ControllerState
    people: list[str] = field(default_factory=list)

    @property
    def addresses(self) -> str:
        return ",".join(one.address for one in self.two)

    def leader(self) -> Controller:
        """Waits until one leads."""
        assert eventually(lambda: any(one.leads() for one in self.two)), "nobody leads"
        return next(one for one in self.two if one.leads())

    def other(self, than: Controller) -> Controller:
        return next(one for one in self.two if one is not than)

    def analyst(self, name: str) -> Analyst:
        return Analyst.connect(self.addresses, folder=self.two[0].house.person(name))


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as free:
        return int(free.getsockname()[1])


def copy_of(house: House, folder: Path, url: str) -> House:
    """The same controller on another machine: keys, people and settings, and no state."""
    shutil.copytree(house.folder, folder, ignore=shutil.ignore_patterns("state"))
    copied = House(folder)
    copied.edit({"address": f'"localhost:{free_port()}"'})
    text = copied.settings_file.read_text()
    copied.settings_file.write_text(text.replace("[state]\n", f'[state]\nurl = "{url}"\n', 1))
    return copied


@contextmanager
def controllers(
    folder: Path,
    people: int = 1,
    records: int = 300,
    *,
    prepare: Callable[[House], None] = lambda _house: None,
    program: str = "",
) -> Iterator[Controllers]:
    """A drafted pair, not yet started, on a database server of its own.

    Args:
        prepare: Changes the settings of all.
        program: Runs before each controller does, in its process.
    """
    with ExitStack() as held:
        url = postgres.new_database(held.enter_context(postgres.server()))
        drafted = build(folder, survey(records))
        drafted.raise_caps()
        names = [f"analyst-{number}" for number in range(people)]
        for name in names:
            drafted.enrol(name)
        prepare(drafted)
        houses = [copy_of(drafted, folder / name, url) for name in ("first", "second", "watch")]
        first, second = (Controller(one, _port_of(one), program + _SERVE) for one in houses[:2])
        held.callback(first.end)
        held.callback(second.end)
        state = open_controller_state(houses[2].settings())
        held.callback(state.database.close)
        yield Controllers((first, second), url, state, names)


def _port_of(house: House) -> int:
    return int(house.settings().server.address.rpartition(":")[2])
