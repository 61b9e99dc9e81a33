"""in-toto Statements: a fact, its kind, its subject."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import VerificationError
from gencard.wire.canonical import digest_of
from gencard.wire.dsse import (
    CARD,
    CHECKPOINT,
    RECEIPT,
    REVOCATION,
    VERDICT,
    predicate_of,
    statement,
    subject_digest,
)
from tests.wire.samples import digests, texts

KINDS = (CARD, RECEIPT, VERDICT, REVOCATION, CHECKPOINT)


@given(st.sampled_from(KINDS), texts, st.dictionaries(texts, texts, max_size=3), st.none() | digests)
def test_what_is_written_is_read(kind, subject, predicate, digest):
    payload = statement(kind, subject, predicate, digest)
    assert predicate_of(payload, kind) == predicate
    assert subject_digest(payload) == (digest or digest_of(predicate))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_one_kind_is_not_another(kind, other):
    payload = statement(kind, "x", {"a": "1"})
    if kind != other:
        with pytest.raises(VerificationError, match="not have the expected type"):
            predicate_of(payload, other)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b'{"_type":"https://in-toto.io/Statement/v1","predicateType":"urn:gencard:card:v1"}',
        b'{"_type":"https://in-toto.io/Statement/v1","predicate":[],"predicateType":"urn:gencard:card:v1"}',
        b'{"_type":"https://in-toto.io/Statement/v0","predicate":{},"predicateType":"urn:gencard:card:v1"}',
        b'{"_type":"x","predicate":{},"predicateType":["urn:gencard:card:v1"]}',
    ],
)
def test_garbage_is_refused(payload):
    with pytest.raises(VerificationError, match="not have the expected type"):
        predicate_of(payload, CARD)


@pytest.mark.parametrize(
    "payload",
    [b"", b"{}", b'{"subject":[]}', b'{"subject":{"0":1}}', b'{"subject":[{"digest":{"sha256":5}}]}'],
)
def test_a_subject_that_is_none(payload):
    with pytest.raises(VerificationError, match="no subject"):
        subject_digest(payload)
