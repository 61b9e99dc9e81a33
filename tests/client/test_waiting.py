"""Waiting for a card: the goals, the end of the time, interruptions, and what is shown meanwhile."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from gencard.client import card_view as waiting
from gencard.core import errors
from gencard.core.card.card import CardState, Step
from tests.client.fake_world import HOST

HOSTILE = "steward\x1b[31m<b>"


@pytest.fixture
def card(ana, world, monkeypatch):
    monkeypatch.setattr(waiting, "_SHORTEST", 0.01)
    world.manual = True
    return ana.propose("survey", [("sex",)], purpose="?")


def becomes(world, card, *states, **others):
    """A progress function that moves the card on at each look."""
    left = list(states)

    def look(_stage, _share):
        if left:
            world.cards[card.name] = replace(world.cards[card.name], state=left.pop(0), **others)

    return look


class TestGoals:
    def test_agreed_goes_on_past_the_signature(self, card, world):
        look = becomes(world, card, CardState.ACCEPTED, CardState.AGREED)
        assert card.wait(for_="agreed", progress=look).state is CardState.AGREED

    def test_audited_waits_for_the_audit(self, card, world):
        look = becomes(world, card, CardState.AGREED, CardState.AUDITING, CardState.AUDITED)
        assert card.wait(for_="audited", progress=look).state is CardState.AUDITED

    def test_an_offer_has_to_be_answered_first(self, card, world):
        world.cards[card.name] = world.offered(world.cards[card.name])
        with pytest.raises(errors.WrongTurnError, match=r"accept\(\)"):
            card.wait(for_="agreed")

    @pytest.mark.parametrize("state", [CardState.TERMINATED, CardState.REVOKED, CardState.EXPIRED])
    def test_a_card_that_has_ended_is_not_waited_for(self, card, world, state):
        look = becomes(world, card, state)
        with pytest.raises(errors.CardStateError, match=f"state {state}"):
            card.wait(for_="agreed", progress=look)

    def test_a_card_without_an_audit_is_not_waited_for(self, offered):
        agreed = offered.accept()
        with pytest.raises(errors.InvalidInputError, match="needs no audit"):
            agreed.wait(for_="audited")

    @pytest.mark.parametrize("wrong", [{"for_": "heaven"}, {"timeout": -1}, {"timeout": "long"}])
    def test_wrong_arguments(self, card, wrong):
        with pytest.raises(errors.InvalidInputError):
            card.wait(**wrong)


class TestTime:
    def test_the_end_of_the_time_says_whom_it_waits_for_and_what_to_do(self, card):
        with pytest.raises(errors.AwaitingStewardError) as caught:
            card.wait(timeout=0.05, progress=False)
        assert "is waiting for the controller's steward" in caught.value.message
        assert "card.terminate()" in str(caught.value)
        assert "gencard terminate CARD" in caught.value.advice

    def test_no_time_is_one_look(self, card, world):
        calls = world.faults.calls["GetCard"]
        with pytest.raises(errors.AwaitingStewardError):
            card.wait(0)
        assert world.faults.calls["GetCard"] == calls + 1

    def test_a_service_that_restarts_is_tried_again(self, card, world):
        def look(_stage, _share):
            world.faults.fail["GetCard"] = [errors.ServiceUnavailableError()] * 2
            world.cards[card.name] = world.offered(world.cards[card.name])

        assert card.wait(progress=look).state is CardState.OFFERED

    def test_an_interruption_leaves_the_card_and_says_so(self, card, world):
        def stop(_stage, _share):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as stopped:
            card.wait(progress=stop)
        assert f"card {card.name} stays as it is" in stopped.value.__notes__[0]
        assert world.cards[card.name].state is CardState.REQUESTED


class TestShown:
    @pytest.fixture
    def old(self, card, world):
        step = Step(HOST, "propose", HOSTILE, datetime.now(UTC) - timedelta(hours=3, minutes=5))
        world.cards[card.name] = replace(world.cards[card.name], history=(step,))
        return card.refresh()

    def test_whom_it_waits_for_and_since_when(self, old):
        lines = dict(old.lines())
        assert lines["Waits for"].startswith("the controller's steward, since 20")
        assert waiting.waiting_line(old).startswith(
            "Waiting for the controller's steward, 3 h 5 min so far."
        )

    def test_a_priced_card_waits_for_nobody(self, ana):
        priced = ana.propose("survey", [("sex",)], purpose="?", dry_run=True)
        assert (priced.waits_for, "Waits for" in dict(priced.lines())) == ("", False)

    def test_a_notebook_shows_the_card_until_the_wait_ends(self, old, world, monkeypatch):
        pages = []

        def update(page):
            pages.append(page)
            world.cards[old.name] = world.offered(world.cards[old.name])

        module = SimpleNamespace(
            HTML=str, display=lambda page, display_id: SimpleNamespace(update=update)
        )
        monkeypatch.setitem(sys.modules, "IPython.display", module)
        monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
        assert old.wait().state is CardState.OFFERED
        assert "<progress" in pages[0]
        assert "3 h 5 min so far" in pages[0]
        assert old.name in pages[0]
        assert pages[-1] == ""

    def test_what_changed_is_marked_by_more_than_colour(self, offered):
        page = offered._repr_html_()
        assert "<del" in page
        assert "left out" in page
