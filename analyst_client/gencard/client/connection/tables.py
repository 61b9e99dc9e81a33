"""Datasets over the wire: rows of a release, and black boxes run on datasets that the client makes."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO
from uuid import uuid4

import grpc
import numpy as np

from gencard.client.common.arguments import checked_rows
from gencard.client.connection.connection import Connection
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DeadlineError,
    InvalidInputError,
    ServiceUnavailableError,
    VerificationError,
)
from gencard.core.types import Progress
from gencard.v1 import audit_pb2 as pb
from gencard.v1 import common_pb2 as common
from gencard.v1.synthesis_pb2 import StreamRowsRequest
from gencard.wire.error_table import error_of_call
from gencard.wire.tables import (
    ACCEPT_PACKED,
    Allocate,
    Table,
    dataset_of_chunks,
    in_memory,
    table_chunks,
)

_ATTEMPTS = 3
_BLOCK = 1 << 20
_RUN_SECONDS = 300.0
"""Number of tries of a stream; bytes written at once; deadline of a run of a black box, in seconds."""


def fetch_rows(
    connection: Connection,
    release: str,
    rows: int,
    progress: Progress,
    *,
    domain: Domain,
    scratch: Path | None = None,
    digest: str | None = None,
) -> Dataset:
    """Return the rows of a release, checked against the digest that came with them.

    A broken stream is requested again from its beginning, because a release never changes.

    Args:
        release: datasets/{dataset}/cards/{card}/releases/{release}.
        rows: Largest number of rows to accept; no memory is allocated for more.
        scratch: Folder for an unnamed file that holds the rows; None to hold them in memory.
        digest: Digest in the receipt, which the digest of the stream must equal; None if there is none.

    Raises:
        VerificationError: The digest does not agree.
        DomainMismatchError, InvalidDatasetError, TooLargeError: The stream is not the requested table.
        ServiceUnavailableError: The stream broke in every attempt.
    """
    allocate = in_memory if scratch is None else in_file(scratch)

    def read() -> Dataset:
        request, stub = StreamRowsRequest(name=release), connection.synthesis
        parts = connection.stream(stub.StreamRows, request, metadata=(ACCEPT_PACKED,))
        chunks = _watched((part.chunk for part in parts), rows * len(domain), progress, digest)
        return dataset_of_chunks(chunks, domain=domain, most_rows=rows, allocate=allocate)

    for _ in range(_ATTEMPTS - 1):
        with suppress(ServiceUnavailableError):
            return read()
    return read()


def in_file(folder: Path) -> Allocate:
    """Allocate tables in an unnamed file of a folder; the file disappears with the table.

    The space is reserved at once, so that a full disk is reported before anything is received.
    """

    def allocate(shape: tuple[int, int], dtype: np.dtype[np.unsignedinteger]) -> Table:
        size = shape[0] * shape[1] * dtype.itemsize
        if size == 0:
            return in_memory(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                _reserve(file, size)
                return np.memmap(file, dtype=dtype, mode="r+", shape=shape, order="F")
        except OSError:
            problem = f"not enough free space in {folder}"
            advice = "Free disk space, or choose a folder on another disk."
            raise InvalidInputError(field="file", problem=problem, advice=advice) from None

    return allocate


def _reserve(file: IO[bytes], size: int) -> None:
    # Workaround: Python on macOS has no posix_fallocate; there, zeros are written.
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, _BLOCK):
        file.write(bytes(min(_BLOCK, size - start)))
    file.flush()


def _watched(
    chunks: Iterator[common.TableChunk], codes: int, progress: Progress, digest: str | None
) -> Iterator[common.TableChunk]:
    """Yield the same chunks; report after each the share of all codes that have arrived.

    Raises VerificationError if the stream states another digest than the receipt.
    """
    values = 0
    for chunk in chunks:
        values += chunk.batch.rows * len(chunk.batch.codes)
        progress("rows", min(values / codes, 1.0))
        if digest is not None and chunk.HasField("trailer") and chunk.trailer.digest != digest:
            raise VerificationError(problem="the receipt names other rows")
        yield chunk


class RemoteBox:
    """Runs a black box at the controller on a dataset that the client sends; no record is involved.

    Args:
        card: datasets/{dataset}/cards/{card}; gives Phi (the statistics to keep) and the domain.
        black_box: Its name in the catalogue; empty for the card's own generator.
    """

    def __init__(self, connection: Connection, card: str, black_box: str = "") -> None:
        self._connection, self._card, self._black_box = connection, card, black_box

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """Run the black box once; raises if the answer is not the requested table."""
        self._connection.check_open()
        start = pb.RunBlackBoxStart(
            card=self._card,
            black_box=self._black_box,
            rows=checked_rows(rows),
            seed=seed,
            request_id=str(uuid4()),
        )
        answers = self._answers(start, dataset)
        output = dataset_of_chunks(answers, domain=dataset.domain, most_rows=rows)
        if len(output) != rows:
            raise VerificationError(problem="the black box returned a different number of rows")
        return output

    def _answers(self, start: pb.RunBlackBoxStart, dataset: Dataset) -> Iterator[common.TableChunk]:
        method, written = self._connection.audit.RunBlackBox, ""
        chunks = (pb.RunBlackBoxRequest(chunk=chunk) for chunk in table_chunks(dataset))
        try:
            for part in method(
                chain([pb.RunBlackBoxRequest(start=start)], chunks), timeout=_RUN_SECONDS
            ):
                if part.errors:
                    written = part.errors
                else:
                    yield part.chunk
        except grpc.RpcError as failed:
            error = error_of_call(failed)
        else:
            return
        if written:
            error.add_note(_visible(written))
        if isinstance(error, DeadlineError):
            error.add_note(f"A run may take {_RUN_SECONDS:g} s, with the time that it waits for others.")
        raise error from None


def _visible(text: str) -> str:
    """Escape all but printable characters and line ends, so that a box cannot control a terminal."""
    letters = text.expandtabs().rstrip()
    return "".join(
        letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode()
        for letter in letters
    )
