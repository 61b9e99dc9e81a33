"""Request to a black box on its standard input: a line of JSON, then codes (docs/authors.md)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan, nan
from typing import BinaryIO

import numpy as np

from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.typed_json import PLAIN
from gencard.core.types import FloatArray
from gencard.wire.signatures.canonical import Document, document_of, json_bytes

FORMAT = "gencard.box.v1"

_LONGEST_HEADER = 1 << 24
_NUMBER = np.dtype("<f8")
_FIELDS = {"format", "task", "attributes", "records", "rows", "seed", "parameters", "workload", "values"}

Values = Mapping[str, tuple[float, ...]]
"""For each ordered attribute the number that each of its codes stands for, NaN for missing."""


StoredNumbers = Mapping[str, FloatArray]
"""For attributes with edges, the numbers of all records instead of their intervals; NaN for missing."""

NOTHING_STORED: StoredNumbers = {}


class BoxTask(StrEnum):
    """The task of a box; black boxes that do not come with Gencard only get ``RUN``.

    ``ANALYSE`` is the one task of an analyst's program, which is no box: it answers outputs.
    """

    RUN = "run"
    FIT = "fit"
    SAMPLE = "sample"
    ANALYSE = "analyse"

    @property
    def answers_rows(self) -> bool:
        return self in {BoxTask.RUN, BoxTask.SAMPLE}


_MORE = {BoxTask.SAMPLE: {"saved"}, BoxTask.ANALYSE: {"coding"}}
"""Fields that the header has for a task besides ``_FIELDS``."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxRequest:
    """Everything that a black box receives.

    Args:
        dataset: The records; none of them where a fit is sampled.
        rows: How many are wanted; 0 for a fit.
        workload: The cliques of the card.
        saved: The fit that is sampled; else empty.
        coding: The public schema of the attributes, for an analysis; else None.
        stored: For an analysis, numbers that its program gets in place of midpoints.
    """

    task: BoxTask
    dataset: Dataset
    rows: int
    seed: int
    parameters: Mapping[str, str] = field(default_factory=dict)
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)
    saved: bytes = b""
    coding: Coding | None = None
    stored: StoredNumbers = field(default_factory=dict)


def bytes_of_request(request: BoxRequest) -> bytes:
    """The line and the codes, or the line and the saved fit."""
    header = _header_of(request)
    if request.task is BoxTask.SAMPLE:
        header["saved"] = len(request.saved)
    if request.task is BoxTask.ANALYSE:
        header["coding"] = PLAIN.write(request.coding)
    if request.stored:
        header["stored"] = sorted(request.stored)
    numbers = (request.stored[name].astype(_NUMBER).tobytes() for name in sorted(request.stored))
    return b"".join((json_bytes(header), b"\n", *columns_of(request.dataset), *numbers, request.saved))


def read_request(stream: BinaryIO) -> BoxRequest:
    """Read the request from a standard input.

    Raises:
        InvalidInputError: It is not such a request, or is cut short.
    """
    header = document_of(stream.readline(_LONGEST_HEADER), "request")
    try:
        return _request_of(header, stream)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, GencardError):
        pass
    raise InvalidInputError(field="request", problem=f"is not in format {FORMAT}")


def columns_of(dataset: Dataset) -> Iterator[bytes]:
    """Codes of one attribute after the other: one byte up to 256 levels, else two, little-endian."""
    for axis, size in enumerate(dataset.domain.sizes):
        wire = code_dtype(size).newbyteorder("<")
        yield np.ascontiguousarray(dataset.codes[:, axis], dtype=wire).tobytes()


def dataset_of_columns(data: bytes, domain: Domain, rows: int) -> Dataset:
    """The records whose codes these bytes are.

    Raises:
        InvalidDatasetError: A code is outside its domain.
        ValueError: There are fewer or more bytes than codes.
    """
    columns, start = [], 0
    for size in domain.sizes:
        wire = code_dtype(size).newbyteorder("<")
        columns.append(np.frombuffer(data, dtype=wire, count=rows, offset=start))
        start += rows * wire.itemsize
    if start != len(data):
        raise ValueError("more bytes than codes")
    return Dataset.of_columns(domain, columns)


def record_bytes(domain: Domain) -> int:
    """Bytes of one record."""
    return sum(code_dtype(size).itemsize for size in domain.sizes)


def _header_of(request: BoxRequest) -> Document:
    domain = request.dataset.domain
    return {
        "format": FORMAT,
        "task": str(request.task),
        "attributes": [list(pair) for pair in zip(domain.attributes, domain.sizes, strict=True)],
        "records": len(request.dataset),
        "rows": request.rows,
        "seed": str(request.seed),
        "parameters": dict(request.parameters),
        "workload": [list(clique) for clique in request.workload],
        "values": {
            name: [None if isnan(value) else value for value in values]
            for name, values in request.values.items()
        },
    }


def _request_of(header: Document, stream: BinaryIO) -> BoxRequest:
    task, saved = BoxTask(header["task"]), b""
    stored_fields = header.keys() & {"stored"} if task is BoxTask.ANALYSE else set()
    expected = _FIELDS | _MORE.get(task, set()) | stored_fields
    if header["format"] != FORMAT or header.keys() != expected:
        raise ValueError("another format")
    domain = Domain.of({str(name): int(size) for name, size in header["attributes"]})
    records = int(header["records"])
    codes = _exactly(stream, records * record_bytes(domain))
    if task is BoxTask.SAMPLE:
        saved = _exactly(stream, int(header["saved"]))
    numbers = {
        str(name): np.frombuffer(_exactly(stream, records * _NUMBER.itemsize), _NUMBER)
        for name in header.get("stored", ())
    }
    return BoxRequest(
        task,
        dataset_of_columns(codes, domain, records),
        int(header["rows"]),
        int(header["seed"]),
        {str(name): str(value) for name, value in header["parameters"].items()},
        tuple(tuple(map(str, clique)) for clique in header["workload"]),
        {
            str(name): tuple(nan if value is None else float(value) for value in values)
            for name, values in header["values"].items()
        },
        saved,
        PLAIN.read(Coding, header["coding"], field="coding") if task is BoxTask.ANALYSE else None,
        numbers,
    )


def _exactly(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(max(length, 0))
    if length < 0 or len(data) != length:
        raise ValueError("cut short")
    return data
