"""Further releases of a card are drawn from the fit of its first one, which ends with the card."""

import pytest
from typer.testing import CliRunner

from gencard.controller.shell.main import app as steward_app
from gencard.core.errors import VerificationError
from gencard.core.generators.model_file import bytes_of, model_of
from gencard.core.generators.models import TableModel
from tests.system.house import House, build

PAIRS = [("sex", "health"), ("health", "work")]


@pytest.fixture
def house(tmp_path):
    built = build(tmp_path)
    yield built.start()
    built.stop()


def fits_of(house: House):
    return house.controller.controller_state.fits


def agreed(analyst, purpose="To see"):
    return analyst.propose("survey", PAIRS, purpose=purpose, rows=1_000).accept()


def test_a_second_release_is_drawn_from_the_kept_fit(house):
    with house.analyst() as ana:
        card = agreed(ana)
        card.release(rows=100, seed=1, progress=False)
        (name,), fits = fits_of(house).cards, fits_of(house)
        assert name == card.name
        assert card.replay(card.release(rows=200, seed=2, progress=False)).rows == 200
        # the fit of other records in its place: rows of it are not those of the card's psi
        other = agreed(ana, "Others")
        key, fit = fits._fits[name]
        fits._fits[name] = key, _altered(fit)
        wrong = card.release(rows=500, seed=3, progress=False)
        with pytest.raises(VerificationError):
            card.replay(wrong)
        fits.drop(name)
        assert card.replay(card.release(rows=500, seed=3, progress=False)).rows == 500
        other.release(rows=10, seed=1, progress=False)
        assert fits.cards == (card.name, other.name)


def _altered(fit: bytes) -> bytes:
    model = model_of(fit)
    return bytes_of(TableModel(model.domain, model.probabilities[::-1]))


def test_a_fit_ends_with_its_card(house):
    state = house.controller.controller_state
    state.fits.keep("datasets/survey/cards/gone", "key", b"fit")  # of no card
    with house.analyst() as ana:
        cards = [agreed(ana, purpose) for purpose in ("given up", "revoked", "stays")]
        for card in cards:
            card.release(rows=10, seed=1, progress=False)
        assert state.fits.cards[1:] == tuple(card.name for card in cards)
        cards[0].terminate()
        assert state.fits.cards[1:] == tuple(card.name for card in cards[1:])
        words = ["emergency", "revoke", cards[1].name, "--remark", "wrong", "--steward", "sam", "--yes"]
        result = CliRunner().invoke(steward_app, [*words, "--config", str(house.settings_file)])
        assert result.exit_code == 0, result.output
        state.drop_ended_fits()
        assert state.fits.cards == (cards[2].name,)
