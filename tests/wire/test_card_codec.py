"""Terms, offers and cards as messages."""

import pytest
from hypothesis import given

from gencard.core.card.card import Offer
from gencard.core.card.terms import Proposal
from gencard.core.errors import InvalidCliqueError, InvalidInputError, InvalidNumberError
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codec import card_message, card_of, datetime_of, message_of, timestamp, value_of
from tests.wire.samples import PROPOSAL, negotiations, offers, proposals, times


def crossed(message):
    """The message as the other side reads it."""
    return type(message).FromString(message.SerializeToString())


@given(proposals)
def test_terms(proposal):
    assert value_of(Proposal, crossed(message_of(proposal, common.Terms))) == proposal


@given(offers)
def test_offers(offer):
    assert value_of(Offer, crossed(message_of(offer, pb.Offer))) == offer


@given(negotiations)
def test_cards(card):
    assert card_of(crossed(card_message(card))) == card


@given(times)
def test_times(time):
    assert datetime_of(crossed(timestamp(time))) == time


@pytest.mark.parametrize("part", [{"seconds": 2**62}, {"seconds": -(2**62)}, {"seconds": 253402300800}])
def test_a_time_out_of_range_is_refused(part):
    with pytest.raises(InvalidInputError, match="out of range"):
        datetime_of(type(timestamp_of_zero())(**part))


def timestamp_of_zero():
    return pb.Step().time


def test_the_usual_audit_where_none_is_named():
    message = message_of(PROPOSAL, common.Terms)
    message.ClearField("audit")
    assert value_of(Proposal, message) == PROPOSAL


def terms(**parts):
    """Good terms, but for some fields."""
    message = message_of(PROPOSAL, common.Terms)
    for name, value in parts.items():
        message.ClearField(name)
        if isinstance(value, list):
            getattr(message, name).extend(value)
        elif hasattr(value, "SerializeToString"):
            getattr(message, name).CopyFrom(value)
        elif value is not None:
            setattr(message, name, value)
    return message


NOISE = {"mechanism": common.Privacy.MECHANISM_LAPLACE, "neighbouring": 1}


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"privacy": None}, InvalidInputError),
        ({"privacy": common.Privacy()}, InvalidInputError),
        ({"privacy": common.Privacy(mechanism=9)}, InvalidInputError),
        ({"privacy": common.Privacy(mechanism=2, neighbouring=9, epsilon="1")}, InvalidInputError),
        ({"privacy": common.Privacy(mechanism=2, epsilon="1")}, InvalidInputError),
        ({"privacy": common.Privacy(mechanism=1, epsilon="1")}, InvalidInputError),
        ({"privacy": common.Privacy(**NOISE, epsilon="NaN")}, InvalidNumberError),
        ({"privacy": common.Privacy(**NOISE, epsilon="inf")}, InvalidNumberError),
        ({"privacy": common.Privacy(**NOISE, epsilon="-1")}, InvalidNumberError),
        ({"privacy": common.Privacy(**NOISE, epsilon="0")}, InvalidNumberError),
        ({"privacy": common.Privacy(**NOISE, epsilon="1e-300")}, InvalidNumberError),
        ({"privacy": common.Privacy(**NOISE, epsilon="1" * 100)}, InvalidNumberError),
        ({"privacy": common.Privacy(**NOISE, epsilon="0.0000000001")}, InvalidNumberError),
        ({"purpose": ""}, InvalidInputError),
        ({"marginals": []}, InvalidInputError),
        ({"marginals": [common.Clique()]}, InvalidCliqueError),
        ({"marginals": [common.Clique(attributes=["a", "a"])]}, InvalidCliqueError),
        (
            {"marginals": [common.Clique(attributes=["a", "b"]), common.Clique(attributes=["b", "a"])]},
            InvalidCliqueError,
        ),
        ({"rows": 0}, InvalidNumberError),
        ({"rows": 2**63}, InvalidNumberError),
        ({"audit": common.AuditTerms()}, InvalidNumberError),
        ({"audit": common.AuditTerms(runs=10, order=3, alpha="NaN")}, InvalidNumberError),
        ({"audit": common.AuditTerms(runs=10, order=3, alpha="1")}, InvalidNumberError),
    ],
)
def test_what_the_core_refuses(parts, error):
    with pytest.raises(error):
        value_of(Proposal, terms(**parts))


@pytest.mark.parametrize("parts", [{"state": 0}, {"state": 99}, {"state": 1, "turn": 99}])
def test_a_state_or_turn_of_tomorrow_is_refused(parts):
    with pytest.raises(InvalidInputError, match=r"card\.(state|turn)"):
        card_of(pb.Card(proposed=message_of(PROPOSAL, common.Terms), **parts))
