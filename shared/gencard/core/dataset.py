"""Records as integer codes: real, synthetic and extremal alike."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidDatasetError
from gencard.core.types import FloatArray, IntArray

Codes = NDArray[np.uint8] | NDArray[np.uint16]
"""One attribute's codes, or a table of them."""

NumbersOf = Callable[[str], FloatArray | None]
"""Returns an attribute's numbers, one for each record, NaN for "missing"; None if it has levels only."""


def code_dtype(size: int) -> np.dtype[Any]:
    """The narrowest code that holds ``size`` levels: one byte up to 256, else two."""
    return np.dtype(np.uint8 if size <= 256 else np.uint16)


def wire_dtype(size: int) -> np.dtype[Any]:
    """Type of codes on the wire, in files and in digests: of two bytes, the low one first."""
    return code_dtype(size).newbyteorder("<")


def wire_codes(codes: NDArray[Any], size: int) -> NDArray[Any]:
    """Codes of an attribute with ``size`` levels, their bytes as on the wire, in files and digests."""
    return np.ascontiguousarray(codes, dtype=wire_dtype(size))


def row_bytes(domain: Domain) -> int:
    """Bytes of one record on the wire and in files."""
    return sum(wire_dtype(size).itemsize for size in domain.sizes)


_MOST_COMPARED = 32
"""Steps up to which one comparison for each of them is faster than a search, whose branches mislead."""


def steps_reached(values: NDArray[Any], steps: Sequence[float]) -> NDArray[np.integer]:
    """Count the increasing numbers that each value reaches; for NaN the count is arbitrary.

    >>> steps_reached(np.array([1.0, 2.0, 2.5]), (2.0, 3.0)).tolist()
    [0, 1, 1]
    """
    if len(steps) > _MOST_COMPARED:
        return np.searchsorted(np.asarray(steps), values, side="right")
    numbers = np.zeros(np.shape(values), dtype=np.uint8)
    for step in steps:
        numbers += values >= step
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A domain and its records as codes.

    ``codes`` has shape ``(n, d)``, attribute by attribute in memory (Fortran order), because every
    use of it counts or copies whole attributes. It is read-only.

    Raises:
        InvalidDatasetError: Wrong shape, not integers, or a code outside its attribute's size.
    """

    domain: Domain
    codes: NDArray[Any]

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        if codes.ndim != 2 or codes.shape[1] != len(self.domain):
            raise InvalidDatasetError(problem="codes need one column for each attribute")
        for axis in range(len(self.domain)):
            check_codes(codes[:, axis], self.domain, axis)
        narrow = code_dtype(max(self.domain.sizes, default=1))
        frozen = np.asfortranarray(codes, dtype=narrow)
        if frozen is codes:
            frozen = codes.view()
        frozen.flags.writeable = False
        object.__setattr__(self, "codes", frozen)

    @classmethod
    def of_columns(cls, domain: Domain, columns: Sequence[NDArray[Any]]) -> "Dataset":
        """A dataset from one array of codes per attribute, in the domain's order."""
        lengths = {len(column) for column in columns}
        if len(columns) != len(domain) or len(lengths) > 1:
            raise InvalidDatasetError(problem="attributes differ in length or are missing")
        rows = lengths.pop() if lengths else 0
        narrow = code_dtype(max(domain.sizes, default=1))
        codes = np.empty((rows, len(domain)), dtype=narrow, order="F")
        for axis, column in enumerate(columns):
            check_codes(column, domain, axis)
            codes[:, axis] = column
        return cls(domain, codes)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def column(self, attribute: str) -> NDArray[Any]:
        """Codes of one attribute, shape ``(n,)``."""
        column: NDArray[Any] = self.codes[:, self.domain.axis(attribute)]
        return column

    def project(self, clique: Clique) -> "Dataset":
        return Dataset(self.domain.project(clique), self.codes[:, list(self.domain.axes(clique))])

    def take(self, rows: NDArray[np.intp]) -> "Dataset":
        """The records at the given positions, in that order."""
        return Dataset(self.domain, self.codes[rows])

    def digest(self) -> str:
        """SHA-256, in hex, of names, sizes, number of records and codes attribute by attribute.

        Codes are one byte up to 256 levels, two little-endian bytes above: the bytes of the wire.
        """
        digest = dataset_hash(self.domain, len(self))
        for axis, size in enumerate(self.domain.sizes):
            digest.update(wire_codes(self.codes[:, axis], size).data)
        return digest.hexdigest()


def dataset_hash(domain: Domain, rows: int) -> "hashlib._Hash":
    """The SHA-256 of ``Dataset.digest``, which has read all but the codes."""
    pairs = zip(domain.attributes, domain.sizes, strict=True)
    header = "".join(f"{name}\x00{size}\x00" for name, size in pairs)
    return hashlib.sha256(f"gencard.dataset.v1\x00{header}{rows}\x00".encode())


def check_codes(column: NDArray[Any], domain: Domain, axis: int) -> None:
    """Refuse before a narrowing copy could wrap a code around into its domain."""
    array = np.asarray(column)
    if array.dtype.kind not in "iu":
        raise InvalidDatasetError(problem="codes must be integers")
    signed = array.dtype.kind == "i"
    if len(array) and (int(array.max()) >= domain.sizes[axis] or (signed and int(array.min()) < 0)):
        raise InvalidDatasetError(problem=f"a code of '{domain.attributes[axis]}' is outside its domain")


def check_same_domain(one: Domain, other: Domain) -> None:
    if one != other:
        raise DomainMismatchError(problem="attributes or sizes differ")


_LARGEST_KEY = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A dataset without the order of its records.

    Args:
        codes: Distinct records, shape ``(m, d)``.
        counts: How many records stand in each, shape ``(m,)``, at least 1.
    """

    domain: Domain
    codes: NDArray[Any]
    counts: IntArray

    @classmethod
    def of(cls, dataset: Dataset) -> "Cells":
        return cls.merged(dataset.domain, dataset.codes, np.ones(len(dataset), dtype=np.int64))

    @classmethod
    def merged(cls, domain: Domain, codes: NDArray[Any], counts: IntArray) -> "Cells":
        """Equal records joined, empty cells dropped; in the order of the domain's table."""
        present = counts > 0
        codes, counts = codes[present], counts[present]
        keys = key_of(codes.T, domain.sizes)
        _, first, cell = np.unique(keys, return_index=True, return_inverse=True)
        sums = np.zeros(len(first), dtype=np.int64)
        np.add.at(sums, cell, counts)
        return cls(domain, codes[first], sums)

    def column(self, attribute: str) -> NDArray[Any]:
        """Codes of one attribute, shape ``(m,)``."""
        column: NDArray[Any] = self.codes[:, self.domain.axis(attribute)]
        return column

    def shuffled(self, *, rng: np.random.Generator) -> Dataset:
        """The records again, in random order."""
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        return Dataset(self.domain, self.codes[rng.permutation(rows)])


def key_of(columns: Iterable[NDArray[Any]], sizes: Iterable[int]) -> IntArray:
    """One integer for each row, equal for equal rows and only for those.

    Mixed radix, with the keys replaced by their ranks whenever the next digit would not fit.
    """
    key: IntArray | None = None
    span = 1
    for column, size in zip(columns, sizes, strict=True):
        if key is not None and span > _LARGEST_KEY // size:
            levels, key = np.unique(key, return_inverse=True)
            span = len(levels)
        digit = column.astype(np.int64)
        key = digit if key is None else key * size + digit
        span *= size
    return np.zeros(0, dtype=np.int64) if key is None else key
