"""S41: signing keys are rotated, and what the old ones signed verifies for ever."""

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from gencard.client.bundle import Bundle
from gencard.client.credentials import Credentials
from gencard.client.verify import Keys, Outcome, verify
from gencard.controller.key_rotation import key_history
from gencard.controller.keys import signing_key
from gencard.controller.shell.main import app
from gencard.wire.dsse import key_id, opened
from gencard.wire.key_history import CARDS
from tests.system.books import assert_in_order
from tests.system.house import House, build

PAIR = [("sex", "health")]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A controller whose keys this module rotates."""
    built = build(tmp_path_factory.mktemp("rotating"))
    yield built.start()
    built.stop()


def rotate(house: House, *words: str) -> str:
    """By the steward's shell, beside the running service."""
    command = ["keys", *words, "--config", str(house.settings_file)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def signer_of(envelope: bytes, house: House, use: str = CARDS) -> int:
    """Place in the history of the controller's key that signed an envelope."""
    _, signatures = opened(envelope)
    with house.controller.desk.database.reading() as tx:
        periods = key_history(tx, house.controller.desk.keys[use]).periods
    (place,) = (p for p, period in enumerate(periods) if key_id(period.key) in signatures)
    return place


def card_key(house: House) -> Ed25519PrivateKey:
    return signing_key(house.settings().signing.card_key, "card_key")


def failed(folder, keys: Keys) -> list[str]:
    checks = verify(Bundle.of([folder]), keys, datetime.now(UTC))
    return [check.what for check in checks if check.outcome is Outcome.FAILED]


def test_s41_rotate_and_verify_old(house, tmp_path):
    """The whole story, over TLS, while the service runs and the analyst stays connected."""
    with house.analyst() as ana:
        card = ana.propose("survey", PAIR, purpose="Before", rows=100)
        card.accept()
        before = card.release(rows=50, seed=1)
        before.save(tmp_path / "before")
        offered = ana.propose("survey", PAIR, purpose="Between", rows=100)
        first = signer_of(card.agreement.envelope, house)
        rotate(house, "rotate")
        offered.accept()
        after = card.release(rows=50, seed=2)
        after.save(tmp_path / "after")
        assert signer_of(card.agreement.envelope, house) == first
        assert signer_of(offered.agreement.envelope, house) == first + 1
        assert signer_of((tmp_path / "after/receipt.json").read_bytes(), house) == first + 1
        assert [card.replay(release).seed for release in (before, after)] == [1, 2]
        assert len(list(card.agreement.receipts())) == 2
    keys = Keys.of(Credentials.of_folder(house.person("ana")))
    for name in ("before", "after"):
        assert failed(tmp_path / name, keys) == []
    assert_in_order(house.controller.desk)
