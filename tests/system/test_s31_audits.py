"""S31, S32: audits over the wire: what they find, what they cost, and how they say it."""

import json
import re

import pytest

from gencard.client.common.arguments import Where
from gencard.client.connection.credentials import Credentials
from gencard.controller import operations as run_module
from gencard.controller.state import results
from gencard.core.card.budget import Price, SpendState
from gencard.core.card.terms import AuditTerms
from gencard.core.errors import BudgetExceededError, InternalError, NotFoundError, TooManyAuditsError
from gencard.v1 import audit_pb2
from tests.system.house import build, request_id
from tests.system.prepared_audits import audit_answer
from tests.system.raw_calls import call, enrolled, known_seeds, state_unchanged

PAIRS = [("sex", "health"), ("sex", "work"), ("health", "work")]
REPORT = "/gencard.v1.AuditService/GetAuditReport"
RUN = "/gencard.v1.AuditService/RunAudit"
MOST = 40
NO_EVIDENCE = (
    r"No evidence of leakage \(level [0-9.e-]+ at try \d+, 6 runs a side, interactions of up to 3 "
    r"attributes\)\. This is no proof that there is none: a smaller leak, one in interactions that were "
    r"not looked at, or one that its author hides on purpose would have been missed\."
)


@pytest.fixture(scope="module")
def audit_house(tmp_path_factory):
    house = build(tmp_path_factory.mktemp("audits"))
    house.allow_audits(MOST)
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def card(audit_house):
    """A card in force, in the hands of ana; strict, as an honest box must not fail by chance."""
    with audit_house.analyst() as analyst:
        proposed = analyst.propose(
            "survey", PAIRS, purpose="a test", rows=3_000, audit=AuditTerms(runs=6, alpha="0.0001")
        )
        yield proposed.accept()


def audit(card, box, seed=0):
    return card.audit(box, where="card", seed=seed, progress=False)


class TestRealAudits:
    """Audits of real records by real jobs."""

    @pytest.fixture(autouse=True)
    def seeds(self):
        with known_seeds():
            yield

    def test_s31_an_honest_box_leaves_no_evidence_and_says_what_that_means(self, card):
        found = audit(card, "honest")
        assert (found.verdict, found.where) == ("no-evidence", Where.CARD)
        assert re.fullmatch(NO_EVIDENCE, found.wording)

    def test_s31_a_leaky_box_is_found(self, card):
        assert audit(card, "leaky").verdict == "leakage"

    def test_s32_no_number_that_depends_on_records_reaches_an_analyst(self, card, audit_house):
        found = audit(card, "copier")
        allowed = set(re.findall(r"[0-9.e-]*\d", f"{float(found.level):.3g} {found.attempt} 6 3"))
        assert set(re.findall(r"[0-9.e-]*\d", found.wording)) <= allowed
        assert found.findings is None
        with audit_house.analyst() as analyst:
            asked = audit_pb2.GetAuditReportRequest(name=analyst.spends()[0].resource)
        assert call(audit_house.channel("ana"), REPORT, asked).reason == "PERMISSION_DENIED"
        answer = call(audit_house.channel("aud"), REPORT, asked).answers[0]
        report = json.loads(audit_pb2.GetAuditReportResponse.FromString(answer).report)
        assert (report["verdict"], report["plan"]["attempt"]) == ("leakage", found.attempt)


@pytest.fixture
def verdicts(monkeypatch):
    """Jobs that say at once what the test wants them to find."""
    verdicts = []

    def job(self, task, description):
        assert task.name == "audit"
        return audit_answer(verdicts.pop(0), description)

    monkeypatch.setattr(run_module.Run, "job", job)
    return verdicts


def ana_of(house):
    return Credentials.of_folder(house.person("ana")).identity().uri


def test_s30_who_asks_for_an_audit_does_not_know_its_seeds(card, monkeypatch):
    """Or the author of a box could make it honest for the seeds that a friend will ask for."""
    seeds = []

    def job(self, task, description):
        seeds.append(description.plan.seed)
        return audit_answer("no-evidence", description)

    monkeypatch.setattr(run_module.Run, "job", job)
    for _ in range(2):
        audit(card, "honest", seed=7)
    assert len({7, *seeds}) == 3


class TestManyTries:
    def test_s31_the_levels_of_all_tries_sum_to_less_than_alpha(self, audit_house, card, verdicts):
        name = enrolled(audit_house, "carol", project="other")
        with audit_house.analyst(name) as carol:
            own = carol.propose("survey", PAIRS, purpose="a test").accept()
            verdicts += ["no-evidence"] * MOST
            tries = [audit(own, "honest", seed) for seed in range(MOST)]
            spent = carol.spends()
            with pytest.raises(TooManyAuditsError, match=str(MOST)):
                audit(own, "honest")
            assert carol.spends() == spent
        first = tries[0].attempt  # others may have tried the same box before
        assert [found.attempt for found in tries] == list(range(first, first + MOST))
        levels = [float(found.level) for found in tries]
        assert sum(levels) < 0.05
        assert levels == sorted(levels, reverse=True)

    def test_s31_a_box_once_found_to_leak_never_passes_by_luck(self, audit_house, verdicts):
        for person in ("ana", enrolled(audit_house, "dan", project="third")):
            with audit_house.analyst(person) as analyst:
                own = analyst.propose("survey", PAIRS[:2], purpose="a test").accept()
                verdicts += ["no-evidence"] * 10
                tries = [audit(own, "leaky", seed) for seed in range(10)]
            assert {found.verdict for found in tries} == {"leakage"}
            assert all(found.wording.startswith("Evidence of leakage") for found in tries)

    def test_s31_a_leak_is_not_held_against_a_card_that_allows_more(self, audit_house, verdicts):
        """A box that uses more than a small Phi may use no more than a large one."""
        with audit_house.analyst() as analyst:
            small, large = (
                analyst.propose("survey", pairs, purpose="a test").accept()
                for pairs in (PAIRS[:2], PAIRS)
            )
            verdicts += ["leakage"] + ["no-evidence"] * 2
            tries = [audit(card, "independent") for card in (small, large, small)]
        assert [found.verdict for found in tries] == ["leakage", "no-evidence", "leakage"]

    def test_s31_a_failed_try_counts_for_its_submitter_and_weakens_no_later_one(
        self, audit_house, verdicts, card
    ):
        """Otherwise the level could be brought down by tries that say nothing."""
        controller_state = audit_house.controller.controller_state
        verdicts += ["no-evidence"]
        before = audit(card, "honest")
        with controller_state.database.reading() as tx:
            begun = results.count_attempts(tx, "datasets/survey", ana_of(audit_house))
        with pytest.raises(InternalError):
            audit(card, "honest")
        verdicts += ["no-evidence"]
        assert audit(card, "honest").attempt == before.attempt + 1
        with controller_state.database.reading() as tx:
            assert results.count_attempts(tx, "datasets/survey", ana_of(audit_house)) == begun + 2

    def test_s31_a_verdict_costs_one_statistic(self, audit_house, verdicts, card):
        verdicts += ["no-evidence"]
        audit(card, "honest")
        with audit_house.analyst() as analyst:
            line = analyst.spends()[0]
        assert line.resource.startswith(f"{card.name}/audits/")
        assert (line.kind, line.price, line.state) == ("audit", Price(statistics=1), SpendState.SETTLED)

    def test_s31_without_budget_there_is_no_try(self, audit_house, card, monkeypatch):
        ledger = audit_house.controller.controller_state.ledger
        monkeypatch.setattr(type(ledger), "cap", lambda *_: Price())
        with state_unchanged(audit_house), pytest.raises(BudgetExceededError):
            audit(card, "honest")

    def test_s31_an_unknown_box_is_no_try(self, audit_house, card):
        with state_unchanged(audit_house), pytest.raises(NotFoundError):
            audit(card, "no-such-box")

    def test_s31_no_audit_of_a_card_that_is_still_talked_about(self, audit_house):
        with audit_house.analyst() as analyst:
            open_card = analyst.propose("survey", PAIRS, purpose="a test")
        asked = audit_pb2.RunAuditRequest(card=open_card.name, request_id=request_id())
        with state_unchanged(audit_house):
            assert call(audit_house.channel(), RUN, asked).reason == "CARD_STATE"
