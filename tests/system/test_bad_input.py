"""The table of bad requests: each has its typed error, and nothing is changed by it.

What never becomes a request is in test_s01 (certificates, plaintext), test_s08 (garbage) and test_s09
(size); too much in test_s10; request_id and etag in test_s22; records and disks in test_bad_records.
"""

from datetime import timedelta
from types import SimpleNamespace

import grpc
import pytest

from gencard.controller.wiring.serving import serve
from gencard.core.errors import CardExpiredError
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2, synthesis_pb2
from tests.system.house import Clock, build, request_id
from tests.system.raw_calls import call, state_unchanged
from tests.system.stewards import Steward

PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"
COUNTER = "/gencard.v1.NegotiationService/CounterCard"
ACCEPT = "/gencard.v1.NegotiationService/AcceptCard"
GENERATE = "/gencard.v1.SynthesisService/GenerateRelease"
INVALID = grpc.StatusCode.INVALID_ARGUMENT
MISSING = grpc.StatusCode.NOT_FOUND


@pytest.fixture(scope="module")
def clock():
    return Clock()


@pytest.fixture(scope="module")
def careful_house(tmp_path_factory, clock):
    """House whose clock can be set, and whose steward looks at each proposal first."""
    house = build(tmp_path_factory.mktemp("careful"))
    house.edit({"automatic": "false"})
    house.controller = serve(house.settings(), clock)
    yield house
    house.stop()


@pytest.fixture(scope="module")
def cards(careful_house):
    """Ana's: one that waits for the steward, one that was offered, one in force."""
    steward = Steward(careful_house.controller.controller_state)
    with careful_house.analyst() as analyst:
        waiting, offered, force = (
            analyst.propose("survey", [("sex",)], purpose="a test") for _ in range(3)
        )
        for card in (offered, force):
            steward.approve(card.name)
        yield SimpleNamespace(waiting=waiting, offered=offered.refresh(), force=force.refresh().accept())


def terms(*marginals, **changes):
    """Good terms, but for the changes."""
    usual = {
        "dataset": "datasets/survey",
        "purpose": "to see",
        "privacy": common.Privacy(mechanism=common.Privacy.MECHANISM_EXACT),
        "generator": "ipf",
        "rows": 10,
    }
    cliques = [common.Clique(attributes=names) for names in marginals or (("sex", "health"),)]
    return common.Terms(marginals=cliques, **(usual | changes))


def noisy(**budget):
    return terms(
        privacy=common.Privacy(
            mechanism=common.Privacy.MECHANISM_LAPLACE,
            neighbouring=common.Privacy.NEIGHBOURING_ADD_REMOVE,
            **budget,
        )
    )


NO_AMOUNTS = ("NaN", "sNaN", "Infinity", "-1", "0", "1e-10", "1e7", "one", "0x1", "1" * 40)
TERMS = {
    "an unknown attribute": (terms(("sex", "income")), INVALID, "UNKNOWN_ATTRIBUTE"),
    "an attribute named twice": (terms(("sex", "sex")), INVALID, "INVALID_CLIQUE"),
    "a clique named twice": (terms(("sex", "work"), ("work", "sex")), INVALID, "INVALID_CLIQUE"),
    "an empty clique": (terms(()), INVALID, "INVALID_CLIQUE"),
    "no purpose": (terms(purpose=" "), INVALID, "INVALID_INPUT"),
    "no rows": (terms(rows=0), INVALID, "INVALID_NUMBER"),
    "no privacy": (terms(privacy=None), INVALID, "INVALID_INPUT"),
    "an unknown dataset": (terms(dataset="datasets/other"), MISSING, "NOT_FOUND"),
    "an unknown generator": (terms(generator="nobody"), MISSING, "NOT_FOUND"),
    "two budgets": (noisy(epsilon="1", rho="1"), INVALID, "INVALID_INPUT"),
    "alpha NaN": (
        terms(audit=common.AuditTerms(runs=10, order=2, alpha="NaN")),
        INVALID,
        "INVALID_NUMBER",
    ),
    **{f"epsilon {text}": (noisy(epsilon=text), INVALID, "INVALID_NUMBER") for text in NO_AMOUNTS},
}


@pytest.mark.parametrize("line", TERMS)
def test_bad_terms(careful_house, cards, line):
    asked, code, reason = TERMS[line]
    request = negotiation_pb2.ProposeCardRequest(terms=asked, request_id=request_id())
    with state_unchanged(careful_house):
        ending = call(careful_house.channel(), PROPOSE, request)
    assert (ending.code, ending.reason) == (code, reason)


def test_good_terms(careful_house, cards):
    """Without which all of the above would prove little."""
    request = negotiation_pb2.ProposeCardRequest(terms=terms(), request_id=request_id())
    assert call(careful_house.channel(), PROPOSE, request).code is grpc.StatusCode.OK


def test_the_wrong_role(careful_house, cards):
    request = negotiation_pb2.ProposeCardRequest(terms=terms(), request_id=request_id())
    with state_unchanged(careful_house):
        ending = call(careful_house.channel("aud"), PROPOSE, request)
    assert (ending.code, ending.reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")


COUNTERED = negotiation_pb2.CounterCardRequest(terms=terms())
ELSEWHERE = negotiation_pb2.CounterCardRequest(terms=terms(dataset="datasets/other"))
UNSIGNED = negotiation_pb2.AcceptCardRequest(signature=b"x" * 64)
MOVES = {
    "the wrong turn": ("waiting", COUNTER, COUNTERED, "WRONG_TURN"),
    "too late": ("force", COUNTER, COUNTERED, "CARD_STATE"),
    "to another dataset": ("offered", COUNTER, ELSEWHERE, "INVALID_INPUT"),
    "a signature of nobody's": ("offered", ACCEPT, UNSIGNED, "VERIFICATION"),
}


@pytest.mark.parametrize("line", MOVES)
def test_a_bad_move(careful_house, cards, line):
    of, path, move, reason = MOVES[line]
    card = getattr(cards, of)
    own = type(move)(name=card.name, etag=card.negotiation.etag, request_id=request_id())
    own.MergeFrom(move)
    with state_unchanged(careful_house):
        assert call(careful_house.channel(), path, own).reason == reason


def test_a_release_of_a_card_that_is_not_in_force(careful_house, cards):
    request = synthesis_pb2.GenerateReleaseRequest(
        card=cards.offered.name, rows=1, request_id=request_id()
    )
    with state_unchanged(careful_house):
        assert call(careful_house.channel(), GENERATE, request).reason == "CARD_STATE"


def test_an_expired_card(careful_house, cards, clock, monkeypatch):
    monkeypatch.setattr(clock, "ahead", timedelta(days=90, seconds=1))
    for attempt in (cards.offered.accept, lambda: cards.force.generate(5, progress=False)):
        with state_unchanged(careful_house), pytest.raises(CardExpiredError):
            attempt()
