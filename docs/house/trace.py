"""Files that a call runs, and calls of codecs that it makes, in all processes of both sides.

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
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from docs.house import tracer
from docs.house.session import AGAIN, AUDIT, GENERATE, IDLE, PROPOSE, RUN
from docs.house.sources import ROOT, ROOTS, sources

_SESSION = Path(__file__).with_name("session.py")
_SHELL = "from gencard.controller.shell.main import main; main()"
_RECORDS = "sex,health,age\n" + 200 * "".join(
    f"{sex},{health},{age}\n"
    for sex in ("female", "male")
    for health in ("good", "bad")
    for age in range(1, 4)
)
_SETTINGS = {
    r"(?m)^mechanisms = .*$": 'mechanisms = ["exact", "gaussian"]',
    r"(?m)^(most_per_card|dataset|project|analyst) = \{.*$": r"\1 = { statistics = 1_000, rho = 1 }",
    r"(?m)^# (analyses = .*)$": r"\1",
}
"""Changes of the drafted settings, by the text that each replaces."""

CODECS = re.compile(r"gencard\.wire\b.*|gencard\.core\.\w*json\w*|gencard\..*codec.*")
"""Modules of codecs: the wire, JSON of dataclasses, and what is named a codec."""


@dataclass(frozen=True, slots=True)
class CallTrace:
    """One call of the session, on both sides and in all processes.

    Args:
        modules: Names of modules with at least one function called, sorted.
        codec_calls: Module of a codec -> calls of its functions, the most first.
        terms: Messages of the terms of a card that codecs made.
    """

    modules: tuple[str, ...]
    codec_calls: dict[str, int]
    terms: int

    @property
    def calls(self) -> int:
        """Calls of all codecs."""
        return sum(self.codec_calls.values())


@dataclass(frozen=True, slots=True)
class Trace:
    """The calls of the session; ``again`` is a second propose, for which each codec is made."""

    propose: CallTrace
    again: CallTrace
    generate: CallTrace
    run: CallTrace
    audit: CallTrace


def trace(root: Path = ROOT) -> Trace:
    """Run all calls on the code of a checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "phase").write_text(IDLE)
        (folder / "log").touch()
        python = _traced_python(folder, root)
        with _serving(python, folder, root) as person:
            command = [str(python), "-I", str(_SESSION), str(person), str(folder / "phase")]
            subprocess.run(command, check=True, cwd=folder)
        names = {str(path): name for name, path in sources(root)}
        lines = [line.split(" ", 2) for line in (folder / "log").read_text().splitlines()]
    return Trace(*(_call(phase, lines, names) for phase in (PROPOSE, AGAIN, GENERATE, RUN, AUDIT)))


def _call(phase: str, lines: list[list[str]], names: dict[str, str]) -> CallTrace:
    own = [(what, names[file]) for when, what, file in lines if when == phase and file in names]
    calls = Counter(name for what, name in own if what == tracer.CALL)
    return CallTrace(
        tuple(sorted({name for what, name in own if what == tracer.RUN})),
        dict(calls.most_common()),
        sum(what == tracer.TERMS for what, _ in own),
    )


def _traced_python(folder: Path, root: Path) -> Path:
    """An interpreter that finds the checkout and our libraries, and begins with the tracer."""
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "venv/lib" / version / "site-packages"
    shutil.copy(tracer.__file__, packages / "house_tracer.py")
    paths = [*(str(root / top) for top in ROOTS), sysconfig.get_path("purelib")]
    codecs = frozenset(str(path) for name, path in sources(root) if CODECS.fullmatch(name))
    begin = f"import house_tracer; house_tracer.start({str(folder)!r}, {codecs!r})"
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
    untraced = environment | {tracer.UNTRACED: "1"}
    subprocess.run(drafting, check=True, env=untraced, stdout=subprocess.DEVNULL)
    _change(home / "controller.toml")
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


def _change(settings: Path) -> None:
    """Offer exact counts and noise, and checked runs.

    Raises:
        ValueError: The settings are drafted in another way.
    """
    text = settings.read_text(encoding="utf-8")
    for pattern, replacement in _SETTINGS.items():
        text, changes = re.subn(pattern, replacement, text)
        if not changes:
            raise ValueError(f"the drafted settings have no {pattern}")
    settings.write_text(text, encoding="utf-8")
