"""The client and the controller as they are, over real TLS: what a person does with both."""

from itertools import combinations

import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app
from gencard.core import errors
from gencard.core.audit.verdict import Verdict
from gencard.core.negotiation import CardState
from tests.system.house import running

NAMES = ("sex", "health", "work")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with running(tmp_path_factory.mktemp("real")) as started:
        yield started


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst("ana") as analyst:
        yield analyst


@pytest.fixture(scope="module")
def card(ana):
    return ana.propose("survey", list(combinations(NAMES, 2)), purpose="To see", rows=20_000).accept()


def test_a_release_is_kept_verified_and_replayed_by_hand(house, card, tmp_path, monkeypatch):
    monkeypatch.setenv("GENCARD_CONNECTION", str(house.person("ana")))
    (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')
    kept = tmp_path / "kept"
    for words in (
        ["generate", card.name, "--rows", "5000", "--seed", "3", "-o", str(kept)],
        ["verify", str(kept)],
        ["replay", str(kept)],
        ["log"],
        ["budget", "survey"],
        ["cards", card.name],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    assert card.refresh().state is CardState.RELEASED


def test_the_entry_of_a_release_is_in_the_log(ana, card):
    release = card.release(100, seed=1, progress=False)
    assert ana.log.check_entry(release.receipt.log_index, ana.checkpoint())


def test_an_auditor_gets_the_report_and_an_analyst_the_verdict(house, card):
    assert card.audit("ipf", where="card", progress=False).verdict is Verdict.NO_EVIDENCE
    with house.analyst("aud") as auditor:
        audit = auditor.card(card.name).audit("leaky", where="card", progress=False)
    assert audit.verdict is Verdict.LEAKAGE
    assert set(audit.report.facts.strongest.clique) == set(NAMES)
    assert "Evidence of leakage" in audit.report.html


def test_an_audit_from_afar_needs_no_trust_in_the_controller(house, card):
    with house.analyst("aud") as auditor:
        audit = auditor.card(card.name).audit("leaky", runs=3, progress=False)
    assert audit.verdict is Verdict.LEAKAGE
    assert set(audit.report.facts.strongest.clique) == set(NAMES)


def test_typed_errors_of_the_real_service(ana, card):
    with pytest.raises(errors.NotFoundError):
        ana.card("datasets/survey/cards/none")
    with pytest.raises(errors.TooLargeError):
        card.generate(rows=20_001, progress=False)
    with pytest.raises(errors.CardStateError):
        card.counter(rows=5)
    stale = ana.card(card.name)
    card.release(10, seed=99, progress=False)
    with pytest.raises(errors.StaleEtagError):
        stale.terminate()
