"""The measures of this checkout beside those of an earlier one, as a table."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.table import Table

from docs.house.measures import LARGEST_FOLDER, SMALL, Measures
from docs.house.rooms import HOUSES
from docs.house.sources import ROOT
from docs.house.trace import Trace

FIRST = "b766647a"
"""The commit at which `one shape for one thing` was planned."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measure: how to read it off one state, what it was at first, what the plan allows.

    Args:
        first: As ``python -m docs.house --against b766647a`` prints it.
    """

    measure: str
    value: Callable[[Measures], str]
    first: str
    bound: str = ""


@dataclass(frozen=True, slots=True)
class CallRow:
    """The same of one call, with ``--trace``.

    Calls of codecs differ by about 50 from run to run, for the service reads the newest entry of its log
    every second. Those of a checked run depend on its question too.
    """

    measure: str
    value: Callable[[Trace], int]
    first: str
    bound: str = ""


def _folders(measures: Measures) -> str:
    flat = measures.flat_folders
    largest = ", ".join(f"{Path(name).name} {size}" for name, size in list(flat.items())[:3])
    return f"{len(flat)} ({largest})" if flat else "0"


def _words(measures: Measures) -> str:
    often = ", ".join(f"{word} {count}" for word, count in list(measures.words.items())[:3])
    return f"{sum(measures.words.values()):,} ({often})" if often else "0"


def _pairs(measures: Measures) -> str:
    return f"{len(measures.pairs)} ({sum(pair.share == 1 for pair in measures.pairs)} share all)"


def _mean_length(measures: Measures) -> str:
    return f"{fmean(measures.function_lengths):.1f}"


ROWS = (
    Row("modules", lambda of: f"{of.modules}", "511", "342"),
    Row("lines", lambda of: f"{of.lines:,}", "91,004", "104,080"),
    Row("imports into a room of the same tier or above", lambda of: f"{len(of.back_up)}", "40", "0"),
    Row("loops of modules", lambda of: f"{len(of.loops)}", "4", "0"),
    Row("mean length of a function", _mean_length, "8.8", "10 to 12"),
    Row("private functions used once", lambda of: f"{of.used_once:,}", "1,395", "1,284"),
    Row("lines of imports", lambda of: f"{of.import_lines / of.lines:.1%}", "8.2%"),
    Row(f"modules under {SMALL} lines", lambda of: f"{of.small / of.modules:.1%}", "14.7%", "13%"),
    Row("modules with one importer", lambda of: f"{of.one_importer}", "94"),
    Row(f"... under {SMALL} lines", lambda of: f"{len(of.small_one_importer)}", "0", "0"),
    Row(f"folders of more than {LARGEST_FOLDER} files", _folders, "0", "0"),
    Row("code lines to a comment", lambda of: f"{of.code_lines / max(of.comments, 1):.0f}", "195"),
    Row("names that an earlier plan replaced", _words, "0", "0"),
    Row("modules that no user can reach", lambda of: f"{len(of.unreachable)}", "0", "0"),
    Row("pairs of classes that share most of their fields", _pairs, "33 (10 share all)", "8"),
    Row("class names defined more than once", lambda of: f"{len(of.repeated_names)}", "72"),
    Row("lines of conversions by hand", lambda of: f"{of.conversion_lines:,}", "924", "250"),
    Row("docstrings that open badly", lambda of: f"{len(of.bad_openings):,}", "1,284", "0"),
)

CALLS = (
    CallRow("files run by one propose", lambda of: len(of.propose.modules), "59", "42"),
    CallRow("... generate", lambda of: len(of.generate.modules), "104", "73"),
    CallRow("... checked run", lambda of: len(of.run.modules), "100", "75"),
    CallRow("... audit at the records", lambda of: len(of.audit.modules), "109", "80"),
    CallRow("encodings of terms in one propose", lambda of: of.propose.terms, "11", "4"),
    CallRow("calls of codecs in one propose", lambda of: of.propose.calls, "791", "200"),
    CallRow("... a second propose, with codecs made", lambda of: of.again.calls, "570"),
    CallRow("... generate", lambda of: of.generate.calls, "1,660"),
    CallRow("... checked run", lambda of: of.run.calls, "3,560", "400"),
    CallRow("... audit at the records", lambda of: of.audit.calls, "4,280"),
)


_CAPTION = (
    f"At {FIRST} the plan counted 912 lines of conversions, and 786 and 3,997 calls of codecs in a "
    "propose and a checked run; how is not recorded. Here a conversion carries three fields one by "
    "one, and each call of a function in a codec counts, also each step of a generator. The plan "
    "counted 22 imports into a room of the same tier or above and 5 loops, by its own rooms; here "
    "they are counted by the tiers of today. Rooms / tiers: "
    + ", ".join(
        f"{package} {len(rooms)}/{max(room.tier for room in rooms.values())}"
        for package, rooms in HOUSES.items()
    )
    + f"; at {FIRST} controller 26/18, client 23/14, core 22/10, wire 7/4. Bounds of modules, lines and "
    "private functions used once: those of the plan (300; 78,000; 900) and what new features added, "
    "from b766647a to cafe0558 (13; 10,385; 161) and from 66ab2b9d to f3e4393b (29; 15,695; 223). Of "
    "files of a call: 42, 70, 70, 80 and what numbers as they are in the file added, from 66ab2b9d to "
    "2e687fc1 (0, 3, 5, 0)."
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
    table = Table("measure", name, "now", "bound", caption=_CAPTION)
    for row in ROWS:
        value = row.first if first is None else row.value(first)
        table.add_row(row.measure, value, row.value(now), row.bound)
    for call in CALLS:
        before, after = call.first, "--trace"
        if traces is not None:
            after = f"{call.value(traces[0]):,}"
            before = before if traces[1] is None else f"{call.value(traces[1]):,}"
        table.add_row(call.measure, before, after, call.bound)
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
