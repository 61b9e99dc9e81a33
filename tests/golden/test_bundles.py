"""Releases that somebody saved: they verify and replay offline, to the byte."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gencard.client.checking.bundle import Bundle, Keys, Outcome, rebuild, verify
from gencard.client.checking.checks import card_of_statement, check_delivered_file
from gencard.client.common.rows import read_rows, write_rows
from gencard.client.connection.credentials import public_key
from gencard.core.card.terms import Tier
from gencard.core.errors import GencardError, NotReplayableError, VerificationError
from gencard.core.statistics.linear import statistics_of
from gencard.core.statistics.numbers import places_of
from gencard.run.levels import Numbers
from gencard.wire import dsse
from gencard.wire.canonical import document_of, json_bytes
from gencard.wire.documents import card_statement, receipt_of_document, receipt_statement
from gencard.wire.dsse import RECEIPT, predicate_of, statement, subject_digest
from gencard.wire.keys import CARDS, LOG, KeyHistory
from gencard.wire.log import log_entry_document, log_entry_of_document
from gencard.wire.psi import coding_document, coding_of_document, psi_document, psi_of_document
from tests.golden.files import BUNDLES, FOLDER, LATER

NAMES = sorted(path.name for path in BUNDLES.iterdir())
NOT_REPLAYED = {"audited", "private-mst", "private-bayes", "without-uniques"}
NOW = datetime(2026, 12, 1, tzinfo=UTC)
PERSON = FOLDER / "people" / "ana"


@pytest.fixture(scope="module")
def keys() -> Keys:
    return keys_in(PERSON)


def keys_in(folder: Path) -> Keys:
    def known(name: str) -> object:
        return public_key(folder / name, name)

    return Keys(
        KeyHistory(known("controller_card_key.pub"), CARDS),
        (known("signing_key.pub"),),
        KeyHistory(known("log_key.pub"), LOG),
    )


def contents(kind: str) -> list[Path]:
    return sorted(BUNDLES.glob(f"*/{kind}.json"))


def named(path: Path) -> str:
    return path.parent.name


@pytest.mark.parametrize("name", NAMES)
def test_it_verifies(name, keys):
    outcomes = {check.what: check.outcome for check in verify(Bundle.of([BUNDLES / name]), keys, NOW)}
    failed = [what for what, outcome in outcomes.items() if outcome is Outcome.FAILED]
    assert failed == (["Revocation revocation.json"] if name == "revoked" else [])
    assert Outcome.NOT_CHECKED not in outcomes.values()
    assert sum(outcome is Outcome.PASSED for outcome in outcomes.values()) >= 7


@pytest.mark.parametrize("name", NAMES)
def test_it_replays_to_the_byte(name, keys, tmp_path):
    bundle = Bundle.of([BUNDLES / name])
    if name in NOT_REPLAYED:
        with pytest.raises(NotReplayableError):
            rebuild(bundle, keys)
        return
    receipt, dataset, coding = rebuild(bundle, keys)
    assert dataset.digest() == receipt.rows_digest
    kept = bundle.one("rows").path
    assert read_rows(kept, coding, dataset.domain).digest() == receipt.rows_digest
    check_delivered_file(kept, dataset, coding, [receipt.drawing_seed])
    if kept.suffix == ".csv":
        numbers = None if name == "intervals" else Numbers(receipt.drawing_seed)
        write_rows(dataset, coding, tmp_path / kept.name, numbers)
        assert (tmp_path / kept.name).read_bytes() == kept.read_bytes()


def test_moments_of_whole_numbers_hold_by_the_values_that_psi_states():
    """In that card, an interval of whole numbers, dates or decimals counts as the middle of edges."""
    bundle = Bundle.of([LATER / "whole-numbers"])
    known = keys_in(LATER / "whole-numbers-keys")
    outcomes = {check.outcome for check in verify(bundle, known, NOW)}
    assert outcomes <= {Outcome.PASSED, Outcome.NOTED}
    receipt, dataset, coding = rebuild(bundle, known)
    assert dataset.digest() == receipt.rows_digest
    check_delivered_file(bundle.one("rows").path, dataset, coding, [receipt.drawing_seed])
    psi = bundle.psi()
    stated = tuple(one.statistic for one in psi.linear)
    card = card_of_statement(dsse.opened((LATER / "whole-numbers" / "card.json").read_bytes())[0])
    assert stated != statistics_of(card.terms.moments, coding)
    assert psi_document(psi) == (LATER / "whole-numbers" / "psi.json").read_bytes()


NUMBERS = LATER / "histograms"


def test_numbers_are_placed_by_the_histograms_and_sums_of_psi(tmp_path):
    """In both files, to the byte; psi without them gives other numbers."""
    bundle, known = Bundle.of([NUMBERS]), keys_in(LATER / "histograms-keys")
    outcomes = {check.outcome for check in verify(bundle, known, NOW)}
    assert outcomes <= {Outcome.PASSED, Outcome.NOTED}
    receipt, dataset, coding = rebuild(bundle, known)
    psi, seed = bundle.psi(), receipt.drawing_seed
    places = places_of(psi, coding)
    assert set(places) == {"spent", "hours"}
    for file in bundle.all("rows"):
        check_delivered_file(file.path, dataset, coding, [seed], places)
        with pytest.raises(VerificationError):
            check_delivered_file(file.path, dataset, coding, [seed])
    for left_out in ("histograms", "sums"):
        others = places_of(replace(psi, **{left_out: ()}), coding)
        with pytest.raises(VerificationError):
            check_delivered_file(NUMBERS / "rows.csv", dataset, coding, [seed], others)
    numbers = Numbers.of_rows(seed, dataset, coding, places)
    write_rows(dataset, coding, tmp_path / "rows.csv", numbers)
    assert (tmp_path / "rows.csv").read_bytes() == (NUMBERS / "rows.csv").read_bytes()


def test_a_changed_histogram_is_found(tmp_path):
    """One count of one cell, in a psi that is otherwise in order."""
    for path in NUMBERS.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    text = (tmp_path / "psi.json").read_bytes()
    (tmp_path / "psi.json").write_bytes(text.replace(b'"counts":["191"', b'"counts":["192"', 1))
    bundle, known = Bundle.of([tmp_path]), keys_in(LATER / "histograms-keys")
    failed = {one.what for one in verify(bundle, known, NOW) if one.outcome is Outcome.FAILED}
    assert "psi" in failed
    with pytest.raises(VerificationError):
        rebuild(bundle, known)


@pytest.mark.parametrize("kind", ["card", "receipt", "psi"])
@pytest.mark.parametrize("name", ["ipf", "gaussian", "audited"])
def test_a_changed_byte_is_found(name, kind, keys, tmp_path):
    """Control: the tests above would notice a changed byte."""
    for path in (BUNDLES / name).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = bytearray((tmp_path / f"{kind}.json").read_bytes())
    place = content.index(b'"counts":["') + 11 if kind == "psi" else 60
    content[place] = ord("8") if content[place] != ord("8") else ord("9")
    (tmp_path / f"{kind}.json").write_bytes(bytes(content))
    checks = verify(Bundle.of([tmp_path]), keys, NOW)
    assert any(check.outcome is Outcome.FAILED for check in checks)
    if name not in NOT_REPLAYED:
        with pytest.raises(GencardError):
            rebuild(Bundle.of([tmp_path]), keys)


def test_cards_of_every_kind_are_here(keys):
    cards = [card_of_statement(dsse.opened(path.read_bytes())[0]) for path in contents("card")]
    assert {card.tier for card in cards} == set(Tier)
    assert len({card.terms.privacy.mechanism for card in cards}) == 4
    assert any(card.terms.moments for card in cards)
    assert any(card.terms.weights for card in cards)
    assert any(card.terms.transform.rounding > 1 for card in cards)
    assert any(card.terms.measures for card in cards)
    assert any(card.terms.without_uniques for card in cards)


@pytest.mark.parametrize("path", contents("card"), ids=named)
def test_its_card_is_encoded_again(path):
    payload, signatures = dsse.opened(path.read_bytes())
    assert card_statement(card_of_statement(payload)) == payload
    assert dsse.envelope_of(payload, signatures) == path.read_bytes()


@pytest.mark.parametrize("path", contents("receipt"), ids=named)
def test_its_receipt_is_encoded_again(path):
    payload, signatures = dsse.opened(path.read_bytes())
    assert receipt_statement(receipt_of_document(predicate_of(payload, RECEIPT))) == payload
    assert dsse.envelope_of(payload, signatures) == path.read_bytes()


FACTS = [path for kind in ("checkpoint", "verdict", "revocation") for path in contents(kind)]


@pytest.mark.parametrize("path", FACTS, ids=lambda path: f"{named(path)} {path.stem}")
def test_other_statements_are_encoded_again(path):
    payload, signatures = dsse.opened(path.read_bytes())
    facts = document_of(payload, "statement")
    kind, subject = facts["predicateType"], facts["subject"][0]["name"]
    again = statement(kind, subject, predicate_of(payload, kind), subject_digest(payload))
    assert dsse.envelope_of(again, signatures) == path.read_bytes()


AGAIN = {
    "psi": lambda content: psi_document(psi_of_document(content)),
    "schema": lambda content: json_bytes(
        coding_document(coding_of_document(document_of(content, "schema")))
    ),
    "log_entry": lambda content: log_entry_document(log_entry_of_document(content)),
}


@pytest.mark.parametrize("kind", AGAIN)
def test_what_is_not_signed_is_encoded_again(kind):
    paths = contents(kind)
    assert paths
    for path in paths:
        assert AGAIN[kind](path.read_bytes()) == path.read_bytes(), path
