"""A controller on loopback for notebooks: the Redbook survey, keys of its own, gone when it is stopped.

It is for trying Gencard out: it holds the keys of both parties, and the survey is public.
"""

import atexit
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from examples.fair_survey import BLACK_BOXES, SCHEMA, offering_exact_counts, write_records

_PROGRAM = Path(sys.executable).with_name("gencard-controller")
_MEASURES = 'measures = ["replicated-uniques", "marginals", "propensity"]'


@dataclass(frozen=True, slots=True)
class LocalController:
    """A running controller.

    Args:
        address: localhost and its port.
        people: Connection folders of ana (analyst), aud (auditor) and sam (steward).
    """

    address: str
    people: Path
    _process: "subprocess.Popen[str]"
    _folder: "tempfile.TemporaryDirectory[str]"

    def stop(self) -> None:
        """End the service and remove its files; more than once does no harm."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=30)
        if self._process.stdout:
            self._process.stdout.close()
        self._folder.cleanup()

    def __repr__(self) -> str:
        return f"<LocalController at {self.address}>"


def start() -> LocalController:
    """Draft, review and serve the survey as dataset ``fair``; ended with the interpreter at the latest.

    Raises:
        CalledProcessError: ``gencard-controller init`` failed.
        RuntimeError: The service did not start.
    """
    folder = tempfile.TemporaryDirectory(prefix="gencard-")
    controller = _set_up(Path(folder.name))
    command = [str(_PROGRAM), "serve", "--config", str(controller / "controller.toml")]
    plain = {"NO_COLOR": "1", "FORCE_COLOR": "", "TERM": "dumb"}
    environment = {**os.environ, **plain, "GENCARD_SERVER__ADDRESS": "localhost:0"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    local = LocalController(_address(process), controller / "people", process, folder)
    atexit.register(local.stop)
    return local


def _set_up(folder: Path) -> Path:
    """The controller's folder, reviewed: exact counts and three evaluations are on offer."""
    records, controller = folder / "fair.csv", folder / "controller"
    write_records(records)
    command = [str(_PROGRAM), "init", str(controller), "--data", str(records), "--demo-people"]
    subprocess.run(command, check=True, capture_output=True)
    (controller / "schema.toml").write_text(SCHEMA)
    settings = controller / "controller.toml"
    text = offering_exact_counts(settings.read_text()) + BLACK_BOXES
    settings.write_text(re.sub(r"(?m)^# measures = \[.*$", _MEASURES, text, count=1))
    return controller


def _address(process: "subprocess.Popen[str]") -> str:
    """Return the address at which the service says that it listens."""
    for line in process.stdout or ():
        if match := re.search(r"Serving on (localhost:\d+)", line):
            return match[1]
    raise RuntimeError("the controller did not start; its messages are above")
