"""Wordings of noise, good and bad: to the library, in the shell, on the wire."""

import json
from decimal import Decimal

import grpc
import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.card.privacy import EXACT, gaussian, laplace
from gencard.core.errors import InvalidInputError, InvalidNumberError, ProposalRefusedError
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2
from tests.system.house import request_id
from tests.system.noisy import PAIRS, RELATION, noisy, propose
from tests.system.raw_calls import call, state_unchanged

PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with noisy(tmp_path_factory.mktemp("noisy")) as started:
        yield started


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst() as analyst:
        yield analyst


BAD = {
    "epsilon NaN": ({"epsilon": float("nan"), "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon 0": ({"epsilon": 0, "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon below 0": ({"epsilon": -1, "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon infinite": ({"epsilon": "inf", "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon in words": ({"epsilon": "much", "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "rho too fine": ({"rho": "1e-10", "neighbouring": RELATION}, InvalidNumberError, "rho"),
    "delta 1": ({"rho": 1, "delta": 1, "neighbouring": RELATION}, InvalidNumberError, "delta"),
    "no relation": ({"epsilon": 1}, InvalidInputError, "add-remove or replace-one"),
    "an unknown relation": ({"rho": 1, "neighbouring": "next"}, InvalidInputError, "add-remove or"),
    "a relation without noise": ({"neighbouring": RELATION}, InvalidInputError, "required with noise"),
    "a delta without rho": (
        {"epsilon": 1, "delta": "1e-6", "neighbouring": RELATION},
        InvalidInputError,
        "allowed for gaussian",
    ),
    "epsilon and rho": ({"epsilon": 1, "rho": 1}, InvalidInputError, "cannot be combined with rho"),
    "privacy and epsilon": ({"privacy": EXACT, "epsilon": 1}, InvalidInputError, "cannot be combined"),
    "a misspelt word": ({"epsilom": 1}, InvalidInputError, "epsilom"),
    "weights without noise": (
        {"weights": {("sex", "work"): 2}},
        InvalidInputError,
        "allowed only with noise",
    ),
    "a weight of nothing": (
        {"epsilon": 1, "neighbouring": RELATION, "weights": {("sex", "age"): 2}},
        InvalidInputError,
        "not requested",
    ),
    "a weight of 0": (
        {"epsilon": 1, "neighbouring": RELATION, "weights": {("sex", "work"): 0}},
        InvalidNumberError,
        "from 1 to",
    ),
    "a weight with a fraction": (
        {"epsilon": 1, "neighbouring": RELATION, "weights": {("sex", "work"): 1.5}},
        InvalidNumberError,
        "whole numbers",
    ),
}


def raw(**changes: object) -> common.Terms:
    """Terms with noise, as no client of ours would send them."""
    privacy = {"mechanism": 2, "neighbouring": 2, "epsilon": "1"} | changes.pop("privacy", {})
    cliques = [common.Clique(attributes=clique) for clique in PAIRS]
    usual = {"dataset": "datasets/survey", "purpose": "to see", "generator": "ipf", "rows": 9}
    return common.Terms(**usual | changes, marginals=cliques, privacy=common.Privacy(**privacy))


RAW = {
    "epsilon NaN": (raw(privacy={"epsilon": "NaN"}), "INVALID_NUMBER"),
    "epsilon 0": (raw(privacy={"epsilon": "0"}), "INVALID_NUMBER"),
    "rho NaN": (raw(privacy={"mechanism": 3, "epsilon": "", "rho": "NaN"}), "INVALID_NUMBER"),
    "rho for Laplace": (raw(privacy={"rho": "1"}), "INVALID_INPUT"),
    "delta for Laplace": (raw(privacy={"delta": "0.1"}), "INVALID_INPUT"),
    "delta 2": (
        raw(privacy={"mechanism": 3, "epsilon": "", "rho": "1", "delta": "2"}),
        "INVALID_NUMBER",
    ),
    "no relation": (raw(privacy={"neighbouring": 0}), "INVALID_INPUT"),
    "an unknown relation": (raw(privacy={"neighbouring": 77}), "INVALID_INPUT"),
    "an unknown mechanism": (raw(privacy={"mechanism": 77}), "INVALID_INPUT"),
    "too few weights": (raw(weights=[1, 2]), "INVALID_INPUT"),
    "a weight of 0": (raw(weights=[1, 0, 2]), "INVALID_NUMBER"),
    "a weight too large": (raw(weights=[1, 2**32 - 1, 2]), "INVALID_NUMBER"),
    "checks of noisy counts": (raw(transform=common.Transform(threshold=3)), "INVALID_INPUT"),
    "rounding out of range": (raw(transform=common.Transform(rounding=2**32 - 1)), "INVALID_NUMBER"),
}


class TestErrors:
    @pytest.mark.parametrize("name", RAW)
    def test_the_service_refuses_what_the_client_would_not_send(self, house, name):
        terms, reason = RAW[name]
        request = negotiation_pb2.ProposeCardRequest(terms=terms, request_id=request_id())
        with state_unchanged(house):
            ending = call(house.channel(), PROPOSE, request)
        assert (ending.code, ending.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)

    @pytest.mark.parametrize("name", BAD)
    def test_bad_budgets_have_their_typed_errors_and_spend_nothing(self, house, ana, name):
        measured, kind, says = BAD[name]
        with state_unchanged(house), pytest.raises(kind, match=says) as error:
            propose(ana, **measured)
        assert type(error.value) is kind

    def test_what_the_policy_does_not_offer_becomes_the_noise_that_it_does(self, tmp_path):
        with noisy(tmp_path, mechanisms='["exact", "gaussian"]') as house, house.analyst() as analyst:
            card = propose(analyst, epsilon=1, neighbouring=RELATION)
            assert card.terms.privacy == gaussian("0.01", neighbouring=RELATION)
            assert [change.reason for change in card.changes] == ["MECHANISM_NOT_OFFERED"]

    def test_a_budget_that_no_card_may_have_is_refused(self, tmp_path):
        refused = pytest.raises(ProposalRefusedError, match="PRICE_TOO_HIGH")
        with noisy(tmp_path, largest="{ rho = 0.2 }") as house, house.analyst() as analyst, refused:
            propose(analyst, epsilon=1, neighbouring=RELATION)


class TestCounterOffers:
    def test_words_change_what_they_say_and_leave_the_rest(self, ana):
        card = propose(ana, epsilon=1, neighbouring=RELATION, weights={("sex", "work"): 4})
        card.counter(epsilon="0.25", neighbouring=RELATION)
        assert card.terms.privacy == laplace("0.25", neighbouring=RELATION)
        assert card.terms.weights == (1, 4, 1)
        card.counter(marginals=[("sex",)])
        assert (card.terms.weights, card.price) == ((), Price(epsilon=Decimal("0.25")))
        card.counter(rho="0.01", neighbouring=RELATION)
        assert card.terms.privacy == gaussian("0.01", neighbouring=RELATION)
        card.counter(privacy=EXACT)
        assert card.terms.privacy == EXACT
        assert card.state is CardState.OFFERED


class TestShell:
    @pytest.fixture(autouse=True)
    def at_the_terminal(self, house, monkeypatch):
        monkeypatch.setenv("GENCARD_CONNECTION", str(house.person("ana")))
        (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')

    def run(self, *words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result.output

    def test_propose_price_and_plan_take_noise(self):
        noise = ("--epsilon", "0.5", "--neighbouring", RELATION, "--json")
        marginals = ("--marginals-of-order", "2", "--attributes", "sex,health,work")
        weight = ("--weight", "work,sex=3", "--purpose", "a test")
        card = json.loads(self.run("propose", "survey", *marginals, *noise, *weight))
        assert card["terms"]["privacy"] == {
            "mechanism": "laplace",
            "epsilon": "0.5",
            "neighbouring": RELATION,
        }
        assert card["terms"]["weights"] == ["1", "3", "1"]
        for words in (("price", "survey", *marginals), ("plan", "survey", "health ~ sex")):
            found = json.loads(self.run(*words, *noise))
            assert found["price"] == {"statistics": "0", "epsilon": "0.5", "rho": "0"}
        countered = json.loads(
            self.run("counter", card["name"], "--rho", "0.1", "--neighbouring", RELATION, "--json")
        )
        assert countered["price"] == {"statistics": "0", "epsilon": "0", "rho": "0.1"}

    def test_a_noisy_release_is_verified_and_replayed_offline(self, ana, tmp_path):
        card = propose(ana, rho="0.001", neighbouring=RELATION, weights={("sex", "work"): 2}).accept()
        release = tmp_path / "release"
        self.run("generate", card.name, "--rows", "300", "--seed", "4", "-o", str(release))
        assert "Every byte agrees" in self.run("replay", str(release))
        self.run("verify", str(release))
        psi = json.loads((release / "psi.json").read_text())
        assert len({entry["stddev"] for entry in psi["measurements"]}) == 2
        shown = (release / "psi.json").read_text()
        (release / "psi.json").write_text(shown.replace(psi["measurements"][0]["stddev"], "0.5"))
        assert "VERIFICATION" in self.run("replay", str(release), code=1)

    def test_the_budget_shows_each_currency(self, ana):
        propose(ana, [("region",)], epsilon="0.001", neighbouring=RELATION).accept().generate(
            rows=9, progress=False
        )
        shown = self.run("budget", "survey")
        assert "epsilon (Laplace)" in shown
        assert "of 5" in shown
        told = json.loads(self.run("budget", "survey", "--json"))
        assert told["cap"] == {"statistics": "1000", "epsilon": "5", "rho": "0.5"}
        assert Decimal(told["together"]["epsilon"]) > 0
        assert told["together"]["delta"] == "0.000001"

    def test_the_catalogue_says_what_is_offered(self):
        policy = json.loads(self.run("datasets", "survey", "--json"))["policy"]
        assert policy["mechanisms"] == ["exact", "laplace", "gaussian"]
        assert policy["noise"] == {"mechanism": "gaussian", "neighbouring": RELATION, "rho": "0.01"}
        assert policy["transform"] == {}

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--epsilon", "NaN", "--neighbouring", RELATION), "INVALID_NUMBER"),
            (("--epsilon", "0", "--neighbouring", RELATION), "INVALID_NUMBER"),
            (("--rho", "1", "--neighbouring", "neighbour"), "add-remove or replace-one"),
            (("--rho", "1"), "add-remove or replace-one"),
            (("--rho", "1", "--neighbouring", RELATION, "--weight", "sex"), "sex,health=3"),
            (("--rho", "1", "--neighbouring", RELATION, "--weight", "sex=-1"), "sex,health=3"),
        ],
    )
    def test_mistakes_end_in_one_line_and_what_to_do(self, words, says):
        asked = ("propose", "survey", "--marginal", "sex", "--purpose", "a test")
        assert says in self.run(*asked, *words, code=1)
