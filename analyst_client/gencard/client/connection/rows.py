"""Rows as they come from the wire: into memory, or into a file where they would not fit."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np

from gencard.client.connection.connection import Connection
from gencard.client.connection.progress import Tell
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, ServiceUnavailableError
from gencard.v1 import common_pb2 as common
from gencard.v1.synthesis_pb2 import StreamRowsRequest
from gencard.wire.codecs.table_codec import Allocate, Table, dataset_of_chunks, in_memory

_TRIES = 3
_BLOCK = 1 << 20


def fetch_rows(
    connection: Connection,
    release: str,
    rows: int,
    tell: Tell,
    *,
    domain: Domain,
    scratch: Path | None = None,
) -> Dataset:
    """The rows of a release, checked against the digest that came with them.

    A stream that breaks is asked for again, from its beginning: a release never changes.

    Args:
        connection: Where from.
        release: datasets/{dataset}/cards/{card}/releases/{release}.
        rows: How many there must be at most; nothing is allocated for more.
        tell: Told the share done.
        domain: What the rows must be over.
        scratch: A folder for a nameless file that holds the codes; in memory where not given.

    Raises:
        VerificationError: The digest does not agree.
        DomainMismatchError, InvalidDatasetError, TooLargeError: The stream is not the table that was
            asked for.
        ServiceUnavailableError: The stream broke again and again.
    """
    allocate = in_memory if scratch is None else in_file(scratch)

    def read() -> Dataset:
        chunks = _told(_chunks(connection, release), rows, tell)
        return dataset_of_chunks(chunks, domain=domain, most_rows=rows, allocate=allocate)

    for _ in range(_TRIES - 1):
        with suppress(ServiceUnavailableError):
            return read()
    return read()


def in_file(folder: Path) -> Allocate:
    """Room for a table in a file of that folder, which is gone when the table is.

    The room is taken at once: a disk that is full says so here, and not halfway.
    """

    def allocate(shape: tuple[int, int], dtype: np.dtype[np.unsignedinteger]) -> Table:
        size = shape[0] * shape[1] * dtype.itemsize
        if size == 0:
            return in_memory(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                _take_room(file, size)
                return np.memmap(file, dtype=dtype, mode="r+", shape=shape, order="F")
        except OSError:
            raise InvalidInputError(field="file", problem=f"no room in {folder}") from None

    return allocate


def _take_room(file: IO[bytes], size: int) -> None:
    """Raises OSError where the disk is full."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, _BLOCK):
        file.write(bytes(min(_BLOCK, size - start)))
    file.flush()


def _chunks(connection: Connection, release: str) -> Iterator[common.TableChunk]:
    request = StreamRowsRequest(name=release)
    for part in connection.stream(connection.synthesis.StreamRows, request):
        yield part.chunk


def _told(chunks: Iterator[common.TableChunk], rows: int, tell: Tell) -> Iterator[common.TableChunk]:
    """The same chunks, telling how far they are."""
    done = 0
    for chunk in chunks:
        done += chunk.batch.rows
        tell("rows", min(done / rows, 1.0))
        yield chunk
