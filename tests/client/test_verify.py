"""A kept release is checked without the controller, and whatever was changed is named."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.client.checking.bundle import Bundle, Keys, Outcome, rebuild, verify
from gencard.core import errors
from gencard.wire import dsse
from gencard.wire.canonical import document_of, json_bytes
from gencard.wire.dsse import REVOCATION, VERDICT, statement
from gencard.wire.keys import CARDS, KeyHistory

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(params=["rows.parquet", "rows.csv"])
def kept(agreed, tmp_path, request):
    return agreed.release(rows=300, seed=9).save(tmp_path / "kept", rows=request.param)


@pytest.fixture
def keys(agreed):
    return Keys.of(agreed.agreement.connection.credentials)


def failed(folder, keys, now=NOW):
    checks = verify(Bundle.of([folder]), keys, now)
    return [check.what.split(" ")[0] for check in checks if check.outcome is Outcome.FAILED]


def test_what_was_saved_passes(kept, keys):
    checks = verify(Bundle.of([kept]), keys, NOW)
    assert [check.outcome for check in checks].count(Outcome.PASSED) == 7
    assert failed(kept, keys) == []
    assert "ends 2026-12-20" in str(checks)
    assert "ended" in str(verify(Bundle.of([kept]), keys, datetime(2027, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("lost", ["controller", "analyst"])
def test_a_card_that_one_side_did_not_sign(kept, keys, lost):
    key = Ed25519PrivateKey.generate().public_key()
    stranger = (key,) if lost == "analyst" else KeyHistory(key, CARDS)
    assert failed(kept, replace(keys, **{lost: stranger})) == ["Card,"]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("card.json", ["Card,"]),
        ("receipt.json", ["Receipt", "Rows"]),
        ("checkpoint.json", ["Log", "Log"]),
    ],
)
def test_an_envelope_that_was_changed(kept, keys, name, named):
    payload, signatures = dsse.opened((kept / name).read_bytes())
    (kept / name).write_bytes(dsse.envelope_of(payload + b" ", signatures))
    assert failed(kept, keys) == named


def test_an_envelope_that_is_cut_is_damaged(kept, keys):
    (kept / "card.json").write_bytes((kept / "card.json").read_bytes()[:-40])
    assert failed(kept, keys) == ["File", "Card,"]


def test_psi_that_was_changed(kept, keys):
    document = json.loads((kept / "psi.json").read_bytes())
    document["measurements"][0]["counts"][0] = "1"
    (kept / "psi.json").write_bytes(json_bytes(document))
    assert failed(kept, keys) == ["psi"]
    with pytest.raises(errors.VerificationError, match="another psi"):
        rebuild(Bundle.of([kept]), keys)


def test_psi_in_another_form(kept, keys):
    document = json.loads((kept / "psi.json").read_bytes())
    (kept / "psi.json").write_text(json.dumps(document, indent=1))
    assert failed(kept, keys) == ["psi"]


def test_rows_that_were_changed(kept, keys):
    path = next(file for file in kept.iterdir() if file.name.startswith("rows"))
    frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    frame = frame.astype(object)
    frame.loc[0, "sex"] = "male" if frame.loc[0, "sex"] == "female" else "female"
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    assert failed(kept, keys) == ["Rows"]


def test_a_schema_that_was_changed(kept, keys):
    document = json.loads((kept / "schema.json").read_bytes())
    document["attributes"][0]["labels"].reverse()
    (kept / "schema.json").write_bytes(json_bytes(document))
    assert failed(kept, keys) == ["Schema"]


def test_a_receipt_of_another_card(ana, kept, keys, world):
    other = ana.propose("survey", [("sex", "age")], purpose="?").accept().release(10)
    (kept / "receipt.json").write_bytes(other.envelope)
    assert failed(kept, keys) == ["Receipt", "Rows"]


def test_later_facts(kept, keys, world, agreed):
    digest = agreed.agreement.digest
    facts = {"verdict": "leakage", "blackBox": "adds", "time": "2026-11-20T18:00:00Z"}
    verdict = statement(VERDICT, "an audit", facts, digest)
    (kept / "verdict.json").write_bytes(dsse.sign(verdict, [world.card_key]))
    checks = verify(Bundle.of([kept]), keys, NOW)
    assert "adds: leakage" in [check.detail for check in checks]
    assert failed(kept, keys) == []
    (kept / "verdict.json").write_bytes(dsse.sign(verdict, [Ed25519PrivateKey.generate()]))
    assert failed(kept, keys) == ["Verdict"]
    elsewhere = statement(VERDICT, "an audit", facts, "00" * 32)
    (kept / "verdict.json").write_bytes(dsse.sign(elsewhere, [world.card_key]))
    assert failed(kept, keys) == ["Verdict"]
    (kept / "verdict.json").unlink()
    revoked = statement(REVOCATION, agreed.name, {"time": "2026-11-20T18:00:00Z"}, digest)
    (kept / "revocation.json").write_bytes(dsse.sign(revoked, [world.card_key]))
    assert failed(kept, keys) == ["Revocation"]


def test_a_log_that_ends_before_the_release(kept, keys, world):
    payload = document_of(dsse.opened((kept / "checkpoint.json").read_bytes())[0], "statement")
    payload["predicate"]["size"] = "0"
    signed = dsse.sign(json_bytes(payload), [world.key("log_key.pem")])
    (kept / "checkpoint.json").write_bytes(signed)
    assert failed(kept, keys) == ["Log"]


def unchecked(folder, keys):
    checks = verify(Bundle.of([folder]), keys, NOW)
    return [check.what for check in checks if check.outcome is Outcome.NOT_CHECKED]


class TestVersionOfTheRecords:
    def sign(self, world, kept, kind, name):
        document = document_of(dsse.opened((kept / "receipt.json").read_bytes())[0], "statement")
        document["predicate"]["versionKind"] = kind
        (kept / name).write_bytes(dsse.sign(json_bytes(document), [world.card_key]))

    def test_what_it_is_is_shown_where_the_receipt_says_it(self, kept, keys, world):
        what = "Version of the records"
        assert what not in {check.what for check in verify(Bundle.of([kept]), keys, NOW)}
        self.sign(world, kept, "snapshot", "receipt.json")
        (check,) = (one for one in verify(Bundle.of([kept]), keys, NOW) if one.what == what)
        assert (check.outcome, "in one snapshot" in check.detail) == (Outcome.PASSED, True)

    def test_receipts_of_one_card_that_contradict_each_other_fail(self, kept, keys, world):
        self.sign(world, kept, "bytes", "receipt.json")
        self.sign(world, kept, "fingerprint", "receipt-2.json")
        assert failed(kept, keys) == ["Version"]

    def test_a_kind_that_is_not_known_is_no_receipt(self, kept, keys, world):
        self.sign(world, kept, "magic", "receipt.json")
        assert "Receipt" in failed(kept, keys)


class TestLogEntry:
    def test_a_receipt_that_is_in_no_log(self, kept, keys):
        (kept / "log_entry.json").unlink()
        assert failed(kept, keys) == ["Log"]

    def test_a_receipt_signed_beside_the_log(self, kept, keys, world):
        """The controller signs another receipt for the same entry."""
        document = document_of(dsse.opened((kept / "receipt.json").read_bytes())[0], "statement")
        name = document["predicate"]["name"]
        for place in (document["predicate"], document["subject"][0]):
            place["name"] = f"{name}0"
        (kept / "receipt.json").write_bytes(dsse.sign(json_bytes(document), [world.card_key]))
        assert failed(kept, keys) == ["Log"]

    @pytest.mark.parametrize("field", ["action", "actor", "resource", "details", "index"])
    def test_an_entry_about_something_else(self, kept, keys, field):
        document = json.loads((kept / "log_entry.json").read_bytes())
        entry = json.loads(document["entry"])
        entry[field] = {} if field == "details" else "7"
        document["entry"] = json_bytes(entry).decode()
        (kept / "log_entry.json").write_bytes(json_bytes(document))
        assert failed(kept, keys) == ["Log"]

    def test_a_checkpoint_of_another_size(self, ana, kept, keys, world):
        world.log("another")
        (kept / "checkpoint.json").write_bytes(ana.checkpoint().envelope)
        assert failed(kept, keys) == ["Log"]

    def test_a_controller_that_leaves_a_release_out_of_its_log(self, agreed, world):
        body = json.loads(world.entries[agreed.release(5).name])
        world.faults.change["GetRelease"] = lambda answer: _with_entry(answer, json_bytes(body))
        with pytest.raises(errors.VerificationError, match="log"):
            agreed.release(6)
        world.faults.change["GetRelease"] = lambda answer: _with_entry(answer, b"")
        with pytest.raises(errors.VerificationError, match="malformed"):
            agreed.release(6)


def _with_entry(answer, entry):
    answer.log_entry = entry
    return answer


class TestNotChecked:
    @pytest.mark.parametrize(
        ("gone", "left", "wrong"),
        [
            (["rows"], ["Rows"], []),
            (["rows", "receipt"], ["Rows", "Receipt", "psi"], []),
            (["checkpoint"], ["Log"], ["Log"]),
        ],
    )
    def test_what_is_missing_is_named(self, kept, keys, gone, left, wrong):
        for file in kept.iterdir():
            if file.stem in gone:
                file.unlink()
        assert unchecked(kept, keys) == left
        assert failed(kept, keys) == wrong

    def test_other_files_are_named(self, kept, keys):
        (kept / "audit.html").write_text("<p>no evidence</p>")
        checks = verify(Bundle.of([kept]), keys, NOW)
        (other,) = (check for check in checks if check.what == "Other files")
        assert (other.outcome, "audit.html" in other.detail) == (Outcome.NOTED, True)
        assert failed(kept, keys) == []

    def test_an_analyst_whose_key_is_not_known(self, kept, keys):
        assert unchecked(kept, replace(keys, analyst=())) == ["Analyst's signature"]
        assert failed(kept, replace(keys, analyst=())) == []

    def test_a_log_whose_key_is_not_known(self, kept, keys):
        assert failed(kept, replace(keys, log=None)) == ["Log", "Log"]


def test_replay_without_the_controller(kept, keys):
    receipt, dataset, _ = rebuild(Bundle.of([kept]), keys)
    assert dataset.digest() == receipt.rows_digest
    assert len(dataset) == 300


def test_a_receipt_that_lies_about_its_seed(kept, keys, world):
    document = document_of(dsse.opened((kept / "receipt.json").read_bytes())[0], "statement")
    document["predicate"]["seed"] = "10"
    (kept / "receipt.json").write_bytes(dsse.sign(json_bytes(document), [world.card_key]))
    assert failed(kept, keys) == ["Rows"]
    with pytest.raises(errors.VerificationError, match="replayed rows"):
        rebuild(Bundle.of([kept]), keys)


@pytest.mark.parametrize(
    ("field", "lie"),
    [
        ("rows", lambda card: str(card.terms.rows + 1)),
        ("time", lambda card: card.expire_time),
        ("name", lambda card: f"{card.name}0/releases/1"),
        ("card", lambda card: {"sha256": "00" * 32}),
    ],
    ids=["rows", "time", "name", "another card of the same name"],
)
def test_a_receipt_outside_the_terms_of_the_card(kept, keys, world, agreed, field, lie):
    """Signed by the controller, which did not keep to what it had signed before."""
    document = document_of(dsse.opened((kept / "receipt.json").read_bytes())[0], "statement")
    document["predicate"][field] = lie(agreed.agreement.card)
    document["subject"][0]["name"] = document["predicate"]["name"]
    (kept / "receipt.json").write_bytes(dsse.sign(json_bytes(document), [world.card_key]))
    assert failed(kept, keys) == ["Receipt", "Rows"]


def test_one_of_two_receipts_names_another_psi(kept, keys, world):
    document = document_of(dsse.opened((kept / "receipt.json").read_bytes())[0], "statement")
    document["predicate"]["psi"]["sha256"] = "00" * 32
    (kept / "receipt2.json").write_bytes(dsse.sign(json_bytes(document), [world.card_key]))
    assert "psi" in failed(kept, keys)


def test_a_receipt_that_lies_about_the_number_of_rows(kept, keys, world):
    document = document_of(dsse.opened((kept / "receipt.json").read_bytes())[0], "statement")
    document["predicate"]["rows"] = "299"
    (kept / "receipt.json").write_bytes(dsse.sign(json_bytes(document), [world.card_key]))
    assert failed(kept, keys) == ["Rows"]


def test_two_checkpoints_of_a_log_that_was_forked(kept, keys, world):
    envelope = (kept / "checkpoint.json").read_bytes()
    (kept / "same.json").write_bytes(envelope)
    assert failed(kept, keys) == []
    document = document_of(dsse.opened(envelope)[0], "statement")
    document["predicate"]["root"] = "00" * 32
    (kept / "same.json").write_bytes(dsse.sign(json_bytes(document), [world.key("log_key.pem")]))
    assert failed(kept, keys) == ["Log"]


class TestBundle:
    def test_what_is_named_must_be_ours(self, tmp_path):
        (tmp_path / "note.txt").write_text("hello")
        assert Bundle.of([tmp_path]).files == {}
        with pytest.raises(errors.InvalidInputError, match="contains no signed document"):
            Bundle.of([tmp_path / "note.txt"])
        with pytest.raises(errors.InvalidInputError, match="cannot read"):
            Bundle.of([tmp_path / "absent.json"])

    def test_one_card_is_needed(self, kept, keys, tmp_path):
        (kept / "card2.json").write_bytes((kept / "card.json").read_bytes())
        assert failed(kept, keys) == ["Card,"]
        assert failed(tmp_path / "kept" / "psi.json", keys) == ["Card,"]


def test_saving_where_nothing_can_be_written(agreed, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.InvalidInputError):
        agreed.release(rows=3).save(tmp_path / "file")


def test_numbers_survive(kept, keys, agreed):
    _, dataset, coding = rebuild(Bundle.of([kept]), keys)
    again = agreed.release(rows=300, seed=9)
    np.testing.assert_array_equal(dataset.codes, again.dataset.codes)
    assert coding.domain == again.coding.domain
