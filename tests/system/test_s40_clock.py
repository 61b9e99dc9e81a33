"""A clock that is set back revives nothing, and a clock that was ahead has a way out."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gencard.client import Analyst, Card
from gencard.controller.shell import log as log_shell
from gencard.controller.shell import terminal
from gencard.controller.shell.setup import check
from gencard.controller.state.stewards import LINK_LIFE
from gencard.controller.wiring.opening import open_controller_state
from gencard.controller.wiring.serving import serve
from gencard.core.errors import CardExpiredError, InvalidInputError, NotFoundError, UnauthenticatedError
from tests.system.house import Clock, House, build

VALID = timedelta(days=90)
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def house(tmp_path: Path, clock: Clock) -> Iterator[House]:
    house = build(tmp_path)
    house.controller = serve(house.settings(), clock)
    yield house
    house.stop()


def agreed(ana: Analyst) -> Card:
    return ana.propose("survey", [("sex", "health")], purpose="a test", rows=100).accept()


def restarted(house: House, clock: Clock) -> None:
    house.stop()
    house.controller = serve(house.settings(), clock)


def card_at_the_end_of_its_time(house: House, clock: Clock) -> str:
    """Name of an agreed card that has expired, and the log an entry after its end."""
    with house.analyst() as ana:
        name = agreed(ana).name
        clock.ahead = VALID + timedelta(hours=1)
        ana.propose("survey", [("sex", "health")], purpose="an entry after the end", rows=10)
    return name


def is_refused(card: Card) -> bool:
    with pytest.raises(CardExpiredError):
        card.generate(5, progress=False)
    return card.refresh().state == "expired"


@pytest.mark.parametrize("restart", [False, True], ids=["while it runs", "after a restart"])
@pytest.mark.parametrize("back", [timedelta(), -timedelta(days=3_650)], ids=["set right", "ten years"])
def test_s40_a_clock_set_back_revives_no_card(house, clock, restart, back):
    name = card_at_the_end_of_its_time(house, clock)
    clock.ahead = back
    if restart:
        restarted(house, clock)
    with house.analyst() as ana:
        assert is_refused(ana.card(name))


def test_s40_the_offer_and_link_of_before_stay_ended(house, clock):
    state = house.controller.controller_state
    with house.analyst() as ana:
        offered = ana.propose("survey", [("sex", "health")], purpose="a", rows=10)
        link = state.passkeys.new_link("people/sam", state.settings.identity.uri)
        clock.ahead = max(VALID, LINK_LIFE) + timedelta(hours=1)
        ana.propose("survey", [("sex", "health")], purpose="an entry after the end", rows=10)
        clock.ahead = timedelta()
        with pytest.raises((CardExpiredError, NotFoundError)):  # old offers may be deleted by now
            offered.accept()
    with pytest.raises(UnauthenticatedError):
        state.passkeys.holder_of_link(link)


def test_s40_serve_check_and_doctor_name_the_entry(house, clock, capsys):
    assert house.controller.ahead is None
    card_at_the_end_of_its_time(house, clock)
    clock.ahead = timedelta()
    restarted(house, clock)
    ahead = house.controller.ahead
    assert ahead is not None
    text = terminal.ahead_text(ahead, clock())
    assert f"log entry {ahead.index}" in text
    assert "90 days ahead" in text
    check(config=house.settings_file)
    said = " ".join(capsys.readouterr().out.split())
    assert "The clock is behind: log entry" in said
    assert "log correct-clock" in said


def test_s40_after_the_correction_the_clock_counts_again(house, clock, capsys):
    """Everything has expired by a clock that was ten years ahead; the owner of the files corrects it."""
    with house.analyst() as ana:
        card = agreed(ana)
        clock.ahead = timedelta(days=3_650)
        late = ana.propose("survey", [("sex", "health")], purpose="offered by the wrong clock", rows=10)
        clock.ahead = timedelta()
        assert is_refused(card)
        log_shell.correct_clock("the clock was ahead", config=house.settings_file)
        assert late.name in capsys.readouterr().out, "it would last for ten years"
        restarted(house, clock)
        assert house.controller.ahead is None
    with house.analyst() as ana:
        ana.card(card.name).generate(5, progress=False)
    with pytest.raises(InvalidInputError):
        log_shell.correct_clock("again", config=house.settings_file)
    log_shell.verify(config=house.settings_file)


def test_s40_certificates_are_issued_by_the_clock_of_the_machine(house, clock):
    """With the time of an entry ahead they would not be valid yet."""
    clock.ahead = VALID
    with house.analyst() as ana:
        agreed(ana)
    clock.ahead = timedelta()
    state = open_controller_state(house.settings())
    try:
        assert state.cards.clock() > datetime.now(UTC) + VALID - 60 * SECOND  # a slow machine
        assert abs(state.machine() - datetime.now(UTC)) < timedelta(minutes=1)
        assert state.desk().effects.people.clock is state.machine
    finally:
        state.database.close()
