"""The same psi, to the byte, from files and from every engine, and the same refusals.

``python -m benchmarks.engines_equal [--quick] [--json FILE]``

Adult and the census sample, under schemas as ``init`` drafts them, and 1,000,000 made-up records
(``benchmarks.awkward_records``; 5,000 with ``--quick``): all two-way marginals from CSV, Parquet,
DuckDB, PostgreSQL and Spark. Then the same records with an undeclared value of each attribute: each
must be refused alone and by its name, and the others counted. Exit code 1 where anything differs.
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
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import adult, awkward_records, bench, census, engine_rows
from gencard.controller.records.schema_draft import draft_schema
from gencard.controller.records.source import RecordSource
from gencard.controller.records.tables.address import TableAddress
from gencard.controller.records.vault import Vault
from gencard.core.coding import Coding, Reading
from gencard.core.domain import Clique
from gencard.core.errors import GencardError, UndeclaredLevelError
from gencard.core.statistics.measure import measure
from gencard.wire.documents.psi_document import psi_document
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
    """What one source gave.

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
    return bench.Result([_table(rows)], targets, {"rows": [one._asdict() for one in rows]})


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


@contextmanager
def _opened(source: str, folder: Path, given: Records, socket: str) -> Iterator[RecordSource]:
    if source in FILES:
        yield Vault(next(folder.glob(f"*.{source.lower()}")), given.coding, given.readings)
        return
    from gencard.controller.records.tables.engines import open_table  # noqa: PLC0415 - an extra

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
