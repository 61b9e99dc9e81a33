"""Packed codes: as few bits for each as hold the levels of its attribute, of 1, 2, 4, 8 and 16."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, dataset_hash, wire_codes, wire_dtype
from gencard.core.domain import Domain
from gencard.core.errors import InvalidDatasetError
from gencard.v1 import common_pb2 as pb

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
        for content in batch.codes:
            self._append(content, batch.rows)

    def _append(self, content: bytes, count: int) -> None:
        """The next codes, which end with their attribute or before."""
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
