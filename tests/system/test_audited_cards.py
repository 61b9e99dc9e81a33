"""Cards whose generator is a black box: what they say, when rows come, and what speaks for the rows."""

import json
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gencard.client.checking.bundle import Bundle, Keys, Outcome, verify
from gencard.client.checking.checks import card_of_statement
from gencard.client.connection.credentials import Credentials
from gencard.controller import operations as run_module
from gencard.controller.boxes import Boxes, GeneratorFacts
from gencard.controller.policy.judgement import WEAK_AUDIT, with_generator
from gencard.controller.policy.statistics import GENERATOR_READS_RECORDS
from gencard.core.card.budget import NO_CLAIM, Neighbouring, Price, decimal_of
from gencard.core.card.card import CardState, Refusal
from gencard.core.card.privacy import AS_COUNTED, EXACT, Laplace, Transform
from gencard.core.card.terms import USUAL_AUDIT, AuditTerms, Proposal, Tier
from gencard.core.errors import (
    AuditRequiredError,
    BlackBoxError,
    BoxRunFailedError,
    CardStateError,
    GeneratorChangedError,
    InternalError,
    InvalidInputError,
    JobFailedError,
    JobLimitError,
    NotReplayableError,
    StorageError,
)
from gencard.v1 import synthesis_pb2
from gencard.wire.dsse import VERDICT, opened, predicate_of
from tests.system.house import build, survey
from tests.system.prepared_audits import audit_answer
from tests.system.raw_calls import enrolled, known_seeds

PAIRS = list(combinations(("sex", "health", "work"), 2))
TRUSTY = """
[[black_boxes]]
name = "trusty"
kind = "honest"
description = "Keeps its word."

[[black_boxes]]
name = "renamed"
kind = "adds_marginal"
clique = ["sex", "health", "work"]
description = "The leaky one by another name."
"""
ROWS = 1_000


@pytest.fixture(scope="module")
def boxed(tmp_path_factory):
    house = build(tmp_path_factory.mktemp("boxed"), survey(1_500))
    house.raise_caps()
    house.allow_audits(1_000)
    with house.settings_file.open("a") as settings:
        settings.write(TRUSTY)
    named = '["ipf", "trusty", "leaky", "renamed", "copier"]'
    house.edit({"generators": named})
    house.review("trusty", "leaky", "renamed", "copier")
    yield house.start()
    house.stop()


@pytest.fixture
def analyst(boxed):
    with boxed.analyst() as ana:
        yield ana


def agreed(analyst, generator="trusty", **terms):
    terms = {"rows": ROWS, "audit": AuditTerms(runs=6)} | terms
    return analyst.propose("survey", PAIRS, purpose="a test", generator=generator, **terms).accept()


@pytest.fixture
def verdicts(monkeypatch):
    """Audits that end at once as the test wants; all other jobs are real."""
    verdicts, real = [], run_module.Run.job

    def job(self, task, description):
        if task.name != "audit":
            return real(self, task, description)
        return audit_answer(verdicts.pop(0), description)

    monkeypatch.setattr(run_module.Run, "job", job)
    return verdicts


def audited(card, verdicts, verdict="no-evidence"):
    verdicts.append(verdict)
    card.audit(where="card", progress=False)
    return card.refresh()


class TestTheCard:
    def test_s35_it_names_tier_digest_parameters_and_claim(self, analyst, boxed):
        card = agreed(analyst)
        said = card_of_statement(card.offer.statement)
        entry = next(one for one in analyst.generators() if one.name == "trusty")
        assert (said.tier, said.generator_digest) == (Tier.AUDITED, entry.digest)
        assert (said.parameters, said.claim) == ((("generator", "ipf"),), NO_CLAIM)
        assert (entry.tier, entry.claim) == (Tier.AUDITED, NO_CLAIM)
        assert entry.parameters == dict(said.parameters)
        assert dict(card.lines())["Claims"] == NO_CLAIM.sentence
        assert "audit" in card.next_step

    def test_a_generator_that_sees_psi_alone_says_no_more_than_before(self, analyst):
        said = card_of_statement(agreed(analyst, "ipf").offer.statement)
        assert (said.tier, said.parameters, said.claim) == (Tier.BY_CONSTRUCTION, (), None)

    def test_it_costs_what_exact_counts_cost(self, analyst):
        assert agreed(analyst).price == agreed(analyst, "ipf").price

    def test_the_same_bytes_by_another_name_are_the_same_box(self, analyst):
        digests = {entry.name: entry.digest for entry in analyst.generators()}
        assert digests["leaky"] == digests["renamed"] != digests["trusty"]


class TestRows:
    def test_s31_none_before_an_audit_passed(self, analyst, boxed, verdicts):
        card = agreed(analyst)
        with pytest.raises(AuditRequiredError) as refused:
            card.release(ROWS, progress=False)
        assert "audit" in refused.value.advice
        assert audited(card, verdicts).state is CardState.AUDITED
        release = card.release(ROWS, progress=False)
        assert (len(release.dataset), card.state) == (ROWS, CardState.RELEASED)

    def test_s31_none_after_an_audit_failed(self, analyst, verdicts):
        card = audited(agreed(analyst, "copier"), verdicts, "leakage")
        assert card.state is CardState.AUDIT_FAILED
        with pytest.raises(CardStateError):
            card.release(10, progress=False)

    def test_s31_another_boxs_audit_speaks_for_nothing(self, analyst, verdicts):
        card = agreed(analyst)
        verdicts.append("no-evidence")
        card.audit("copier", where="card", progress=False)
        with pytest.raises(AuditRequiredError):
            card.release(10, progress=False)
        assert card.refresh().negotiation.attestations == ()

    def test_s31_another_cards_audit_speaks_for_nothing(self, analyst, verdicts):
        audited(agreed(analyst), verdicts)
        with pytest.raises(AuditRequiredError):
            agreed(analyst).release(10, progress=False)

    def test_s31_a_leak_found_elsewhere_ends_releases_here(self, analyst, boxed, verdicts):
        """By any name, and whoever finds it."""
        card = audited(agreed(analyst, "renamed"), verdicts)
        with boxed.analyst(enrolled(boxed, "eve", project="elsewhere")) as eve:
            audited(agreed(eve, "leaky"), verdicts, "leakage")
        with pytest.raises(AuditRequiredError):
            card.release(10, progress=False)
        assert audited(card, verdicts).state is CardState.AUDIT_FAILED

    def test_s35_none_of_a_box_that_has_changed(self, analyst, verdicts, monkeypatch):
        card, waiting = audited(agreed(analyst), verdicts), agreed(analyst)
        monkeypatch.setattr(Boxes, "digest", lambda *_: "00" * 32)
        with pytest.raises(GeneratorChangedError):
            card.release(10, progress=False)
        with pytest.raises(GeneratorChangedError):
            waiting.audit(where="card", progress=False)

    def test_s30_the_seed_is_nobodys(self, analyst, boxed, verdicts):
        card = audited(agreed(analyst), verdicts)
        with pytest.raises(InvalidInputError):
            card.release(10, seed=7, progress=False)
        first, second = (card.release(300, progress=False) for _ in range(2))
        assert (first.receipt.seed, second.receipt.seed) == (None, None)
        assert not np.array_equal(first.dataset.codes, second.dataset.codes)

    def test_the_records_are_seen_once(self, analyst, boxed, verdicts, monkeypatch):
        """Rows of all releases are among those of one run, which an audit of its claim is about."""
        card = audited(agreed(analyst), verdicts)
        tasks, real = [], run_module.Run.job

        def job(self, task, description):
            tasks.append(task.name)
            return real(self, task, description)

        monkeypatch.setattr(run_module.Run, "job", job)
        whole = card.release(ROWS, progress=False).dataset
        part = card.release(200, progress=False).dataset
        assert tasks == ["measure", "keep", "draw", "draw"]
        left = whole.codes.tolist()
        for row in part.codes.tolist():
            left.remove(row)
        assert len(left) == ROWS - 200

    def test_what_a_run_left_outlives_a_failure(self, analyst, verdicts, monkeypatch):
        """The second try draws from what the first one kept: no record is seen again."""
        card = audited(agreed(analyst), verdicts)
        tasks, real = [], run_module.Run.job

        def job(self, task, description):
            tasks.append(task.name)
            if tasks.count("draw") == 1 and task.name == "draw":
                raise JobFailedError(incident="0")
            return real(self, task, description)

        monkeypatch.setattr(run_module.Run, "job", job)
        with pytest.raises(JobFailedError):
            card.release(10, progress=False)
        card.release(10, progress=False)
        assert tasks == ["measure", "keep", "draw", "draw"]

    @pytest.mark.parametrize(
        "failure",
        [
            BlackBoxError(problem="it raised an error"),
            JobFailedError(incident="0"),
            JobLimitError(what="memory"),
        ],
    )
    def test_a_run_that_failed_is_not_repeated_and_all_failures_look_alike(
        self, analyst, verdicts, monkeypatch, failure
    ):
        """Otherwise a box that fails now and then would tell of records for nothing, again and again."""
        card = audited(agreed(analyst), verdicts)
        tasks, real = [], run_module.Run.job

        def job(self, task, description):
            tasks.append(task.name)
            if task.name == "keep":
                raise failure
            return real(self, task, description)

        monkeypatch.setattr(run_module.Run, "job", job)
        for _ in range(3):
            with pytest.raises(BoxRunFailedError):
                card.release(10, progress=False)
        assert tasks == ["measure", "keep"]

    def test_what_a_run_left_is_private_and_not_made_again(self, analyst, boxed, verdicts):
        card = audited(agreed(analyst), verdicts)
        card.release(10, progress=False)
        kept = boxed.settings().state.kept / card.name.rpartition("/")[2]
        (file,) = kept.iterdir()
        assert (kept.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
        file.unlink()
        with pytest.raises(StorageError):
            card.release(10, progress=False)


@pytest.fixture(scope="module")
def kept(boxed, tmp_path_factory) -> Path:
    """A release in a folder; of a real audit."""
    with boxed.analyst() as ana, known_seeds():
        card = agreed(ana)
        card.audit(where="card", progress=False)
        return card.release(ROWS, progress=False).save(tmp_path_factory.mktemp("kept"))


class TestWhatSpeaksForTheRows:
    @pytest.fixture
    def keys(self, boxed) -> Keys:
        return Keys.of(Credentials.of_folder(boxed.person("ana")))

    def test_the_verdict_is_attached_to_the_card_with_the_boxs_digest(self, kept):
        said = predicate_of(opened((kept / "verdict.json").read_bytes())[0], VERDICT)
        card = card_of_statement(opened((kept / "card.json").read_bytes())[0])
        assert (said["blackBox"], said["verdict"]) == ("trusty", "no-evidence")
        assert said["boxDigest"] == {"sha256": card.generator_digest}

    def test_verify_finds_everything_in_order(self, kept, keys):
        checks = verify(Bundle.of([kept]), keys, datetime.now(UTC))
        assert {check.outcome for check in checks} <= {Outcome.PASSED, Outcome.NOTED}
        assert "Audit of the generator" in {check.what for check in checks}

    @pytest.mark.parametrize("spoil", ["missing", "another"])
    def test_verify_misses_the_verdict(self, kept, keys, spoil, tmp_path, boxed):
        for file in kept.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / "verdict.json").unlink()
        if spoil == "another":
            with boxed.analyst() as ana:
                found = agreed(ana, "ipf").audit(where="card", progress=False)
            (tmp_path / "verdict.json").write_bytes(found.attestation)
        checks = verify(Bundle.of([tmp_path]), keys, datetime.now(UTC))
        failed = {check.what for check in checks if check.outcome is Outcome.FAILED}
        assert "Audit of the generator" in failed

    def test_replay_says_that_it_cannot(self, kept, analyst):
        release = json.loads(opened((kept / "receipt.json").read_bytes())[0])["predicate"]["name"]
        card = analyst.card(release.partition("/releases/")[0])
        answer = card.agreement.fetch(release, False)
        with pytest.raises(NotReplayableError):
            card.replay(answer)

    def test_the_wire_tells_no_seed(self, kept, analyst):
        release = json.loads(opened((kept / "receipt.json").read_bytes())[0])["predicate"]["name"]
        request = synthesis_pb2.GetReleaseRequest(name=release)
        stub = analyst._connection.synthesis
        assert analyst._connection.call(stub.GetRelease, request).release.seed == 0


class TestTheAudit:
    @pytest.mark.parametrize("rows", [1, 60_000])
    def test_s31_it_asks_for_as_many_rows_as_the_run_that_makes_them(self, analyst, monkeypatch, rows):
        """Otherwise a box could keep its word exactly as long as it is audited."""
        asked, real = {}, run_module.Run.job

        def job(self, task, description):
            if task.name == "audit":
                asked["audit"] = description.plan.rows
                return audit_answer("no-evidence", description)
            if task.name == "keep":
                asked["keep"] = description.rows
            return real(self, task, description)

        monkeypatch.setattr(run_module.Run, "job", job)
        card = agreed(analyst, rows=rows)
        card.audit(where="card", progress=False)
        assert len(card.release(1, progress=False).dataset) == 1
        assert asked["audit"] == asked["keep"] >= rows

    def test_s31_nobody_asks_for_one_that_finds_nothing(self, analyst):
        """A level of one in 10^9 at six runs a side would let a copier pass."""
        weak = AuditTerms(runs=6, order=1, alpha="0.000000001")
        card = agreed(analyst, "copier", audit=weak)
        assert card.offer.terms.audit == USUAL_AUDIT
        reasons = {change.field: change.reason for change in card.offer.changes}
        assert {reasons[f"audit.{name}"] for name in ("runs", "order", "alpha")} == {WEAK_AUDIT}
        strict = AuditTerms(runs=12, order=4, alpha="0.1")
        assert agreed(analyst, "copier", audit=strict).offer.terms.audit == strict
        assert agreed(analyst, "ipf", audit=weak).offer.terms.audit == weak


def reviewed(_name):
    """Facts of a black box that somebody reviewed."""
    return GeneratorFacts(Tier.AUDITED, "00", reviewed_by="sam")


class TestOtherTerms:
    def test_noise_does_not_bind_what_reads_records(self):
        """Black boxes require exact counts; see also ``test_policy``."""
        noise = Laplace(Neighbouring.ADD_REMOVE, decimal_of("1", "epsilon"))
        terms = Proposal("datasets/survey", "a test", (("sex",),), "trusty", 10)
        for privacy, transform in ((noise, AS_COUNTED), (EXACT, Transform(rounding=5))):
            offered, changes = with_generator(terms, privacy, ("trusty", "ipf"), transform, reviewed)
            assert (offered.generator, changes[0].reason) == ("ipf", GENERATOR_READS_RECORDS)
            refused = with_generator(terms, privacy, ("trusty",), transform, reviewed)
            assert refused == Refusal((GENERATOR_READS_RECORDS,))
        found = with_generator(terms, EXACT, ("ipf", "trusty"), AS_COUNTED, reviewed)
        assert found == (terms, ())

    def test_an_unfinished_audit_leaves_the_card_as_it_was(self, analyst, verdicts):
        card = agreed(analyst)
        with pytest.raises(InternalError):
            card.audit(where="card", progress=False)  # there is no prepared verdict
        assert card.refresh().state is CardState.AGREED

    def test_a_verdict_has_its_own_price(self, analyst, verdicts):
        card = audited(agreed(analyst), verdicts)
        assert analyst.spends()[0].price == Price(statistics=1)
        assert card.negotiation.attestations

    def test_every_attempt_counts_by_whatever_name(self, boxed, analyst, verdicts):
        card = agreed(analyst)
        verdicts += ["no-evidence"] * 2
        tries = [card.audit(box, where="card", progress=False) for box in ("leaky", "renamed")]
        assert tries[1].attempt == tries[0].attempt + 1
