"""Files by the ending of their names, and text files unpacked: plain, ``.gz``, or one in a ``.zip``."""

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NoReturn, TextIO

from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.files import open_file

# Kinds of files of records by ending.


TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".zip")
"""Lines of values with a delimiter; a ``.zip`` holds one such file."""

PARQUET = (".parquet",)

SHEETS = (".xlsx", ".xls", ".ods")
"""Workbooks with sheets."""

STATISTICS = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
"""Files of Stata, SPSS and SAS."""

ENDINGS = (*TEXT, *PARQUET, *SHEETS, *STATISTICS)

WRITTEN = (".csv", ".parquet", ".dta", ".sav", ".xlsx")
"""Files that rows are written to."""


def ending_of(path: Path) -> str:
    """The longest ending that is one of ``ENDINGS``, in lower case; empty if there is none.

    >>> [ending_of(Path(name)) for name in ("a.csv", "a.b.CSV.GZ", "a.gz", "a")]
    ['.csv', '.csv.gz', '', '']
    """
    name = path.name.lower()
    return max((ending for ending in ENDINGS if name.endswith(ending)), key=len, default="")


# Content of a text file.


_INSIDE = (".csv", ".tsv", ".txt")
_DAMAGES = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError, ValueError),
)
_DAMAGED = "Check that the archive is whole, and pack the file again."


def is_packed(path: Path) -> bool:
    """Whether a text file has to be unpacked, by its ending."""
    return ending_of(path).endswith((".gz", ".zip"))


def open_content(path: Path, field: str, most_bytes: int) -> BinaryIO:
    """Open a text file, and unpack it while it is read; no copy is written.

    Raises InvalidInputError, which names ``field``, for a file or archive that cannot be read; so
    does reading the stream, and TooLargeError beyond ``most_bytes``.
    """
    file = open_file(path, field)
    if not is_packed(path):
        return io.BufferedReader(_Bounded(file, field, most_bytes))
    try:
        inside: Any = gzip.GzipFile(fileobj=file)
        if ending_of(path) == ".zip":
            inside = _only_file(zipfile.ZipFile(file), field)
    except _DAMAGES:
        file.close()
        raise _wrong(field, "cannot be unpacked", _DAMAGED) from None
    except BaseException:
        file.close()
        raise
    return io.BufferedReader(_Bounded(inside, field, most_bytes, file), buffer_size=1 << 20)


def open_text_content(path: Path, field: str, encoding: str, most_bytes: int) -> TextIO:
    """Open it as text, with its line ends as they are; raises as ``open_content``."""
    return io.TextIOWrapper(open_content(path, field, most_bytes), encoding=encoding, newline="")


def too_many_bytes(most_bytes: int) -> TooLargeError:
    """Return the error for a file of more bytes than a limit, when it is unpacked."""
    return TooLargeError(
        what="The unpacked size of the file",
        limit=f"{most_bytes >> 20:,} MiB (limits.file_mib)",
        advice="Split the file, leave out columns, or raise limits.file_mib in the settings.",
    )


def _only_file(archive: zipfile.ZipFile, field: str) -> Any:
    entries = [
        entry
        for entry in archive.infolist()
        if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")
    ]
    if len(entries) != 1:
        raise _wrong(field, "must hold exactly one file", "Pack one file, or give the files unpacked.")
    (entry,) = entries
    if entry.flag_bits & 0x1:
        raise _wrong(field, "is an encrypted archive", "Pack it without a password.")
    if PurePosixPath(entry.filename).suffix.lower() not in _INSIDE:
        problem = f"must hold a file that ends in {', '.join(_INSIDE)}"
        raise _wrong(field, problem, "Give other files as they are: .xlsx, .parquet and others.")
    return archive.open(entry)


def _wrong(field: str, problem: str, advice: str) -> InvalidInputError:
    return InvalidInputError(field=field, problem=problem, advice=advice)


class _Bounded(io.RawIOBase):
    """A stream of at most so many bytes, whose errors are ours."""

    def __init__(self, stream: Any, field: str, most_bytes: int, file: BinaryIO | None = None) -> None:
        self._stream, self._field, self._most, self._file = stream, field, most_bytes, file
        self._left = most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._stream.read(len(buffer))
        except _DAMAGES:
            raise _wrong(self._field, "cannot be unpacked", _DAMAGED) from None
        self._left -= len(block)
        if self._left < 0:
            raise too_many_bytes(self._most)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            if self._file is not None:
                self._file.close()
        super().close()


def arrow_files(opened: Callable[[], BinaryIO]) -> Any:
    """Return a read-only file system of Arrow with one file, which ``opened`` opens for each reading."""
    import pyarrow as pa  # noqa: PLC0415 - most files need no Arrow
    from pyarrow import fs  # noqa: PLC0415

    class OneFile(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

        def get_type_name(self) -> str:
            return "one file"

        def normalize_path(self, path: str) -> str:
            return path

        def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
            return [fs.FileInfo(path, fs.FileType.File) for path in paths]

        def get_file_info_selector(self, _: Any) -> list[fs.FileInfo]:
            return []

        def open_input_stream(self, _: str) -> pa.PythonFile:
            return pa.PythonFile(opened(), "r")

        open_input_file = open_input_stream

        def _refuse(self, *_: Any) -> NoReturn:
            raise PermissionError

        create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
        delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse

    return fs.PyFileSystem(OneFile())
