"""psi on the wire: one header, blocks of counts, one trailer with the digest of the document."""

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np

from gencard.core.domain import Domain
from gencard.core.errors import InvalidPsiError, TooLargeError, VerificationError
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi, stddev_text
from gencard.v1 import common_pb2 as common
from gencard.v1 import synthesis_pb2 as pb
from gencard.wire.documents.psi_document import numbers_document, numbers_of_document, psi_document
from gencard.wire.signatures.canonical import document_of, json_bytes, sha256

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


def psi_chunks(psi: Psi) -> Iterator[pb.StreamPsiResponse]:
    marginals = [
        pb.PsiStatistic(marginal=common.Clique(attributes=one.clique), stddev=stddev_text(one.stddev))
        for one in psi.measurements
    ]
    linear = [pb.PsiStatistic(linear=_linear_message(one)) for one in psi.linear]
    header = pb.PsiHeader(
        attributes=psi.domain.attributes, sizes=psi.domain.sizes, statistics=[*marginals, *linear]
    )
    yield pb.StreamPsiResponse(header=header)
    values = [*(one.values.ravel() for one in psi.measurements), *(one.values for one in psi.linear)]
    for position, counts in enumerate(values):
        for start in range(0, counts.size, BLOCK_CELLS):
            block = counts[start : start + BLOCK_CELLS].tolist()
            yield pb.StreamPsiResponse(block=pb.PsiBlock(statistic=position, offset=start, counts=block))
    numbers = numbers_document(psi)
    data = json_bytes(numbers) if numbers else b""
    for start in range(0, len(data), _PART_BYTES):
        yield pb.StreamPsiResponse(numbers=data[start : start + _PART_BYTES])
    yield pb.StreamPsiResponse(trailer=pb.PsiTrailer(digest=sha256(psi_document(psi))))


def psi_of_chunks(chunks: Iterable[pb.StreamPsiResponse]) -> tuple[Psi, str]:
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
                raise TooLargeError(
                    what="psi", limit=f"{_MOST_NUMBERS_BYTES} bytes of histograms and sums"
                )
        else:
            _fill(part, tables, filled)
    raise InvalidPsiError(problem="the end is missing")


def _linear_message(linear: LinearMeasurement) -> pb.LinearStatistic:
    pairs = zip(linear.statistic.functions, linear.stddevs.tolist(), strict=True)
    return pb.LinearStatistic(
        clique=common.Clique(attributes=linear.statistic.clique),
        functions=[
            pb.LinearFunction(
                name=function.name,
                values=function.values,
                denominator=function.denominator,
                stddev=stddev_text(stddev),
            )
            for function, stddev in pairs
        ],
    )


def _tables(header: pb.PsiHeader) -> tuple[Domain, list[np.ndarray]]:
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


def _fill(part: pb.StreamPsiResponse, tables: list[np.ndarray], filled: list[int]) -> None:
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


def _filled(
    header: pb.PsiHeader, domain: Domain, tables: list[np.ndarray], filled: list[int], numbers: bytes
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


def _linear_of(message: pb.LinearStatistic, sums: np.ndarray) -> LinearMeasurement:
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
