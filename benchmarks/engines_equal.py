"""The same psi, to the byte, from files and from every engine, and the same refusals.

``python -m benchmarks.engines_equal [--quick] [--json FILE]``

Adult and the census sample, under schemas as ``init`` drafts them, and 1,000,000 made-up records
(``benchmarks.awkward_records``; 5,000 with ``--quick``): all two-way marginals from CSV, Parquet,
DuckDB, PostgreSQL and Spark. Then the same records with an undeclared value of each attribute: each
must be refused alone and by its name, and the others counted. Last a table of the twenty made-up
columns: codes and units of each record, counts by level and by cell of the histogram, sums of units and
of their squares. Exit code 1 where anything differs.
"""

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import adult, awkward_records, bench, census, engine_rows
from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.encoding import scales_of
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import RecordSource, Vault
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Reading
from gencard.core.domain import Clique
from gencard.core.errors import GencardError, UndeclaredLevelError
from gencard.core.statistics.measure import measure
from gencard.wire.psi import psi_document
from tests.controller.state import postgres

FILES = ("CSV", "Parquet")
SOURCES = (*FILES, *engine_rows.ENGINES)
_SALT = b"salt of the benchmark"
_MANY, _FEW = 1_000_000, 5_000


class Records(NamedTuple):
    """Records under a schema."""

    name: str
    records: pa.Table
    coding: Coding
    readings: Mapping[str, Reading] = {}

    @property
    def pairs(self) -> list[Clique]:
        return list(combinations(self.coding.domain.attributes, 2))


class Row(NamedTuple):
    """Result of one source.

    Args:
        digest: SHA-256 of the document of psi.
        seconds: For version and psi, opened before.
        refused: Attribute -> the refusal of its marginal; ``check`` -> that of all attributes.
        lacking: Why nothing was measured.
    """

    dataset: str
    source: str
    records: int
    marginals: int
    digest: str = ""
    seconds: float | None = None
    refused: Mapping[str, str] = {}
    lacking: str = ""


class Column(NamedTuple):
    """An attribute as one source reads it; records are ordered by all their codes and numbers.

    Args:
        codes: SHA-256 of the codes of all records, in hex.
        counts: Of the levels, then of the histogram's cells.
        units: SHA-256 of the units of all records, in hex; empty without a step.
        sums: Of the records with a value: their number, the sums of units and of squares.
    """

    codes: str
    counts: tuple[int, ...]
    units: str = ""
    sums: tuple[int, ...] = ()

    def differences(self, other: "Column") -> str:
        """Names of what is not equal, with commas between them."""
        return ", ".join(
            name for name, *both in zip(self._fields, self, other, strict=True) if both[0] != both[1]
        )


def run(quick: bool) -> bench.Result:
    made_up = awkward_records.awkward(_FEW if quick else _MANY)
    datasets: list[Callable[[], Records]] = [
        lambda: _drafted("Adult", adult.FILE),
        lambda: _drafted("census", census.FILE),
        lambda: Records("made up", made_up, awkward_records.CODING, awkward_records.READINGS),
    ]
    rows: list[Row] = []
    targets: list[bench.Target] = []
    with ExitStack() as stack:
        parent = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gencard-equal-")))
        parent.chmod(0o755)  # the server of PostgreSQL runs as another user
        server = postgres.server(parent) if postgres.has_server() else nullcontext("")
        socket = stack.enter_context(server)
        for dataset in datasets:
            try:
                records = dataset()
            except FileNotFoundError as absent:
                rows.append(Row(Path(absent.filename).stem, "", 0, 0, lacking="no ../shared/data"))
                continue
            own, expected = rows_of(records, parent, socket)
            rows += own
            targets += _targets(records.name, own, expected)
        small = Records("", awkward_records.awkward(_FEW), *datasets[-1]()[2:])
        columns = columns_of(small, parent, socket)
    targets.append(bench.Target("columns that differ", different_columns(columns), 0, "at most"))
    tables = [_table(rows), column_table(small, columns)]
    return bench.Result(tables, targets, {"rows": [one._asdict() for one in rows]})


def rows_of(
    given: Records, parent: Path, socket: str, sources: Sequence[str] = SOURCES
) -> tuple[list[Row], Mapping[str, str]]:
    """A row for each source, and the refusals that each should give.

    Args:
        parent: A folder for files of the engines.
        socket: Of a server of PostgreSQL.
    """
    undeclared, names = awkward_records.with_undeclared(given.records, given.coding, given.readings)
    with _written(given.records, parent) as folder, _written(undeclared, parent) as other:
        rows = [_row(given, source, folder, other, socket) for source in sources]
    expected = {name: _words(UndeclaredLevelError(attribute=name)) for name in names}
    return rows, expected | {"check": _words(UndeclaredLevelError(attribute=", ".join(names)))}


def _row(given: Records, source: str, folder: Path, undeclared: Path, socket: str) -> Row:
    empty = Row(given.name, source, given.records.num_rows, len(given.pairs))
    if source not in FILES and (reason := engine_rows.lacking(source)):
        return empty._replace(lacking=reason)
    digests: list[str] = []
    with _opened(source, folder, given, socket) as records:

        def job() -> None:
            records.version(_SALT)
            psi = measure(records, given.pairs, given.coding.domain)
            digests.append(sha256(psi_document(psi)).hexdigest())

        seconds = bench.once(job)
    with _opened(source, undeclared, given, socket) as records:
        refused = refusals(records, given.coding)
    return empty._replace(digest=digests[0], seconds=seconds, refused=refused)


def refusals(records: RecordSource, coding: Coding) -> dict[str, str]:
    """The refusal of each attribute's marginal, where there is one, and that of all attributes."""
    records.version(_SALT)
    actions: dict[str, Callable[[], object]] = {
        name: partial(measure, records, [(name,)], coding.domain) for name in coding.domain.attributes
    }
    refused = {}
    for name, action in (actions | {"check": records.check}).items():
        try:
            action()
        except GencardError as error:
            refused[name] = _words(error)
    return refused


def _words(error: GencardError) -> str:
    return f"{type(error).__name__} {error.fields.get('attribute', '')}"


def columns_of(
    given: Records, parent: Path, socket: str, sources: Sequence[str] = SOURCES
) -> dict[str, dict[str, Column] | str]:
    """For each source its columns by attribute, or why it lacks them."""
    made: dict[str, dict[str, Column] | str] = {}
    with _written(given.records, parent) as folder:
        for source in sources:
            if source not in FILES and (reason := engine_rows.lacking(source)):
                made[source] = reason
                continue
            with _opened(source, folder, given, socket) as records:
                made[source] = _columns(records, given.coding)
    return made


def _columns(records: RecordSource, coding: Coding) -> dict[str, Column]:
    names, scales = coding.domain.attributes, scales_of(coding)
    records.version(_SALT)
    dataset, numbers = records.read(names, tuple(scales), most_records=_FEW)
    order = np.lexsort([*numbers.values(), *dataset.codes.T][::-1])
    sums = [Sum(of) for name in scales for of in ((name,), (name, name))]
    summed = records.summed(sums, tuple(scales))
    totals = dict(zip(sums, summed.totals(), strict=True))
    cells = dict(zip(scales, summed.fine_counts(), strict=True))
    columns = {}
    for name, codes, counts in zip(
        names, dataset.codes.T, records.count([(name,) for name in names]), strict=True
    ):
        column = Column(_digest(codes[order]), tuple(counts.tolist()))
        if name in scales:
            units = scales[name].units(scales[name].adjusted(numbers[name][order]))
            first, squares = totals[Sum((name,))], totals[Sum((name, name))]
            column = column._replace(
                counts=(*column.counts, *cells[name].tolist()),
                units=_digest(units),
                sums=(*first.counts, *first.values, *squares.values),
            )
        columns[name] = column
    return columns


def _digest(numbers: NDArray[np.integer]) -> str:
    return sha256(numbers.astype(np.int64).tobytes()).hexdigest()


def different_columns(made: Mapping[str, Mapping[str, Column] | str]) -> int:
    """Number of columns that some source reads otherwise than the first one."""
    read = [columns for columns in made.values() if not isinstance(columns, str)]
    return sum(any(one[name].differences(read[0][name]) for one in read) for name in read[0])


def column_table(given: Records, made: Mapping[str, Mapping[str, Column] | str]) -> bench.Table:
    """A row for each attribute: what the first source makes of it, and what others make otherwise."""
    first = next(columns for columns in made.values() if not isinstance(columns, str))
    rows: list[tuple[bench.Cell, ...]] = []
    for name, column in first.items():
        kind = given.records.schema.field(name).type if name in given.records.column_names else ""
        sums = column.sums or ("", "", "")
        cells = [
            "-" if isinstance(columns, str) else columns[name].differences(column) or "equal"
            for columns in made.values()
        ]
        counts = _digest(np.array(column.counts))
        rows.append((name, str(kind), column.codes[:6], counts[:6], column.units[:6], *sums, *cells))
    values = ("codes", "counts", "units", "with value", "sum of units", "sum of squares")
    columns = ("column", "type", *values, *made)
    lacking = "; ".join(one for one in made.values() if isinstance(one, str))
    title = f"The same {len(first)} columns in each source" + (f" ({lacking})" if lacking else "")
    return bench.Table(title, columns, rows)


@contextmanager
def _opened(source: str, folder: Path, given: Records, socket: str) -> Iterator[RecordSource]:
    if source in FILES:
        yield Vault(next(folder.glob(f"*.{source.lower()}")), given.coding, given.readings)
        return
    from gencard.controller.records.databases import open_table  # noqa: PLC0415 - an extra

    address = engine_rows.address_of(source, folder / "parquet", folder, socket)
    with open_table(TableAddress(address), "", given.coding, given.readings) as table:
        yield table


@contextmanager
def _written(records: pa.Table, parent: Path) -> Iterator[Path]:
    """A folder with the records as CSV, as Parquet, and as a folder of Parquet."""
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        (folder / "parquet").mkdir()
        pq.write_table(records, folder / "records.parquet")
        (folder / "parquet" / "0.parquet").hardlink_to(folder / "records.parquet")
        duckdb.execute(f"COPY (FROM '{folder}/records.parquet') TO '{folder}/records.csv'")
        yield folder
    finally:
        shutil.rmtree(folder)


def _drafted(name: str, file: Path) -> Records:
    schema = draft_schema(file, name, today=dt.date(2026, 1, 1)).schema
    columns = list(schema.coding.domain.attributes)
    return Records(name, pq.read_table(file, columns=columns), schema.coding, schema.readings)


def _table(rows: Sequence[Row]) -> bench.Table:
    columns = ("dataset", "source", "records", "marginals", "SHA-256 of psi", "seconds", "refused", "")
    return bench.Table("Psi and refusals of undeclared values", columns, [_cells(row) for row in rows])


def _cells(row: Row) -> tuple[bench.Cell, ...]:
    refused = f"{len(row.refused.keys() - {'check'})} attributes" if row.refused else ""
    digest = row.digest[:16]
    return *row[:2], f"{row.records:,}", row.marginals, digest, row.seconds, refused, row.lacking


def _targets(name: str, rows: Sequence[Row], expected: Mapping[str, str]) -> list[bench.Target]:
    measured = [row for row in rows if not row.lacking]
    others = sum(row.digest != rows[0].digest for row in measured)
    wrong = sum(row.refused != expected for row in measured)
    return [
        bench.Target(f"{name}: sources with another psi", others, 0, "at most"),
        bench.Target(f"{name}: sources with other refusals", wrong, 0, "at most"),
    ]


if __name__ == "__main__":
    bench.main("engines_equal", run)
