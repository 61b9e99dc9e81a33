"""Files that a person names: regular files only, opened without waiting, read up to a bound.

A named pipe would keep a command waiting, a device has no end, and a large file would take the memory
before anything looks at it. Every command and every call that reads a file of a person opens it here.

Links are followed: what counts is the file at their end, which has to be a regular file. Records are the
exception: ``init`` and ``dataset add`` refuse links, which could be pointed at other records later.
"""

import io
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

from gencard.core.errors import GencardError, InvalidInputError, unreadable

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limit:
    """Most bytes of one kind of file."""

    what: str
    most: int

    def __str__(self) -> str:
        size = f"{self.most // _MIB} MiB" if self.most >= _MIB else f"{self.most // 1024} KiB"
        return f"the limit of {size} for {self.what}"


KEY_LIMIT = Limit("a key, certificate or request", 64 << 10)
SETTINGS_LIMIT = Limit("settings and schemas", 16 * _MIB)
DOCUMENT_LIMIT = Limit("a document", 16 * _MIB)
PSI_LIMIT = Limit("psi", 256 * _MIB)
BUNDLE_LIMIT = Limit("all documents together", 256 * _MIB)
REPORT_LIMIT = Limit("a report", 64 * _MIB)
PROGRAM_LIMIT = Limit("a program", 4 * _MIB)
LIST_LIMIT = Limit("a list of files or keys", 64 * _MIB)

MOST_FILES = 10_000
"""Files of one folder that are looked at."""

_NOT_REGULAR = "Name a regular file, not a device, a pipe, a socket or a folder."
_MISSING = "Check the path."
_SMALLER = "Check that it is the right file."


def open_file(path: Path, field: str) -> BinaryIO:
    """Open a regular file for reading, without ever waiting; raises InvalidInputError."""
    try:
        # a device may act when it is opened, so its kind is looked at before that, too
        if stat.S_ISREG(os.stat(path).st_mode):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.fdopen(descriptor, "rb")
            os.close(descriptor)
    except FileNotFoundError:
        problem = f"cannot read {path}: there is no file of this name"
        raise InvalidInputError(field=field, problem=problem, advice=_MISSING) from None
    except (OSError, ValueError):  # ValueError: a NUL in the name
        raise unreadable(field, path) from None
    problem = f"cannot read {path}: it is not a regular file"
    raise InvalidInputError(field=field, problem=problem, advice=_NOT_REGULAR)


def open_text(path: Path, field: str, encoding: str = "utf-8") -> TextIO:
    """Open a regular file as text, with its line ends as they are; raises as ``open_file``."""
    return io.TextIOWrapper(open_file(path, field), encoding=encoding, newline="")


def size_of(path: Path, field: str) -> int:
    """Size of a regular file, in bytes; raises as ``open_file``."""
    with open_file(path, field) as file:
        return os.fstat(file.fileno()).st_size


def read_file(path: Path, field: str, limit: Limit) -> bytes:
    """Return the bytes of a regular file up to its kind's limit; raises InvalidInputError."""
    with open_file(path, field) as file:
        # the size is compared first, and the bytes are counted too: files of /proc state no size
        if os.fstat(file.fileno()).st_size <= limit.most:
            try:
                content = file.read(limit.most + 1)
            except OSError:
                raise unreadable(field, path) from None
            if len(content) <= limit.most:
                return content
    raise too_large(path, field, limit)


def files_in(folder: Path, field: str) -> list[Path]:
    """Everything in a folder, sorted by name; InvalidInputError above ``MOST_FILES`` entries."""
    try:
        entries = list(islice(folder.iterdir(), MOST_FILES + 1))
    except OSError:
        raise unreadable(field, folder) from None
    if len(entries) > MOST_FILES:
        problem = f"exceeds the limit of {MOST_FILES:,} files in a folder: {folder}"
        raise InvalidInputError(field=field, problem=problem, advice=_SMALLER)
    return sorted(entries)


def too_large(path: Path, field: str, limit: Limit) -> InvalidInputError:
    """The error where a file is larger than the limit of its kind."""
    return InvalidInputError(field=field, problem=f"exceeds {limit}: {path}", advice=_SMALLER)


LONGEST_LINE = _MIB
"""Characters of one line of a CSV file, its header included."""


def lines_of(file: TextIO, error: GencardError) -> Iterator[str]:
    """Lines of a text file; raises ``error`` at a line that is longer than ``LONGEST_LINE``.

    A file without line ends would otherwise be read into memory whole.
    """
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise error
        yield line


MOST_COLUMNS = 100_000
MOST_FOOTER = 64 * _MIB
_FREE_BYTES = 256 * _MIB
_FREE_CELLS = 100_000_000
_BYTES_FOR_BYTE = 200
_CELLS_FOR_BYTE = 100


@dataclass(frozen=True, slots=True)
class ParquetSize:
    """Size of a Parquet file, as its metadata states it.

    Args:
        stored: Bytes of the file.
        unpacked: Bytes of all pages and dictionaries without compression.
    """

    stored: int
    unpacked: int
    rows: int
    columns: int

    def check(self, field: str) -> None:
        """Refuse a file that would take far more memory and time than its size says, before reading it.

        Up to 256 MiB and 100 million cells are always accepted. Beyond that a byte of the file may
        not stand for more than 200 bytes or 100 cells: columns of real records do not repeat so
        much. Raises InvalidInputError.
        """
        most_bytes = max(_FREE_BYTES, _BYTES_FOR_BYTE * self.stored)
        most_cells = max(_FREE_CELLS, _CELLS_FOR_BYTE * self.stored)
        counts = (self.unpacked, self.rows, self.columns)
        if self.columns > MOST_COLUMNS:
            problem = f"has more than {MOST_COLUMNS:,} columns"
        elif min(counts) < 0 or self.unpacked > most_bytes or self.rows * self.columns > most_cells:
            problem = (
                "unpacks to far more than the size of the file: more than "
                f"{most_bytes // _MIB:,} MiB or {most_cells:,} cells"
            )
        else:
            return
        advice = "Check where the file comes from. Write it again as CSV, or in files of fewer rows."
        raise InvalidInputError(field=field, problem=problem, advice=advice)


def check_footer(file: BinaryIO, field: str) -> None:
    """Raise InvalidInputError for Parquet whose metadata is larger than ``MOST_FOOTER``."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    end = file.read(8)
    file.seek(0)
    # a length beyond the file is no Parquet, as its reader will say
    if len(end) == 8 and MOST_FOOTER < int.from_bytes(end[:4], "little") <= size:
        problem = f"has metadata of more than {MOST_FOOTER // _MIB} MiB"
        raise InvalidInputError(field=field, problem=problem, advice=_SMALLER)
