"""Enrolment requests and answers: each key vouches for the other, and what was changed is refused."""

import base64
import json
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.controller.people.keys import certify, issue, new_authority
from gencard.core.errors import InvalidInputError
from gencard.wire import dsse
from gencard.wire.canonical import json_bytes
from gencard.wire.dsse import ENROLMENT_REQUEST, RECEIPT, statement
from gencard.wire.keys import (
    EnrolmentAnswer,
    answer_of_document,
    grouped,
    request_document,
    request_of_document,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TLS, OTHER_TLS = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
SIGNING, OTHER_SIGNING = (Ed25519PrivateKey.generate() for _ in range(2))
AUTHORITY = new_authority("example", NOW)
ANA = "spiffe://example/pilot/analyst/ana"


def facts_of(document: bytes) -> dict[str, str]:
    return json.loads(dsse.opened(document)[0])["predicate"]


def signed(facts: dict[str, str], key: Ed25519PrivateKey = SIGNING, kind: str = ENROLMENT_REQUEST):
    return dsse.sign(statement(kind, "people/ana", facts), [key])


def answer(**changes) -> EnrolmentAnswer:
    parts = {
        "certificate": certify(AUTHORITY, ANA, TLS.public_key(), NOW),
        "authority": AUTHORITY.certificate,
        "card_key": OTHER_SIGNING.public_key(),
        "log_key": OTHER_SIGNING.public_key(),
        "signing_key": SIGNING.public_key(),
        "address": "localhost:7443",
    }
    return EnrolmentAnswer(**parts | changes)


class TestRequest:
    DOCUMENT = request_document(TLS, SIGNING, name="ana", role="analyst", project="pilot")

    def test_it_reads_back(self):
        request = request_of_document(self.DOCUMENT)
        assert (request.name, request.role, request.project) == ("ana", "analyst", "pilot")
        assert request.tls_key == TLS.public_key()
        assert request.signing_key == SIGNING.public_key()
        assert request.fingerprint == dsse.key_id(SIGNING.public_key())
        assert grouped(request.fingerprint).replace(" ", "") == request.fingerprint

    def test_each_key_vouches_for_the_other(self):
        """A foreign certificate request, or a foreign signing key, cannot be put in."""
        own = facts_of(self.DOCUMENT)
        other = facts_of(request_document(OTHER_TLS, OTHER_SIGNING, name="ana"))
        stolen_tls = own | {"certificateRequest": other["certificateRequest"]}
        stolen_signing = own | {"signingKey": other["signingKey"]}
        for facts, key in (
            (stolen_tls, SIGNING),
            (stolen_signing, SIGNING),
            (stolen_signing, OTHER_SIGNING),
            (own, OTHER_SIGNING),
        ):
            with pytest.raises(InvalidInputError, match="not an enrolment request"):
                request_of_document(signed(facts, key))

    @pytest.mark.parametrize("field", ["name", "role", "project", "signingKey", "certificateRequest"])
    def test_a_change_on_the_way_is_found(self, field):
        facts = facts_of(self.DOCUMENT)
        envelope = json.loads(self.DOCUMENT)
        for changed in ({field: "eve"}, {field: ""}, {field: 7}, {"more": ""}):
            payload = statement(ENROLMENT_REQUEST, "people/ana", facts | changed)
            envelope["payload"] = base64.b64encode(payload).decode()
            with pytest.raises(InvalidInputError):
                request_of_document(json_bytes(envelope))

    def test_a_certificate_request_with_a_wrong_signature_is_refused(self):
        facts = facts_of(self.DOCUMENT)
        lines = facts["certificateRequest"].splitlines()
        der = bytearray(base64.b64decode("".join(lines[1:-1])))
        der[-1] ^= 1
        pem = f"{lines[0]}\n{base64.b64encode(der).decode()}\n{lines[-1]}\n"
        with pytest.raises(InvalidInputError):
            request_of_document(signed(facts | {"certificateRequest": pem}))

    def test_other_kinds_of_statement_and_garbage_are_refused(self):
        facts = facts_of(self.DOCUMENT)
        for content in (b"", b"{}", b"x" * 1000, signed(facts, kind=RECEIPT), signed({}), b"\xff"):
            with pytest.raises(InvalidInputError):
                request_of_document(content)

    @pytest.mark.parametrize(
        "wanted", [{"name": "Ana"}, {"name": "../a"}, {"role": "controller"}, {"project": "a/b"}]
    )
    def test_what_no_identity_could_have_is_refused_at_both_ends(self, wanted):
        with pytest.raises(InvalidInputError):
            request_document(TLS, SIGNING, **{"name": "ana"} | wanted)
        with pytest.raises(InvalidInputError):
            request_of_document(signed(facts_of(self.DOCUMENT) | wanted))

    @pytest.mark.parametrize("key", [ec.generate_private_key(ec.SECP384R1()), rsa])
    def test_keys_of_other_kinds_are_refused(self, key):
        key = rsa.generate_private_key(65537, 2048) if key is rsa else key
        with pytest.raises(InvalidInputError):
            request_of_document(request_document(key, SIGNING, name="ana"))


class TestAnswer:
    def test_it_reads_back(self):
        made = answer()
        read = answer_of_document(made.document)
        assert read == made
        assert read.identity.uri == ANA
        assert read.fingerprint == made.fingerprint
        assert b"PRIVATE" not in made.document

    def test_a_certificate_of_another_authority_is_refused(self):
        strange = new_authority("example", NOW)
        for changes in (
            {"authority": strange.certificate},
            {"certificate": issue(strange, ANA, NOW).certificate},
        ):
            with pytest.raises(InvalidInputError, match="not an answer"):
                answer_of_document(answer(**changes).document)

    @pytest.mark.parametrize("address", ["", 'localhost:1"\nx = "', "a b:1", "a\n:1"])
    def test_an_address_that_could_write_settings_is_refused(self, address):
        with pytest.raises(InvalidInputError):
            answer_of_document(answer(address=address).document)

    def test_garbage_is_refused(self):
        document = json.loads(answer().document)
        for content in (
            b"",
            b"{}",
            b"[]",
            json_bytes(document | {"more": ""}),
            answer().document + b"\n",
        ):
            with pytest.raises(InvalidInputError):
                answer_of_document(content)
        for field in document:
            for value in ("", "x", 7, None):
                with pytest.raises(InvalidInputError):
                    answer_of_document(json_bytes(document | {field: value}))
