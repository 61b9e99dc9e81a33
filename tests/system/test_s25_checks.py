"""S25: exact counts leave only as the policy says: each cell passes its checks, and is rounded."""

import json
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from gencard.analysis.output_checks.differencing import Rounded
from gencard.client.card import Card
from gencard.controller.jobs.descriptions import Descriptions
from gencard.core.card.budget import SpendState
from gencard.core.card.card import CardState
from gencard.core.card.privacy import USUAL_CHECKS, Transform
from gencard.core.errors import MeasurementRefusedError, VerificationError
from gencard.core.statistics.psi import Measurement, Psi, rounded, rounding_stddev
from gencard.v1 import common_pb2, negotiation_pb2
from gencard.wire.codec import message_of
from tests.system.consistency import assert_consistent, lines_of
from tests.system.house import House, build, request_id
from tests.system.raw_calls import call, configure, state_unchanged

PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"
LEVELS = {"sex": ("female", "male"), "health": ("good", "fair", "bad"), "work": ("none", "part")}
SCHEMA = 'title = "Counted"\ndescription = "d"\ndeclared_by = "tests"\nreviewed = true\n' + "".join(
    f'\n[[attributes]]\nname = "{name}"\nlabels = {json.dumps(labels)}\n'
    for name, labels in LEVELS.items()
)
ZEROS = """
[[structural_zeros]]
clique = ["sex", "health"]
cells = [["male", "bad"]]
"""
COUNTS = {("female", "good"): 17, ("female", "fair"): 33, ("female", "bad"): 12, ("male", "good"): 58}
COUNTS |= {("male", "fair"): 29, ("male", "bad"): 0}
USUAL = (
    "{ threshold = 10, freedom = 10, dominance_count = 2, dominance_percent = 90, "
    "remainder_percent = 10, rounding = 5 }"
)
RUNS = '{ kinds = ["crosstab"], checked_runs = 9 }'


def records(counts=COUNTS) -> pd.DataFrame:
    """Make records with this number of each sex and health; every second person works."""
    rows = [cell for cell, number in counts.items() for _ in range(number)]
    frame = pd.DataFrame(rows, columns=["sex", "health"])
    frame["work"] = np.resize(LEVELS["work"], len(frame))
    return frame


def housed(folder, transform: str, counts=COUNTS, schema: str = SCHEMA) -> House:
    house = build(folder, records(counts), schema)
    configure(house, "datasets.policy", transform=transform)
    return house


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = housed(tmp_path_factory.mktemp("checked"), USUAL)
    yield house.start()
    house.stop()


def agreed(analyst, *marginals: tuple[str, ...]) -> Card:
    return analyst.propose("survey", list(marginals), purpose="a test", rows=1_000).accept()


def released(analyst, *marginals: tuple[str, ...]) -> Card:
    card = agreed(analyst, *marginals)
    card.generate(rows=9, progress=False)
    return card


class TestWhatPasses:
    def test_s25_psi_is_the_rounded_counts_and_all_that_the_generator_saw(self, house):
        with house.analyst() as analyst:
            card = agreed(analyst, ("sex", "health"), ("work",))
            data = card.generate(rows=500, seed=1, progress=False)
            only, both = card.psi.measurements
            expected = rounded(np.array(list(COUNTS.values())).reshape(2, 3), 5)
            assert both.values.tolist() == expected.tolist() == [[15, 35, 10], [60, 30, 0]]
            assert only.values.tolist() == [75, 75]
            assert both.stddev == only.stddev == rounding_stddev(5)
            assert card.replay(data).rows == 500
            assert not ((data["sex"] == "male") & (data["health"] == "bad")).any()

    def test_s25_the_checks_are_on_the_signed_card(self, house):
        with house.analyst() as analyst:
            card = agreed(analyst, ("sex", "health"))
            assert card.terms.transform == USUAL_CHECKS
            assert [change.reason for change in card.changes] == ["TRANSFORM_REQUIRED"]
            statement = json.loads(card.offer.statement)["predicate"]
            assert statement["terms"]["transform"] == {
                "threshold": "10",
                "freedom": "10",
                "dominance_count": "2",
                "dominance_percent": "90",
                "remainder_percent": "10",
                "rounding": "5",
            }
            assert str(USUAL_CHECKS) in statement["whySafe"]
            assert dict(card.lines())["Measured"] == f"exact, {USUAL_CHECKS}"
            assert dict(card.lines())["Error"] == "standard deviation of 1.41 records on each count"

    def test_s25_nobody_asks_for_weaker_checks(self, house):
        with house.analyst() as analyst:
            card = agreed(analyst, ("sex", "health"))
            entry = card.entry
            terms = message_of(card.terms, common_pb2.Terms)
            terms.transform.Clear()
            terms.transform.rounding = 1
            request = negotiation_pb2.ProposeCardRequest(
                terms=terms, request_id=request_id(), validate_only=True
            )
            (answer,) = call(house.channel(), PROPOSE, request).answers
        offer = negotiation_pb2.ProposeCardResponse.FromString(answer).card.offer
        assert offer.terms.transform.threshold == 10
        assert entry.policy.transform == USUAL_CHECKS

    def test_s25_the_client_finds_a_psi_that_was_not_rounded(self, house, monkeypatch):
        """Or one that says another error than the card's."""
        with house.analyst() as analyst:
            card = released(analyst, ("work",))
            (honest,) = card.psi.measurements
            for values, stddev, says in (
                (honest.values + 1, honest.stddev, "not rounded"),
                (honest.values, 0.0, "noise"),
            ):
                psi = Psi(card.psi.domain, (Measurement(honest.clique, values, stddev),))
                monkeypatch.setitem(vars(card.agreement), "psi", psi)
                with pytest.raises(VerificationError, match=says):
                    card.replay(card.release(rows=9, progress=False))

    def test_s25_a_cell_that_cannot_occur_may_be_empty(self, tmp_path):
        house = housed(tmp_path, "{ zeros = true }", schema=SCHEMA + ZEROS).start()
        try:
            with house.analyst() as analyst:
                assert released(analyst, ("sex", "health")).state is CardState.RELEASED
        finally:
            house.stop()


FAILING = {
    "threshold": ("{ threshold = 13 }", COUNTS),
    "freedom": ("{ freedom = 144 }", COUNTS),
    "dominance": ("{ dominance_count = 11, dominance_percent = 90 }", COUNTS),
    "remainder": ("{ remainder_percent = 100 }", COUNTS | {("male", "bad"): 2}),
    "zeros": ("{ zeros = true }", COUNTS),
}
"""A check that sex by health does not pass, and work alone does."""


@pytest.mark.parametrize("check", FAILING)
def test_s25_nothing_leaves_but_one_answer_that_is_paid_for(tmp_path, check):
    house = housed(tmp_path, *FAILING[check]).start()
    try:
        with house.analyst() as analyst:
            card = agreed(analyst, ("sex", "health"))
            for _ in range(2):
                with pytest.raises(MeasurementRefusedError) as error:
                    card.generate(rows=9, progress=False)
                assert error.value.fields == {}
            ended = lines_of(house.controller.controller_state, card.name)
            assert [(line.state, line.price.statistics) for line in ended] == [
                (SpendState.SETTLED, 1)
            ] * 2
            assert analyst.budget("survey").spent.statistics == 2
            assert released(analyst, ("work",)).psi.measurements[0].values.sum() > 0
        assert_consistent(house.controller.controller_state)
    finally:
        house.stop()


def test_s25_whichever_check_fails_the_refusal_is_the_same_to_the_byte(tmp_path_factory):
    """Both for one cell and for many."""
    texts = set()
    for transform in ("{ threshold = 13 }", "{ threshold = 1_000 }", "{ freedom = 144 }"):
        house = housed(tmp_path_factory.mktemp("same"), transform).start()
        try:
            with house.analyst() as analyst, pytest.raises(MeasurementRefusedError) as error:
                agreed(analyst, ("sex", "health")).generate(rows=9, progress=False)
            texts.add((error.value.reason, str(error.value), repr(error.value.fields)))
        finally:
            house.stop()
    assert len(texts) == 1


def test_s25_exact_counts_leave_only_where_the_policy_offers_them(tmp_path):
    house = housed(tmp_path, USUAL)
    noise = '{ mechanism = "laplace", neighbouring = "add-remove", epsilon = "0.5" }'
    configure(house, "datasets.policy", mechanisms='["laplace"]', noise=noise)
    house.edit({"most_per_card": "{ epsilon = 1 }"})
    house.start()
    try:
        with house.analyst() as analyst, state_unchanged(house):
            priced = analyst.propose("survey", [("sex",)], purpose="a test", dry_run=True)
        assert priced.terms.privacy.noisy
        assert priced.terms.transform == Transform()
    finally:
        house.stop()


def test_s25_a_run_of_another_project_is_judged_beside_the_rounded_counts(tmp_path, monkeypatch):
    """A state of an earlier version may hold unrounded counts beside rounded ones."""
    house = housed(tmp_path, USUAL)
    house.enrol("bob", project="study")
    try:
        house.start()
        with house.analyst() as ana:
            released(ana, ("sex", "health"))
        house.stop()
        configure(house, "datasets.policy", transform="{}", analyses=RUNS)
        monkeypatch.setattr("gencard.controller.cards.grants.shows_a_difference", lambda *_: False)
        house.start()
        with house.analyst("bob") as bob:
            asked = {
                "purpose": "a test",
                "rows": 1_000,
                "analyses": {"kinds": ["crosstab"], "checked_runs": 9},
            }
            card = bob.propose("survey", [("work",)], **asked).accept()
            described = Descriptions.answer
            with patch.object(Descriptions, "answer", autospec=True, side_effect=described) as job:
                card.run("~ work", "crosstab", progress=False)
        before = job.call_args.kwargs["before"]
        told = (Rounded(("sex", "health"), USUAL_CHECKS),)
        assert (before.rounded, before.released) == (told, ())
    finally:
        house.stop()
