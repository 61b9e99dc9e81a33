"""Awkward columns have the same codes from CSV, Parquet and every database, or the same refusal."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
from tests.awkward_columns import COLUMNS, ROWS, stored

pytest.importorskip("ibis")
from gencard.controller.records.tables.engines import open_table

FILES = ("csv", "parquet")
NAMES = dict(zip(COLUMNS, (f"c{axis}" for axis in range(len(COLUMNS))), strict=True))
CODING = Coding(
    (
        Attribute("row", Labels(tuple(map(str, range(ROWS))), integer=True)),
        *(Attribute(NAMES[title], one.coding) for title, one in COLUMNS.items()),
    )
)
READINGS = {NAMES[title]: one.reading for title, one in COLUMNS.items()}


@contextmanager
def opened(kind: str, folder: Path, socket: str) -> Iterator[RecordSource]:
    if kind in FILES:
        yield Vault(folder / f"records.{kind}", CODING, READINGS)
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
    is_text = isinstance(source, Vault) and source.path.suffix == ".csv"
    expected = None if column.only_stored and is_text else column.codes
    repeated = None if expected is None else tuple(np.resize(expected, ROWS).tolist())
    assert codes(source, NAMES[title]) == repeated


def test_there_are_60_columns():
    assert len(COLUMNS) >= 60
