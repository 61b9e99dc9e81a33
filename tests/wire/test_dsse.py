"""Envelopes: the specification's vector, and every way a signature may be missing or wrong."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import VerificationError
from gencard.wire import dsse
from gencard.wire.canonical import json_bytes
from tests.wire.samples import KEY, OTHER_KEY

GOLDEN_ID = "34750f98bd59fcfc946da45aaabe933be154a4b5094e1c4abf42866505f3c97e"
GOLDEN_SIGNATURE = (
    "YphsIoQtpWzLSDssjNmR2jbLKSLWlsNXlyDPxIwgmGDzZpWnz7yeIYPX/DXzMH52ukNWq1FE8MTKedTaJdtcDg=="
)
PUBLIC, OTHER_PUBLIC = KEY.public_key(), OTHER_KEY.public_key()


def changed(envelope: bytes, **parts: object) -> bytes:
    return json_bytes(json.loads(envelope) | parts)


def test_the_specifications_vector():
    """DSSE protocol, "Test vectors"."""
    encoded = dsse.pre_authentication(b"hello world", "http://example.com/HelloWorld")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_lengths_count_bytes():
    assert dsse.pre_authentication("é".encode(), "ü") == b"DSSEv1 2 \xc3\xbc 2 \xc3\xa9"


def test_golden_envelope():
    """Fingerprint and signature were computed with RFC 8032's formulas in plain integers."""
    envelope = json.loads(dsse.sign(b'{"a":"1"}', [KEY]))
    assert envelope == {
        "payload": base64.b64encode(b'{"a":"1"}').decode(),
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"keyid": GOLDEN_ID, "sig": GOLDEN_SIGNATURE}],
    }


@given(st.binary(max_size=200))
def test_what_is_signed_is_read(payload):
    envelope = dsse.sign(payload, [KEY, OTHER_KEY])
    assert dsse.verify(envelope, [PUBLIC, OTHER_PUBLIC]) == payload
    assert dsse.verify(envelope, [OTHER_PUBLIC], unknown=1) == payload
    signatures = {
        dsse.key_id(key.public_key()): dsse.signature_of(payload, key) for key in (KEY, OTHER_KEY)
    }
    assert dsse.envelope_of(payload, signatures) == envelope
    assert dsse.opened(envelope) == (payload, signatures)


@given(st.binary(min_size=1, max_size=40), st.data())
def test_one_bit_of_the_payload(payload, data):
    position = data.draw(st.integers(0, len(payload) * 8 - 1))
    other = bytearray(payload)
    other[position // 8] ^= 1 << position % 8
    envelope = changed(dsse.sign(payload, [KEY]), payload=base64.b64encode(bytes(other)).decode())
    with pytest.raises(VerificationError, match="is wrong"):
        dsse.verify(envelope, [PUBLIC])


def test_every_key_must_have_signed():
    with pytest.raises(VerificationError, match="no signature by key"):
        dsse.verify(dsse.sign(b"{}", [KEY]), [PUBLIC, OTHER_PUBLIC])


SIGNED = {dsse.key_id(key.public_key()): dsse.signature_of(b"{}", key) for key in (KEY, OTHER_KEY)}


@pytest.mark.parametrize(
    ("names", "keys", "unknown"),
    [
        ((OTHER_KEY, KEY), (PUBLIC, OTHER_PUBLIC), 0),
        ((KEY, OTHER_KEY), (PUBLIC,), 0),
        ((OTHER_KEY, KEY), (PUBLIC,), 0),
        ((KEY, OTHER_KEY), (PUBLIC,), 1),
        ((KEY,), (PUBLIC,), 1),
        ((KEY, OTHER_KEY), (PUBLIC, OTHER_PUBLIC), 1),
    ],
    ids=["reordered", "one more", "one before", "unknown last", "unknown missing", "unknown too many"],
)
def test_each_signer_signs_once_in_order(names, keys, unknown):
    signers = [dsse.key_id(key.public_key()) for key in names]
    envelope = dsse.envelope_of(b"{}", {name: SIGNED[name] for name in signers})
    with pytest.raises(VerificationError, match="one signature for each signer, in their order"):
        dsse.verify(envelope, keys, unknown=unknown)


@given(st.data())
def test_an_envelope_with_one_byte_changed_is_refused(data):
    """A byte that is replaced, added or taken away; base64 leaves bits over, JSON white space."""
    envelope = dsse.sign(b'{"a":"1"}!', [KEY, OTHER_KEY])
    place = data.draw(st.integers(0, len(envelope)))
    part = data.draw(st.sampled_from([b"", *(bytes([byte]) for byte in range(256))]))
    length = data.draw(st.sampled_from([0, 1]))
    other = envelope[:place] + part + envelope[place + length :]
    if other != envelope:
        with pytest.raises(VerificationError):
            dsse.verify(other, [PUBLIC, OTHER_PUBLIC])


def test_no_key_is_no_proof():
    with pytest.raises(VerificationError, match="no public key to check"):
        dsse.verify(dsse.sign(b"{}", [KEY]), [])


def test_a_signature_of_somebody_else_under_our_name():
    forged = dsse.envelope_of(b"{}", {dsse.key_id(PUBLIC): dsse.signature_of(b"{}", OTHER_KEY)})
    with pytest.raises(VerificationError, match="is wrong"):
        dsse.verify(forged, [PUBLIC])


def test_a_signature_over_the_bare_payload():
    forged = dsse.envelope_of(b"{}", {dsse.key_id(PUBLIC): KEY.sign(b"{}")})
    with pytest.raises(VerificationError, match="is wrong"):
        dsse.verify(forged, [PUBLIC])


@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_another_length(length):
    forged = dsse.envelope_of(b"{}", {dsse.key_id(PUBLIC): bytes(length)})
    with pytest.raises(VerificationError, match="is wrong"):
        dsse.verify(forged, [PUBLIC])


def test_another_payload_type():
    envelope = changed(dsse.sign(b"{}", [KEY]), payloadType="text/plain")
    with pytest.raises(VerificationError, match="another payload type"):
        dsse.verify(envelope, [PUBLIC])


GOOD = dsse.sign(b"{}", [KEY])


@pytest.mark.parametrize(
    "envelope",
    [
        b"",
        b"null",
        b"{}",
        changed(GOOD, payload=5),
        changed(GOOD, payload="*"),
        changed(GOOD, payload="é"),
        changed(GOOD, payload="e30"),
        changed(GOOD, signatures=None),
        changed(GOOD, signatures={"keyid": "a"}),
        changed(GOOD, signatures=[{"keyid": "a"}]),
        changed(GOOD, signatures=[{"keyid": [], "sig": ""}]),
        changed(GOOD, signatures=[{"keyid": 1, "sig": ""}]),
        changed(GOOD, signatures=[{"keyid": "a", "sig": "ü"}]),
    ],
)
def test_garbage_is_refused(envelope):
    with pytest.raises(VerificationError, match="is malformed"):
        dsse.verify(envelope, [PUBLIC])


@given(st.binary(max_size=60))
def test_any_bytes_end_in_the_typed_error(data):
    with pytest.raises(VerificationError):
        dsse.verify(data, [PUBLIC])
