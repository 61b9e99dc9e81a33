"""The form of a request: known fields, bounded parts and plain text, wherever they stand in it."""

import pytest

from gencard.controller.service.guard import MOST_PARTS, Garbage, check_request, decoder
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.v1 import common_pb2 as common
from gencard.v1.negotiation_pb2 import ProposeCardRequest

UNKNOWN = common.Clique.FromString(b"\xba\x3e\x04evil")


def proposal(*cliques):
    return ProposeCardRequest(terms=common.Terms(marginals=cliques))


def cliques_of(parts):
    """A proposal of so many parts: the terms, the clique, and its attributes."""
    return proposal(common.Clique(attributes=["a"] * (parts - 2)))


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_unknown_field_is_seen_in_every_entry_of_a_list(position):
    cliques = [common.Clique(attributes=["sex"])] * 3
    check_request(proposal(*cliques))
    cliques[position] = UNKNOWN
    with pytest.raises(InvalidInputError, match="does not know"):
        check_request(proposal(*cliques))


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_control_character_is_seen_in_every_entry_of_a_list(position):
    names = ["sex", "age", "work"]
    names[position] += "\x1b"
    with pytest.raises(InvalidInputError, match="control character"):
        check_request(proposal(common.Clique(attributes=names)))


def test_all_entries_of_all_lists_are_parts():
    check_request(cliques_of(MOST_PARTS))
    with pytest.raises(TooLargeError):
        check_request(cliques_of(MOST_PARTS + 1))
    with pytest.raises(TooLargeError):
        check_request(proposal(*[common.Clique(attributes=["a"])] * (MOST_PARTS // 2 + 1)))


@pytest.mark.parametrize("error", [ValueError, RecursionError])
def test_bytes_that_are_no_message_are_garbage(error):
    def decode(data):
        raise error

    assert decoder(decode)(b"") == Garbage()
    assert decoder(ProposeCardRequest.FromString)(b"\x0f") == Garbage()
    with pytest.raises(InvalidInputError, match="valid message"):
        check_request(Garbage())


def test_s71_a_request_above_its_limit_is_refused_before_it_is_decoded():
    decode = decoder(lambda data: pytest.fail("decoded"), 10)
    assert decode(b"\0" * 11) == Garbage(limit=10)
    with pytest.raises(TooLargeError, match="10 bytes"):
        check_request(decode(b"\0" * 11))
    assert decoder(ProposeCardRequest.FromString, 10)(b"") == ProposeCardRequest()


def test_s71_the_number_of_parts_is_what_a_message_weighs():
    assert check_request(cliques_of(5_000)) == 5_000
    assert check_request(ProposeCardRequest()) == 0
