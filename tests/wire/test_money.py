"""Budgets and prices: exact decimals, to the last place, and no float anywhere."""

from decimal import Decimal

import pytest
from hypothesis import given

from gencard.core.card.budget import Price, decimal_text
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.v1 import common_pb2 as pb
from gencard.wire.codec import message_of, privacy_message, privacy_of, value_of
from gencard.wire.documents import privacy_document, privacy_of_document
from tests.wire.samples import amounts, prices, privacies


@given(prices)
def test_prices(price):
    assert value_of(Price, pb.Price.FromString(message_of(price, pb.Price).SerializeToString())) == price


@given(privacies)
def test_privacies(privacy):
    assert privacy_of(privacy_message(privacy)) == privacy
    assert privacy_of_document(privacy_document(privacy)) == privacy


@given(amounts)
def test_a_decimal_has_one_text(amount):
    text = decimal_text(amount)
    assert Decimal(text) == amount
    assert decimal_text(Decimal(text)) == text
    assert decimal_text(amount.normalize()) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0E-9", "0"),
        ("0.10", "0.1"),
        ("1E+2", "100"),
        ("100", "100"),
        ("0.000000001", "0.000000001"),
        ("999999999.999999999", "999999999.999999999"),
    ],
)
def test_decimals_by_hand(number, text):
    assert decimal_text(Decimal(number)) == text


def test_nothing_said_is_nothing_spent():
    assert value_of(Price, pb.Price()) == Price()


@pytest.mark.parametrize(
    "text", ["NaN", "sNaN", "inf", "-1", "1e99", "1e-10", "1000000001", "x", "1" * 33]
)
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(InvalidNumberError):
        value_of(Price, pb.Price(epsilon=text))
    with pytest.raises(InvalidNumberError):
        value_of(Price, pb.Price(rho=text))


def test_an_amount_is_read_without_rounding():
    assert value_of(Price, pb.Price(epsilon="0.123456789")).epsilon == Decimal("0.123456789")


@pytest.mark.parametrize("number", [0, 5, -1])
def test_an_unknown_mechanism_is_refused(number):
    with pytest.raises(InvalidInputError):
        privacy_of(pb.Privacy(mechanism=number))
