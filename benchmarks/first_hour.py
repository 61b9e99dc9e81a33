"""From a file of records to rows, as people type it: ``python -m benchmarks.first_hour [NAME ...]``.

Three public data sets as CSV and seven made-up messy files. For each: seconds of waiting by command,
edits of files by hand, columns declared and left out, and what the columns of the rows are.
"""

import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from tests.messy_files import MESSY
from tests.shared_data import shared_file

ROWS = 2_000
ATTRIBUTES = 6
"""Of the analysis."""

PROGRAMS = Path(sys.executable).parent
PUBLIC = ("sd2011", "adult_raw", "nist_acs_national2019")


@dataclass(frozen=True, slots=True)
class FirstHour:
    """What one file took.

    Args:
        seconds: Of waiting, by command.
        edits: Edits of files by hand.
        declared: Columns in the schema.
        columns: Columns of the file.
        kinds: How many columns of the rows are numbers, dates, truth values and labels.
    """

    seconds: dict[str, float]
    edits: int
    declared: int
    columns: int
    kinds: dict[str, int]


def public(name: str) -> Callable[[Path], Path]:
    """A function that writes a public data set as CSV into a folder."""

    def write(folder: Path) -> Path:
        path = folder / f"{name}.csv"
        pd.read_parquet(shared_file(f"{name}.parquet")).to_csv(path, index=False)
        return path

    return write


FILES = {name: public(name) for name in PUBLIC} | MESSY


def first_hour(records: Path, folder: Path) -> FirstHour:
    """Type the commands, and look at the rows."""
    seconds: dict[str, float] = {}
    controller, rows = folder / "controller", folder / "rows.csv"

    def typed(program: str, *words: object) -> str:
        start = time.monotonic()
        command = [str(PROGRAMS / program), *map(str, words)]
        output = subprocess.PIPE
        result = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode:
            raise SystemExit(f"{program} {words[0]} failed:\n{result.stdout}")
        seconds[str(words[0])] = time.monotonic() - start
        return str(result.stdout)

    drafted = typed("gencard-controller", "init", controller, "--data", records, "--demo-people")
    schema = controller / "schema.toml"
    schema.write_text(schema.read_text().replace("reviewed = false", "reviewed = true"))
    settings = controller / "controller.toml"
    typed("gencard-controller", "check", "--config", settings)
    attributes = tomllib.loads(schema.read_text())["attributes"]
    (dataset,) = tomllib.loads(settings.read_text())["datasets"]
    with served(settings, seconds):
        typed(
            "gencard", "synthesize", dataset["name"], formula_of(attributes), "--kind", "linear",
            "--rows", ROWS, "--output", rows, "--yes", "--rho", "0.05", "--neighbouring", "add-remove",
            "--connection", controller / "people" / "ana",
        )  # fmt: skip
    return FirstHour(
        seconds, 1, len(attributes), len(attributes) + drafted.count("left out:"), kinds_of(rows)
    )


def formula_of(attributes: list[dict[str, Any]]) -> str:
    """A linear model of the first number by the first other attributes; pairs determine it."""
    numbers = [one["name"] for one in attributes if "edges" in one and not one.get("dates")]
    others = [one["name"] for one in attributes if one["name"] != numbers[0]]
    predictors = " + ".join(f"Q('{name}')" for name in others[: ATTRIBUTES - 1])
    return f"Q('{numbers[0]}') ~ {predictors}"


@contextmanager
def served(settings: Path, seconds: dict[str, float]) -> Iterator[None]:
    """A controller that answers, until the block ends; the address that `init` drafts must be free."""
    start = time.monotonic()
    command = [str(PROGRAMS / "gencard-controller"), "serve", "--config", str(settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout or ():
                if "Serving" in line:
                    break
            seconds["serve"] = time.monotonic() - start
            yield
        finally:
            process.terminate()
            process.communicate()


def kinds_of(rows: Path) -> dict[str, int]:
    """What the columns of the rows are, as pandas reads them."""
    frame = pd.read_csv(rows)
    kinds = {"numbers": 0, "dates": 0, "truth values": 0, "labels": 0}
    for name in frame:
        column = frame[name].dropna()
        if pd.api.types.is_bool_dtype(column):
            kinds["truth values"] += 1
        elif pd.api.types.is_numeric_dtype(column):
            kinds["numbers"] += 1
        else:
            dates = pd.to_datetime(column, format="%Y-%m-%d", errors="coerce").notna().all()
            kinds["dates" if dates else "labels"] += 1
    return kinds


def main() -> None:
    """Print one line for each file."""
    chosen = sys.argv[1:] or list(FILES)
    commands = ("init", "check", "serve", "synthesize")
    waits = (f"{word}, s" for word in (*commands, "waiting"))
    table = Table("file", "columns", "declared", *waits, "edits", "columns of the rows")
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            hour = first_hour(FILES[name](Path(folder)), Path(folder))
        seconds = [hour.seconds[word] for word in commands]
        numbers = [hour.columns, hour.declared, *(f"{wait:.1f}" for wait in (*seconds, sum(seconds)))]
        kinds = ", ".join(f"{count} {kind}" for kind, count in hour.kinds.items() if count)
        table.add_row(name, *map(str, numbers), str(hour.edits), kinds)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
