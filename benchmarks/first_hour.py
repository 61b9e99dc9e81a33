"""From a file of records to rows and a regression, as people type it.

``python -m benchmarks.first_hour [NAME ...] [--quick] [--json FILE]``

For each file: `init`, `schema review`, `check` and `serve` on loopback, rows of all columns, and a
linear regression answered from exact psi, all by the programs and over TLS. The rows are compared with
the file as pandas reads it, the coefficients with those of statsmodels. ``ROWS`` rows have a standard
error of 0.0032 standard deviations in a mean, and at most 0.0016 in a share. The mean of a number that
fewer than a quarter of the rows have is compared in standard errors of the rows. ``--quick``: three
files.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import bench
from benchmarks.first_hour_files import FILES, REFUSED
from benchmarks.first_hour_truth import (
    NOTHING,
    Declared,
    Differences,
    differences,
    question_of,
    read_file,
    slope_gap,
)

ROWS = 100_000
"""Largest number that the drafted policy permits."""

LEAST_FILES, MOST_MEAN, MOST_SPARSE = 40, 0.02, 4.0
QUICK = ("german", "codes", "numbers_wage.parquet")

_PROGRAMS = Path(sys.executable).parent
_RULES_OFF = 'analyses = { influence = "off" }\n'
_REFUSED = "MEASUREMENT_REFUSED"


class FailedError(Exception):
    """A command failed; has its last line."""


@dataclass(slots=True)
class Hour:
    """Costs and results of one file.

    Args:
        seconds: Of waiting, by command.
        commands: Number of commands typed.
        edits: Edits of files by hand.
        tracebacks: Outputs with one.
        declared: Columns in the schema.
        differences: Differences of rows and records.
        slope: Largest difference of a coefficient, in standard errors; None without a number.
        with_sums: The numbers for whose means another card had sums, too: rows of all columns rest on
            histograms.
        refused: Numbers whose sums the rules refuse, so that means of rows are those by histograms; and
            "slopes", if those of the regression are refused with the rule of influence off, too.
        rules_off: The number whose sums were released only with the rules for sums off.
        failed: The last line of a command that failed.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    commands: int = 0
    edits: int = 0
    tracebacks: int = 0
    declared: int = 0
    differences: Differences = NOTHING
    slope: float | None = None
    with_sums: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    rules_off: str = ""
    failed: str = ""

    def typed(self, program: str, *words: object) -> str:
        """Run a command as a shell does; raises FailedError."""
        command = [str(_PROGRAMS / program), *map(str, words)]
        start, pipe = time.monotonic(), subprocess.PIPE
        done = subprocess.run(command, stdout=pipe, stderr=pipe, text=True, check=False, env=_PLAIN)
        name = str(words[0])
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start
        self.commands += 1
        self.tracebacks += "Traceback (most recent" in done.stdout + done.stderr
        if done.returncode:
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            raise FailedError(f"{name}: {' '.join(lines)[:160]}")
        return done.stdout


_PLAIN = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}


def first_hour(records: Path, folder: Path) -> Hour:
    """Type the commands for one file, and compare what comes."""
    hour = Hour()
    try:
        _first_hour(hour, records, folder)
    except FailedError as error:
        hour.failed = str(error)
    except (LookupError, ValueError) as error:  # a column, a coefficient or all records are missing
        hour.failed = f"not compared: {error!r}"
    return hour


def _first_hour(hour: Hour, records: Path, folder: Path) -> None:
    controller, settings = folder / "controller", folder / "controller" / "controller.toml"
    address = f"localhost:{_free_port()}"
    made = ("--demo-people", "--exact", "--address", address)
    hour.typed("gencard-controller", "init", controller, "--data", records, *made)
    reviewed = ("--yes", "--declared-by", "the steward", "--config", settings)
    hour.typed("gencard-controller", "schema", "review", *reviewed)
    hour.typed("gencard-controller", "check", "--config", settings)
    schema = tomllib.loads((controller / "schema.toml").read_text())
    (dataset,) = tomllib.loads(settings.read_text())["datasets"]
    hour.declared, name = len(schema["attributes"]), dataset["name"]
    file = read_file(records, dataset.get("format", {}))
    question, written = question_of(schema), dataset.get("format", {})

    rows, signed = folder / "rows.csv", ("--yes", "--connection", controller / "people" / "ana")
    wanted = ("--rows", ROWS, "--output", rows, "--replace")

    def regression(purpose: str) -> None:
        """Ask for what a regression needs, by a card of its own purpose: a refused one stays so."""
        if question is None:
            return
        text, release = (question.formula, "--kind", "linear"), folder / purpose.replace(" ", "-")
        out = ("--rows", 1_000, "--output", release, "--purpose", purpose)
        hour.typed("gencard", "synthesize", name, *text, *out, *signed)
        answered = json.loads(hour.typed("gencard", "answer", release, *text, "--json"))
        coefficients = answered["answer"]["coefficients"]
        hour.slope = slope_gap(question, coefficients, file, schema, written)

    with _served(settings, hour):
        is_refused = _is_refused(partial(regression, "as drafted"))
        hour.typed("gencard", "synthesize", name, *wanted, *signed)
        hour.differences = _compared(rows, file, schema, written)
        while (gap := hour.differences.without(hour.refused))[1] > MOST_MEAN and gap[
            0
        ] not in hour.with_sums:
            typed = partial(_type_sums, hour, name, [*hour.with_sums, gap[0]], wanted, signed[1:])
            if _is_refused(typed):
                hour.refused.append(gap[0])
                continue
            hour.with_sums.append(gap[0])
            hour.differences = _compared(rows, file, schema, written)
    if not is_refused or question is None:
        return
    hour.rules_off = question.number or question.response
    text_before = settings.read_text()
    settings.write_text(text_before.replace("# analyses = {", _RULES_OFF + "# analyses = {", 1))
    with _served(settings, hour):
        if _is_refused(partial(regression, "rules off")):
            hour.rules_off = ""
            hour.refused.append("slopes")


def _is_refused(typed: Callable[[], None]) -> bool:
    """Type commands, and return whether rules refused the sums that they ask for."""
    try:
        typed()
    except FailedError as error:
        if _REFUSED not in str(error):
            raise
        return True
    return False


def _compared(rows: Path, file: pd.DataFrame, schema: Declared, written: Declared) -> Differences:
    frame = pd.read_csv(rows, dtype=str, keep_default_na=False)
    return differences(file, frame, schema, written)


def _type_sums(
    hour: Hour, name: str, numbers: Sequence[str], wanted: Sequence[object], connection: Sequence[object]
) -> None:
    """Rows again, of a card that has the sums of some numbers, too; raises FailedError."""
    kinds = [
        word
        for one in numbers
        for kind in ("histogram", "sum")
        for word in ("--moment", f"{kind}={one}")
    ]
    terms = ("--marginals-of-order", 2, "--purpose", "Means of numbers", *wanted[:2])
    words = (*terms, "--generator", "auto", *kinds, "--json", *connection)
    card = json.loads(hour.typed("gencard", "propose", name, *words))["name"]
    hour.typed("gencard", "accept", card, "--yes", *connection)
    hour.typed("gencard", "generate", card, *wanted, *connection)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _served(settings: Path, hour: Hour) -> Iterator[None]:
    """Serve until the block ends; what the service says counts as output."""
    start, log = time.monotonic(), settings.parent / "serve.log"
    command = [str(_PROGRAMS / "gencard-controller"), "serve", "--config", str(settings)]
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=output, text=True, env=_PLAIN
        ) as process,
    ):
        try:
            is_served = any("Serving" in line for line in process.stdout or ())
            hour.seconds["serve"] = hour.seconds.get("serve", 0.0) + time.monotonic() - start
            hour.commands += 1
            if not is_served:
                raise FailedError(f"serve: {log.read_text()[-160:]}")
            yield
        finally:
            process.terminate()
            process.communicate()
            hour.tracebacks += "Traceback (most recent" in log.read_text()


def refusal(records: Path, folder: Path) -> tuple[str, bool]:
    """Return what `init` says of a file, and whether it refused it without a traceback."""
    hour = Hour()
    try:
        hour.typed("gencard-controller", "init", folder / "controller", "--data", records)
    except FailedError as error:
        return str(error).removeprefix("init: "), not hour.tracebacks
    return "read", False


def run(quick: bool, names: Sequence[str] = ()) -> bench.Result:
    """Measure some files, or all."""
    chosen = names or (QUICK if quick else FILES)
    hours, skipped = dict[str, Hour](), list[tuple[str, str]]()
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            try:
                records = FILES[name](Path(folder))
            except ImportError as error:
                skipped.append((name, f"not measured: {error}"))
                continue
            hours[name] = first_hour(records, Path(folder))
        print(name, *_figures(hours[name]).items(), sep="\n  ", flush=True, file=sys.stderr)
    refused = [] if names else [(name, *_refused(name)) for name in REFUSED]
    done = {name: hour for name, hour in hours.items() if not hour.failed}
    tables = [
        bench.Table(f"From file to {ROWS:,} rows and a regression, exact", _COLUMNS, _rows(done)),
        bench.Table("Files that init refuses", ("file", "refusal"), [one[:2] for one in refused]),
        bench.Table(
            "Not measured, or failed",
            ("file", "why"),
            [*skipped, *((name, hour.failed) for name, hour in hours.items() if hour.failed)],
        ),
    ]
    return bench.Result(
        [table for table in tables if table.rows],
        _targets(hours, done, refused, all_files=not quick and not names),
        {name: _figures(hour) for name, hour in hours.items()},
    )


def _refused(name: str) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        return refusal(REFUSED[name](Path(folder)), Path(folder))


_COLUMNS = (
    *("file", "cols", "typed", "edits", "s", "mean, sd", "share", "slope, se"),
    *("sums of", "off for", "refused"),
)
"""Columns: attributes, commands, edits by hand, seconds, differences with the column that has most,
the numbers of which sums were needed, the one for which the rule of influence was off, and those whose
sums are refused."""


def _rows(hours: dict[str, Hour]) -> list[tuple[bench.Cell, ...]]:
    return [
        (
            *(name[:20], hour.declared, hour.commands, hour.edits, round(sum(hour.seconds.values()))),
            "{:.8} {:.4f}".format(*hour.differences.without(hour.refused)),
            f"{hour.differences.worst[1][:8]} {hour.differences.share:.4f}",
            *(
                "" if hour.slope is None else f"{hour.slope:.1e}",
                ", ".join(hour.with_sums)[:12],
                hour.rules_off[:7],
                ", ".join(hour.refused)[:16],
            ),
        )
        for name, hour in hours.items()
    ]


def _targets(
    hours: dict[str, Hour],
    done: dict[str, Hour],
    refused: Sequence[tuple[str, str, bool]],
    *,
    all_files: bool,
) -> list[bench.Target]:
    def largest(values: Iterator[float]) -> float:
        return float(max(values, default=0.0))

    every, few = hours.values(), "" if all_files else "only some files"
    unrefused = sum(not is_refused for *_, is_refused in refused)
    return [
        bench.Target("files", len(done), LEAST_FILES, "at least", unchecked=few),
        bench.Target("files that failed", len(hours) - len(done), 0, "at most"),
        bench.Target("outputs with a traceback", sum(hour.tracebacks for hour in every), 0, "at most"),
        bench.Target("edits by hand", sum(hour.edits for hour in every), 0, "at most"),
        bench.Target("columns with altered values", _altered(done), 0, "at most"),
        bench.Target(
            "means, but of refused sums",
            largest(one.differences.without(one.refused)[1] for one in done.values()),
            MOST_MEAN,
            "at most",
            "sd",
        ),
        bench.Target(
            "means of columns with few values",
            largest(one.differences.sparse for one in done.values()),
            MOST_SPARSE,
            "at most",
            "se of the rows",
        ),
        bench.Target("shares", largest(one.differences.share for one in done.values()), 0.01, "at most"),
        bench.Target("slopes", largest(one.slope or 0.0 for one in done.values()), 0.5, "at most", "se"),
        bench.Target("files not refused as they must", unrefused, 0, "at most"),
    ]


def _altered(hours: dict[str, Hour]) -> int:
    return sum(len(hour.differences.altered) for hour in hours.values())


def _figures(hour: Hour) -> dict[str, Any]:
    return {
        "seconds": hour.seconds,
        "columns": hour.declared,
        "mean": hour.differences.mean,
        "sparse": hour.differences.sparse,
        "share": hour.differences.share,
        "slope": hour.slope,
        "altered": hour.differences.altered,
        "sums for": hour.with_sums,
        "rules off": hour.rules_off,
        "refused": {name: hour.differences.means.get(name) for name in hour.refused},
        "failed": hour.failed,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it as a program."""
    parser = bench.parser("first_hour")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"files; default: all of {len(FILES)}")
    options = parser.parse_args(arguments)
    if unknown := {*options.names} - {*FILES}:
        parser.error(f"unknown files: {', '.join(sorted(unknown))}; available: {', '.join(FILES)}")
    bench.finish("first_hour", partial(run, names=options.names), options)


if __name__ == "__main__":
    main()
