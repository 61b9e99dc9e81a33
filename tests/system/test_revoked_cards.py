"""A revoked card's saved release: verified offline with a date, and online with the revocation."""

import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app
from gencard.controller.shell.main import app as steward_app
from tests.system.house import House, build

PAIRS = [("sex", "health")]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("revoked"))
    built.enrol("bea")
    yield built.start()
    built.stop()


@pytest.fixture
def kept(house, tmp_path):
    """A card and its saved release."""
    with house.analyst() as ana:
        card = ana.propose("survey", PAIRS, purpose="To see", rows=100).accept()
        card.release(rows=50, seed=1, progress=False).save(tmp_path / "kept")
    return card.name, tmp_path / "kept"


def verified(house: House, folder, *words: str, who: str = "ana"):
    person = house.person(who)
    (person / "connection.toml").write_text(f'address = "{house.address}"\n')
    words = ("verify", str(folder), "-c", str(person), *words)
    result = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    return result.exit_code, " ".join(result.output.split())


def revoke(house: House, name: str) -> None:
    words = [
        "emergency",
        "revoke",
        name,
        "--remark",
        "The records were wrong.",
        "--steward",
        "sam",
        "--yes",
    ]
    result = CliRunner().invoke(steward_app, [*words, "--config", str(house.settings_file)])
    assert result.exit_code == 0, result.output


def test_offline_says_how_far_its_evidence_goes(house, kept):
    name, folder = kept
    revoke(house, name)
    code, said = verified(house, folder)
    assert (code, "Everything agrees." in said) == (0, True)
    assert "as far as these files show" in said
    assert "is not seen offline" in said
    assert "--online" in said


def test_online_reports_the_revocation_and_fails(house, kept):
    name, folder = kept
    code, said = verified(house, folder, "--online")
    assert (code, "none, as the controller answered" in said) == (0, True)
    assert "not seen offline" not in said
    revoke(house, name)
    code, said = verified(house, folder, "--online")
    assert (code, "Do not use these data" in said) == (1, True)
    assert "the controller revoked this card, 20" in said
    assert "(The records were wrong.)" in said


def test_online_after_a_rotation_of_the_key_that_signs_the_revocation(house, kept):
    name, folder = kept
    words = ["keys", "rotate", "cards", "--steward", "sam", "--config", str(house.settings_file)]
    assert CliRunner().invoke(steward_app, words).exit_code == 0
    revoke(house, name)
    code, said = verified(house, folder, "--online")
    assert (code, "the controller revoked this card" in said) == (1, True)


def test_another_analyst_learns_that_it_was_not_checked(house, kept):
    """The result is that of a missing card: the controller shows no analyst the card of another."""
    name, folder = kept
    revoke(house, name)
    code, said = verified(house, folder, "--online", who="bea")
    assert code == 0
    assert "does not show this card to you" in said
    assert "All files present agree." in said


def test_a_revocation_that_was_saved_beside_it_is_seen_offline(house, kept):
    name, folder = kept
    revoke(house, name)
    with house.analyst() as ana:
        *_, fact = ana.card(name).negotiation.attestations
    (folder / "revocation.json").write_bytes(fact)
    code, said = verified(house, folder)
    assert (code, "the controller revoked this card" in said) == (1, True)
    assert "not seen offline" not in said
