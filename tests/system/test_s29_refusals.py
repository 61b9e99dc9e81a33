"""S29: what fails at the records looks alike, is counted, and goes on only when a steward has looked."""

import json

import pytest
from typer.testing import CliRunner

from gencard.controller.shell.main import app
from gencard.core.card.budget import SpendState
from gencard.core.errors import MeasurementRefusedError, NotFoundError, TooManyRefusalsError
from gencard.v1.synthesis_pb2 import GenerateReleaseRequest
from tests.system.house import build, request_id
from tests.system.raw_calls import agreed, call, configure, enrolled, eventually, is_idle
from tests.system.test_bad_records import BAD, add_dataset
from tests.system.test_s13_cancel import GENERATE, lines

MOST = 2


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A dataset with good records, and two with bad ones."""
    house = build(tmp_path_factory.mktemp("refusals"))
    configure(house, "limits", refusals=MOST)
    for name in ("undeclared", "lacking"):
        add_dataset(house, name, BAD[name])
    yield house.start()
    house.stop()


@pytest.fixture
def steward(house, monkeypatch):
    monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return call


def refused(analyst, dataset):
    """A card whose release is refused at the records."""
    card = agreed(analyst, dataset=dataset)
    with pytest.raises(MeasurementRefusedError) as caught:
        card.generate(5, progress=False)
    assert caught.value.fields == {}
    return card


def test_s29_after_so_many_refusals_a_steward_has_to_look(house, steward):
    assert "No unreviewed failures" in steward("emergency", "refusals")
    with house.analyst() as ana, house.analyst(enrolled(house, "ben")) as ben:
        card = refused(ana, "undeclared")
        with pytest.raises(MeasurementRefusedError):
            card.generate(5, progress=False)  # the same look again
        last = refused(ana, "undeclared")
        spent = ana.budget("undeclared").spent
        with pytest.raises(TooManyRefusalsError) as caught:
            last.generate(5, progress=False)
        assert caught.value.fields == {"limit": str(MOST)}
        with pytest.raises(TooManyRefusalsError):
            last.audit("honest", where="card", progress=False)
        refused(ana, "lacking")
        refused(ben, "undeclared")
        assert len(agreed(ana).generate(5, progress=False)) == 5

        waiting = json.loads(steward("emergency", "refusals", "--json"))
        mine = [row for row in waiting if row["resource"] == last.name]
        assert {row["reason"] for row in waiting} == {"MEASUREMENT_REFUSED"}
        assert [row["analyst"].rpartition("/")[2] for row in mine] == ["ana"]
        assert mine[0]["operation"] in steward("emergency", "refusals")
        steward("emergency", "refusals", "dismiss", mine[0]["operation"], "--steward", "sam")
        assert mine[0]["operation"] not in steward("emergency", "refusals")
        assert ana.budget("undeclared").spent == spent
        refused(ana, "undeclared")
    with house.controller.controller_state.database.reading() as tx:
        entries = [json.loads(entry.body) for entry in house.controller.controller_state.log.entries(tx)]
    (look,) = [entry for entry in entries if entry["action"] == "look"]
    assert (look["resource"], look["details"]["operation"]) == (last.name, mine[0]["operation"])
    with pytest.raises(NotFoundError):
        app(["emergency", "refusals", "dismiss", mine[0]["operation"]], standalone_mode=False)


def test_s29_many_at_once_are_refused_no_oftener(house):
    """Each looks again before its work begins; those at work, two at a time, may have begun before."""
    enrolled(house, "cem")
    with house.analyst("cem") as analyst:
        cards = [agreed(analyst, dataset="undeclared").name for _ in range(MOST + 4)]
    for card in cards:
        asked = GenerateReleaseRequest(card=card, rows=5, request_id=request_id())
        assert call(house.channel("cem"), GENERATE, asked).answers
    assert eventually(lambda: is_idle(house), 300)
    states = [state for card in cards for state in lines(house, card)]
    assert len(states) == len(cards)
    assert MOST <= states.count(SpendState.SETTLED) <= MOST + 1
    assert states.count(SpendState.VOIDED) == len(cards) - states.count(SpendState.SETTLED)
