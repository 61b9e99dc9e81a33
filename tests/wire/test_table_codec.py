"""Rows as a stream of codes: nothing lost, and nothing allocated for what was not asked for."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidDatasetError,
    TooLargeError,
    VerificationError,
)
from gencard.v1 import common_pb2 as pb
from gencard.v1.synthesis_pb2 import StreamRowsResponse
from gencard.wire.codecs.table_codec import (
    DatasetColumns,
    batch_rows,
    dataset_of_chunks,
    encoded_chunks,
    header_chunk,
    row_bytes,
    table_chunks,
    trailer_chunk,
)
from tests.wire.samples import datasets

DOMAIN = Domain.of({"sex": 2, "place": 300})
DATASET = Dataset(DOMAIN, np.array([[0, 299], [1, 0], [1, 256]]))
HEADER, BATCH, TRAILER = table_chunks(DATASET)


def crossed(chunks):
    return [pb.TableChunk.FromString(chunk.SerializeToString()) for chunk in chunks]


def read(chunks, most_rows=1_000, domain=DOMAIN):
    return dataset_of_chunks(chunks, domain=domain, most_rows=most_rows)


@given(datasets())
def test_what_is_sent_arrives(dataset):
    again = read(crossed(table_chunks(dataset)), domain=dataset.domain)
    assert again.domain == dataset.domain
    np.testing.assert_array_equal(again.codes, dataset.codes)


@given(datasets())
def test_encoded_batches_are_the_messages_to_the_byte(dataset):
    messages = [StreamRowsResponse(chunk=chunk) for chunk in table_chunks(dataset)]
    assert list(encoded_chunks(DatasetColumns(dataset), dataset.digest())) == [
        message.SerializeToString() for message in messages
    ]


def test_golden_bytes():
    """One byte for two levels; two bytes, the low one first, for three hundred."""
    assert list(BATCH.batch.codes) == [b"\x00\x01\x01", b"\x2b\x01\x00\x00\x00\x01"]
    assert HEADER.header == pb.TableHeader(attributes=["sex", "place"], sizes=[2, 300], rows=3)
    assert row_bytes(DOMAIN) == 3


def test_messages_stay_near_a_megabyte():
    rows = batch_rows(DOMAIN) + 1
    dataset = Dataset(DOMAIN, np.zeros((rows, 2), dtype=np.uint16))
    chunks = list(table_chunks(dataset))
    assert [chunk.batch.rows for chunk in chunks] == [0, rows - 1, 1, 0]
    assert max(chunk.ByteSize() for chunk in chunks) < 1_001_000
    assert len(read(chunks, most_rows=rows)) == rows


def batch(rows, *codes):
    return pb.TableChunk(batch=pb.TableBatch(rows=rows, codes=codes))


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [BATCH, TRAILER],
        [HEADER, BATCH],
        [HEADER, TRAILER],
        [HEADER, HEADER, BATCH, TRAILER],
        [HEADER, pb.TableChunk(), TRAILER],
        [HEADER, BATCH, BATCH, TRAILER],
        [HEADER, batch(3, b"\0\0\0"), TRAILER],
        [HEADER, batch(3, b"\0\0\0", b"\0" * 6, b"\0\0\0"), TRAILER],
        [HEADER, batch(3, b"\0\0\0", b"\0" * 5), TRAILER],
        [HEADER, batch(3, b"\0\0\0", b"\0" * 3), TRAILER],
        [HEADER, batch(0), TRAILER],
        [HEADER, batch(2**31, b"\0\0\0", b"\0" * 6), TRAILER],
        [HEADER, batch(3, b"\0\0\2", b"\0" * 6), TRAILER],
        [HEADER, batch(3, b"\0\0\0", b"\xff" * 6), TRAILER],
    ],
)
def test_a_broken_stream_is_refused(chunks):
    with pytest.raises(InvalidDatasetError):
        read(chunks)


def test_a_changed_code_is_found():
    changed = batch(3, b"\x01\x01\x01", BATCH.batch.codes[1])
    with pytest.raises(VerificationError, match="digest"):
        read([HEADER, changed, TRAILER])
    with pytest.raises(VerificationError, match="digest"):
        read([HEADER, BATCH, trailer_chunk("")])


def refused(header, error, **bounds):
    tracemalloc.start()
    try:
        with pytest.raises(error):
            read([header], **bounds)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_nothing_is_allocated_for_rows_beyond_the_bound():
    refused(header_chunk(DOMAIN, 10**15), TooLargeError, most_rows=10**6)


@pytest.mark.parametrize(
    "domain",
    [Domain.of({"sex": 2}), Domain.of({"place": 300, "sex": 2}), Domain.of({"sex": 3, "place": 300})],
)
def test_nothing_is_allocated_for_another_domain(domain):
    refused(header_chunk(domain, 10**6), DomainMismatchError, most_rows=10**6)


def test_rows_go_where_the_caller_says():
    rooms = []

    def allocate(shape, dtype):
        rooms.append(np.zeros(shape, dtype=dtype, order="F"))
        return rooms[0]

    dataset = dataset_of_chunks([HEADER, BATCH, TRAILER], domain=DOMAIN, most_rows=3, allocate=allocate)
    assert np.shares_memory(dataset.codes, rooms[0])
