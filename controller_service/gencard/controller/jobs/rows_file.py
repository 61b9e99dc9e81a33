"""Rows in a file: one line of JSON that says what follows, then the codes, attribute by attribute.

The codes are those of the wire (one byte up to 256 levels, two little-endian bytes above), so that
a release of any size is sent with little memory: each message is read where it lies.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gencard.controller.base.disk import write_whole
from gencard.core.dataset import Dataset, row_bytes, wire_codes, wire_dtype
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, StorageError

_LONGEST_HEADER = 1 << 24


@dataclass(frozen=True, slots=True)
class RowsFile:
    """One file of rows.

    Every method raises StorageError if the file cannot be read or written, or is cut short.
    """

    path: Path

    def write(self, dataset: Dataset, *, lasting: bool = True) -> None:
        """Put the rows there, whole or not at all; other users cannot read them.

        Args:
            lasting: See ``disk.write_whole``.
        """
        write_whole(self.path, _parts_of(dataset), lasting=lasting)

    def dataset(self) -> Dataset:
        """Return all rows, in memory."""
        with self.opened() as reader:
            columns = [
                np.frombuffer(reader.codes(axis, 0, reader.rows), dtype=wire_dtype(size))
                for axis, size in enumerate(reader.domain.sizes)
            ]
            return Dataset.of_columns(reader.domain, columns)

    def opened(self) -> "RowsReader":
        """Return the rows for reading a part at a time; a context manager."""
        return RowsReader(self.path)


def _parts_of(dataset: Dataset) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file with these rows."""
    domain = dataset.domain
    header = {"attributes": domain.attributes, "sizes": domain.sizes, "rows": len(dataset)}
    yield json.dumps(header).encode() + b"\n"
    for axis, size in enumerate(domain.sizes):
        yield wire_codes(dataset.codes[:, axis], size).data


class RowsReader:
    """An open file whose size agrees with its header."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> "RowsReader":
        try:
            self._file = self._path.open("rb")
            line = self._file.readline(_LONGEST_HEADER)
            header = json.loads(line)
            self.domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
            self.rows = int(header["rows"])
            self._start = len(line)
            whole = self._start + self.rows * row_bytes(self.domain)
            if os.fstat(self._file.fileno()).st_size == whole:
                return self
        except (OSError, ValueError, KeyError, TypeError, GencardError):
            pass
        self.__exit__()
        raise StorageError()

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def codes(self, axis: int, start: int, count: int) -> bytes:
        """Codes of one attribute, ``count`` rows from row ``start`` on."""
        before = sum(wire_dtype(size).itemsize for size in self.domain.sizes[:axis])
        width = wire_dtype(self.domain.sizes[axis]).itemsize
        place = self._start + self.rows * before + start * width
        try:
            codes = os.pread(self._file.fileno(), count * width, place)
        except OSError:
            codes = b""
        if len(codes) != count * width:
            raise StorageError()
        return codes
