"""Codes of awkward columns in each kind of file and database: ``python -m benchmarks.awkward_columns``.

Codes of the first records, "refused", or "-" where the format cannot hold the column: numbers of Excel,
Stata and SPSS are floats of 53 bits. The columns are those of ``tests/awkward_columns.py``, with the
codes that they have to have.
"""

import tempfile
from contextlib import nullcontext
from pathlib import Path

from benchmarks import bench, engine_rows
from tests import awkward_files
from tests.awkward_columns import COLUMNS
from tests.awkward_files import FILES, KINDS, NAMES
from tests.controller.state import postgres

LEAST_COLUMNS = 60


def run(quick: bool) -> bench.Result:
    """Read all columns from each kind; quick: files alone."""
    kinds = [kind for kind in (FILES if quick else KINDS) if kind in FILES or not _lacking(kind)]
    made = {kind: _codes_of(kind) for kind in kinds}
    rows = [
        [title, *(_text(made[kind].get(title, ()), len(one.values)) for kind in kinds)]
        for title, one in COLUMNS.items()
    ]
    wrong = sum(
        codes != awkward_files.expected(kind, title)
        for kind, by_title in made.items()
        for title, codes in by_title.items()
    )
    lacking = "some kinds are not here" if len(kinds) < len(KINDS) else ""
    return bench.Result(
        tables=[bench.Table("Codes of the values, in order", ("column", *kinds), rows)],
        targets=[
            bench.Target("columns", len(COLUMNS), LEAST_COLUMNS, "at least"),
            bench.Target("kinds", len(kinds), len(KINDS), "at least", unchecked=lacking),
            bench.Target("other codes than expected", wrong, 0, "at most"),
        ],
    )


def _lacking(kind: str) -> str:
    return engine_rows.lacking(kind)


def _codes_of(kind: str) -> dict[str, tuple[int, ...] | None]:
    """Codes by column; None for a column that is refused; without those that the kind cannot hold."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # the server of PostgreSQL runs as another user
        server = postgres.server(folder) if kind == "postgresql" else nullcontext("")
        with server as socket, awkward_files.opened(kind, folder, socket) as source:
            return {
                title: awkward_files.codes(source, NAMES[title])
                for title in COLUMNS
                if awkward_files.holds(kind, title)
            }


def _text(codes: tuple[int, ...] | None, values: int) -> str:
    if codes is None:
        return "refused"
    return " ".join(map(str, codes[:values])) or "-"


if __name__ == "__main__":
    bench.main("awkward_columns", run)
