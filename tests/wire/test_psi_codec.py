"""psi as a stream: nothing lost, nothing taken out of order, nothing allocated on a header's word."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given

from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidPsiError, TooLargeError, VerificationError
from gencard.core.statistics.psi import Measurement, Psi
from gencard.v1 import common_pb2 as common
from gencard.v1 import synthesis_pb2 as pb
from gencard.wire.canonical import sha256
from gencard.wire.psi import psi_document
from gencard.wire.tables import psi_chunks, psi_of_chunks
from tests.wire.samples import PSI, psis


def crossed(chunks):
    return [pb.StreamPsiResponse.FromString(chunk.SerializeToString()) for chunk in chunks]


@given(psis())
def test_what_is_sent_arrives(psi):
    again, digest = psi_of_chunks(crossed(psi_chunks(psi)))
    assert digest == sha256(psi_document(psi))
    assert psi_document(again) == psi_document(psi)


def test_a_large_marginal_takes_several_messages():
    domain = Domain.of({"a": 500, "b": 500})
    values = np.arange(250_000).reshape(500, 500) - 2**40
    psi = Psi(domain, (Measurement(("a", "b"), values),))
    chunks = crossed(psi_chunks(psi))
    assert len(chunks) == 1 + 3 + 1
    assert max(chunk.ByteSize() for chunk in chunks) < 1_100_000
    np.testing.assert_array_equal(psi_of_chunks(chunks)[0].measurements[0].values, values)


def header(attributes, sizes, *cliques, stddev="0"):
    statistics = [
        pb.PsiStatistic(marginal=common.Clique(attributes=clique), stddev=stddev) for clique in cliques
    ]
    return pb.StreamPsiResponse(
        header=pb.PsiHeader(attributes=attributes, sizes=sizes, statistics=statistics)
    )


def block(statistic, offset, *counts):
    return pb.StreamPsiResponse(block=pb.PsiBlock(statistic=statistic, offset=offset, counts=counts))


END = pb.StreamPsiResponse(trailer=pb.PsiTrailer(digest="00" * 32))
HEADER = header(["a"], [2], ["a"])
GOOD = list(psi_chunks(PSI))


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [END],
        GOOD[1:],
        GOOD[:-1],
        [HEADER, END],
        [HEADER, HEADER, END],
        [HEADER, pb.StreamPsiResponse(), END],
        [HEADER, block(0, 0, 1), END],
        [HEADER, block(0, 1, 1), END],
        [HEADER, block(0, 0, 1), block(0, 0, 1), END],
        [HEADER, block(0, 0, 1, 2, 3), END],
        [HEADER, block(1, 0, 1), END],
        [HEADER, block(0, 2**60, 1), END],
        [header(["a"], [2], ["a"], stddev="x"), block(0, 0, 1, 2), END],
        [header(["a"], [2], ["a"], stddev="nan"), block(0, 0, 1, 2), END],
        [header(["a"], [2]), END],
    ],
)
def test_a_broken_stream_is_refused(chunks):
    with pytest.raises(InvalidPsiError):
        psi_of_chunks(chunks)


@pytest.mark.parametrize(
    "first",
    [
        header(["a"], [], ["a"]),
        header(["a", "a"], [1, 1], ["a"]),
        header(["a"], [0], ["a"]),
        header(["a"], [70_000], ["a"]),
        header(["a"], [2], ["b"]),
        header(["a"], [2], ["a", "a"]),
    ],
)
def test_a_domain_that_is_none_is_refused(first):
    with pytest.raises(GencardError):
        psi_of_chunks([first, END])


def test_a_changed_count_is_found():
    chunks = crossed(GOOD)
    chunks[1].block.counts[0] += 1
    with pytest.raises(VerificationError, match="digest"):
        psi_of_chunks(chunks)


@pytest.mark.parametrize(
    "first",
    [
        header([f"a{i}" for i in range(5)], [60_000] * 5, [f"a{i}" for i in range(5)]),
        header(["a", "b"], [60_000, 3_000], *[["a", "b"]] * 2),
        header([f"a{i}" for i in range(100)], [1] * 100, [f"a{i}" for i in range(100)]),
    ],
    ids=["cells", "sum of cells", "axes"],
)
def test_nothing_is_allocated_for_a_header_that_is_too_large(first):
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            psi_of_chunks([first])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
