"""The measures of this checkout beside those of the first house, as a table."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from docs.house.measures import LARGEST_FOLDER, SMALL, Measures
from docs.house.sources import ROOT
from docs.house.trace import Trace

FIRST = "a4e800e"
"""The last commit before the second plan of the house."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measure: how to read it off one state, what it was at first, what the plan allows.

    Args:
        first: As ``python -m docs.house --against a4e800e`` prints it.
    """

    measure: str
    value: Callable[[Measures], str]
    first: str
    bound: str = ""


@dataclass(frozen=True, slots=True)
class CallRow:
    """Files that one call runs, recorded by ``python -m docs.house --against a4e800e --trace``."""

    call: str
    value: Callable[[Trace], tuple[str, ...]]
    first: int
    bound: int


def _folders(measures: Measures) -> str:
    flat = measures.flat_folders
    largest = ", ".join(f"{Path(name).name} {size}" for name, size in list(flat.items())[:3])
    return f"{len(flat)} ({largest})" if flat else "0"


def _words(measures: Measures) -> str:
    often = ", ".join(f"{word} {count}" for word, count in list(measures.words.items())[:3])
    return f"{sum(measures.words.values()):,} ({often})" if often else "0"


ROWS = (
    Row("modules", lambda of: f"{of.modules}", "518", "340"),
    Row("lines", lambda of: f"{of.lines:,}", "48,077", "41,000"),
    Row("lines of imports", lambda of: f"{of.import_lines / of.lines:.1%}", "9.9%"),
    Row(f"modules under {SMALL} lines", lambda of: f"{of.small / of.modules:.1%}", "30.9%", "15%"),
    Row("modules with one importer", lambda of: f"{of.one_importer}", "156"),
    Row(f"... under {SMALL} lines", lambda of: f"{len(of.small_one_importer)}", "46", "0"),
    Row(
        f"folders of more than {LARGEST_FOLDER} files",
        _folders,
        "12 (controller 71, privacy 52, client 41)",
        "0",
    ),
    Row("code lines to a comment", lambda of: f"{of.code_lines / max(of.comments, 1):.0f}", "406"),
    Row("names that the plan replaces", _words, "1,455 (found 721, holding 226, asked 170)", "0"),
    Row("modules that no user can reach", lambda of: f"{len(of.unreachable)}", "16", "0"),
)

CALLS = (
    CallRow("propose", lambda of: of.propose, 62, 40),
    CallRow("generate", lambda of: of.generate, 107, 60),
)


def comparison(
    now: Measures,
    first: Measures | None = None,
    traces: tuple[Trace, Trace | None] | None = None,
    name: str = FIRST,
) -> Table:
    """The table.

    Args:
        first: The earlier state; the recorded figures of ``FIRST`` where it is not given.
        traces: Of now and of the earlier state; without them the table says how to get them.
        name: Commit of the earlier state.
    """
    table = Table("measure", f"first house ({name})" if name == FIRST else name, "now", "bound")
    for row in ROWS:
        table.add_row(
            row.measure, row.first if first is None else row.value(first), row.value(now), row.bound
        )
    for call in CALLS:
        now_runs, first_runs = ("--trace", call.first)
        if traces is not None:
            now_runs = f"{len(call.value(traces[0]))}"
            first_runs = call.first if traces[1] is None else len(call.value(traces[1]))
        table.add_row(f"files run by one {call.call}", f"{first_runs}", now_runs, f"{call.bound}")
    return table


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The files of a commit, in a folder of a temporary folder that holds nothing else.

    Raises:
        subprocess.CalledProcessError: This clone does not have it.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive, root = Path(folder, "commit.tar"), Path(folder, "checkout")
        command = ["git", "archive", f"--output={archive}", commit]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        shutil.unpack_archive(archive, root)
        archive.unlink()
        yield root
