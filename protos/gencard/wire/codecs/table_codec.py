"""Rows on the wire: about a million codes a message, in one of two layouts.

Batches of rows hold the codes of each attribute for some rows, in one or two bytes a code. A packed
table, for receivers that ask for it, has one attribute after the other, in as few bits as hold a code:
fewer bytes to encrypt and to copy, and the digest, which reads attribute by attribute, advances with
each message.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype, dataset_hash, wire_codes, wire_dtype
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidDatasetError,
    TooLargeError,
    VerificationError,
)
from gencard.v1 import common_pb2 as pb

# Packed codes: as few bits for each as hold the levels of its attribute, of 1, 2, 4, 8 and 16.

Bytes = NDArray[np.uint8]
NOT_FILLED = "the bytes do not fill rows x attributes codes"


def packed_bits(size: int) -> int:
    """Bits of each packed code of an attribute with ``size`` levels.

    >>> [packed_bits(size) for size in (1, 2, 3, 4, 5, 16, 17, 256, 257)]
    [1, 1, 2, 2, 4, 4, 8, 8, 16]
    """
    return next((bits for bits in (1, 2, 4, 8) if size <= 1 << bits), 16)


def pack(codes: bytes, bits: int) -> bytes:
    """Codes of a byte each in 1, 2 or 4 bits each; those of 8 and 16 bits as they are.

    The first code is in the lowest bits of a byte. Bits of the last byte without a code are 0.

    >>> pack(bytes([3, 0, 1, 2, 1]), 2).hex()
    '9301'
    """
    if bits >= 8:
        return codes
    missing = -len(codes) % (8 // bits)
    octets = np.frombuffer(codes + bytes(missing) if missing else codes, dtype=np.uint8)
    while bits < 8:
        pairs = octets.view("<u2")
        octets = (pairs | pairs >> (8 - bits)).astype(np.uint8)  # the second code above the first
        bits *= 2
    return octets.tobytes()


def packed_bytes(count: int, bits: int) -> int:
    """Bytes of so many packed codes."""
    return -(-count * bits // 8)


def unpack(content: bytes, count: int, bits: int, room: Bytes) -> Bytes:
    """Codes of 1, 2 or 4 bits, a byte each.

    Args:
        content: ``packed_bytes(count, bits)`` bytes.
        room: For the codes; 7 bytes longer than they are.

    Raises:
        InvalidDatasetError: Bits of the last byte without a code are not 0.
    """
    packed, codes_of = np.frombuffer(content, dtype=np.uint8), _codes_of_bytes(bits)
    filled = room[: len(packed) * codes_of.itemsize]
    np.take(codes_of, packed, out=filled.view(codes_of.dtype), mode="clip")  # others copy ``out``
    if filled[count:].any():
        raise InvalidDatasetError(problem="bits without a code are not 0")
    return filled[:count]


@cache
def _codes_of_bytes(bits: int) -> NDArray[np.unsignedinteger]:
    """The codes that each byte packs, a byte each in one integer: one look-up gives them all."""
    codes = np.arange(256)[:, None] >> np.arange(0, 8, bits) & (1 << bits) - 1
    return codes.astype(np.uint8).view(f"u{8 // bits}")[:, 0].copy()


class PackedTable:
    """A table that packed codes fill, attribute by attribute.

    Args:
        thread: One thread, which reads what was filled in for the digest while more is received.
    """

    def __init__(self, domain: Domain, table: NDArray[Any], thread: ThreadPoolExecutor) -> None:
        self.domain, self.table, self._done = domain, table, 0
        self._thread, self._hash = thread, dataset_hash(domain, len(table))
        self._room = np.empty(0, dtype=np.uint8)

    @property
    def full(self) -> bool:
        return self._done == self.table.size

    def append(self, batch: pb.TableBatch) -> None:
        if not batch.codes or batch.rows == 0:
            raise InvalidDatasetError(problem="a batch holds no codes")
        count = batch.rows
        for content in batch.codes:
            axis, start = divmod(self._done, max(1, len(self.table)))
            if start + count > len(self.table) or self.full:
                raise InvalidDatasetError(problem=NOT_FILLED)
            size, column = self.domain.sizes[axis], self.table[start : start + count, axis]
            column[:] = self._codes(content, count, size)
            self._thread.submit(self._read, column, size)
            self._done += count

    def _read(self, column: NDArray[Any], size: int) -> None:
        self._hash.update(wire_codes(column, size).data)

    def _codes(self, content: bytes, count: int, size: int) -> NDArray[np.unsignedinteger]:
        bits = packed_bits(size)
        if len(content) != packed_bytes(count, bits):
            raise InvalidDatasetError(problem=NOT_FILLED)
        if bits >= 8:
            return np.frombuffer(content, dtype=wire_dtype(size))
        if len(self._room) < count + 7:
            self._room = np.empty(count + 7, dtype=np.uint8)
        return unpack(content, count, bits, self._room)

    def digest(self, _dataset: Dataset) -> str:
        return self._thread.submit(self._hash.hexdigest).result()  # after all that was filled in


MESSAGE_BYTES = 1_000_000
MESSAGE_CODES = 1_000_000
"""Largest packed table in a message, in bytes and codes; codes of a full message fill whole bytes."""

ACCEPT_PACKED = ("gencard-accept-codes", "packed")
"""Metadata of a call whose caller reads packed tables; a controller that knows none ignores it."""

Table = NDArray[Any]
"""Codes of all attributes, shape (rows, attributes), attribute by attribute in memory."""

Allocate = Callable[[tuple[int, int], np.dtype[np.unsignedinteger]], Table]
"""Makes room for a table of this shape and type, in Fortran order: in memory or in a file."""


class ReadableColumns(Protocol):
    """Rows that can be read attribute by attribute, in memory or in a file."""

    @property
    def domain(self) -> Domain: ...

    @property
    def rows(self) -> int: ...

    def codes(self, axis: int, start: int, count: int) -> bytes:
        """Codes of one attribute as on the wire, ``count`` rows from row ``start`` on."""
        ...


@dataclass(frozen=True, slots=True)
class DatasetColumns:
    """Columns of a dataset in memory."""

    dataset: Dataset

    @property
    def domain(self) -> Domain:
        return self.dataset.domain

    @property
    def rows(self) -> int:
        return len(self.dataset)

    def codes(self, axis: int, start: int, count: int) -> bytes:
        codes = self.dataset.codes[start : start + count, axis]
        return wire_codes(codes, self.domain.sizes[axis]).tobytes()


def row_bytes(domain: Domain) -> int:
    """Bytes of one record on the wire."""
    return sum(wire_dtype(size).itemsize for size in domain.sizes)


def batch_rows(domain: Domain) -> int:
    """Rows in one message of about 1 MB."""
    return max(1, MESSAGE_BYTES // max(1, row_bytes(domain)))


def table_chunks(dataset: Dataset) -> Iterator[pb.TableChunk]:
    """A dataset as header, batches, trailer."""
    columns = DatasetColumns(dataset)
    yield header_chunk(dataset.domain, len(dataset))
    for count, codes in _batches(columns):
        yield pb.TableChunk(batch=pb.TableBatch(rows=count, codes=codes))
    yield trailer_chunk(dataset.digest())


def _batches(columns: ReadableColumns) -> Iterator[tuple[int, list[bytes]]]:
    """Number of rows, and the codes of each attribute, for one message after the other."""
    domain, rows = columns.domain, columns.rows
    step = batch_rows(domain)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        yield count, [columns.codes(axis, start, count) for axis in range(len(domain))]


def _packed_batches(columns: ReadableColumns) -> Iterator[tuple[int, list[bytes]]]:
    """Number of codes of each entry, and the entries, for one message after the other.

    An entry is a whole attribute, several to a message; or a part of one, where the table is long.
    Their lengths follow from the domain and the number of rows.
    """
    rows, bits = columns.rows, list(map(packed_bits, columns.domain.sizes))
    together = max(1, MESSAGE_CODES // max(1, rows))
    for first in range(0, len(bits), together):
        axes = range(first, min(first + together, len(bits)))
        for start in range(0, rows, MESSAGE_CODES):
            count = min(MESSAGE_CODES, rows - start)
            yield count, [pack(columns.codes(axis, start, count), bits[axis]) for axis in axes]


def encoded_chunks(columns: ReadableColumns, digest: str, *, packed: bool = False) -> Iterator[bytes]:
    """Rows as header, batches, trailer: each in a message whose field 1 it is, read as it is sent.

    A batch is joined once from its codes as they were read. As one message inside another they would
    be copied three times more, which took half of the server's time for a release.

    Args:
        digest: Of the rows, for the trailer; whoever receives them checks it.
        packed: Whether the receiver asked for a packed table.
    """
    yield _encoded(header_chunk(columns.domain, columns.rows, packed=packed))
    for count, codes in _packed_batches(columns) if packed else _batches(columns):
        fields = [b"\x08", _varint(count)]
        for part in codes:
            fields += (_tagged(2, len(part)), part)
        size = sum(map(len, fields))
        batch = _tagged(2, size)
        yield b"".join((_tagged(1, len(batch) + size), batch, *fields))
    yield _encoded(trailer_chunk(digest))


def _encoded(chunk: pb.TableChunk) -> bytes:
    encoded = chunk.SerializeToString()
    return _tagged(1, len(encoded)) + encoded


def _tagged(number: int, length: int) -> bytes:
    """Return the head of a field of bytes or of a message in protocol buffers: number and length."""
    return _varint(number << 3 | 2) + _varint(length)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def header_chunk(domain: Domain, rows: int, *, packed: bool = False) -> pb.TableChunk:
    names, sizes = domain.attributes, domain.sizes
    header = pb.TableHeader(attributes=names, sizes=sizes, rows=rows, packed=packed)
    return pb.TableChunk(header=header)


def trailer_chunk(digest: str) -> pb.TableChunk:
    return pb.TableChunk(trailer=pb.TableTrailer(digest=digest))


def in_memory(shape: tuple[int, int], dtype: np.dtype[np.unsignedinteger]) -> Table:
    return np.empty(shape, dtype=dtype, order="F")


def dataset_of_chunks(
    chunks: Iterable[pb.TableChunk],
    *,
    domain: Domain,
    most_rows: int,
    allocate: Allocate = in_memory,
) -> Dataset:
    """The dataset that chunks carry, checked against its own digest.

    Args:
        chunks: Header, batches, trailer.
        domain: What the table must be over.
        most_rows: At most so many rows; nothing is allocated for more.
        allocate: Makes room for the codes.

    Raises:
        DomainMismatchError: The header announces another domain; nothing is allocated.
        InvalidDatasetError: Parts are missing, repeated, or do not fill rows x attributes codes.
        TooLargeError: The header announces more rows than ``most_rows``; nothing is allocated.
        VerificationError: The digest does not agree.
    """
    parts = iter(chunks)
    header = _header_of(next(parts, None), domain, most_rows)
    table = allocate((header.rows, len(domain)), code_dtype(max(domain.sizes, default=1)))
    with ThreadPoolExecutor(1) as thread:
        layout = PackedTable(domain, table, thread) if header.packed else _ByRows(domain, table)
        for part in parts:
            if part.HasField("trailer"):
                return _checked(layout, part.trailer.digest)
            layout.append(part.batch)
    raise InvalidDatasetError(problem="the end of the table is missing")


def _header_of(chunk: pb.TableChunk | None, domain: Domain, most_rows: int) -> pb.TableHeader:
    if chunk is None or not chunk.HasField("header"):
        raise InvalidDatasetError(problem="the header of the table is missing")
    header = chunk.header
    if header.rows > most_rows:
        raise TooLargeError(what="The table", limit=f"{most_rows} rows")
    if (tuple(header.attributes), tuple(header.sizes)) != (domain.attributes, domain.sizes):
        raise DomainMismatchError(problem="the table does not have the expected attributes")
    return header


class _ByRows:
    """A table that batches of rows fill."""

    def __init__(self, domain: Domain, table: Table) -> None:
        self.domain, self.table, self._done = domain, table, 0

    @property
    def full(self) -> bool:
        return self._done == len(self.table)

    def append(self, batch: pb.TableBatch) -> None:
        if len(batch.codes) != len(self.domain) or batch.rows == 0:
            raise InvalidDatasetError(problem="a batch does not hold one entry for each attribute")
        end = self._done + batch.rows
        for axis, (size, codes) in enumerate(zip(self.domain.sizes, batch.codes, strict=True)):
            dtype = wire_dtype(size)
            if len(codes) != batch.rows * dtype.itemsize or end > len(self.table):
                raise InvalidDatasetError(problem=NOT_FILLED)
            self.table[self._done : end, axis] = np.frombuffer(codes, dtype=dtype)
        self._done = end

    def digest(self, dataset: Dataset) -> str:
        return dataset.digest()


def _checked(layout: _ByRows | PackedTable, digest: str) -> Dataset:
    if not layout.full:
        raise InvalidDatasetError(problem="rows are missing")
    dataset = Dataset(layout.domain, layout.table)
    if layout.digest(dataset) != digest:
        raise VerificationError(problem="the rows do not match their digest")
    return dataset
