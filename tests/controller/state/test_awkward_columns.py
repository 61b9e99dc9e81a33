"""Awkward columns have the same codes from every kind of file and database, or the same refusal."""

from collections.abc import Iterator

import pytest

from benchmarks import engine_rows
from gencard.controller.records.vault import RecordSource
from tests.awkward_columns import COLUMNS

pytest.importorskip("ibis")
from tests import awkward_files
from tests.awkward_files import FILES, KINDS, NAMES


@pytest.fixture(scope="module", params=KINDS)
def kept(request, postgres_socket, tmp_path_factory) -> Iterator[tuple[str, RecordSource]]:
    if request.param not in FILES and (reason := engine_rows.lacking(request.param)):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("columns")
    with awkward_files.opened(request.param, folder, postgres_socket) as source:
        yield request.param, source


@pytest.mark.parametrize("title", COLUMNS)
def test_each_value_has_its_code_wherever_it_is_stored(kept, title):
    kind, source = kept
    if not awkward_files.holds(kind, title):
        pytest.skip(f".{kind} cannot hold such a column")
    assert awkward_files.codes(source, NAMES[title]) == awkward_files.expected(kind, title)


def test_there_are_60_columns():
    assert len(COLUMNS) >= 60
