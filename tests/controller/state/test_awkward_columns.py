"""Awkward columns have the same codes from CSV, Parquet and every database, or the same refusal."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import engine_rows
from gencard.controller.records.source import RecordSource
from gencard.controller.records.tables.address import TableAddress
from gencard.controller.records.vault import Vault
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import UndeclaredLevelError
from tests import stored_files
from tests.awkward_columns import COLUMNS, ROWS, stored

pytest.importorskip("ibis")
from gencard.controller.records.tables.engines import open_table

FILES = ("csv", "csv.gz", "tsv", "zip", "parquet", *stored_files.FORMATS)
TEXTS = ("csv", "csv.gz", "tsv", "zip")
NAMES = dict(zip(COLUMNS, (f"c{axis}" for axis in range(len(COLUMNS))), strict=True))
CODING = Coding(
    (
        Attribute("row", Labels(tuple(map(str, range(ROWS))), integer=True)),
        *(Attribute(NAMES[title], one.coding) for title, one in COLUMNS.items()),
    )
)
READINGS = {NAMES[title]: one.reading for title, one in COLUMNS.items()}


def coding_of(kind: str) -> Coding:
    """The columns that such a file can hold."""
    held = [one for one in CODING.attributes if is_held(kind, one.name)]
    return Coding(tuple(held))


def is_held(kind: str, name: str) -> bool:
    values = {NAMES[title]: one.values for title, one in COLUMNS.items()}
    return (
        kind not in stored_files.FORMATS or name not in values or stored_files.holds(kind, values[name])
    )


@contextmanager
def opened(kind: str, folder: Path, socket: str) -> Iterator[RecordSource]:
    if kind in FILES:
        coding = coding_of(kind)
        readings = {name: one for name, one in READINGS.items() if name in coding.domain.attributes}
        yield Vault(folder / f"records.{kind}", coding, readings)
        return
    address = engine_rows.address_of(kind, folder / "parquet", folder, socket)
    with open_table(TableAddress(address), "", CODING, READINGS) as table:
        yield table


@pytest.fixture(scope="module", params=(*FILES, *engine_rows.ENGINES))
def source(request, postgres_socket, tmp_path_factory) -> Iterator[RecordSource]:
    if request.param not in FILES and (reason := engine_rows.lacking(request.param)):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("columns")
    (folder / "parquet").mkdir()
    pq.write_table(stored(), folder / "records.parquet")
    pq.write_table(stored(), folder / "parquet" / "0.parquet")
    duckdb.execute(f"COPY (FROM '{folder}/records.parquet') TO '{folder}/records.csv'")
    duckdb.execute(f"COPY (FROM '{folder}/records.parquet') TO '{folder}/records.tsv' (DELIMITER '\t')")
    (folder / "records.csv.gz").write_bytes(gzip.compress((folder / "records.csv").read_bytes()))
    with ZipFile(folder / "records.zip", "w", ZIP_DEFLATED) as archive:
        archive.write(folder / "records.csv", "records.csv")
    if request.param in stored_files.FORMATS:
        held = [name for name in stored().column_names if is_held(request.param, name)]
        stored_files.write(stored().select(held), folder / f"records.{request.param}")
    with opened(request.param, folder, postgres_socket) as records:
        yield records


def codes(source: RecordSource, name: str) -> tuple[int, ...] | None:
    """The code of each record; None if the column is refused."""
    try:
        (counts,) = source.count([("row", name)])
    except UndeclaredLevelError as error:
        assert error.fields["attribute"] == name  # noqa: PT017
        return None
    assert (counts.sum(axis=1) == 1).all()
    return tuple(counts.argmax(axis=1).tolist())


@pytest.mark.parametrize("title", COLUMNS)
def test_each_value_has_its_code_wherever_it_is_stored(source, title):
    column = COLUMNS[title]
    if isinstance(source, Vault) and NAMES[title] not in source.coding.domain.attributes:
        pytest.skip(f"{source.path.suffix} cannot hold such a column")
    is_text = isinstance(source, Vault) and source.path.name.endswith(TEXTS)
    expected = None if column.only_stored and is_text else column.codes
    repeated = None if expected is None else tuple(np.resize(expected, ROWS).tolist())
    assert codes(source, NAMES[title]) == repeated


def test_there_are_60_columns():
    assert len(COLUMNS) >= 60
