"""psi on the wire: one header, blocks of counts, one trailer with the digest of the document."""

from collections.abc import Iterable, Iterator

import numpy as np

from gencard.core.domain import Domain
from gencard.core.errors import InvalidPsiError, TooLargeError, VerificationError
from gencard.core.statistics.psi import Measurement, Psi
from gencard.v1 import common_pb2 as common
from gencard.v1 import synthesis_pb2 as pb
from gencard.wire.canonical import sha256
from gencard.wire.psi_document import psi_document, stddev_text

BLOCK_CELLS = 100_000
"""Cells in one message: at most ten bytes each, so a message stays below 1 MB."""

MOST_CELLS = 200_000_000
"""A reader's own bound: no header makes it allocate more."""

MOST_AXES = 64
"""Axes of a numpy array."""


def psi_chunks(psi: Psi) -> Iterator[pb.StreamPsiResponse]:
    yield pb.StreamPsiResponse(header=_header(psi))
    for position, measurement in enumerate(psi.measurements):
        counts = measurement.values.ravel()
        for start in range(0, counts.size, BLOCK_CELLS):
            block = counts[start : start + BLOCK_CELLS].tolist()
            yield pb.StreamPsiResponse(block=pb.PsiBlock(statistic=position, offset=start, counts=block))
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
    filled = [0] * len(tables)
    for part in parts:
        if part.HasField("trailer"):
            return _finished(first.header, domain, tables, filled, part.trailer.digest)
        _fill(part, tables, filled)
    raise InvalidPsiError(problem="the end is missing")


def _header(psi: Psi) -> pb.PsiHeader:
    return pb.PsiHeader(
        attributes=psi.domain.attributes,
        sizes=psi.domain.sizes,
        statistics=[
            pb.PsiStatistic(
                marginal=common.Clique(attributes=measurement.clique),
                stddev=stddev_text(measurement.stddev),
            )
            for measurement in psi.measurements
        ],
    )


def _tables(header: pb.PsiHeader) -> tuple[Domain, list[np.ndarray]]:
    domain = Domain(tuple(header.attributes), tuple(header.sizes))
    domains = [domain.project(tuple(entry.marginal.attributes)) for entry in header.statistics]
    if sum(marginal.cells for marginal in domains) > MOST_CELLS:
        raise TooLargeError(what="psi", limit=f"{MOST_CELLS} cells")
    if any(len(marginal) > MOST_AXES for marginal in domains):
        raise TooLargeError(what="a marginal", limit=f"{MOST_AXES} attributes")
    return domain, [np.zeros(marginal.sizes, dtype=np.int64) for marginal in domains]


def _fill(part: pb.StreamPsiResponse, tables: list[np.ndarray], filled: list[int]) -> None:
    if not part.HasField("block"):
        raise InvalidPsiError(problem="a part is not known")
    block = part.block
    if block.statistic >= len(tables) or block.offset != filled[block.statistic]:
        raise InvalidPsiError(problem="a block is out of order")
    cells = tables[block.statistic].reshape(-1)
    end = block.offset + len(block.counts)
    if end > cells.size:
        raise InvalidPsiError(problem="a block is too long")
    cells[block.offset : end] = block.counts
    filled[block.statistic] = end


def _finished(
    header: pb.PsiHeader, domain: Domain, tables: list[np.ndarray], filled: list[int], digest: str
) -> tuple[Psi, str]:
    if any(done != table.size for done, table in zip(filled, tables, strict=True)):
        raise InvalidPsiError(problem="a block is missing")
    measurements = tuple(
        Measurement(tuple(entry.marginal.attributes), table, _stddev_of(entry.stddev))
        for entry, table in zip(header.statistics, tables, strict=True)
    )
    psi = Psi(domain, measurements)
    if sha256(psi_document(psi)) != digest:
        raise VerificationError(problem="psi does not have the digest that came with it")
    return psi, digest


def _stddev_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidPsiError(problem="a stddev is not a number") from None
