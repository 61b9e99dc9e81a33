"""Attacks by clock, metrics, files and addresses: lines B9 and B10. Every one is deterministic.

Each attack makes its files in a temporary folder that it removes, in little memory and time.
"""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from benchmarks.attack import Attack, Outcome
from gencard.client import Card
from gencard.controller.wiring.serving import serve
from gencard.core.errors import GencardError, InvalidInputError
from tests.system.house import Clock, House, build
from tests.system.raw_calls import configure

_PAIR = [("sex", "health")]
_VALID = timedelta(days=90)

_CLIENT = "from gencard.client.shell.main import main; main()"
_CONTROLLER = "from gencard.controller.shell.main import main; main()"
_SECONDS = 30
_MEMORY = 2 << 30


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gencard-attacks-") as folder:
        yield Path(folder)


def _generates(card: Card) -> bool:
    try:
        card.generate(5, progress=False)
    except GencardError:
        return False
    return True


def _clock(quick: bool) -> Outcome:
    """Use a card that has expired, after setting the clock of the controller back."""
    backs = [timedelta(), -timedelta(days=400)] if quick else [-timedelta(days=day) for day in range(10)]
    successes = tries = 0
    with _folder() as folder:
        clock, house = Clock(), build(folder)
        house.controller = serve(house.settings(), clock)
        try:
            with house.analyst() as ana:
                name = _agreed(house, ana.propose).name
                clock.ahead = _VALID + timedelta(hours=1)
                ana.propose("survey", _PAIR, purpose="an entry after the end", rows=10)
            for back in backs:
                clock.ahead = back
                for restart in (False, True):
                    if restart:
                        house.stop()
                        house.controller = serve(house.settings(), clock)
                    with house.analyst() as ana:
                        successes, tries = successes + _generates(ana.card(name)), tries + 1
        finally:
            house.stop()
    return Outcome(successes, tries, f"{tries - successes} refused")


def _agreed(_house: House, propose: Callable[..., Card]) -> Card:
    return propose("survey", _PAIR, purpose="an attack", rows=100).accept()


_LEVELS = {"sex": ("female", "male"), "health": ("good", "fair", "bad")}
_SCHEMA = (
    'title = "Counted"\ndescription = "d"\ndeclared_by = "benchmarks"\nreviewed = true\n'
    + "".join(
        f'\n[[attributes]]\nname = "{name}"\nlabels = {list(labels)}\n'
        for name, labels in _LEVELS.items()
    )
)
_WORLDS = {
    "release": {"transform": "{ threshold = 10, rounding = 5 }"},
    "run": {"analyses": '{ kinds = ["crosstab"], checked_runs = 80, numbers = 200 }'},
}


def _metrics(_quick: bool) -> Outcome:
    """Tell from the metrics which of two worlds that differ in one record this is."""
    successes = 0
    for kind in _WORLDS:
        with _folder() as folder:
            texts = {_metrics_of(folder / str(last), kind, last) for last in (10, 9)}
        successes += len(texts) > 1
    return Outcome(successes, len(_WORLDS), "one release and one run, of which one world refuses each")


def _metrics_of(folder: Path, kind: str, last: int) -> str:
    """Metrics after work on the records, where one cell has so many records."""
    folder.mkdir()
    cells = [(sex, health) for sex in _LEVELS["sex"] for health in _LEVELS["health"]]
    records = [cell for cell in cells for _ in range(last if cell == cells[-1] else 40)]
    house = build(folder, pd.DataFrame(records, columns=list(_LEVELS)), _SCHEMA)
    configure(house, "datasets.policy", **_WORLDS[kind])
    house.raise_caps()
    with house.settings_file.open("a") as settings:
        settings.write('\n[metrics]\naddress = "127.0.0.1:0"\n')
    house.start()
    analyses = {"kinds": ["crosstab"], "checked_runs": 2} if kind == "run" else None
    try:
        with house.analyst() as ana:
            card = ana.propose(
                "survey", _PAIR, purpose="an attack", rows=100, analyses=analyses
            ).accept()
            with suppress(GencardError):
                if kind == "run":
                    card.run("sex ~ health", "crosstab", progress=False)
                else:
                    card.generate(9, progress=False)
        assert house.controller is not None
        assert house.controller.metrics is not None
        with urlopen(f"http://127.0.0.1:{house.controller.metrics.port}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
    finally:
        house.stop()
    return "\n".join(line for line in lines if "certificate_end" not in line)


def _holds_out(program: str, *arguments: str) -> bool:
    """Whether a command ends with exit code 1 and an error of ours, in little memory and time."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY)),
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 1 and "Traceback" not in done.stderr


def _sparse(path: Path, size: int, begins: bytes = b"") -> None:
    """A file of zeros that takes no room on the disk."""
    with path.open("wb") as file:
        file.write(begins)
        file.truncate(size)


def _verify(_quick: bool) -> Outcome:
    """Let ``verify`` read without end, wait for ever, or take more than 2 GiB."""
    with _folder() as folder:
        os.mkfifo(folder / "pipe")
        (folder / "device.csv").symlink_to("/dev/zero")
        (folder / "large").mkdir()
        for number in range(30):
            _sparse(folder / "large" / f"{number}.json", 200 << 20, b'{"attributes":[')
        (folder / "nested").mkdir()
        (folder / "nested" / "psi.json").write_bytes(b'{"attributes":[' + b"[]," * 30_000_000)
        places = (
            "/dev/zero",
            folder / "pipe",
            folder / "device.csv",
            folder / "large",
            folder / "nested",
        )
        held = [_holds_out(_CLIENT, "verify", str(place)) for place in places]
    return Outcome(held.count(False), len(held), "a device, a pipe, a link to a device, two folders")


def _records(_quick: bool) -> Outcome:
    """Let ``init`` take a link, end in a traceback or take minutes."""
    with _folder() as folder:
        rows = "".join(f"{number % 7},{'xy'[number % 2]}\n" for number in range(200))
        (folder / "real.csv").write_text("a,b\n" + rows)
        (folder / "link.csv").symlink_to(folder / "real.csv")
        (folder / "header.csv").write_text("a" * (1 << 18) + ",b\n" + rows)
        (folder / "line.csv").write_text("a" * (1 << 22) + ",b\n" + rows)
        column = pa.chunked_array([pa.array(np.zeros(2_000_000, dtype=np.int64))] * 25)
        parquet.write_table(
            pa.table({"a": column}), folder / "small.parquet", compression="zstd", use_dictionary=False
        )
        names = ("link.csv", "header.csv", "line.csv", "small.parquet")
        held = [
            _holds_out(_CONTROLLER, "init", str(folder / f"house-{name}"), "--data", str(folder / name))
            for name in names
        ]
    return Outcome(held.count(False), len(held), "a link, two long headers, Parquet that inflates")


def _addresses(_quick: bool) -> Outcome:
    """Hold the port of ``localhost`` in one family of addresses, and let the service start beside."""
    successes = tries = 0
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with _folder() as folder, socket.socket(family) as other:
            try:
                other.bind((host, 0))
            except OSError:  # this machine has one family only
                continue
            other.listen()
            house = build(folder)
            house.edit({"address": f'"localhost:{other.getsockname()[1]}"'})
            tries += 1
            try:
                house.start()
            except InvalidInputError:
                continue
            successes += 1
            house.stop()
    return Outcome(successes, tries, f"{tries - successes} did not start")


ATTACKS = (
    Attack("B9", "use an expired card after setting the clock back", "4 of 4", 0.0, 4, _clock),
    Attack("B9", "tell two worlds apart by the metrics", "2 of 2", 0.0, 2, _metrics),
    Attack("B9", "stop verify, or fill its memory", "4 of 5", 0.0, 5, _verify),
    Attack("B9", "let init take a link, or end in a traceback", "4 of 4", 0.0, 4, _records),
    Attack("B10", "hold the port in the other family of addresses", "2 of 2", 0.0, 1, _addresses),
)
"""All attacks of these lines."""
