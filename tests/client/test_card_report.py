"""The report of a card: its page holds what was found, says what was not, and lets nothing in."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gencard.boxes.reference import Honest
from gencard.client.audit import Audit
from gencard.client.card_report import NOT_ON_CARD, CardReport, LeftOut
from gencard.client.common.arguments import Where
from gencard.client.findings import plots
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import Verdict
from gencard.core.audit.run import audit as run_audit
from gencard.core.audit.uniques import made_up
from gencard.core.card.privacy import AS_COUNTED, gaussian
from gencard.core.card.terms import AuditTerms
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.family import ipf
from gencard.core.statistics.noise import USUAL_DELTA, epsilon_of
from gencard.measures.evaluation.evaluation import Declared, Group, Material
from gencard.measures.evaluation.registry import EVALUATIONS, evaluate, finding_of_json_object
from gencard.measures.evaluation.risk_findings import RowUniquesFinding
from gencard.measures.evaluation.utility_findings import AssociationsFinding
from tests.wire.samples import CARD, RECEIPT

DRAWN = plots.drawn
EVIL = '<script>alert("1")</script>'
CODING = Coding(
    (
        Attribute(EVIL, Labels(("a", "b", "c"))),
        Attribute("town", Labels(tuple("abcdefgh"))),
        Attribute("age", Labels(tuple(map(str, range(20))), integer=True, ordered=True)),
    )
)


def drawn(records, seed):
    rng = np.random.default_rng(seed)
    domain = CODING.domain
    return Dataset.of_columns(domain, [rng.integers(0, size, records) for size in domain.sizes])


def findings(synthetic):
    declared = Declared(keys=(EVIL, "age"), target="town", attacks=80)
    cliques = ((EVIL, "town"), ("age",))
    material = Material(synthetic, CODING, cliques, declared, 1, drawn(200, 1), drawn(150, 2))
    return {
        name: evaluate(measure, material)
        for name, measure in EVALUATIONS.items()
        if measure.reads_records
    }


def audit(box, verdict):
    return Audit("datasets/survey/cards/0a", box, Where.CARD, verdict, f"said of {box}", 1, "0.025")


def report(synthetic, **changes):
    given = {
        "card": CARD,
        "digest": "ab" * 32,
        "state": "released",
        "receipt": RECEIPT,
        "reader": "steward",
        "findings": changes["findings"] if "findings" in changes else findings(synthetic),
        "audits": (),
        "left_out": (LeftOut("Fidelity to psi", NOT_ON_CARD),),
    }
    return CardReport(**given | changes)


@pytest.fixture(scope="module", autouse=True)
def _figures_drawn_once():
    """Pages of one module share findings, and a figure takes longer than all else on its page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "drawn", cache(DRAWN))
        yield


@pytest.fixture(scope="module")
def audited():
    cliques = (("sex",), ("age",))
    around = made_up(Domain.of({"sex": 2, "age": 3}), 300, rng=np.random.default_rng(1))
    plan = AuditPlan(cliques, rows=100, seed=1, terms=AuditTerms(runs=6))
    facts = run_audit(Honest(ipf(), cliques), around, plan)
    return replace(audit("box", Verdict.NO_EVIDENCE), findings=facts)


@pytest.fixture(scope="module")
def honest():
    return report(drawn(180, 3))


@pytest.fixture(scope="module")
def page(honest):
    """Drawn once: its figures take a second."""
    return honest.html


@pytest.fixture(scope="module")
def copied():
    return report(drawn(200, 1))


def test_each_finding_has_a_figure_a_reading_and_a_limit(honest, page):
    assert page.count("<svg") == len(honest.available)
    assert page.count("How to read it.") == len(honest.available)
    assert page.count("What it does not show.") == len(honest.available)
    for name in honest.available:
        assert f'id="{name}"' in page
    assert NOT_ON_CARD in page


def test_the_page_is_self_contained_and_says_what_comes_from_outside_as_text(page):
    assert "default-src 'none'" in page
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    for forbidden in ("<script", "<link", "<img", "javascript:", "url(http", "@import", "src="):
        assert forbidden not in page


def test_the_same_findings_give_the_same_page(honest, page, monkeypatch):
    monkeypatch.setattr(plots, "drawn", DRAWN)  # again
    assert replace(honest).html == page


def test_what_stands_out_is_marked(honest, page, copied):
    assert not honest.standing_out
    assert "worse than the baseline</span>" not in page
    assert "This is not a proof of safety" in page
    assert "Distance to the closest record" in copied.standing_out
    marked = copied.html
    assert marked.count("worse than the baseline</span>") == len(copied.standing_out)
    assert 'class="leaked"' in marked


def test_an_audit_of_the_cards_own_generator_counts_and_one_of_another_does_not(honest):
    own = replace(honest, audits=(audit(CARD.terms.generator, Verdict.LEAKAGE),))
    other = replace(honest, audits=(audit("copier", Verdict.LEAKAGE),))
    assert "an audit of the generator" in own.html
    of_another = other.html
    assert "an audit of the generator" not in of_another
    assert "said of copier" in of_another


def test_the_json_holds_every_number(honest, tmp_path):
    honest.save_json(tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["format"] == "gencard.report.v1"
    assert document["card"]["name"] == CARD.name
    read = {
        one["name"]: finding_of_json_object(one["name"], one["found"]) for one in document["measures"]
    }
    assert read == honest.available
    assert document["leftOut"] == [{"what": "Fidelity to psi", "why": NOT_ON_CARD}]


def test_what_was_not_compared_with_the_records_is_in_the_headline(honest, page):
    of_rows = {"row-uniques": RowUniquesFinding(0.5, 0.25), "associations": AssociationsFinding((), 3)}
    left = LeftOut("Clones", "not named on the card", Group.RISK)
    shown = replace(honest, findings=of_rows, left_out=(left,))
    assert not honest.unexamined
    assert "Not compared with the records" not in page
    with_two = shown.html
    assert "Not compared with the records: risk and utility." in with_two
    risk = with_two.partition('id="risk-group"')[2].partition('id="utility-group"')[0]
    assert "25 % of the non-empty cells of psi" in risk.replace("\N{NO-BREAK SPACE}", " ")
    assert "<strong>Clones</strong>: not named on the card." in risk
    assert "Phi holds none of the 3 pairs" in with_two
    assert ("Risk, not included", "not named on the card: Clones") in shown.left_out_lines()


def test_noise_bounds_the_risk_and_the_report_says_by_how_much(honest):
    terms = replace(CARD.terms, privacy=gaussian("0.5", neighbouring="add-remove"), transform=AS_COUNTED)
    noisy = replace(honest, card=replace(CARD, terms=terms))
    assert "Risk bound" not in dict(honest.lines())
    bound = dict(noisy.lines())["Risk bound"]
    epsilon = float(epsilon_of(terms.privacy.price.rho, USUAL_DELTA))
    assert f"at most {100 * np.exp(epsilon) / (1 + np.exp(epsilon)):.3g} %" in bound


def test_with_nothing_found_it_says_so():
    empty = report(drawn(3, 1), findings={}, left_out=())
    nothing = empty.html
    assert "No evaluation is available to this reader." in nothing
    assert 'id="left-out"' not in nothing


def test_what_is_left_out_stands_in_a_line_for_each_reason(honest):
    left_out = (
        LeftOut("One", "not wanted"),
        LeftOut("Two", "not there"),
        LeftOut("Three", "not wanted"),
    )
    shown = replace(honest, left_out=left_out)
    assert shown.left_out_lines() == [
        ("Not included", "not wanted: One, Three"),
        ("Not included", "not there: Two"),
    ]
    assert "not wanted: One, Three" in shown._repr_html_()


def test_the_figure_is_of_the_audit_that_says_most(honest, audited):
    own = CARD.terms.generator
    passed, leaked = (
        replace(audited, black_box=own, verdict=verdict)
        for verdict in (Verdict.NO_EVIDENCE, Verdict.LEAKAGE)
    )
    other, unseen = replace(leaked, black_box="copier"), replace(leaked, findings=None)
    for audits, box in (((other, passed), own), ((other, unseen), "copier")):
        assert f"<figcaption>{box}: one dot" in replace(honest, audits=audits).html
    assert "<figcaption>" not in replace(honest, audits=(unseen,)).html


def test_for_terminal_and_notebook(copied):
    assert "Distance to the closest record" in copied._repr_html_()
    assert EVIL not in copied._repr_html_()
    grid = {title: mark for title, _, mark in copied.grid()}
    assert grid["Distance to the closest record"] == "!"
