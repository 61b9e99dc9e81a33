"""How many of our files one ``propose`` and one ``generate`` run, in all processes of both sides.

The controller, its job workers and the analyst run as they do for users, over mutual TLS on loopback,
in a virtual environment of its own that traces every process: workers take nothing from the
environment variables of the service, so a tracer cannot reach them in another way.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from docs.house import tracer
from docs.house.session import GENERATE, IDLE, PROPOSE
from docs.house.sources import ROOT, ROOTS, sources

_SESSION = Path(__file__).with_name("session.py")
_SHELL = "from gencard.controller.shell.main import main; main()"
_RECORDS = "sex,health,age\n" + "female,good,1\nmale,bad,2\nfemale,bad,3\n" * 400


@dataclass(frozen=True, slots=True)
class Trace:
    """Modules with at least one function called during a call; sorted names."""

    propose: tuple[str, ...]
    generate: tuple[str, ...]


def trace(root: Path = ROOT) -> Trace:
    """Run both calls on the code of a checkout.

    Returns:
        Modules of the client, the service and the job workers together.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "phase").write_text(IDLE)
        (folder / "log").touch()
        python = _traced_python(folder, root)
        with _serving(python, folder, root) as person:
            command = [str(python), "-I", str(_SESSION), str(person), str(folder / "phase")]
            subprocess.run(command, check=True, cwd=folder)
        return _read(folder / "log", root)


def _read(log: Path, root: Path) -> Trace:
    names = {str(path): name for name, path in sources(root)}
    calls: dict[str, set[str]] = {PROPOSE: set(), GENERATE: set(), IDLE: set()}
    for line in log.read_text(encoding="utf-8").splitlines():
        phase, _, file = line.partition(" ")
        if file in names:
            calls[phase].add(names[file])
    return Trace(tuple(sorted(calls[PROPOSE])), tuple(sorted(calls[GENERATE])))


def _traced_python(folder: Path, root: Path) -> Path:
    """An interpreter that finds the checkout and our libraries, and begins with the tracer."""
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "venv/lib" / version / "site-packages"
    shutil.copy(tracer.__file__, packages / "house_tracer.py")
    paths = [*(str(root / top) for top in ROOTS), sysconfig.get_path("purelib")]
    begin = f"import house_tracer; house_tracer.start({str(folder)!r})"
    (packages / "house.pth").write_text("\n".join([*paths, begin, ""]), encoding="utf-8")
    return python


@contextmanager
def _serving(python: Path, folder: Path, root: Path) -> Iterator[Path]:
    """A controller with a small made-up survey; gives the connection folder of an analyst."""
    (folder / "records.csv").write_text(_RECORDS)
    home = folder / "controller"
    shell = [str(python), "-I", "-c", _SHELL]
    environment = os.environ | {"GENCARD_SERVER__ADDRESS": "localhost:0", "NO_COLOR": "1"}
    drafting = [*shell, "init", str(home), "--data", str(folder / "records.csv")]
    if any('"--demo-people"' in path.read_text(encoding="utf-8") for _, path in sources(root)):
        drafting.append("--demo-people")  # earlier versions made them without being told
    subprocess.run(
        drafting, check=True, env=environment | {tracer.UNTRACED: "1"}, stdout=subprocess.DEVNULL
    )
    serving = ["serve", "--unreviewed", "--config", str(home / "controller.toml")]
    with subprocess.Popen(
        [*shell, *serving], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            line = next(line for line in process.stdout or () if "Serving on" in line)
            address = f"localhost:{re.findall(r'[0-9]+', line)[-1]}"
            (home / "people/ana/connection.toml").write_text(f'address = "{address}"\n')
            yield home / "people/ana"
        finally:
            process.terminate()
