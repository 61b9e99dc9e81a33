"""Attack: submit a leaky black box until it passes. Evidence is pooled over the tries of a family."""

import re

import pytest

from gencard.client.audit import Audit, known_audits
from gencard.client.card import Card
from gencard.controller import operations as run_module
from gencard.controller.audit_runs import KNOWN_LEAK
from gencard.controller.state.log import event_of
from gencard.core.card.card import CardState
from gencard.core.card.terms import AuditTerms
from gencard.core.errors import AuditRequiredError, InternalError, InvalidInputError, NotFoundError
from gencard.v1 import audit_pb2
from gencard.wire.canonical import sha256
from gencard.wire.dsse import VERDICT, opened, predicate_of
from tests.system.house import House, build, survey
from tests.system.prepared_audits import audit_answer
from tests.system.raw_calls import call, enrolled
from tests.system.stewards import Steward

TRIPLE = [("sex", "health", "work")]
PAIRS = [("sex", "health"), ("sex", "work"), ("health", "work")]
ALMOST = 0.03
"""p-value of one try: above 0.025, the level of a first one, so that it passes by itself."""

REPORT = "/gencard.v1.AuditService/GetAuditReport"


@pytest.fixture
def house(tmp_path):
    built = build(tmp_path, survey(300))
    built.raise_caps()
    built.edit({"generators": '["ipf", "copier", "leaky"]'})
    built.review("copier")
    yield built.start()
    built.stop()


@pytest.fixture(autouse=True)
def outcomes(monkeypatch):
    """Findings of the next audits: p-values, or words of ``prepared_audits``."""
    coming: list[str | float] = []
    real = run_module.Run.job

    def job(self, task, description):
        if task.name != "audit":
            return real(self, task, description)
        return audit_answer(coming.pop(0), description)

    monkeypatch.setattr(run_module.Run, "job", job)
    return coming


def agreed(analyst, marginals=PAIRS, generator="copier", **terms) -> Card:
    terms = {"purpose": "a test", "rows": 100} | terms
    return analyst.propose("survey", marginals, generator=generator, **terms).accept()


def audit(card: Card, box: str = "") -> Audit:
    return (
        card.audit(box or None, where="card", progress=False)
        if box
        else card.audit(where="card", progress=False)
    )


def verdicts_of(house: House, outcomes: list, number: int, person: str = "ana") -> list[str]:
    """Run as many tries that each pass alone."""
    outcomes += [ALMOST] * number
    with house.analyst(person) as analyst:
        return [audit(agreed(analyst)).verdict for _ in range(number)]


class TestPooling:
    def test_s31_what_passes_alone_is_found_at_the_next_tries(self, house, outcomes):
        """At a4e800e every one of the five passed."""
        verdicts = verdicts_of(house, outcomes, 5)
        assert verdicts[0] == "no-evidence"
        assert verdicts[-3:] == ["leakage"] * 3

    def test_s31_tries_of_different_people_are_pooled(self, house, outcomes):
        people = ["ana", *(enrolled(house, name, project=name) for name in ("ben", "cem", "dan"))]
        assert [verdicts_of(house, outcomes, 1, person)[0] for person in people][-1] == "leakage"

    def test_s31_rows_end_once_the_pool_finds_what_one_try_missed(self, house, outcomes):
        outcomes += [ALMOST] * 4
        with house.analyst() as analyst:
            first, *others = (agreed(analyst) for _ in range(4))
            assert audit(first).verdict == "no-evidence"
            assert [audit(card).verdict for card in others][-1] == "leakage"
            assert others[-1].refresh().state is CardState.AUDIT_FAILED
            with pytest.raises(AuditRequiredError):
                first.release(10, progress=False)

    def test_s31_weak_audits_between_do_not_dilute(self, house, outcomes):
        """Audits of other cards may have few rows, few runs and a low order."""
        weak = AuditTerms(runs=6, order=1)
        outcomes += [ALMOST, *["no-evidence"] * 3, *[ALMOST] * 4]
        with house.analyst() as analyst:
            verdicts = [audit(agreed(analyst)).verdict]
            for _ in range(3):
                other = agreed(analyst, generator="ipf", rows=2, audit=weak)
                verdicts.append(audit(other, "copier").verdict)
            verdicts += [audit(agreed(analyst)).verdict for _ in range(4)]
        assert verdicts[-1] == "leakage"

    def test_s31_tries_that_end_without_a_verdict_weaken_nothing(self, house, outcomes):
        with house.analyst() as analyst:
            for _ in range(3):
                with pytest.raises(InternalError):
                    audit(agreed(analyst))  # no verdict is prepared
            outcomes += [0.02]
            found = audit(agreed(analyst))
        assert (found.verdict, found.attempt, found.level) == ("leakage", 1, "0.025")


class TestPhi:
    def test_s31_evidence_under_a_wider_phi_counts_and_under_a_narrower_one_does_not(
        self, house, outcomes
    ):
        outcomes += [ALMOST] * 2 + [0.02] * 2
        with house.analyst() as analyst:
            narrow, wide = (agreed(analyst, pairs, "ipf") for pairs in (PAIRS[:2], PAIRS))
            tries = [audit(card, "independent") for card in (narrow, wide, narrow, wide)]
        assert [found.attempt for found in tries] == [1, 1, 3, 2]


class TestBytes:
    @pytest.fixture
    def caught(self, house, outcomes) -> House:
        outcomes.append("leakage")
        with house.analyst() as analyst:
            assert audit(agreed(analyst)).verdict == "leakage"
        return house

    def digest_of(self, house):
        with house.analyst() as analyst:
            return next(one.digest for one in analyst.generators() if one.name == "copier")

    def test_s31_an_update_does_not_forget_that_a_box_was_caught(self, caught, outcomes):
        """At a4e800e a changed digest passed as if nothing had been."""
        before = self.digest_of(caught)
        caught.stop()
        caught.edit({"share": "0.49"})
        caught.review("copier")
        caught.start()
        assert self.digest_of(caught) != before
        outcomes += ["no-evidence"]
        with caught.analyst() as analyst:
            found = audit(agreed(analyst))
        assert (found.verdict, found.wording) == ("leakage", KNOWN_LEAK)

    def test_s31_a_steward_clears_it_and_the_log_says_so(self, caught, outcomes):
        controller_state = caught.controller.controller_state
        clearing = Steward(controller_state)
        assert clearing.clear("datasets/survey", "copier", "The author has shown the mistake.") == 1
        with controller_state.database.reading() as tx:
            *_, entry = controller_state.log.entries(tx)
        event = event_of(entry.body)
        assert (event.action, event.resource) == ("clear-audits", "datasets/survey")
        assert event.details["remark"] == "The author has shown the mistake."
        assert event.details["black_box"] == "copier"
        outcomes += ["no-evidence"]
        with caught.analyst() as analyst:
            found = audit(agreed(analyst))
        assert (found.verdict, found.attempt) == ("no-evidence", 1)

    @pytest.mark.parametrize("remark", ["", "  ", "two\nlines", "x" * 201])
    def test_a_decision_has_a_reason(self, caught, remark):
        clearing = Steward(caught.controller.controller_state)
        with pytest.raises(InvalidInputError):
            clearing.clear("datasets/survey", "copier", remark)

    def test_what_does_not_count_cannot_be_cleared(self, caught):
        clearing = Steward(caught.controller.controller_state)
        for dataset, box in (("datasets/survey", "leaky"), ("datasets/other", "copier")):
            with pytest.raises(NotFoundError):
                clearing.clear(dataset, box, "No reason.")


class TestWhoSeesThePool:
    @pytest.fixture
    def last(self, house, outcomes) -> Audit:
        outcomes += [ALMOST] * 2
        with house.analyst() as analyst:
            return [audit(agreed(analyst)) for _ in range(2)][-1]

    def test_s32_an_analyst_hears_settings_alone(self, last):
        facts = predicate_of(opened(last.attestation)[0], VERDICT)
        assert (facts["attempt"], facts["triesPooled"], facts["author"]) == ("2", "2", "gencard")
        allowed = {*["2", "10", "3"], f"{float(last.level):.3g}"}
        assert set(re.findall(r"[0-9.e-]*\d", last.wording)) <= allowed
        assert not any("p_value" in name or "pValue" in name for name in facts)

    def test_s32_an_auditor_reads_both_p_values_in_the_report_that_was_signed(self, house, last):
        facts = predicate_of(opened(last.attestation)[0], VERDICT)
        with house.analyst("aud") as auditor:
            (found,) = known_audits(auditor.card(last.card).agreement)
        assert found.findings.p_value_alone == pytest.approx(ALMOST)
        assert found.findings.p_value < ALMOST
        assert len(found.findings.earlier) == 1
        name = opened(last.attestation)[0]
        asked = audit_pb2.GetAuditReportRequest(
            name=re.search(rb'"name":"([^"]+/audits/[^"]+)"', name)[1]
        )
        answer = call(house.channel("aud"), REPORT, asked).answers[0]
        report = audit_pb2.GetAuditReportResponse.FromString(answer).report
        assert facts["report"] == {"sha256": sha256(report)}
