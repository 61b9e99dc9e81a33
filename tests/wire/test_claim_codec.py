"""Privacy claims: on cards and in the catalogue, as they were."""

from decimal import Decimal

from hypothesis import given

from gencard.core.card.budget import NO_CLAIM, Claim, Neighbouring
from gencard.v1 import catalog_pb2
from gencard.wire.codec import message_of, value_of
from gencard.wire.documents import claim_document, claim_of_document
from tests.wire.samples import claims


@given(claims)
def test_a_claim_comes_back_as_itself(claim):
    assert claim_of_document(claim_document(claim)) == claim
    assert value_of(Claim, message_of(claim, catalog_pb2.Claim)) == claim


def test_nothing_promised_is_a_sentence_alone():
    assert claim_document(NO_CLAIM) == {"sentence": "No formal privacy is promised."}


def test_a_claim_for_people():
    claim = Claim("By zCDP.", Decimal("0.5"), Decimal("0.00001"), Neighbouring.ADD_REMOVE)
    assert str(claim) == "epsilon 0.5, delta 0.00001 (add-remove). By zCDP."
    assert str(NO_CLAIM) == NO_CLAIM.sentence
