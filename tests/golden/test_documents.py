"""Every signed document and stored file: built from its content, and decoded and encoded again."""

from collections.abc import Callable
from io import BytesIO

import pytest

from gencard.wire import dsse
from gencard.wire.black_box import bytes_of_request, read_request
from gencard.wire.canonical import document_of, json_bytes
from gencard.wire.documents import (
    answer_of_document,
    answer_statement,
    card_of_document,
    card_statement,
    receipt_of_document,
    receipt_statement,
)
from gencard.wire.dsse import predicate_of, statement, subject_digest
from gencard.wire.keys import changes_file, changes_in, key_change_of
from gencard.wire.log import log_entry_document, log_entry_of_document
from gencard.wire.psi import coding_document, coding_of_document, psi_document, psi_of_document
from gencard.wire.tables import psi_chunks, psi_of_chunks
from tests.golden.files import golden, names
from tests.golden.values import ANSWERS, CARDS_BY_NAME, DOCUMENTS, RECEIPTS

ENDING = ""


def document(name: str) -> bytes:
    return golden(f"documents/{name}")


def predicate(payload: bytes) -> dict:
    return document_of(payload, "statement")["predicate"]


def test_every_golden_document_has_a_content_here():
    assert names("documents", ENDING) == sorted(DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_same_content_gives_the_same_bytes(name):
    assert DOCUMENTS[name]() == document(name)


@pytest.mark.parametrize("name", CARDS_BY_NAME)
def test_a_card_is_decoded_and_encoded(name):
    payload = document(f"card-{name}")
    assert card_of_document(predicate(payload)) == CARDS_BY_NAME[name]
    assert card_statement(card_of_document(predicate(payload))) == payload


@pytest.mark.parametrize("name", RECEIPTS)
def test_a_receipt_is_decoded_and_encoded(name):
    payload = document(f"receipt-{name}")
    assert receipt_of_document(predicate(payload)) == RECEIPTS[name]
    assert receipt_statement(receipt_of_document(predicate(payload))) == payload


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_decoded_and_encoded(name):
    payload = document(f"answer-{name}")
    assert answer_of_document(predicate(payload)) == ANSWERS[name]
    assert answer_statement(answer_of_document(predicate(payload))) == payload


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.startswith("psi-")])
def test_psi_is_decoded_and_encoded(name):
    content = document(name)
    assert psi_document(psi_of_document(content)) == content
    assert psi_document(psi_of_chunks(psi_chunks(psi_of_document(content)))[0]) == content


def _schema(content: bytes) -> bytes:
    return json_bytes(coding_document(coding_of_document(document_of(content, "schema"))))


def _keys(content: bytes) -> bytes:
    envelopes = changes_in(content)
    again = [
        dsse.envelope_of(key_change_of(envelope).statement, dsse.opened(envelope)[1])
        for envelope in envelopes
    ]
    return changes_file(again)


def _envelope(content: bytes) -> bytes:
    payload, signatures = dsse.opened(content)
    facts = document_of(payload, "statement")
    kind, subject = facts["predicateType"], facts["subject"][0]["name"]
    again = statement(kind, subject, predicate_of(payload, kind), subject_digest(payload))
    return dsse.envelope_of(again, signatures)


def _box(content: bytes) -> bytes:
    return bytes_of_request(read_request(BytesIO(content)))


AGAIN: dict[str, Callable[[bytes], bytes]] = {
    "schema": _schema,
    "keys": _keys,
    "log-entry": lambda content: log_entry_document(log_entry_of_document(content)),
    **dict.fromkeys(("signed-card", "signed-receipt", "checkpoint"), _envelope),
    **dict.fromkeys(("box-run", "box-fit", "box-sample", "box-analyse"), _box),
}


@pytest.mark.parametrize("name", AGAIN)
def test_other_documents_are_decoded_and_encoded(name):
    assert AGAIN[name](document(name)) == document(name)


def test_a_card_and_a_receipt_are_signed_by_those_who_signed_them():
    from tests.golden.values import ANALYST, CONTROLLER

    both, one = [CONTROLLER.public_key(), ANALYST.public_key()], [CONTROLLER.public_key()]
    assert dsse.verify(document("signed-card"), both) == document("card-exact")
    assert dsse.verify(document("signed-receipt"), one) == document("receipt-by-construction")
