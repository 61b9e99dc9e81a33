"""Rows as a stream of codes: nothing lost, and nothing allocated for what was not asked for."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given

from gencard.core.dataset import Dataset, row_bytes
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidDatasetError,
    TooLargeError,
    VerificationError,
)
from gencard.v1 import common_pb2 as pb
from gencard.v1.synthesis_pb2 import StreamRowsResponse
from gencard.wire.tables import (
    MESSAGE_CODES,
    DatasetColumns,
    batch_rows,
    dataset_of_chunks,
    encoded_chunks,
    header_chunk,
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


def packed_chunks(dataset, digest=None):
    """A dataset as a packed table, as it crosses the wire."""
    encoded = encoded_chunks(DatasetColumns(dataset), digest or dataset.digest(), packed=True)
    return [StreamRowsResponse.FromString(one).chunk for one in encoded]


def drawn(sizes, rows):
    rng = np.random.default_rng(1)
    domain = Domain.of({f"attribute {axis}": size for axis, size in enumerate(sizes)})
    return Dataset.of_columns(domain, [rng.integers(size, size=rows) for size in sizes])


@given(datasets())
def test_what_is_sent_packed_arrives(dataset):
    again = read(packed_chunks(dataset), domain=dataset.domain)
    np.testing.assert_array_equal(again.codes, dataset.codes)
    assert again.digest() == dataset.digest()


@pytest.mark.parametrize("largest", [1, 2, 3, 4, 5, 16, 17, 256, 257, 65_536])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9])
def test_every_number_of_bits_holds_every_code(largest, rows):
    dataset = drawn((2, largest), rows)
    dataset = Dataset(dataset.domain, np.maximum(dataset.codes, [[0, largest - 1]]))
    again = read(packed_chunks(dataset), domain=dataset.domain)
    np.testing.assert_array_equal(again.codes, dataset.codes)


def test_long_attributes_are_split_and_short_ones_share_a_message():
    long = drawn((3, 300), MESSAGE_CODES + 9)
    chunks = packed_chunks(long)
    assert [chunk.batch.rows for chunk in chunks] == [0, *(MESSAGE_CODES, 9) * 2, 0]
    assert max(chunk.ByteSize() for chunk in chunks) < 2_001_000
    assert read(chunks, most_rows=len(long), domain=long.domain).digest() == long.digest()
    short = packed_chunks(drawn((2,) * 7, MESSAGE_CODES // 3))
    assert [len(chunk.batch.codes) for chunk in short] == [0, 3, 3, 1, 0]


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


PACKED, PACKED_BATCH, _ = packed_chunks(DATASET)


@pytest.mark.parametrize(
    "chunks",
    [
        [PACKED_BATCH, TRAILER],
        [PACKED, PACKED_BATCH],
        [PACKED, TRAILER],
        [PACKED, PACKED, PACKED_BATCH, TRAILER],
        [PACKED, BATCH, TRAILER],
        [HEADER, PACKED_BATCH, TRAILER],
        [PACKED, PACKED_BATCH, PACKED_BATCH, TRAILER],
        [PACKED, batch(0, b""), TRAILER],
        [PACKED, batch(3), TRAILER],
        [PACKED, batch(3, b"\6"), TRAILER],
        [PACKED, batch(3, b"\6\0", b"\0" * 6), TRAILER],
        [PACKED, batch(3, b"\x0e", b"\0" * 6), TRAILER],
        [PACKED, batch(4, b"\6", b"\0" * 8), TRAILER],
        [PACKED, batch(2**31, b"\6"), TRAILER],
        [PACKED, batch(3, b"\6", b"\0" * 5), TRAILER],
        [PACKED, batch(3, b"\6", b"\xff" * 6), TRAILER],
        [PACKED, batch(3, b"\6", b"\0" * 6, b"\6"), TRAILER],
    ],
)
def test_a_broken_packed_stream_is_refused(chunks):
    with pytest.raises(InvalidDatasetError):
        read(chunks)


def test_the_parts_of_a_packed_table_may_be_of_any_length():
    parts = [batch(2, b"\2"), batch(1, b"\1"), batch(3, BATCH.batch.codes[1])]
    assert read([PACKED, *parts, TRAILER]).digest() == DATASET.digest()


@pytest.mark.parametrize("codes", [(b"\5", PACKED_BATCH.batch.codes[1]), (b"\6", b"\0" * 6)])
def test_a_changed_packed_code_is_found(codes):
    with pytest.raises(VerificationError, match="digest"):
        read([PACKED, batch(3, *codes), TRAILER])


def test_packed_rows_of_another_order_are_found():
    """The digest is of what stands in the table, not of the bytes in the order in which they came."""
    swapped = Dataset(DOMAIN, DATASET.codes[::-1])
    with pytest.raises(VerificationError, match="digest"):
        read(packed_chunks(swapped, DATASET.digest()))


def test_a_changed_code_is_found():
    changed = batch(3, b"\x01\x01\x01", BATCH.batch.codes[1])
    with pytest.raises(VerificationError, match="digest"):
        read([HEADER, changed, TRAILER])
    with pytest.raises(VerificationError, match="digest"):
        read([HEADER, BATCH, trailer_chunk("")])


def test_a_packed_table_takes_a_fraction_of_the_bytes():
    dataset = drawn((4, 3, 3, 3, 3, *(2,) * 10), 8_000)
    sizes = [sum(map(len, encoded_chunks(DatasetColumns(dataset), "", packed=p))) for p in (True, False)]
    assert sizes[0] < sizes[1] / 5.5


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


@pytest.mark.parametrize("header", [HEADER, PACKED])
def test_rows_go_where_the_caller_says(header):
    rooms = []

    def allocate(shape, dtype):
        rooms.append(np.zeros(shape, dtype=dtype, order="F"))
        return rooms[0]

    chunks = [header, PACKED_BATCH if header is PACKED else BATCH, TRAILER]
    dataset = dataset_of_chunks(chunks, domain=DOMAIN, most_rows=3, allocate=allocate)
    assert np.shares_memory(dataset.codes, rooms[0])
