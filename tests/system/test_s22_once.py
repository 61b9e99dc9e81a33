"""S21, S22, S24: one request one effect, one card one change at a time, one cap for everybody."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import pytest

from gencard.core.errors import CardStateError, StaleEtagError
from gencard.v1 import audit_pb2, negotiation_pb2, synthesis_pb2
from gencard.v1 import common_pb2 as common
from gencard.wire.dsse import signature_of
from tests.system.house import build, request_id
from tests.system.raw_calls import TABLES, agreed, call, enrolled, state_unchanged
from tests.system.stewards import Steward

PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"
COUNTER = "/gencard.v1.NegotiationService/CounterCard"
ACCEPT = "/gencard.v1.NegotiationService/AcceptCard"
TERMINATE = "/gencard.v1.NegotiationService/TerminateCard"
GENERATE = "/gencard.v1.SynthesisService/GenerateRelease"
AUDIT = "/gencard.v1.AuditService/RunAudit"
TERMS = common.Terms(
    dataset="datasets/survey",
    purpose="to see",
    marginals=[common.Clique(attributes=["sex", "health"])],
    privacy=common.Privacy(mechanism=common.Privacy.MECHANISM_EXACT),
    generator="ipf",
    rows=100,
)


def requests(analyst):
    """One good request for each mutating method, each about a card of its own."""
    offered = [analyst.propose("survey", [("sex",)], purpose="a test") for _ in range(3)]
    force = [agreed(analyst).name for _ in range(2)]
    key = analyst._connection.credentials.private_signing_key()
    names = [
        {"name": card.name, "etag": card.negotiation.etag, "request_id": request_id()}
        for card in offered
    ]
    signature = signature_of(offered[1].offer.statement, key)
    return {
        PROPOSE: negotiation_pb2.ProposeCardRequest(terms=TERMS, request_id=request_id()),
        COUNTER: negotiation_pb2.CounterCardRequest(terms=TERMS, **names[0]),
        ACCEPT: negotiation_pb2.AcceptCardRequest(signature=signature, **names[1]),
        TERMINATE: negotiation_pb2.TerminateCardRequest(**names[2]),
        GENERATE: synthesis_pb2.GenerateReleaseRequest(card=force[0], rows=9, request_id=request_id()),
        AUDIT: audit_pb2.RunAuditRequest(card=force[1], request_id=request_id()),
    }


@pytest.fixture(scope="module")
def mutating(house):
    with house.analyst() as analyst:
        return requests(analyst)


METHODS = (PROPOSE, COUNTER, ACCEPT, TERMINATE, GENERATE, AUDIT)
COUNTED = ("cards", "lines", "operations", "audits", "answers")


def counts(house):
    """Rows of every table that a request could fill."""
    with house.controller.controller_state.database.reading() as tx:
        return {
            table: tx.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one() for table in COUNTED
        }


class TestS22Once:
    @pytest.mark.parametrize("path", METHODS)
    def test_s22_a_hundred_repeats_have_one_effect_and_one_answer(self, house, mutating, path):
        channel = house.channel()
        first = call(channel, path, mutating[path])
        before = counts(house)
        repeats = [call(channel, path, mutating[path]) for _ in range(99)]
        assert first.code is grpc.StatusCode.OK
        assert set(repeats) == {first}
        assert counts(house) == before

    @pytest.mark.parametrize("path", METHODS)
    def test_s22_the_same_id_with_another_body_is_refused(self, house, mutating, path):
        call(house.channel(), path, mutating[path])
        other = type(mutating[path])()
        other.CopyFrom(mutating[path])
        for field, value in {"rows": 10, "seed": 1, "etag": "x", "signature": b"x"}.items():
            if hasattr(other, field):
                setattr(other, field, value)
        if path == PROPOSE:
            other.terms.rows = 11
        with state_unchanged(house):
            ending = call(house.channel(), path, other)
        assert (ending.code, ending.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")

    def test_s22_the_same_id_for_another_method_is_refused(self, house, mutating):
        call(house.channel(), PROPOSE, mutating[PROPOSE])
        other = synthesis_pb2.GenerateReleaseRequest(
            card=mutating[GENERATE].card, rows=1, request_id=mutating[PROPOSE].request_id
        )
        assert call(house.channel(), GENERATE, other).reason == "REQUEST_ID_REUSED"

    @pytest.mark.parametrize(
        "identifier",
        ["", "1", "00000000-0000-0000-0000-000000000000", "6fa459ea-ee8a-11e9-81b4-2a2ae2dbcce4"],
    )
    @pytest.mark.parametrize("path", METHODS)
    def test_s22_an_id_that_is_not_random_is_refused(self, house, mutating, path, identifier):
        other = type(mutating[path])()
        other.CopyFrom(mutating[path])
        other.request_id = identifier
        with state_unchanged(house, ("cards", "lines", "audits", "answers")):
            ending = call(house.channel(), path, other)
        assert (ending.code, ending.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")

    def test_s22_equal_requests_at_one_moment_have_one_effect(self, house):
        asked = negotiation_pb2.ProposeCardRequest(terms=TERMS, request_id=request_id())
        channels = [house.channel() for _ in range(6)]
        before = counts(house)["cards"]
        with ThreadPoolExecutor(6) as pool:
            endings = list(pool.map(lambda channel: call(channel, PROPOSE, asked), channels))
        assert {ending.code for ending in endings} == {grpc.StatusCode.OK}
        assert len({ending.answers for ending in endings}) == 1
        assert counts(house)["cards"] == before + 1

    @pytest.mark.parametrize("path", [PROPOSE, COUNTER])
    def test_s22_a_repeat_is_answered_as_before_whatever_the_policy_says_now(
        self, house, mutating, monkeypatch, path
    ):
        first = call(house.channel(), path, mutating[path])
        dataset_entry = house.controller.controller_state.cards.catalogue.named(TERMS.dataset)
        stricter = replace(dataset_entry, policy=replace(dataset_entry.policy, mechanisms=()))
        monkeypatch.setitem(
            house.controller.controller_state.cards.catalogue._by_name, TERMS.dataset, stricter
        )
        with state_unchanged(house, (*TABLES, "events")):
            assert call(house.channel(), path, mutating[path]) == first

    def test_s22_ids_of_two_people_never_meet(self, house):
        asked = negotiation_pb2.ProposeCardRequest(terms=TERMS, request_id=request_id())
        people = [house.channel(name) for name in ("ana", enrolled(house, "bob"))]
        mine, theirs = (call(channel, PROPOSE, asked).answers[0] for channel in people)
        assert mine != theirs


class TestS24Etags:
    def test_s24_of_many_moves_at_one_moment_one_is_made(self, house):
        with house.analyst() as analyst:
            card = analyst.propose("survey", [("sex",)], purpose="a test")
        moves = [
            negotiation_pb2.TerminateCardRequest(
                name=card.name, etag=card.negotiation.etag, request_id=request_id()
            )
            for _ in range(6)
        ]
        with ThreadPoolExecutor(6) as pool:
            endings = list(pool.map(lambda move: call(house.channel(), TERMINATE, move), moves))
        assert Counter(ending.code for ending in endings) == {
            grpc.StatusCode.OK: 1,
            grpc.StatusCode.ABORTED: 5,
        }

    @pytest.mark.parametrize("etag", ["", "0", "stale"])
    def test_s24_no_etag_is_a_stale_etag(self, house, etag):
        with house.analyst() as analyst:
            card = analyst.propose("survey", [("sex",)], purpose="a test")
        move = negotiation_pb2.TerminateCardRequest(name=card.name, etag=etag, request_id=request_id())
        with state_unchanged(house):
            ending = call(house.channel(), TERMINATE, move)
        assert (ending.code, ending.reason) == (grpc.StatusCode.ABORTED, "STALE_ETAG")

    def test_s24_of_two_stewards_one_approves(self, careful_house):
        with careful_house.analyst() as analyst:
            card = analyst.propose("survey", [("sex",)], purpose="a test")
        controller_state = careful_house.controller.controller_state

        def approve(name):
            try:
                Steward(controller_state, f"spiffe://gencard.local/service/steward/{name}").approve(
                    card.name
                )
            except (StaleEtagError, CardStateError) as error:
                return error.reason
            return "approved"

        with ThreadPoolExecutor(2) as pool:
            late, done = sorted(pool.map(approve, ("sam", "sue")))
        assert (late in {"CARD_STATE", "STALE_ETAG"}, done) == (True, "approved")


@pytest.fixture(scope="module")
def careful_house(tmp_path_factory):
    """A steward looks first, and the whole dataset has room for three cards of pairs."""
    house = build(tmp_path_factory.mktemp("careful"))
    house.edit({"automatic": "false", "dataset": "{ statistics = 24 }"})
    yield house.start()
    house.stop()


class TestS21Caps:
    def test_s21_two_analysts_together_cannot_exceed_the_cap_of_the_dataset(self, careful_house):
        steward = Steward(careful_house.controller.controller_state)
        asked = []
        for person in ("ana", enrolled(careful_house, "bob", project="other")):
            with careful_house.analyst(person) as analyst:
                for other in ("health", "age"):  # held statistics are free: each card has its own
                    card = analyst.propose("survey", [("sex", other)], purpose="a test", rows=10)
                    steward.approve(card.name)
                    card = card.refresh().accept()
                    assert card.price.statistics == 8
                    asked.append((person, card.name))

        def generate(ask):
            person, card = ask
            wanted = synthesis_pb2.GenerateReleaseRequest(card=card, rows=1, request_id=request_id())
            return call(careful_house.channel(person), GENERATE, wanted)

        with ThreadPoolExecutor(4) as pool:
            endings = list(pool.map(generate, asked))
        assert Counter(ending.reason for ending in endings) == {"": 3, "BUDGET_EXCEEDED": 1}
        refusal = next(ending for ending in endings if ending.reason)
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refusal.text == "The price exceeds the remaining budget of the dataset."
        with state_unchanged(careful_house, ("balances", "lines")):
            assert generate(asked[0]).reason in ("", "BUDGET_EXCEEDED")
