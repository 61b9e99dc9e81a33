"""S41: how a client follows the controller's keys, and which histories it does not believe."""

from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.client import Analyst
from gencard.client.checking.bundle import Bundle, Keys, Outcome, rebuild, verify
from gencard.client.connection.credentials import KEYS_SEEN, Credentials
from gencard.core.errors import VerificationError
from gencard.wire.canonical import time_text
from gencard.wire.keys import CARDS, LOG, KeyChange, changes_file
from tests.client.fake_world import NOW, World

NEW, NEWER, STRANGER = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (7, 8, 9))


def change(number: int, old: Any, new: Any, *, days: int = 0, use: str = CARDS) -> bytes:
    """One link, ``days`` after the time of everything that the fake controller signs."""
    time = time_text(NOW + timedelta(days=days))
    return KeyChange(use, number, old.public_key(), new.public_key(), time).signed(old, new)


@pytest.fixture
def sign_with(monkeypatch):
    """Has the fake controller sign cards and receipts with another key from now on."""
    return lambda key: monkeypatch.setattr(World, "card_key", property(lambda _: key))


@pytest.fixture
def reconnected(service, people, connection_toml):
    """Opens one more connection in the same folder."""
    opened = []

    def connect() -> Analyst:
        opened.append(Analyst.connect(folder=people / "ana"))
        return opened[-1]

    yield connect
    for analyst in opened:
        analyst.close()


def agree(analyst: Analyst) -> Any:
    return analyst.propose("survey", [("sex", "age")], purpose="?").accept()


class TestFollowing:
    def test_s41_rotations_are_followed_while_connected(self, ana, agreed, world, sign_with):
        """Two of them, without a word to the analyst; the history is asked for when it is wanted."""
        world.key_changes.append(change(1, world.card_key, NEW))
        sign_with(NEW)
        assert len(agreed.generate(rows=10, progress=False)) == 10
        world.key_changes.append(change(2, NEW, NEWER))
        sign_with(NEWER)
        assert agree(ana).agreement.digest
        assert len(list(agreed.agreement.receipts())) == 1
        assert world.faults.calls["GetKeyHistory"] == 3

    def test_s41_without_rotations_it_is_asked_for_once(self, ana, agreed, world):
        agreed.generate(rows=10, progress=False)
        ana.log.checkpoint()
        assert world.faults.calls["GetKeyHistory"] == 1

    def test_s41_a_bundle_brings_its_history(self, agreed, world, sign_with, people, tmp_path):
        """A holder of an earlier key alone can check the bundle offline."""
        world.key_changes.append(change(1, world.card_key, NEW))
        sign_with(NEW)
        agreed.release(rows=10, progress=False).save(tmp_path / "kept")
        (people / "ana" / KEYS_SEEN).unlink()
        keys = Keys.of(Credentials.of_folder(people / "ana"))
        checks = {check.what: check for check in verify(Bundle.of([tmp_path / "kept"]), keys, NOW)}
        assert Outcome.FAILED not in {check.outcome for check in checks.values()}
        assert checks["Key rotations"].detail == f"cards 1, {time_text(NOW)}"
        assert len(rebuild(Bundle.of([tmp_path / "kept"]), keys)[1]) == 10
        (tmp_path / "kept/keys.json").write_bytes(changes_file([change(1, STRANGER, NEW)]))
        failed = [
            check.what
            for check in verify(Bundle.of([tmp_path / "kept"]), keys, NOW)
            if check.outcome is Outcome.FAILED
        ]
        assert failed[0] == "Key rotations"
        assert "Receipt receipt.json" in failed
        with pytest.raises(VerificationError, match="does not lead"):
            rebuild(Bundle.of([tmp_path / "kept"]), keys)


class TestNotBelieved:
    @pytest.fixture
    def old(self, world):
        return world.card_key

    def test_s41_a_retired_key_that_signs_new_statements(self, ana, world, old):
        world.key_changes.append(change(1, old, NEW, days=-1))
        with pytest.raises(VerificationError, match="no longer valid"):
            agree(ana)

    def test_s41_a_key_before_its_time(self, agreed, world, old, sign_with):
        world.key_changes.append(change(1, old, NEW, days=1))
        sign_with(NEW)
        with pytest.raises(VerificationError, match="not yet valid"):
            agreed.release(rows=10, progress=False)

    @pytest.mark.parametrize(
        "forge",
        [
            lambda _old: [],
            lambda _old: [change(2, NEW, NEWER)],
            lambda old: [change(2, NEW, NEWER), change(1, old, NEW)],
            lambda old: [change(1, old, NEW), change(3, NEW, NEWER)],
            lambda old: [change(1, old, NEW), change(2, STRANGER, NEWER)],
            lambda _old: [change(1, STRANGER, NEW), change(2, NEW, NEWER)],
            lambda old: [change(1, old, NEW), change(2, NEW, NEWER, days=-1)],
            lambda old: [change(1, old, NEWER, use=LOG)],
            lambda _old: [b"no envelope"],
        ],
        ids=["none", "gap", "swapped", "misnumbered", "joined", "others", "back", "log's", "garbage"],
    )
    def test_s41_a_forged_history(self, ana, world, old, sign_with, forge):
        world.key_changes[:] = forge(old)
        sign_with(NEWER)
        with pytest.raises(VerificationError):
            agree(ana)

    @pytest.mark.parametrize("told", ["less", "otherwise"])
    def test_s41_another_history_than_before(self, ana, world, old, sign_with, reconnected, told):
        world.key_changes.append(change(1, old, NEW))
        sign_with(NEW)
        agree(ana)
        world.key_changes[:] = [] if told == "less" else [change(1, old, NEWER)]
        with pytest.raises(VerificationError, match={"less": "shortened", "otherwise": "forked"}[told]):
            agree(reconnected())

    def test_s41_a_file_of_keys_that_was_changed(self, ana, people, reconnected):
        (people / "ana" / KEYS_SEEN).write_bytes(changes_file([change(1, STRANGER, NEW)]))
        with pytest.raises(VerificationError, match="does not lead"):
            agree(reconnected())
