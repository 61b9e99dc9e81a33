"""Receipts: what a release was made from, in one form."""

from dataclasses import replace

import pytest
from hypothesis import given

from gencard.core.errors import VerificationError
from gencard.wire.canonical import document_of
from gencard.wire.documents import AuditedBox, receipt_of_document, receipt_statement
from gencard.wire.dsse import RECEIPT as RECEIPT_TYPE
from gencard.wire.dsse import predicate_of, subject_digest
from tests.wire.samples import RECEIPT, receipts

GOLDEN = (
    '{"_type":"https://in-toto.io/Statement/v1",'
    '"predicate":{'
    '"card":{"sha256":"' + "11" * 32 + '"},'
    '"data":{"sha256":"' + "33" * 32 + '"},'
    '"logIndex":"5",'
    '"name":"datasets/survey/cards/0a/releases/01",'
    '"psi":{"sha256":"' + "22" * 32 + '"},'
    '"rows":"1000",'
    '"seed":"7",'
    '"time":"2026-11-20T18:05:00Z",'
    '"versions":{"gencard":"0.1.0","numpy":"2.4.6"}},'
    '"predicateType":"urn:gencard:receipt:v1",'
    '"subject":[{"digest":{"sha256":"' + "33" * 32 + '"},'
    '"name":"datasets/survey/cards/0a/releases/01"}]}'
)


def test_golden_bytes():
    assert receipt_statement(RECEIPT).decode() == GOLDEN
    assert subject_digest(GOLDEN.encode()) == RECEIPT.rows_digest


@given(receipts)
def test_what_is_written_is_read(receipt):
    payload = receipt_statement(receipt)
    assert receipt_of_document(predicate_of(payload, RECEIPT_TYPE)) == receipt


PREDICATE = document_of(GOLDEN.encode(), "statement")["predicate"]


@pytest.mark.parametrize("name", list(PREDICATE))
@pytest.mark.parametrize("value", [None, 5, 1.5, [], {}, {"sha256": 1}, {"gencard": 1}, ["a"]], ids=repr)
def test_another_type_is_refused(name, value):
    if (name, value) == ("versions", {}):
        return  # nothing computed it: odd, and no other type
    with pytest.raises(VerificationError, match="is not a receipt"):
        receipt_of_document(PREDICATE | {name: value})


@pytest.mark.parametrize("kind", ["", "hmac", "Bytes", None, ["bytes"]], ids=repr)
def test_a_version_of_a_kind_that_is_not_known_is_refused(kind):
    with pytest.raises(VerificationError, match="is not a receipt"):
        receipt_of_document(PREDICATE | {"versionKind": kind})


def test_of_a_private_box_it_names_the_box_and_no_psi():
    receipt = replace(RECEIPT, seed=None, psi_digest="", private_box="66" * 32)
    document = predicate_of(receipt_statement(receipt), RECEIPT_TYPE)
    assert document["private"] == {"box": {"sha256": "66" * 32}}
    assert not {"psi", "seed"} & document.keys()
    assert receipt_of_document(document) == receipt


@pytest.mark.parametrize("name", list(PREDICATE))
def test_a_missing_part_is_refused(name):
    document = {key: value for key, value in PREDICATE.items() if key != name}
    with pytest.raises(VerificationError, match="is not a receipt"):
        receipt_of_document(document)


class TestAuditedReceipts:
    """Receipts of a black box's rows: no seed, but the box and the verdict about it."""

    RECEIPT = replace(RECEIPT, seed=None, audited=AuditedBox("44" * 32, "55" * 32))

    def test_it_comes_back_as_itself_and_holds_no_seed(self):
        document = predicate_of(receipt_statement(self.RECEIPT), RECEIPT_TYPE)
        assert receipt_of_document(document) == self.RECEIPT
        assert "seed" not in document
        assert document["audited"] == {"box": {"sha256": "44" * 32}, "verdict": {"sha256": "55" * 32}}

    def test_numbers_are_drawn_by_what_follows_from_the_rows(self):
        assert RECEIPT.drawing_seed == RECEIPT.seed
        assert self.RECEIPT.drawing_seed == int("33" * 8, 16)
