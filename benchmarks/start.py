"""Processor time of programs beside pandas: to start, to read a file, to release rows again.

``python -m benchmarks.start [--quick] [--json FILE]``

``gencard cards`` is called at a real service over TLS. Seconds are those of the processor, user and
system: on a busy machine wall seconds say more about what else runs. Targets are ratios in one run:
of starts to ``import pandas``, of ``init`` and ``check`` to a program that reads the same file by
``pandas.read_csv``. A release is timed by wall seconds, for client, service and workers wait for each
other. ``--quick`` takes a tenth of the records.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from benchmarks import bench
from examples import demo
from gencard.client import Analyst

_BIN = Path(sys.executable).parent
Words = tuple[str, ...]

_ENVIRONMENT = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Environment of the programs: installed packages are compiled, so these sources must be."""

_PYTHON = (sys.executable, "-c")
_STEWARD = str(_BIN / "gencard-controller")
_CLIENT = str(_BIN / "gencard")

PANDAS = "import pandas"
_PROGRAMS: dict[str, tuple[Words, float | None]] = {
    "python -c pass": ((*_PYTHON, "pass"), None),
    PANDAS: ((*_PYTHON, PANDAS), None),
    "gencard --help": ((_CLIENT, "--help"), 0.5),
    "gencard-controller --help": ((_STEWARD, "--help"), 0.5),
    "import gencard.client": ((*_PYTHON, "import gencard.client"), 0.5),
    "gencard generate --help": ((_CLIENT, "generate", "--help"), 0.5),
    "gencard-controller check --help": ((_STEWARD, "check", "--help"), 0.5),
    "from gencard.client import Analyst": ((*_PYTHON, "from gencard.client import Analyst"), None),
    "start of a worker": ((*_PYTHON, "import gencard.controller.jobs.worker"), None),
    "start of the service": ((*_PYTHON, "import gencard.controller.wiring.serving"), None),
}
"""Programs, and the most that one may take of the time of ``import pandas``."""

_RECORDS, _WIDE = 1_000_000, (3_896, 92)
_REPEATS = 3
"""Calls that read a long file: other work on the machine only ever adds to the fewest seconds."""

_MOST_INIT, _MOST_CHECK, _MOST_AGAIN = 10.0, 4.0, 0.1


def seconds(command: Words) -> float:
    """Processor time of one call, user and system."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    silent = [(os.POSIX_SPAWN_DUP2, nowhere, 1)]
    pid = os.posix_spawn(command[0], command, _ENVIRONMENT, file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    os.close(nowhere)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime


def run(quick: bool) -> bench.Result:
    """Time programs, files and releases; a first start, which compiles what is new, does not count."""
    calls = 3 if quick else 9
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        took = {name: _median(words, calls) for name, (words, _) in _PROGRAMS.items()}
        demo.prepare()
        with demo.serving() as meter:
            address = f'address = "localhost:{meter.target}"\n'
            (demo.ANA / "connection.toml").write_text(address)
            took["gencard cards"] = _median((_CLIENT, "cards", "-c", str(demo.ANA)), calls)
        targets = [
            bench.Target(f"{name} / {PANDAS}", took[name] / took[PANDAS], most, "at most")
            for name, (_, most) in _PROGRAMS.items()
            if most is not None
        ]
        reads, of_files = _files(_RECORDS // (10 if quick else 1), took[PANDAS])
        releases, of_releases = _releases()
    bare = took["python -c pass"]
    rows = [(name, value, value - bare) for name, value in took.items()]
    table = bench.Table("Processor time to start, in s", ("program", "seconds", "above bare"), rows)
    return bench.Result(
        [table, reads, releases],
        [*targets, *of_files, *of_releases],
        {**took, **{str(name): value for name, value in reads.rows}},
    )


def survey(records: int) -> pd.DataFrame:
    """Nineteen columns of a made survey: codes, words, whole numbers, decimals, dates."""
    rng = np.random.default_rng(36)
    words = ["never", "sometimes", "often", "always"]
    columns = {
        "region": rng.choice(["north", "south", "east", "west"], records),
        "sex": rng.choice(["f", "m"], records),
        "smoker": rng.choice(["true", "false"], records),
        "job": rng.choice([f"j{number:02}" for number in range(30)], records),
        "age": rng.integers(18, 95, records),
        "visits": rng.poisson(3, records),
        "score": rng.integers(0, 1_000, records),
        "income": np.round(rng.lognormal(7, 0.6, records)).astype(int),
        "height": np.round(rng.normal(1.7, 0.1, records), 2),
        "day": (np.datetime64("2015-01-01") + rng.integers(0, 3_000, records)).astype(str),
    }
    columns |= {f"q{place}": rng.integers(1, 6, records) for place in range(6)}
    columns |= {f"w{place}": rng.choice(words, records) for place in range(3)}
    return pd.DataFrame(columns)


def _wide() -> pd.DataFrame:
    """A table of many columns, every third of decimals."""
    rng, (records, columns) = np.random.default_rng(36), _WIDE
    return pd.DataFrame(
        {
            f"a{place}": rng.normal(10, 3, records).round(2)
            if place % 3
            else rng.integers(0, 5, records)
            for place in range(columns)
        }
    )


def _files(records: int, pandas: float) -> tuple[bench.Table, list[bench.Target]]:
    """Time ``init`` and ``check`` of a long file, and ``init`` of a wide one."""
    survey(records).to_csv("long.csv", index=False)
    _wide().to_csv("wide.csv", index=False)
    read = min(seconds((*_PYTHON, f"{PANDAS}; pandas.read_csv('long.csv')")) for _ in range(_REPEATS))
    long = seconds((_STEWARD, "init", "long", "--data", "long.csv"))
    check = min(seconds((_STEWARD, "check", "-c", "long/controller.toml")) for _ in range(_REPEATS))
    wide = seconds((_STEWARD, "init", "wide", "--data", "wide.csv"))
    size = f"{records:,} x {survey(1).shape[1]}"
    rows = [
        (f"pandas.read_csv of {size}", read),
        (f"init of {size}", long),
        (f"check of {size}", check),
        (f"init of {_WIDE[0]:,} x {_WIDE[1]}", wide),
    ]
    targets = [
        bench.Target(f"init of {size} / read_csv", long / read, _MOST_INIT, "at most"),
        bench.Target(f"check of {size} / read_csv", check / read, _MOST_CHECK, "at most"),
        bench.Target(f"init of {_WIDE[1]} columns / {PANDAS}", wide / pandas, _MOST_INIT, "at most"),
    ]
    return bench.Table("Processor time of whole programs, in s", ("program", "seconds"), rows), targets


def _releases() -> tuple[bench.Table, list[bench.Target]]:
    """Time the first and second release of 1,000 rows under a card of all pairs, and their replays."""
    survey(20_000).to_csv("again.csv", index=False)
    seconds((_STEWARD, "init", "again", "--data", "again.csv", "--demo-people"))
    with (
        _serving("again") as port,
        Analyst.connect(f"localhost:{port}", folder="again/people/ana") as ana,
    ):
        pairs = [*combinations(ana.dataset("again").coding.domain.attributes, 2)]
        card = ana.propose(
            "again", pairs, purpose="To see", generator="support-raking", rows=1_000
        ).accept()
        made, replayed = [], []
        for seed in (1, 2):
            begin = time.perf_counter()
            release = card.release(rows=1_000, seed=seed, progress=False)
            made.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            card.replay(release)
            replayed.append(time.perf_counter() - begin)
    table = bench.Table(
        f"Wall time of releases of 1,000 rows under a card of {len(pairs)} pairs, in s",
        ("call", "first", "second"),
        [("release", *made), ("replay", *replayed)],
    )
    targets = [
        bench.Target(f"second {what} / first", second / first, _MOST_AGAIN, "at most")
        for what, (first, second) in (("release", made), ("replay", replayed))
    ]
    return table, targets


@contextlib.contextmanager
def _serving(folder: str) -> Iterator[int]:
    """Serve a drafted folder, reviewed or not, on a free port."""
    command = [_STEWARD, "serve", "--unreviewed", "--config", f"{folder}/controller.toml"]
    environment = {**os.environ, "GENCARD_SERVER__ADDRESS": "localhost:0", "NO_COLOR": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield demo.port_of(process)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _median(command: Words, calls: int) -> float:
    seconds(command)
    return median(seconds(command) for _ in range(calls))


if __name__ == "__main__":
    bench.main("start", run)
