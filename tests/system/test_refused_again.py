"""After a refused measurement: a call again says so and negotiates a new card, on today's rules."""

import pytest

from gencard.core.errors import MeasurementRefusedError, ProposalRefusedError
from tests.system.house import build
from tests.system.raw_calls import configure
from tests.system.test_exact_sums import SCHEMA, survey
from tests.system.test_s25_checks import housed

SUMS = {"formula": "pay ~ sex", "kind": "linear", "rows": 9, "accept": True}
COUNTS = {"formula": "health ~ sex", "kind": "multinomial", "rows": 9, "accept": True}


@pytest.fixture
def relaxed():
    """Change the policy of a house that serves."""
    houses = []

    def change(house, **policy):
        houses.append(house)
        configure(house, "datasets.policy", **policy)
        house.controller.reload(house.settings())

    yield change
    houses[-1].stop()


def test_a_new_card_is_negotiated_and_the_refused_one_is_named(tmp_path, relaxed, capsys):
    house = build(tmp_path, survey(), SCHEMA)
    house.offer_private('["ipf"]')
    configure(house, "datasets.policy", sums='"exact"', histograms='"exact"')
    with house.start().analyst() as analyst:
        with pytest.raises(MeasurementRefusedError, match="gencard terminate datasets/survey/cards/"):
            analyst.synthesize("survey", **SUMS)
        (refused,) = analyst.cards()
        assert refused.is_refused
        capsys.readouterr()
        relaxed(house, analyses='{ influence = "off" }')
        release = analyst.synthesize("survey", **SUMS)
        text = capsys.readouterr().err
        assert f"The measurement of card {refused.name} was refused, so a new card is negotiated" in text
        assert "is used again" not in text
        assert release.card != refused.name
        assert analyst.synthesize("survey", **SUMS).card == release.card
        assert not analyst.card(release.card).is_refused


def test_a_refused_card_of_other_rounding_is_given_up_by_the_command_that_is_named(tmp_path, relaxed):
    house = housed(tmp_path, "{ threshold = 13, rounding = 5 }").start()
    with house.analyst() as analyst:
        with pytest.raises(MeasurementRefusedError):
            analyst.synthesize("survey", **COUNTS)
        (refused,) = analyst.cards()
        relaxed(house, transform="{}")
        with pytest.raises(ProposalRefusedError, match=f"gencard terminate {refused.name}"):
            analyst.synthesize("survey", **COUNTS)
        refused.terminate()
        assert len(analyst.synthesize("survey", **COUNTS).dataset) == 9
