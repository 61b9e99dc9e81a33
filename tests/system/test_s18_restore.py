"""S18: a backup made during releases is served elsewhere, and nothing that was spent is free again."""

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gencard.client.checking.checks import LOG_SEEN
from gencard.client.shell.main import app as client_app
from gencard.controller.backup import DATABASE, FILE, HELD, digest_of_file, list_of
from gencard.controller.controller_state import utc_now
from gencard.controller.shell.main import app
from gencard.controller.state import requests, stewards, tables
from gencard.controller.state.stewards import LIFE, StoredDecision
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.card.budget import Price, SpendState
from gencard.core.errors import (
    BudgetExceededError,
    GencardError,
    InvalidInputError,
    SecondStewardError,
    UnauthenticatedError,
    VerificationError,
)
from gencard.wire.keys import Role, backup_facts
from tests.controller.state import revisions
from tests.system import consistency
from tests.system.house import House, build, survey
from tests.system.raw_calls import agreed

OTHERS = (("sex", "region"),)


@pytest.fixture
def house(tmp_path):
    built = build(tmp_path, survey(300))
    built.raise_caps()
    yield built.start()
    built.stop()


@pytest.fixture
def elsewhere(house, tmp_path):
    """Another machine: settings, keys and people as they are here, and no state."""
    folder = tmp_path / "elsewhere"
    here = house.folder
    shutil.copytree(here, folder, ignore=lambda at, _: ["state"] if Path(at) == here else [])
    other = House(folder)
    yield other
    other.stop()


def run(house, *words):
    """Run a command and return its output; an error of ours is raised."""
    result = CliRunner().invoke(app, [*map(str, words), "--config", str(house.settings_file)])
    if isinstance(result.exception, GencardError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def back_up(house, folder):
    assert "log entries" in " ".join(run(house, "backup", folder, "--steward", "sam").split())
    return folder


def restore(house, *words):
    said = " ".join(run(house, "restore", *words, "--steward", "sam").split())
    assert "Verified" in said
    return said


def checkpoint(house, file):
    run(house, "log", "checkpoint", "--output", file)
    return file


def held(house):
    """Lines that hold what is left."""
    return [
        line for line in consistency.lines_of(house.controller.controller_state) if line.kind == HELD
    ]


def release_until(house, done):
    """Cards are agreed and releases made, one after another, until it is enough."""
    with house.analyst() as ana:
        for seed in range(1_000):
            agreed(ana).generate(20, seed=seed, progress=False)
            if done.is_set():
                return


def begin_and_reserve(controller_state, tx, card):
    """Leave the state of a release that crashed."""
    now, owner = controller_state.cards.clock(), "spiffe://gencard.local/pilot/analyst/ana"
    request = json.dumps({"card": card, "rows": 5, "seed": 1}).encode()
    requests.create_operation(
        tx, "operations/left", owner=owner, kind="release", resource=card, request=request, now=now
    )
    controller_state.ledger.reserve(
        tx,
        dataset="datasets/survey",
        project="pilot",
        analyst=owner,
        resource=card,
        kind="psi",
        price=Price(statistics=1),
        now=now,
    )


class TestS18Restore:
    def test_s18_a_backup_during_releases_is_served_elsewhere(self, house, elsewhere, tmp_path):
        """Rows, receipts, ledger and log are those of one moment."""
        with house.analyst() as ana:
            card = agreed(ana)
            first = card.generate(50, seed=1, progress=False)
        done = threading.Event()
        going_on = threading.Thread(target=release_until, args=(house, done))
        going_on.start()
        for number in range(3):
            backup = back_up(house, tmp_path / f"backup-{number}")
        done.set()
        going_on.join()
        lines = consistency.lines_of(house.controller.controller_state)
        house.stop()
        restore(elsewhere, backup)
        controller_state = elsewhere.start().controller.controller_state
        consistency.assert_ledger_and_log(controller_state)
        found = [line.line for line in consistency.lines_of(controller_state) if line.kind != HELD]
        assert found == [line.line for line in lines[-len(found) :]]
        (line,) = held(elsewhere)
        run(elsewhere, "emergency", "ledger", "void", line.line)
        consistency.assert_consistent(controller_state)
        with elsewhere.analyst() as ana:
            for old in ana.cards():
                for receipt in old.agreement.receipts():
                    old.replay(old.agreement.fetch(receipt.name, progress=False))
            assert ana.card(card.name).generate(50, seed=1, progress=False).equals(first)

    def test_s18_what_came_after_the_backup_is_not_free_again(self, house, elsewhere, tmp_path):
        """Checkpoints that others keep show the cut; budgets are held until a steward voids that."""
        with house.analyst() as ana:
            card = agreed(ana)
            backup = back_up(house, tmp_path / "backup")
            card.generate(50, seed=1, progress=False)
            known = checkpoint(house, tmp_path / "known.json")
        house.stop()
        with pytest.raises(InvalidInputError, match="complete: a checkpoint covers"):
            restore(elsewhere, backup, "--checkpoint", known, "--complete")
        assert "Lost: at least" in restore(elsewhere, backup, "--checkpoint", known)
        elsewhere.start()
        (line,) = held(elsewhere)
        assert line.state is SpendState.RESERVED
        with elsewhere.analyst() as ana:
            card = ana.card(card.name)
            with pytest.raises(BudgetExceededError):
                card.generate(50, seed=1, progress=False)
            (elsewhere.person("ana") / LOG_SEEN).write_bytes(known.read_bytes())
            with pytest.raises(VerificationError):
                ana.checkpoint()
            run(elsewhere, "emergency", "ledger", "void", line.line)
            (elsewhere.person("ana") / LOG_SEEN).unlink()  # who believes the steward about the restore
            card.generate(50, seed=1, progress=False)
        consistency.assert_consistent(elsewhere.controller.controller_state)
        entries = json.loads(run(elsewhere, "log", "--json"))
        (said,) = (entry["details"] for entry in entries if entry["action"] == "restore")
        assert said["reason"] == "older"
        assert int(said["known_entries"]) > int(said["entries"])

    def test_s18_what_may_have_been_used_is_spent_and_unfinished_work_called_off(
        self, house, elsewhere, tmp_path
    ):
        with house.analyst() as ana:
            card = agreed(ana)
        house.stop()
        controller_state = open_controller_state(house.settings())
        with controller_state.database.transaction() as tx:
            begin_and_reserve(controller_state, tx, card.name)
        controller_state.database.close()
        said = restore(elsewhere, back_up(house, tmp_path / "backup"))
        assert "Cancelled: 1 operations. Settled: 1 reservations." in said
        controller_state = elsewhere.start().controller.controller_state
        (line,) = consistency.lines_of(controller_state, card.name)
        assert line.state is SpendState.SETTLED
        with controller_state.database.reading() as tx:
            assert not requests.unfinished_operations(tx)

    @pytest.mark.parametrize("words", [(), ("--complete",)], ids=["older", "complete"])
    def test_s41_an_older_state_brings_no_removed_passkey_back(self, house, elsewhere, tmp_path, words):
        """A thief's passkey, link and first decision may have been removed after the backup."""
        state, sam = house.controller.controller_state, "spiffe://gencard.local/pilot/steward/sam"
        passkey = state.passkeys.add(state.passkeys.new_link(sam, sam), b"credential", b"public", 0)
        link = state.passkeys.new_link(sam, sam)
        about = ("ab" * 32, "enrol", "people/eve", {}, "", "mine", sam)
        first = StoredDecision(*about, utc_now(), utc_now() + LIFE)
        with state.database.transaction() as tx:
            stewards.add_first_decision(tx, first)
        backup = back_up(house, tmp_path / "backup")
        house.stop()
        restore(elsewhere, backup, *words)
        state = elsewhere.start().controller.controller_state
        with state.database.reading() as tx:
            waiting = stewards.waiting_first_decisions(tx, utc_now())
        assert state.passkeys.is_kept(passkey.key) == bool(words)
        assert len(waiting) == len(words)
        if not words:
            with pytest.raises(UnauthenticatedError):
                state.passkeys.holder_of_link(link)

    def test_s18_a_backup_of_each_earlier_revision_is_restored(self, house, elsewhere, tmp_path):
        with house.analyst() as ana:
            first = agreed(ana).generate(50, seed=1, progress=False)
        backup = back_up(house, tmp_path / "backup")
        house.stop()
        newest = (backup / DATABASE).rename(tmp_path / "newest.sqlite")
        contents = list_of(backup)
        for revision in revisions.EARLIER:
            (backup / DATABASE).unlink(missing_ok=True)
            revisions.copied_as(newest, revision, backup / DATABASE)
            files = {**contents.files, DATABASE: digest_of_file(backup / DATABASE)}
            (backup / FILE).write_bytes(replace(contents, files=files).encoded())
            shutil.rmtree(elsewhere.folder / "state", ignore_errors=True)
            restore(elsewhere, backup, "--complete")
            restored = open_controller_state(elsewhere.settings())
            consistency.assert_consistent(restored)
            restored.database.close()
        elsewhere.start()
        with elsewhere.analyst() as ana:
            (card,) = ana.cards()
            assert card.generate(50, seed=1, progress=False).equals(first)

    def test_s18_a_backup_of_an_unknown_revision_is_refused_and_nothing_stays(
        self, house, elsewhere, tmp_path
    ):
        backup = back_up(house, tmp_path / "backup")
        with closing(sqlite3.connect(backup / DATABASE)) as database, database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        contents = list_of(backup)
        files = {**contents.files, DATABASE: digest_of_file(backup / DATABASE)}
        (backup / FILE).write_bytes(replace(contents, files=files).encoded())
        with pytest.raises(InvalidInputError, match="newer or unknown version of Gencard"):
            restore(elsewhere, backup)
        assert not [*elsewhere.folder.glob("state/*.sqlite*")]

    def test_s18_a_backup_of_the_last_moment_goes_on_as_it_was(self, house, elsewhere, tmp_path):
        house.stop()
        backup = back_up(house, tmp_path / "backup")
        known = checkpoint(house, tmp_path / "known.json")
        restore(elsewhere, backup, "--complete", "--checkpoint", known)
        elsewhere.start()
        assert not held(elsewhere)
        with elsewhere.analyst() as ana:
            agreed(ana, *OTHERS).generate(10, seed=1, progress=False)
        consistency.assert_consistent(elsewhere.controller.controller_state)

    def test_s18_a_copy_that_nobody_restored_is_not_served(self, house, elsewhere, tmp_path):
        shutil.copytree(back_up(house, tmp_path / "backup"), elsewhere.folder / "state")
        with pytest.raises(InvalidInputError, match="gencard-controller restore"):
            elsewhere.start()
        restore(elsewhere)
        elsewhere.start()

    def test_s18_nothing_is_overwritten(self, house, tmp_path):
        backup = back_up(house, tmp_path / "backup")
        with pytest.raises(InvalidInputError, match="not empty"):
            back_up(house, backup)
        with pytest.raises(InvalidInputError, match="another service"):
            restore(house, backup)
        house.stop()
        with pytest.raises(InvalidInputError, match="not empty"):
            restore(house, backup)

    def test_s18_a_changed_backup_is_refused_and_leaves_nothing(self, house, elsewhere, tmp_path):
        with house.analyst() as ana:
            agreed(ana).generate(50, seed=1, progress=False)
        backup = back_up(house, tmp_path / "backup")
        for part in ("releases/*.rows", "state.sqlite", "backup.json"):
            (file,) = backup.glob(part)
            whole = file.read_bytes()
            middle = len(whole) // 2
            file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
            with pytest.raises(GencardError):
                restore(elsewhere, backup)
            file.write_bytes(whole)
            assert [path.name for path in (elsewhere.folder / "state").iterdir()] == ["lock"]
        restore(elsewhere, backup)
        found = [backup, *backup.rglob("*")]
        assert {path.stat().st_mode & 0o777 for path in found if path.is_dir()} == {0o700}
        assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o600}
        keys = {path.read_bytes() for path in (house.folder / "signing").iterdir()}
        assert keys.isdisjoint(path.read_bytes() for path in found if path.is_file())

    def test_s18_another_logs_checkpoint_is_refused(self, house, elsewhere, tmp_path):
        """Signed by the same key, as after a fork."""
        shutil.copytree(back_up(house, tmp_path / "backup"), elsewhere.folder / "state")
        restore(elsewhere)
        forked = checkpoint(elsewhere, tmp_path / "forked.json")
        later = back_up(house, tmp_path / "later")
        shutil.rmtree(elsewhere.folder / "state")
        with pytest.raises(VerificationError, match="not those of a checkpoint"):
            restore(elsewhere, later, "--checkpoint", forked)

    def test_s18_rows_that_were_not_signed_are_refused(self, house, elsewhere, tmp_path):
        """Even where the database was changed with them."""
        with house.analyst() as ana:
            card = agreed(ana)
            first, second = (card.release(20, seed=seed, progress=False) for seed in (1, 2))
        house.stop()
        shutil.copytree(back_up(house, tmp_path / "backup"), elsewhere.folder / "state")
        rows = elsewhere.folder / "state" / "releases"
        names = [receipt.name.rpartition("/")[2] for receipt in (first.receipt, second.receipt)]
        shutil.copy(rows / f"{names[0]}.rows", rows / f"{names[1]}.rows")
        controller_state = open_controller_state(elsewhere.settings())
        with controller_state.database.transaction() as tx:
            tx.execute(tables.releases.update().values(digest=first.receipt.rows_digest))
        controller_state.database.close()
        with pytest.raises(VerificationError, match="not those that were signed"):
            restore(elsewhere)

    def test_s18_a_ledger_whose_balances_were_changed_is_refused(self, house, elsewhere, tmp_path):
        house.stop()
        backup = back_up(house, tmp_path / "backup")
        shutil.copytree(backup, elsewhere.folder / "state")
        controller_state = open_controller_state(elsewhere.settings())
        with controller_state.database.transaction() as tx:
            begin_and_reserve(controller_state, tx, "datasets/survey/cards/some")
            tx.exec_driver_sql("UPDATE balances SET statistics = 0")
        controller_state.database.close()
        with pytest.raises(VerificationError, match="balances"):
            restore(elsewhere)


def approve(house, name, backup, *words):
    """The file of a steward's approval."""
    file = backup.parent / f"{name}.json"
    listed = backup / FILE
    words = [*words, "--shown", backup_facts(listed.read_bytes()).digest, "--reason", "the disk broke"]
    given = ["steward", "approve-restore", listed, "--output", file, "--yes", *words]
    result = CliRunner().invoke(client_app, [*map(str, given), "-c", str(house.person(name))])
    assert result.exit_code == 0, result.output
    return file


class TestS53Restore:
    def test_s53_two_stewards_approve_a_restore_and_the_log_names_them(self, house, elsewhere, tmp_path):
        for one in (house, elsewhere):
            text = one.settings_file.read_text()
            one.settings_file.write_text(f'{text}\n[stewards]\ntwo = ["restore"]\n')
        house.enrol("eve", Role.STEWARD, "service")
        shutil.copytree(house.folder / "identities", elsewhere.folder / "identities", dirs_exist_ok=True)
        backup = back_up(house, tmp_path / "backup")
        files = [approve(house, name, backup) for name in ("sam", "eve")]
        for alone in ((), ("--approval", files[0]), ("--approval", files[0], "--approval", files[0])):
            with pytest.raises(SecondStewardError):
                restore(elsewhere, backup, *alone)
        with pytest.raises(InvalidInputError, match="--complete"):
            restore(elsewhere, backup, "--complete", "--approval", files[0], "--approval", files[1])
        with pytest.raises(InvalidInputError, match="FOLDER"):
            restore(elsewhere, "--approval", files[0], "--approval", files[1])
        assert not (elsewhere.folder / "state" / FILE).exists()
        restore(elsewhere, backup, "--approval", files[0], "--approval", files[1])
        event = last_entry(elsewhere)
        assert (event.action, event.details["approved"]) == ("restore", "sam, eve")
        assert event.details["digest"] == backup_facts((backup / FILE).read_bytes()).digest

    def test_s53_an_emergency_restores_alone_and_the_log_says_so(self, house, elsewhere, tmp_path):
        text = elsewhere.settings_file.read_text()
        elsewhere.settings_file.write_text(f'{text}\n[stewards]\ntwo = ["restore"]\n')
        restore(elsewhere, back_up(house, tmp_path / "backup"), "--emergency")
        assert last_entry(elsewhere).details["emergency"] == "one steward decided alone"


def last_entry(house):
    opened = open_controller_state(house.settings())
    try:
        with opened.database.reading() as tx:
            return opened.log.last(tx)
    finally:
        opened.database.close()
