"""S41: signing keys are rotated, and what the old ones signed verifies for ever."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from gencard.client import Analyst, install_answer, new_request
from gencard.client.checking.bundle import Bundle, Keys, Outcome, verify
from gencard.client.connection.credentials import KEYS_SEEN, Credentials
from gencard.client.shell.main import app as client_app
from gencard.controller.base.files import signing_key
from gencard.controller.controller_state import ControllerState
from gencard.controller.people import keys as signing_keys
from gencard.controller.people.keys import SigningKey, key_history
from gencard.controller.shell.main import app
from gencard.controller.state.log import event_of
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.errors import InvalidInputError, StorageError, UnauthenticatedError, VerificationError
from gencard.wire.dsse import key_id, opened
from gencard.wire.keys import CARDS, LOG, Role
from tests.system.consistency import assert_consistent, assert_ledger_and_log
from tests.system.house import House, build
from tests.system.people import answered, request_in
from tests.system.stewards import Steward
from tests.system.thread_jobs import run_jobs_in_threads

PAIRS = [("sex", "health"), ("sex", "work"), ("health", "work")]
SAM = "spiffe://gencard.local/service/steward/sam"


def steward(house: House, *words: str) -> str:
    """Run a command of the steward's shell, beside the running service."""
    result = CliRunner().invoke(
        app, [*words, "--config", str(house.settings_file)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def rotated(house: House) -> None:
    steward(house, "keys", "rotate", "--steward", "sam")


def signer_of(envelope: bytes, house: House, use: str = CARDS) -> int:
    """Place in the history of the controller's key that signed an envelope."""
    _, signatures = opened(envelope)
    (place,) = (
        p for p, key in enumerate(key_ids(house.controller.controller_state, use)) if key in signatures
    )
    return place


def key_ids(controller_state: ControllerState, use: str = CARDS) -> list[str]:
    with controller_state.database.reading() as tx:
        return [key_id(period.key) for period in key_history(tx, controller_state.keys[use]).periods]


def rotations_in_log(controller_state: ControllerState) -> list[tuple[str, str, str]]:
    """Resource, actor and new key of each, oldest first."""
    with controller_state.database.reading() as tx:
        events = [event_of(entry.body) for entry in controller_state.log.entries(tx)]
    found = [event for event in events if event.action == "rotate"]
    return [(event.resource, event.actor, event.details["key"]) for event in found]


def failed(folder, keys: Keys) -> list[str]:
    checks = verify(Bundle.of([folder]), keys, datetime.now(UTC))
    return [check.what for check in checks if check.outcome is Outcome.FAILED]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A running controller whose keys this module rotates."""
    built = build(tmp_path_factory.mktemp("rotating"))
    with pytest.MonkeyPatch.context() as patch:
        run_jobs_in_threads(patch)
        yield built.start()
        built.stop()


class TestWhileServing:
    @pytest.fixture
    def house(self, served):
        return served

    @pytest.fixture
    def ana(self, house):
        with house.analyst() as analyst:
            yield analyst

    def released(self, analyst: Analyst, folder) -> object:
        card = analyst.propose("survey", PAIRS, purpose="Health by sex", rows=100).accept()
        card.release(rows=50, seed=1, progress=False).save(folder)
        return card

    def test_s41_rotate_and_verify_old(self, house, ana, tmp_path):
        """The whole story: who is connected stays so; a card is offered before and accepted after."""
        card = self.released(ana, tmp_path / "before")
        between = ana.propose("survey", PAIRS, purpose="Between", rows=100)
        first = signer_of(card.agreement.envelope, house)
        log = len(key_ids(house.controller.controller_state, LOG))
        rotated(house)
        between.accept()
        after = card.release(rows=50, seed=2, progress=False)
        after.save(tmp_path / "after")
        assert signer_of(between.agreement.envelope, house) == first + 1
        assert signer_of((tmp_path / "before/receipt.json").read_bytes(), house) == first
        assert signer_of((tmp_path / "after/receipt.json").read_bytes(), house) == first + 1
        assert signer_of((tmp_path / "before/checkpoint.json").read_bytes(), house, LOG) == log - 1
        assert signer_of((tmp_path / "after/checkpoint.json").read_bytes(), house, LOG) == log
        assert len(list(card.agreement.receipts())) == 2
        assert card.replay(after).seed == 2
        keys = Keys.of(Credentials.of_folder(house.person("ana")))
        assert [failed(tmp_path / name, keys) for name in ("before", "after")] == [[], []]
        assert_consistent(house.controller.controller_state)
        assert "Verified" in steward(house, "log", "verify")

    def test_s41_who_was_enrolled_later_or_never_came_back_follows_too(self, house, ana, tmp_path):
        card = self.released(ana, tmp_path / "kept")
        pinned = shutil.copytree(house.person("ana"), tmp_path / "pinned")
        (pinned / KEYS_SEEN).unlink(missing_ok=True)
        rotated(house)
        house.enrol("eve", Role.AUDITOR, "pilot")
        with house.analyst("eve") as eve:
            seen = eve.card(card.name)
            assert [receipt.rows for receipt in seen.agreement.receipts()] == [50]
        card.release(rows=50, seed=2, progress=False).save(tmp_path / "new")
        handed = Keys.of(Credentials.of_folder(pinned))
        assert failed(tmp_path / "new", handed) == []
        newest = Credentials.of_folder(house.person("eve"))
        keys = replace(Keys.of(newest), analyst=handed.analyst)
        assert [failed(tmp_path / name, keys) for name in ("kept", "new")] == [[], []]

    def test_s41_later_facts_on_an_old_card(self, house, ana, tmp_path):
        """A verdict and a revocation that the new key signs, about a card that the old one signed."""
        card = self.released(ana, tmp_path / "kept")
        rotated(house)
        assert card.audit("honest", where="card", progress=False).attestation
        steward(
            house, "emergency", "revoke", card.name, "--remark", "An error", "--steward", "sam", "--yes"
        )
        facts = card.refresh().negotiation.attestations
        for place, fact in enumerate(facts):
            (tmp_path / f"kept/fact{place}.json").write_bytes(fact)
        keys = Keys.of(Credentials.of_folder(house.person("ana")))
        with house.analyst() as again:
            again.log.checkpoint()
        assert failed(tmp_path / "kept", keys)[0].startswith("Revocation fact")
        assert len(failed(tmp_path / "kept", keys)) == 1

    def test_s41_a_person_with_new_keys_keeps_what_the_old_ones_signed(self, house, tmp_path):
        """The controller signs with the new key alone: the service takes no signature by the old one."""
        house.enrol("ann")
        with house.analyst("ann") as ann:
            name = self.released(ann, tmp_path / "kept").name
        old = Path(shutil.copytree(house.person("ann"), tmp_path / "old"))
        new_request(house.person("ann"), "ann", again=True)
        answer = answered(house, request_in(house.person("ann")), "--again")
        install_answer(house.person("ann"), answer)
        with house.analyst("ann") as ann:
            assert [receipt.rows for receipt in ann.card(name).agreement.receipts()] == [50]
            self.released(ann, tmp_path / "new")
        keys = Keys.of(Credentials.of_folder(house.person("ann")))
        assert [failed(tmp_path / folder, keys) for folder in ("kept", "new")] == [[], []]
        thief = Analyst.connect(house.address, folder=old)
        with thief, pytest.raises(UnauthenticatedError):
            thief.propose("survey", PAIRS, purpose="By the old key", rows=100)
        self.mixed(house, old)
        with house.controller.controller_state.database.reading() as tx:
            events = [
                event_of(entry.body) for entry in house.controller.controller_state.log.entries(tx)
            ]
        assert {event.actor for event in events if event.resource == "people/ann"} == {SAM}

    def mixed(self, house, old):
        """The old signing key is refused beside the newest TLS key, too."""
        folder = Path(shutil.copytree(house.person("ann"), old.parent / "mixed"))
        for file in ("signing_key.pem", "signing_key.pub"):
            shutil.copy(old / file, folder / file)
        with Analyst.connect(house.address, folder=folder) as thief:
            card = thief.propose("survey", PAIRS, purpose="By the old key", rows=100)
            with pytest.raises(VerificationError):
                card.accept()

    def test_s41_each_rotation_is_in_the_log_by_who_did_it(self, house):
        before = rotations_in_log(house.controller.controller_state)
        rotated(house)
        new = [
            (f"keys/{use}", SAM, key_ids(house.controller.controller_state, use)[-1])
            for use in (CARDS, LOG)
        ]
        assert rotations_in_log(house.controller.controller_state) == before + new

    def test_s41_the_shell_shows_every_key(self, house, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        told = json.loads(steward(house, "keys", "--json"))
        expected = [
            (use, key) for use in (CARDS, LOG) for key in key_ids(house.controller.controller_state, use)
        ]
        assert [(line["use"], line["key"]) for line in told] == expected
        shown = steward(house, "keys")
        assert all(key[:16] in shown for _, key in expected)

    def test_s41_one_key_alone(self, house):
        controller_state = house.controller.controller_state
        cards, log = key_ids(controller_state, CARDS), key_ids(controller_state, LOG)
        assert cards[-1][:16] in steward(house, "keys", "rotate", "cards")
        assert (key_ids(controller_state, CARDS)[:-1], key_ids(controller_state, LOG)) == (cards, log)

    def test_s41_the_shell_of_the_client_verifies_what_it_kept(self, house, ana, tmp_path):
        self.released(ana, tmp_path / "kept")
        rotated(house)
        words = ["verify", str(tmp_path / "kept"), "--connection", str(house.person("ana"))]
        result = CliRunner().invoke(client_app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "Key rotations" in result.stdout


class TestAtRest:
    @pytest.fixture
    def house(self, tmp_path):
        return build(tmp_path)

    @pytest.fixture
    def controller_state(self, house):
        opened = open_controller_state(house.settings())
        yield opened
        opened.database.close()

    def file(self, house: House) -> str:
        """Name of the key that lies in its place."""
        key = signing_key(house.settings().signing.card_key, "card_key")
        return key_id(key.public_key())

    def test_s41_the_old_private_key_is_gone(self, house, controller_state):
        folder = house.folder / "signing"
        names = {path.name for path in folder.iterdir()}
        old = (folder / "card_key.pem").read_bytes()
        Steward(controller_state, SAM).rotate(CARDS)
        assert {path.name for path in folder.iterdir()} == names
        assert all(path.read_bytes() != old for path in folder.iterdir())
        assert self.file(house) == key_ids(controller_state)[-1]
        assert oct((folder / "card_key.pem").stat().st_mode)[-3:] == "600"

    @pytest.mark.parametrize("step", ["add_change", "KeyChange", "time_text"])
    def test_s41_one_that_fails_leaves_the_old_key_in_force(
        self, house, controller_state, monkeypatch, step
    ):
        def fail(*_: object) -> None:
            raise StorageError

        with monkeypatch.context() as patch:
            patch.setattr(signing_keys, step, fail)
            with pytest.raises(StorageError):
                Steward(controller_state, SAM).rotate(CARDS)
        assert len(key_ids(controller_state)) == 1
        assert rotations_in_log(controller_state) == []
        with controller_state.database.transaction() as tx:
            assert key_id(controller_state.keys[CARDS].current(tx).public_key()) == self.file(house)
        Steward(controller_state, SAM).rotate(CARDS)
        assert key_ids(controller_state)[-1] == self.file(house)

    def test_s41_killed_before_its_file_is_in_place(self, house, controller_state, monkeypatch):
        """The committed key counts: it lies aside, and the next rotation begins with it."""
        old = self.file(house)
        with monkeypatch.context() as patch:
            patch.setattr(SigningKey, "settle", lambda *_: None)
            Steward(controller_state, SAM).rotate(CARDS)
        assert self.file(house) == old
        later = open_controller_state(house.settings())
        try:
            with later.database.transaction() as tx:
                current = later.keys[CARDS].current(tx)
            assert key_id(current.public_key()) == key_ids(controller_state)[1]
            Steward(later, SAM).rotate(CARDS)
        finally:
            later.database.close()
        assert len(key_ids(controller_state)) == 3
        assert self.file(house) == key_ids(controller_state)[2]

    def test_s41_a_file_that_cannot_be_put_in_place_loses_no_key(
        self, house, controller_state, monkeypatch
    ):
        def fail(*_: object) -> None:
            raise StorageError

        with monkeypatch.context() as patch:
            patch.setattr(SigningKey, "settle", fail)
            with pytest.raises(StorageError):
                Steward(controller_state, SAM).rotate(CARDS)
        assert len(key_ids(controller_state)) == 1

    def test_s41_whoever_signs_meanwhile_signs_with_the_key_in_force(self, house, controller_state):
        """One process rotates and another signs, as shell and service do; all of it verifies."""
        service = open_controller_state(house.settings())
        steward, turn = Steward(controller_state, SAM), Lock()

        def rotate() -> None:
            with turn:  # who looked before another one rotated would be refused
                steward.rotate(LOG)

        def sign() -> None:
            with service.database.transaction() as tx:
                now = service.cards.clock()
                service.log.append(tx, action="offer", actor=SAM, resource="a card", details={}, now=now)
                service.log.checkpoint(tx, now)

        try:
            with ThreadPoolExecutor(2) as pool:
                work = [pool.submit(one) for one in [rotate, sign] * 8]
            assert [one.exception() for one in work] == [None] * 16
        finally:
            service.database.close()
        assert len(key_ids(controller_state, LOG)) == 9
        assert_ledger_and_log(controller_state)

    def test_s41_a_key_that_is_not_the_newest_is_refused_at_the_start(self, house, controller_state):
        """Such a key comes back by a restore of ``signing/`` from before the rotation."""
        file = house.settings().signing.card_key
        old = file.read_bytes()
        Steward(controller_state, SAM).rotate(CARDS)
        file.write_bytes(old)
        with pytest.raises(InvalidInputError, match="not the key that the last rotation made"):
            open_controller_state(house.settings())

    def test_s41_a_stranger_among_the_files_is_not_taken(self, house, controller_state):
        """A file left aside by a rotation that was never committed."""
        controller_state.keys[CARDS].prepare(Ed25519PrivateKey.generate())
        before = self.file(house)
        with controller_state.database.transaction() as tx:
            controller_state.keys[CARDS].settle(tx)
            assert key_id(controller_state.keys[CARDS].current(tx).public_key()) == before
        assert self.file(house) == before
