"""Proposals that nobody agreed to leave the state after some days, and the log says so."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from gencard.controller.backup import check_state
from gencard.controller.cards.negotiations import Retention
from gencard.controller.state import tables
from gencard.controller.state.log import event_of
from gencard.core.errors import NotFoundError
from tests.system.house import build
from tests.system.raw_calls import agreed


@pytest.fixture
def house(tmp_path):
    house = build(tmp_path).start()
    yield house
    house.stop()


def propose(analyst):
    return analyst.propose("survey", [("sex", "health")], purpose="a test", rows=100)


def in_days(house, days, keep_days=30):
    """The retention of a controller whose clock is so many days ahead."""
    controller_state = house.controller.controller_state
    clock = controller_state.machine
    return Retention(
        controller_state.database,
        replace(controller_state.cards, clock=lambda: clock() + timedelta(days=days)),
        keep_days,
    )


def pruned(house):
    """Names of cards that the log says are pruned."""
    controller_state = house.controller.controller_state
    with controller_state.database.reading() as tx:
        check_state(controller_state, tx)
        entries = [event_of(entry.body) for entry in controller_state.log.entries(tx)]
    return {entry.resource for entry in entries if entry.action == "prune"}


def test_what_was_never_agreed_is_pruned_and_what_was_is_kept(house):
    with house.analyst() as ana:
        ended, offered, used, unused, ended_unused = (
            propose(ana), propose(ana), agreed(ana), agreed(ana), agreed(ana)
        )  # fmt: skip
        ended.terminate()
        ended_unused.terminate()
        used.generate(5, progress=False)
        used.terminate()
        assert in_days(house, 29).prune() == 0
        assert in_days(house, 31).prune() == 1
        assert pruned(house) == {ended.name}
        assert in_days(house, 91).prune() == 1  # the offer ran out after 90 days
        assert pruned(house) == {ended.name, offered.name}
        assert {card.name for card in ana.cards()} == {used.name, unused.name, ended_unused.name}
        with pytest.raises(NotFoundError):
            ana.card(ended.name)


def test_many_are_pruned_page_by_page_past_those_that_stay(house, monkeypatch):
    monkeypatch.setattr("gencard.controller.cards.negotiations._AT_A_TIME", 2)
    with house.analyst() as ana:
        for index in range(7):
            card = agreed(ana) if index % 3 else propose(ana)
            card.terminate()
        assert in_days(house, 31).prune() == 3
        assert len(list(ana.cards())) == 4


def test_answers_that_hold_whole_cards_go_too(house):
    with house.analyst() as ana:
        propose(ana).terminate()
        agreed(ana)
    assert answers(house) == {"ProposeCard", "TerminateCard", "AcceptCard"}
    in_days(house, 31).prune()
    assert answers(house) == {"AcceptCard"}


def answers(house):
    with house.controller.controller_state.database.reading() as tx:
        return set(tx.execute(select(tables.answers.c.method)).scalars())


def test_it_runs_once_a_day(house):
    with house.analyst() as ana:
        first, days = propose(ana), [31]
        first.terminate()
        controller_state = house.controller.controller_state
        cards = replace(controller_state.cards, clock=lambda: clock() + timedelta(days=days[0]))
        clock = controller_state.machine
        retention = Retention(controller_state.database, cards, 30)
        retention.prune_daily()
        second = propose(ana)
        second.terminate()
        days[0] = 31.9
        retention.prune_daily()
        assert pruned(house) == {first.name}
        days[0] = 62  # the second was made after the first entry that is 31 days ahead
        retention.prune_daily()
        assert pruned(house) == {first.name, second.name}


def test_it_runs_at_the_start_and_not_where_everything_is_kept(house):
    with house.analyst() as ana:
        card = propose(ana)
        card.terminate()
    controller_state = house.controller.controller_state
    long_ago = controller_state.cards.clock() - timedelta(days=200)
    with controller_state.database.transaction() as tx:
        tx.execute(update(tables.cards).values(changed=long_ago))
    for keep_days, names in (("0", set()), ("90", {card.name})):
        house.stop()
        house.edit({"keep_days": keep_days})
        house.start()
        assert pruned(house) == names
