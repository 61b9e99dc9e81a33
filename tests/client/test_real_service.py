"""The client and the controller as they are, over real TLS: what a person does with both."""

from itertools import combinations

import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app
from gencard.core import errors
from gencard.core.audit.report import Verdict
from gencard.core.card.card import CardState
from gencard.core.card.terms import AuditTerms
from tests.system.house import running, survey
from tests.system.raw_calls import known_seeds

NAMES = ("sex", "health", "work")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with known_seeds(), running(tmp_path_factory.mktemp("real")) as started:
        yield started


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst("ana") as analyst:
        yield analyst


@pytest.fixture(scope="module")
def card(ana):
    """A card in force; strict, as honest boxes must not fail by chance."""
    asked = {"purpose": "To see", "rows": 20_000, "audit": AuditTerms(alpha="0.000001")}
    return ana.propose("survey", list(combinations(NAMES, 2)), **asked).accept()


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


@pytest.mark.parametrize("ending", [".dta", ".sav", ".xlsx"])
def test_files_with_labels_are_verified_and_compared(house, card, tmp_path, monkeypatch, ending):
    monkeypatch.setenv("GENCARD_CONNECTION", str(house.person("ana")))
    (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')
    kept = tmp_path / "kept"
    file = kept / f"rows{ending}"
    for words in (
        ["generate", card.name, "--rows", "400", "--seed", "5", "-o", str(kept)],
        ["generate", card.name, "--rows", "400", "--seed", "5", "-o", str(file)],
        ["verify", str(kept)],
        ["replay", str(kept)],
        ["fidelity", str(kept), "--data", str(file)],
    ):
        result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        assert result.exit_code == 0, result.output
        assert words[0] not in ("verify", "replay") or "compared by values" in result.output


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
        audit = auditor.card(card.name).audit("leaky", runs=6, progress=False)
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


def test_a_plan_spends_nothing_and_its_psi_gives_the_fit_of_the_records(ana):
    before = (ana.spends(), ana.budget("survey"), len(ana.cards()))
    plan = ana.plan("survey", "work ~ sex + health", kind="linear", rows=1_000)
    assert (ana.spends(), ana.budget("survey"), len(ana.cards())) == before
    assert plan.changes == ()
    card = plan.propose(purpose="Work by sex and health").accept()
    assert card.price == plan.price
    release = card.release(1_000, progress=False)
    assert card.fidelity(release).facts.unexplained == ()
    records = survey()
    columns = [np.ones(len(records)), *(records[name] == level for name, level in EFFECTS)]
    fit = np.linalg.lstsq(np.column_stack(columns).astype(float), records["work"] == "part")[0]
    assert coefficients(card) == pytest.approx(fit, abs=1e-9)


EFFECTS = [("sex", "male"), ("health", "fair"), ("health", "bad"), ("health", "very bad")]


def coefficients(card):
    """Least squares of part-time work on sex and health, from the counts of psi alone."""

    def counted(*levels):
        wanted = dict(levels)
        if len(wanted) < len(set(levels)):
            return 0  # two levels of one attribute
        measured = next(m for m in card.psi.measurements if wanted.keys() <= set(m.clique))
        names = [card.entry.coding.attribute(name).coding.level_names for name in measured.clique]
        at = [
            names[axis].index(wanted[name]) if name in wanted else slice(None)
            for axis, name in enumerate(measured.clique)
        ]
        return measured.values[tuple(at)].sum()

    terms = [(), *((effect,) for effect in EFFECTS)]
    gram = [[counted(*one, *other) for other in terms] for one in terms]
    return np.linalg.solve(gram, [counted(("work", "part"), *term) for term in terms])


def test_a_plan_that_the_policy_would_not_follow(ana):
    plan = ana.plan("survey", "work ~ sex * health", rows=1_000)
    assert plan.lacking == (NAMES,)
    assert {change.reason for change in plan.changes} == {"ORDER_TOO_HIGH"}


def test_one_call_from_a_formula_to_rows(ana):
    """The second call with the same plan uses the card of the first, and is charged nothing."""
    formula, options = "health ~ C(sex)", {"rows": 300, "accept": True, "progress": False}
    first = ana.synthesize("survey", formula, seed=1, **options)
    spent, cards = ana.budget("survey").spent, len(ana.cards("survey"))
    again = ana.synthesize("survey", formula, seed=2, **options | {"accept": False})
    assert ana.budget("survey").spent == spent
    assert len(ana.cards("survey")) == cards
    assert first.name.partition("/releases/")[0] == again.name.partition("/releases/")[0]
    assert first.receipt.psi_digest == again.receipt.psi_digest
    assert first.receipt.rows_digest != again.receipt.rows_digest
