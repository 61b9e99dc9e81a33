"""Rows in a file: the same rows, the same messages, whole or not at all."""

import errno
import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.controller.jobs.synthesis import RowsFile
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import StorageError
from gencard.v1.synthesis_pb2 import StreamRowsResponse
from gencard.wire.tables import dataset_of_chunks, encoded_chunks, table_chunks


@st.composite
def datasets(draw):
    sizes = draw(st.lists(st.sampled_from([1, 2, 256, 257, 65_536]), min_size=1, max_size=4))
    domain = Domain.of({f"attribute {axis}": size for axis, size in enumerate(sizes)})
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    rows = draw(st.integers(0, 50))
    return Dataset.of_columns(domain, [rng.integers(size, size=rows) for size in sizes])


@given(datasets())
def test_rows_read_back_the_same(tmp_path_factory, dataset):
    file = RowsFile(tmp_path_factory.mktemp("rows") / "rows")
    file.write(dataset)
    again = file.dataset()
    assert again.domain == dataset.domain
    np.testing.assert_array_equal(again.codes, dataset.codes)
    assert again.digest() == dataset.digest()


def sent(file, digest):
    """A file's rows as messages."""
    with file.opened() as columns:
        yield from (StreamRowsResponse.FromString(one).chunk for one in encoded_chunks(columns, digest))


@given(datasets())
def test_they_are_sent_in_the_very_messages_of_the_wire(tmp_path_factory, dataset):
    file = RowsFile(tmp_path_factory.mktemp("rows") / "rows")
    file.write(dataset)
    assert list(sent(file, dataset.digest())) == list(table_chunks(dataset))


def test_many_messages_make_the_same_rows(tmp_path):
    domain = Domain.of({"a": 3, "b": 300})
    rng = np.random.default_rng(1)
    dataset = Dataset.of_columns(domain, [rng.integers(size, size=700_001) for size in domain.sizes])
    file = RowsFile(tmp_path / "rows")
    file.write(dataset)
    chunks = list(sent(file, dataset.digest()))
    assert len(chunks) == 1 + 3 + 1
    assert dataset_of_chunks(chunks, domain=domain, most_rows=10**6).digest() == dataset.digest()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


DATASET = Dataset(Domain.of({"a": 3}), np.array([[0], [1], [2]]))


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_a_file_cut_short_is_refused(tmp_path, cut):
    file = RowsFile(tmp_path / "rows")
    file.write(DATASET)
    file.path.write_bytes(file.path.read_bytes()[:cut])
    for read in (file.dataset, lambda: list(sent(file, ""))):
        with pytest.raises(StorageError):
            read()


@pytest.mark.parametrize("content", [b"[]\n", b"{}\n", b"\xff", b'{"attributes": 1}\n'])
def test_garbage_is_refused(tmp_path, content):
    (tmp_path / "rows").write_bytes(content)
    with pytest.raises(StorageError):
        RowsFile(tmp_path / "rows").dataset()


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(StorageError):
        list(sent(RowsFile(tmp_path / "rows"), ""))


def test_a_file_cut_short_while_it_is_sent_ends_in_an_error(tmp_path):
    file = RowsFile(tmp_path / "rows")
    file.write(DATASET)
    chunks = sent(file, "")
    next(chunks)
    os.truncate(file.path, 3)
    with pytest.raises(StorageError):
        next(chunks)


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "CANARY")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError) as caught:
        RowsFile(tmp_path / "rows").write(DATASET)
    assert caught.value.__context__ is None
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError):
        RowsFile(tmp_path / "absent" / "rows").write(DATASET)
