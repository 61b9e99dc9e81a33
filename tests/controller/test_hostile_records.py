"""Files of records that would take the memory, minutes or a traceback: each ends in an error of ours."""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from gencard.controller.drafting.schema_draft import SchemaDraft, detect, draft_schema
from gencard.controller.records import vault
from gencard.controller.records.file_format import check_path, hmac_of
from gencard.controller.records.vault import OpenRecords
from gencard.controller.shell.main import app
from gencard.core.errors import DatasetUnavailableError, GencardError, InvalidInputError, TooLargeError

ROWS = "".join(f"{number % 7},{'xy'[number % 2]}\n" for number in range(200))


def drafted(path: Path) -> SchemaDraft:
    return draft_schema(path, "records", today=date(2026, 1, 1))


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class TestHeaders:
    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_a_header_of_more_than_128_kib_is_read(self, tmp_path, delimiter):
        """By the other delimiters it is one value, longer than Python's reader of CSV takes."""
        names = [f"a_name_of_a_column_that_is_rather_long_{number}" for number in range(3_500)]
        lines = [delimiter.join(names)] + [
            delimiter.join("01"[row % 2] for _ in names) for row in range(30)
        ]
        path = csv(tmp_path / "records.csv", "\n".join(lines) + "\n")
        assert len(lines[0]) > 1 << 17
        found = detect(path)[0]
        assert found.delimiter == delimiter

    @pytest.mark.parametrize(
        ("header", "problem"),
        [
            ("a" * (1 << 21) + ",b\n", "a line of more than 1 million characters"),
            ("a" * (1 << 18) + ",b\n", "a name or value of more than 128 KiB near line 1"),
            ('"' + "a" * (1 << 18) + "\n", "a name or value of more than 128 KiB"),
            (",".join(map(str, range(6_000))) + "\n", "more than 5,000 columns"),
        ],
        ids=["a line", "a name", "an open quotation mark", "columns"],
    )
    def test_one_that_is_too_long_is_refused(self, tmp_path, header, problem):
        with pytest.raises(InvalidInputError, match=problem):
            drafted(csv(tmp_path / "records.csv", header + ROWS))

    def test_a_file_without_line_ends(self, tmp_path):
        path = tmp_path / "records.csv"
        with path.open("wb") as file:
            file.write(b"a,b")
            file.truncate(1 << 30)
        with pytest.raises(GencardError):
            drafted(path)

    def test_columns_of_parquet_are_bounded_too(self, tmp_path):
        names = list(map(str, range(5_001)))
        parquet.write_table(pa.table({name: [1] * 20 for name in names}), tmp_path / "wide.parquet")
        with pytest.raises(TooLargeError, match="columns exceeds the limit of 5000"):
            drafted(tmp_path / "wide.parquet")


def inflating(path: Path) -> Path:
    column = pa.chunked_array([pa.array(np.zeros(2_000_000, dtype=np.int64))] * 25)
    parquet.write_table(pa.table({"a": column}), path, compression="zstd", use_dictionary=False)
    return path


def repeating(path: Path) -> Path:
    """Two hundred million cells in some kilobytes, in pages that are as small without compression."""
    levels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000_000, dtype=np.int8)), ["x"])
    part = pa.table({str(number): levels for number in range(20)})
    with parquet.ParquetWriter(path, part.schema, compression="zstd") as writer:
        for _ in range(5):
            writer.write_table(part)
    return path


class TestParquet:
    @pytest.mark.parametrize("make", [inflating, repeating])
    def test_one_that_inflates_is_refused_before_a_record_is_read(self, tmp_path, make, monkeypatch):
        path = make(tmp_path / "records.parquet")
        for read in (drafted, lambda path: OpenRecords(path).__enter__()):
            with pytest.raises(InvalidInputError, match="unpacks to far more"):
                read(path)

    def test_a_folder_is_judged_as_a_whole(self, tmp_path):
        folder = tmp_path / "records"
        folder.mkdir()
        inflating(folder / "0.parquet")
        with pytest.raises(InvalidInputError, match="unpacks to far more"):
            drafted(folder)

    def test_metadata_is_bounded(self, tmp_path, monkeypatch):
        parquet.write_table(pa.table({"a": list(range(99))}), tmp_path / "records.parquet")
        monkeypatch.setattr("gencard.files.MOST_FOOTER", 10)
        with pytest.raises(InvalidInputError, match="has metadata of more than"):
            drafted(tmp_path / "records.parquet")

    def test_a_lack_of_memory_is_said_in_our_words(self, tmp_path, monkeypatch):
        parquet.write_table(pa.table({"a": list(range(99))}), tmp_path / "records.parquet")
        monkeypatch.setattr(vault.OpenRecords, "rows", _out_of_memory)
        with pytest.raises(TooLargeError, match="memory for reading the records"):
            drafted(tmp_path / "records.parquet")


def _out_of_memory(*_: object) -> None:
    raise MemoryError


class TestPlaces:
    """Records are a regular file or a folder at the place that is named, and no link to one."""

    @pytest.mark.parametrize("to", ["file", "folder", "nothing"])
    def test_init_and_dataset_add_refuse_a_link(self, tmp_path, to):
        csv(tmp_path / "real.csv", "a,b\n" + ROWS)
        (tmp_path / "folder").mkdir()
        target = {"file": tmp_path / "real.csv", "folder": tmp_path / "folder"}.get(to, tmp_path / "no")
        link = tmp_path / "link.csv"
        link.symlink_to(target)
        for command in (
            ["init", str(tmp_path / "house"), "--data", str(link)],
            ["dataset", "add", "other", str(link), "--config", str(tmp_path / "controller.toml")],
        ):
            result = CliRunner().invoke(app, command)
            assert isinstance(result.exception, InvalidInputError)
            assert "is a symbolic link" in str(result.exception)
        assert not (tmp_path / "house").exists()

    def test_a_link_further_up_is_followed(self, tmp_path):
        (tmp_path / "disk").mkdir()
        csv(tmp_path / "disk" / "records.csv", "a,b\n" + ROWS)
        (tmp_path / "link").symlink_to(tmp_path / "disk")
        result = CliRunner().invoke(
            app, ["init", str(tmp_path / "house"), "--data", str(tmp_path / "link" / "records.csv")]
        )
        assert result.exception is None

    @pytest.mark.parametrize(
        "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"]
    )
    def test_neither_a_pipe_nor_a_device_is_opened(self, tmp_path, make: Callable[[Path], None]):
        path = tmp_path / "records.csv"
        make(path)
        for read in (lambda: hmac_of(path, b"salt"), lambda: check_path(path)):
            with pytest.raises(DatasetUnavailableError):
                read()
        result = CliRunner().invoke(app, ["init", str(tmp_path / "house"), "--data", str(path)])
        assert isinstance(result.exception, InvalidInputError)
