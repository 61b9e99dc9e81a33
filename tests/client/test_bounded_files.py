"""Files that a person names: no command waits for one, reads it without end or fills the memory."""

import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

from gencard.client.answers.answering import text_of
from gencard.client.audit import Report
from gencard.client.checking.bundle import Bundle
from gencard.client.common import rows
from gencard.client.common.rows import read_rows
from gencard.client.connection.credentials import public_key, read_answer
from gencard.client.shell.main import app
from gencard.controller.backup import copied, list_of
from gencard.controller.base.files import read_table, secret_bytes
from gencard.controller.settings import Settings
from gencard.controller.shell.people import request_text
from gencard.controller.shell.upkeep import _read
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import GencardError, InvalidInputError
from gencard.files import KEY_LIMIT, MOST_FILES, ParquetSize, files_in, open_file, read_file
from gencard.wire.canonical import document_of

SECONDS = 60
"""Longest time of a command that reads a hostile file; most of it is the start of Python."""

MEMORY = 2 << 30
CODING = Coding((Attribute("a", Labels(("x", "y"))),))

READERS: dict[str, Callable[[Path], object]] = {
    "verify": lambda path: Bundle.of([path]),
    "key": lambda path: public_key(path, "key"),
    "answer": read_answer,
    "program": text_of,
    "report": Report.of_json,
    "csv": lambda path: read_rows(path, CODING, CODING.domain),
    "settings": Settings.load,
    "schema": read_table,
    "secret": lambda path: secret_bytes(path, "key"),
    "request": request_text,
    "approval": lambda path: _read(path, "--approval"),
    "file of a backup": lambda path: copied(path, path.with_suffix(".copy")),
}
"""Everything that reads a file which a person names."""


@pytest.fixture(params=["a pipe", "a device", "a link to a device", "a folder", "nothing"])
def hostile(request, tmp_path) -> Path:
    """A path with the name of rows, at which there is no regular file."""
    path: Path = tmp_path / "file.csv"
    match request.param:
        case "a pipe":
            os.mkfifo(path)
        case "a device" | "a link to a device":
            path.symlink_to("/dev/zero")
        case "a folder":
            path.mkdir()
    return path


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_what_is_no_regular_file_is_refused_at_once(reader, hostile, request):
    if hostile.is_dir() and reader is READERS["verify"]:
        pytest.skip("a folder is what it reads")
    with pytest.raises((GencardError, FileNotFoundError)):
        reader(hostile)


def test_the_list_of_a_backup_is_bounded_too(tmp_path):
    os.mkfifo(tmp_path / "backup.json")
    with pytest.raises(InvalidInputError, match="backup"):
        list_of(tmp_path)


@given(st.integers(-3, 3))
def test_a_file_is_read_up_to_the_limit_of_its_kind(tmp_path_factory, more):
    path = tmp_path_factory.mktemp("files") / "file"
    content = bytes(KEY_LIMIT.most + more)
    path.write_bytes(content)
    if more <= 0:
        assert read_file(path, "key", KEY_LIMIT) == content
        return
    with pytest.raises(InvalidInputError, match=r"64 KiB for a key.*file"):
        read_file(path, "key", KEY_LIMIT)


def test_a_file_that_states_no_size_is_bounded_too():
    """Files of /proc have the size 0 and any content."""
    assert read_file(Path("/proc/self/status"), "key", KEY_LIMIT)
    with open_file(Path("/proc/self/maps"), "key") as file:
        assert os.fstat(file.fileno()).st_size == 0


def test_links_lead_to_regular_files(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"content")
    assert read_file(tmp_path / "link", "key", KEY_LIMIT) == b"content"


def sparse(path: Path, size: int, begins: bytes = b"") -> None:
    """A file of zeros that takes no room on the disk."""
    with path.open("wb") as file:
        file.write(begins)
        file.truncate(size)


class TestFolders:
    def test_all_documents_together_are_bounded_before_they_are_kept(self, tmp_path):
        for number in range(300):
            sparse(tmp_path / f"{number}.json", 1 << 20)
        with pytest.raises(InvalidInputError, match=r"256 MiB for all documents together.*\.json"):
            Bundle.of([tmp_path])

    def test_one_document_is(self, tmp_path):
        sparse(tmp_path / "card.json", 17 << 20)
        with pytest.raises(InvalidInputError, match=r"16 MiB for a document.*card\.json"):
            Bundle.of([tmp_path])
        sparse(tmp_path / "card.json", 17 << 20, b'{"attributes":[')
        assert Bundle.of([tmp_path]).damaged, "only psi may be as large, and this is none"

    def test_other_large_files_of_a_folder_are_not_read(self, tmp_path):
        sparse(tmp_path / "film.mkv", 1 << 28)
        (tmp_path / "card.json").write_text("{}")
        assert [path.name for path in Bundle.of([tmp_path]).ignored] == ["film.mkv"]

    def test_number_of_files(self, tmp_path, monkeypatch):
        monkeypatch.setattr("gencard.files.MOST_FILES", 10)
        for number in range(11):
            (tmp_path / str(number)).touch()
        with pytest.raises(InvalidInputError, match="limit of 10 files"):
            files_in(tmp_path, "file")
        assert MOST_FILES == 10_000


class TestJson:
    @pytest.mark.parametrize(
        "hostile",
        [
            b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            b'{"a":[' + b"[]," * 1_100_000 + b"[]]}",
            b'{"a":' + b"9" * 100_000 + b"}",
            b'{"a":1e999}',
            b'{"a":NaN}',
        ],
        ids=["deep", "many", "a huge number", "infinity", "none"],
    )
    def test_it_is_refused_in_our_words(self, hostile):
        with pytest.raises(InvalidInputError, match="is not a JSON object"):
            document_of(hostile, "document")


def limited(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program with little memory and time."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
    )


VERIFY = "from gencard.client.shell.main import main; main()"


def test_verify_in_little_memory(tmp_path):
    """A device, a pipe and a folder in which each file alone could be a document."""
    os.mkfifo(tmp_path / "pipe")
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(30):
        sparse(folder / f"{number}.json", 200 << 20, b'{"attributes":[')
    for path in (Path("/dev/zero"), tmp_path / "pipe", folder):
        done = limited(VERIFY, "verify", str(path))
        assert done.returncode == 1
        assert str(path) in " ".join(done.stderr.split()).replace("\n", "") or "MiB" in done.stderr
        assert "Traceback" not in done.stderr


class TestRows:
    def test_a_line_without_end(self, tmp_path):
        sparse(tmp_path / "rows.csv", 1 << 30, b"a")
        with pytest.raises(InvalidInputError, match="a line that is too long"):
            read_rows(tmp_path / "rows.csv", CODING, CODING.domain)

    def test_more_cells_than_are_held_in_memory(self, tmp_path, monkeypatch):
        (tmp_path / "rows.csv").write_text("a\n" + "x\n" * 11)
        parquet.write_table(pa.table({"a": ["x"] * 11}), tmp_path / "rows.parquet")
        monkeypatch.setattr(rows, "MOST_CELLS", 10)
        for name in ("rows.csv", "rows.parquet"):
            with pytest.raises(InvalidInputError, match="more than 10 cells"):
                read_rows(tmp_path / name, CODING, CODING.domain)

    def test_parquet_that_inflates_is_refused_before_it_is_read(self, tmp_path, monkeypatch):
        inflating(tmp_path / "rows.parquet")
        monkeypatch.setattr(parquet.ParquetFile, "iter_batches", None)
        with pytest.raises(InvalidInputError, match="unpacks to far more"):
            read_rows(tmp_path / "rows.parquet", CODING, CODING.domain)

    def test_evaluate_and_report_say_it_in_our_words(self, tmp_path):
        inflating(tmp_path / "rows.parquet")
        (tmp_path / "schema.json").write_text("{}")
        shell = CliRunner().invoke(
            app, ["utility", str(tmp_path), str(tmp_path / "rows.parquet")], env={"COLUMNS": "300"}
        )
        assert shell.exit_code == 1
        assert isinstance(shell.exception, SystemExit)


def inflating(path: Path) -> None:
    """A small file of Parquet that unpacks to more than a thousand times its size."""
    column = pa.chunked_array([pa.array(np.zeros(2_000_000, dtype=np.int64))] * 25)
    parquet.write_table(
        pa.table({"a": column}), path, compression="zstd", use_dictionary=False, compression_level=19
    )
    metadata = parquet.ParquetFile(path).metadata
    assert metadata.row_group(0).total_byte_size > 1_000 * path.stat().st_size / metadata.num_row_groups


class TestParquetSize:
    @given(stored=st.integers(1, 1 << 40), share=st.floats(0, 1))
    def test_ordinary_ratios_pass(self, stored, share):
        """Two hundred bytes for one, of which two make a cell."""
        unpacked = int(200 * stored * share)
        ParquetSize(stored, unpacked, rows=unpacked // 40, columns=20).check("file")

    @pytest.mark.parametrize(
        "size",
        [
            ParquetSize(1 << 20, 1 << 30, 1, 1),
            ParquetSize(1 << 20, 1, 1 << 40, 1),
            ParquetSize(1 << 20, -1, 1, 1),
            ParquetSize(1 << 20, 1, -1, 1),
            ParquetSize(1 << 40, 1, 0, 1 << 20),
        ],
    )
    def test_others_do_not(self, size):
        with pytest.raises(InvalidInputError):
            size.check("file")
