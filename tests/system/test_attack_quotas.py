"""S10, attack: one analyst fills the state with proposals that nobody will ever agree to."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from gencard.controller.service import health
from gencard.controller.shell.main import app as steward_shell
from gencard.controller.wiring import opening
from gencard.controller.wiring.opening import quotas_of
from gencard.core.errors import QuotaExceededError, StorageReserveError
from tests.system.house import House, build
from tests.system.raw_calls import agreed, configure, enrolled

LIMITS = {"open_proposals": 5, "cards": 12, "card_mib": 1, "reserve_mib": 1, "releases": 3}
PURPOSE = "p" * 2_000


@pytest.fixture
def house(tmp_path) -> Iterator[House]:
    house = build(tmp_path)
    yield configure(house, "limits", **LIMITS).start()
    house.stop()


def propose(analyst, purpose: str = PURPOSE):
    return analyst.propose("survey", [("sex", "health")], purpose=purpose, rows=100)


def test_open_proposals_have_a_bound_and_ended_ones_give_their_place_back(house):
    with house.analyst() as ana, house.analyst(enrolled(house, "bob")) as bob:
        cards = [propose(ana) for _ in range(5)]
        with pytest.raises(
            QuotaExceededError, match=r"quota of 5 open proposals .* \(limits.open_proposals\)"
        ) as caught:
            propose(ana)
        assert caught.value.fields["setting"] == "open_proposals"
        propose(bob)
        cards[0].terminate()
        cards[1].accept()
        propose(ana)
        propose(ana)
        with pytest.raises(QuotaExceededError):
            propose(ana)


def test_who_proposes_and_terminates_without_end_is_stopped_too(house):
    with house.analyst() as ana:
        for _ in range(12):
            propose(ana).terminate()
        with pytest.raises(QuotaExceededError, match="quota of 12 cards"):
            propose(ana)
        assert len(list(ana.cards())) == 12


def test_offers_that_expired_do_not_count_as_open(house):
    cards = house.controller.controller_state.cards
    with house.analyst() as ana:
        for _ in range(5):
            propose(ana)
    dataset_entry = cards.catalogue.named("datasets/survey")
    later = replace(cards, clock=lambda: cards.clock() + timedelta(days=91))
    uri = "spiffe://gencard.local/pilot/analyst/ana"
    with house.controller.controller_state.database.reading() as tx:
        assert (cards.usage(tx, uri, dataset_entry).open, later.usage(tx, uri, dataset_entry).open) == (
            5,
            0,
        )


def test_the_size_of_all_cards_has_a_bound(house, monkeypatch):
    with house.analyst() as ana:
        propose(ana)
        monkeypatch.setattr("gencard.controller.state.cards._MIB", 1_000)
        with pytest.raises(QuotaExceededError, match="quota of 1 MiB of cards"):
            propose(ana)


def test_below_the_reserve_nothing_new_is_stored_and_what_is_agreed_goes_on(tmp_path, monkeypatch):
    free = [1 << 40]
    monkeypatch.setattr(
        opening, "quotas_of", lambda settings: replace(quotas_of(settings), free=lambda _: free[0])
    )
    house = build(tmp_path).start()
    try:
        with house.analyst() as ana:
            card = agreed(ana)
            free[0] = 1 << 20
            with pytest.raises(StorageReserveError, match="less than 256 MiB"):
                propose(ana)
            with pytest.raises(StorageReserveError):
                card.generate(5, progress=False)
            assert card.terminate().state == "terminated"
            free[0] = 1 << 40
            propose(ana)
    finally:
        house.stop()


def test_releases_of_all_cards_of_one_analyst_have_a_bound(house):
    with house.analyst() as ana, house.analyst(enrolled(house, "bob")) as bob:
        first, second, of_bob = agreed(ana), agreed(ana), agreed(bob)
        for card in (first, first, second):
            card.generate(5, progress=False)
        for card in (first, second):
            with pytest.raises(QuotaExceededError, match=r"quota of 3 releases .* \(limits.releases\)"):
                card.generate(5, progress=False)
        of_bob.generate(5, progress=False)


def test_the_size_of_all_releases_of_one_analyst_has_a_bound(house, monkeypatch):
    configure(house, "limits", release_mib=1)
    house.stop()
    house.start()
    with house.analyst() as ana:
        first, second = agreed(ana), agreed(ana)
        first.generate(1_000, progress=False)
        monkeypatch.setattr("gencard.controller.state.cards._MIB", 4_500)
        with pytest.raises(
            QuotaExceededError, match=r"quota of 1 MiB of releases .* \(limits.release_mib\)"
        ):
            second.generate(1_000, progress=False)
        second.generate(5, progress=False)


def test_a_reserve_that_is_reached_is_told_by_check_and_health(house, monkeypatch, capsys):
    configure(house, "limits", reserve_mib=1 << 30)
    monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
    words = f"less than {1 << 30} MiB of free disk space"
    checked = CliRunner().invoke(steward_shell, ["check", "--config", str(house.settings_file)])
    assert checked.exit_code == 0, checked.output
    assert words in checked.output
    health.main()
    assert words in capsys.readouterr().err
