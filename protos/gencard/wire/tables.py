"""psi and rows on the wire: streams of messages of about 1 MB, with a digest at the end.

Rows have one of two layouts. Batches of rows hold the codes of each attribute for some rows, in one or
two bytes a code. A packed table, for receivers that ask for it, has one attribute after the other, in
as few bits as hold a code: fewer bytes to encrypt and to copy, and the digest, which reads attribute by
attribute, advances with each message.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype, dataset_hash, row_bytes, wire_codes, wire_dtype
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidDatasetError,
    InvalidPsiError,
    TooLargeError,
    VerificationError,
)
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi, stddev_text
from gencard.v1 import common_pb2 as common
from gencard.v1 import synthesis_pb2 as synthesis
from gencard.wire.canonical import document_of, json_bytes, sha256
from gencard.wire.psi import numbers_document, numbers_of_document, psi_document

# psi: one header, blocks of counts, one trailer with the digest of the document.

BLOCK_CELLS = 100_000
"""Cells in one message: at most ten bytes each, so a message stays below 1 MB."""

_PART_BYTES = 1_000_000
"""Bytes of histograms and sums in one message."""

_MOST_NUMBERS_BYTES = 1_000_000_000
"""Largest size of the JSON of histograms and sums that a reader takes, in bytes."""

MOST_CELLS = 200_000_000
"""A reader's own bound: no header makes it allocate more."""

MOST_AXES = 64
"""Axes of a numpy array."""


def psi_chunks(psi: Psi) -> Iterator[synthesis.StreamPsiResponse]:
    marginals = [
        synthesis.PsiStatistic(
            marginal=common.Clique(attributes=one.clique), stddev=stddev_text(one.stddev)
        )
        for one in psi.measurements
    ]
    linear = [synthesis.PsiStatistic(linear=_linear_message(one)) for one in psi.linear]
    header = synthesis.PsiHeader(
        attributes=psi.domain.attributes, sizes=psi.domain.sizes, statistics=[*marginals, *linear]
    )
    yield synthesis.StreamPsiResponse(header=header)
    values = [*(one.values.ravel() for one in psi.measurements), *(one.values for one in psi.linear)]
    for position, counts in enumerate(values):
        for start in range(0, counts.size, BLOCK_CELLS):
            block = counts[start : start + BLOCK_CELLS].tolist()
            yield synthesis.StreamPsiResponse(
                block=synthesis.PsiBlock(statistic=position, offset=start, counts=block)
            )
    numbers = numbers_document(psi)
    data = json_bytes(numbers) if numbers else b""
    for start in range(0, len(data), _PART_BYTES):
        yield synthesis.StreamPsiResponse(numbers=data[start : start + _PART_BYTES])
    yield synthesis.StreamPsiResponse(trailer=synthesis.PsiTrailer(digest=sha256(psi_document(psi))))


def psi_of_chunks(chunks: Iterable[synthesis.StreamPsiResponse]) -> tuple[Psi, str]:
    """Psi and its digest, which was checked.

    Raises:
        InvalidPsiError: Parts are missing, repeated or out of order.
        TooLargeError: The header announces more cells than a reader takes.
        VerificationError: The digest does not agree.
    """
    parts = iter(chunks)
    first = next(parts, None)
    if first is None or not first.HasField("header"):
        raise InvalidPsiError(problem="the header is missing")
    domain, tables = _tables(first.header)
    filled, numbers = [0] * len(tables), bytearray()
    for part in parts:
        if part.HasField("trailer"):
            psi = _filled(first.header, domain, tables, filled, bytes(numbers))
            if sha256(psi_document(psi)) != part.trailer.digest:
                raise VerificationError(problem="psi does not match its digest")
            return psi, part.trailer.digest
        if part.HasField("numbers"):
            numbers += part.numbers
            if len(numbers) > _MOST_NUMBERS_BYTES:
                limit = f"{_MOST_NUMBERS_BYTES} bytes of histograms and sums"
                raise TooLargeError(what="psi", limit=limit)
            continue
        if not part.HasField("block"):
            raise InvalidPsiError(problem="a part has an unknown type")
        block = part.block
        if block.statistic >= len(tables) or block.offset != filled[block.statistic]:
            raise InvalidPsiError(problem="a block is out of order")
        cells = tables[block.statistic].reshape(-1)
        end = block.offset + len(block.counts)
        if end > cells.size:
            raise InvalidPsiError(problem="a block is too long")
        cells[block.offset : end] = block.counts
        filled[block.statistic] = end
    raise InvalidPsiError(problem="the end is missing")


def _linear_message(linear: LinearMeasurement) -> synthesis.LinearStatistic:
    pairs = zip(linear.statistic.functions, linear.stddevs.tolist(), strict=True)
    return synthesis.LinearStatistic(
        clique=common.Clique(attributes=linear.statistic.clique),
        functions=[
            synthesis.LinearFunction(
                name=function.name,
                values=function.values,
                denominator=function.denominator,
                stddev=stddev_text(stddev),
            )
            for function, stddev in pairs
        ],
    )


def _tables(header: synthesis.PsiHeader) -> tuple[Domain, list[np.ndarray]]:
    domain = Domain(tuple(header.attributes), tuple(header.sizes))
    shapes: list[tuple[int, ...]] = [
        (len(entry.linear.functions),)
        if entry.HasField("linear")
        else domain.project(tuple(entry.marginal.attributes)).sizes
        for entry in header.statistics
    ]
    if sum(map(prod, shapes)) > MOST_CELLS:
        raise TooLargeError(what="psi", limit=f"{MOST_CELLS} cells")
    if any(len(shape) > MOST_AXES for shape in shapes):
        raise TooLargeError(what="A marginal", limit=f"{MOST_AXES} attributes")
    return domain, [np.zeros(shape, dtype=np.int64) for shape in shapes]


def _filled(
    header: synthesis.PsiHeader,
    domain: Domain,
    tables: list[np.ndarray],
    filled: list[int],
    numbers: bytes,
) -> Psi:
    if any(number != table.size for number, table in zip(filled, tables, strict=True)):
        raise InvalidPsiError(problem="a block is missing")
    pairs = list(zip(header.statistics, tables, strict=True))
    marginals = [
        Measurement(tuple(entry.marginal.attributes), table, _stddev_of(entry.stddev))
        for entry, table in pairs
        if not entry.HasField("linear")
    ]
    linear = [_linear_of(entry.linear, sums) for entry, sums in pairs if entry.HasField("linear")]
    others = numbers_of_document(document_of(numbers, "psi")) if numbers else {}
    return Psi(domain, tuple(marginals), tuple(linear), **others)


def _linear_of(message: synthesis.LinearStatistic, sums: np.ndarray) -> LinearMeasurement:
    functions = tuple(
        Function(function.name, tuple(function.values), function.denominator)
        for function in message.functions
    )
    stddevs = np.array([_stddev_of(function.stddev) for function in message.functions])
    statistic = LinearStatistic(tuple(message.clique.attributes), functions)
    return LinearMeasurement(statistic, sums, stddevs)


def _stddev_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidPsiError(problem="a stddev is not a number") from None


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


def unpack(content: bytes, count: int, bits: int, room: Bytes) -> Bytes:
    """Codes of 1, 2 or 4 bits, a byte each; raises InvalidDatasetError if bits without a code are not 0.

    Args:
        content: As few bytes as hold ``count`` codes.
        room: For the codes; 7 bytes longer than they are.
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

    def append(self, batch: common.TableBatch) -> None:
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
        if len(content) != -(-count * bits // 8):
            raise InvalidDatasetError(problem=NOT_FILLED)
        if bits >= 8:
            return np.frombuffer(content, dtype=wire_dtype(size))
        if len(self._room) < count + 7:
            self._room = np.empty(count + 7, dtype=np.uint8)
        return unpack(content, count, bits, self._room)

    def digest(self, _dataset: Dataset) -> str:
        return self._thread.submit(self._hash.hexdigest).result()  # after all that was filled in


# Rows: a header, batches, a trailer.

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


def batch_rows(domain: Domain) -> int:
    """Rows in one message of about 1 MB."""
    return max(1, MESSAGE_BYTES // max(1, row_bytes(domain)))


def table_chunks(dataset: Dataset) -> Iterator[common.TableChunk]:
    columns = DatasetColumns(dataset)
    yield header_chunk(dataset.domain, len(dataset))
    for count, codes in _batches(columns):
        yield common.TableChunk(batch=common.TableBatch(rows=count, codes=codes))
    yield trailer_chunk(dataset.digest())


def _batches(columns: ReadableColumns) -> Iterator[tuple[int, list[bytes]]]:
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


def _encoded(chunk: common.TableChunk) -> bytes:
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


def header_chunk(domain: Domain, rows: int, *, packed: bool = False) -> common.TableChunk:
    names, sizes = domain.attributes, domain.sizes
    header = common.TableHeader(attributes=names, sizes=sizes, rows=rows, packed=packed)
    return common.TableChunk(header=header)


def trailer_chunk(digest: str) -> common.TableChunk:
    return common.TableChunk(trailer=common.TableTrailer(digest=digest))


def in_memory(shape: tuple[int, int], dtype: np.dtype[np.unsignedinteger]) -> Table:
    return np.empty(shape, dtype=dtype, order="F")


def dataset_of_chunks(
    chunks: Iterable[common.TableChunk],
    *,
    domain: Domain,
    most_rows: int,
    allocate: Allocate = in_memory,
) -> Dataset:
    """The dataset that chunks carry, checked against its own digest.

    Args:
        most_rows: At most so many rows; nothing is allocated for more, or for another domain.

    Raises:
        DomainMismatchError: The header announces another domain.
        InvalidDatasetError: Parts are missing, repeated, or do not fill rows x attributes codes.
        TooLargeError: The header announces more rows than ``most_rows``.
        VerificationError: The digest does not agree.
    """
    parts = iter(chunks)
    chunk = next(parts, None)
    if chunk is None or not chunk.HasField("header"):
        raise InvalidDatasetError(problem="the header of the table is missing")
    header = chunk.header
    if header.rows > most_rows:
        raise TooLargeError(what="The table", limit=f"{most_rows} rows")
    if (tuple(header.attributes), tuple(header.sizes)) != (domain.attributes, domain.sizes):
        raise DomainMismatchError(problem="the table does not have the expected attributes")
    table = allocate((header.rows, len(domain)), code_dtype(max(domain.sizes, default=1)))
    with ThreadPoolExecutor(1) as thread:
        layout = PackedTable(domain, table, thread) if header.packed else _ByRows(domain, table)
        for part in parts:
            if part.HasField("trailer"):
                return _checked(layout, part.trailer.digest)
            layout.append(part.batch)
    raise InvalidDatasetError(problem="the end of the table is missing")


class _ByRows:
    def __init__(self, domain: Domain, table: Table) -> None:
        self.domain, self.table, self._done = domain, table, 0

    @property
    def full(self) -> bool:
        return self._done == len(self.table)

    def append(self, batch: common.TableBatch) -> None:
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
