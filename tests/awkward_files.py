"""The awkward columns in every kind of file and database, and the codes that are read from them."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import duckdb
import numpy as np
import pyarrow.parquet as pq

from benchmarks import engine_rows
from gencard.controller.records.databases import open_table
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import RecordSource, Vault
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import UndeclaredLevelError
from tests import stored_files
from tests.awkward_columns import COLUMNS, ROWS, stored

TEXTS = ("csv", "csv.gz", "tsv", "zip")
FILES = (*TEXTS, "parquet", *stored_files.FORMATS)
KINDS = (*FILES, *engine_rows.ENGINES)

NAMES = dict(zip(COLUMNS, (f"c{axis}" for axis in range(len(COLUMNS))), strict=True))
CODING = Coding(
    (
        Attribute("row", Labels(tuple(map(str, range(ROWS))), integer=True)),
        *(Attribute(NAMES[title], one.coding) for title, one in COLUMNS.items()),
    )
)
READINGS = {NAMES[title]: one.reading for title, one in COLUMNS.items()}


def holds(kind: str, title: str) -> bool:
    """Whether a file of this kind can hold a column."""
    return kind not in stored_files.FORMATS or stored_files.holds(kind, COLUMNS[title].values)


@contextmanager
def opened(kind: str, folder: Path, socket: str) -> Iterator[RecordSource]:
    """Write all columns that a kind can hold, and open them."""
    (folder / "parquet").mkdir()
    pq.write_table(stored(), folder / "parquet" / "0.parquet")
    if kind not in FILES:
        address = engine_rows.address_of(kind, folder / "parquet", folder, socket)
        with open_table(TableAddress(address), "", CODING, READINGS) as table:
            yield table
        return
    held = ("row", *(NAMES[title] for title in COLUMNS if holds(kind, title)))
    path = folder / f"records.{kind}"
    _write(path, kind, held)
    coding = Coding(tuple(one for one in CODING.attributes if one.name in held))
    yield Vault(path, coding, {name: one for name, one in READINGS.items() if name in held})


def _write(path: Path, kind: str, held: tuple[str, ...]) -> None:
    table = stored().select(list(held))
    if kind in stored_files.FORMATS:
        stored_files.write(table, path)
        return
    whole, delimiter = path.with_name("whole.parquet"), "\t" if kind == "tsv" else ","
    pq.write_table(table, path if kind == "parquet" else whole)
    if kind == "parquet":
        return
    plain = path.with_name("plain.csv")
    duckdb.execute(f"COPY (FROM '{whole}') TO '{plain}' (DELIMITER '{delimiter}')")
    content = plain.read_bytes()
    if kind == "zip":
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            archive.writestr("records.csv", content)
        return
    path.write_bytes(gzip.compress(content) if kind == "csv.gz" else content)


def codes(source: RecordSource, name: str) -> tuple[int, ...] | None:
    """The code of each record; None if the column is refused."""
    try:
        (counts,) = source.count([("row", name)])
    except UndeclaredLevelError as error:
        assert error.fields["attribute"] == name  # noqa: PT017
        return None
    assert (counts.sum(axis=1) == 1).all()
    return tuple(counts.argmax(axis=1).tolist())


def expected(kind: str, title: str) -> tuple[int, ...] | None:
    """The code that each record has to have; None if the column has to be refused."""
    column = COLUMNS[title]
    values = None if column.only_stored and kind in TEXTS else column.codes
    return None if values is None else tuple(np.resize(values, ROWS).tolist())
