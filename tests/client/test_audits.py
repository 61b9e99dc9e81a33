"""Audits from afar and at the card, through the client."""

import json
import re
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest

from gencard.boxes.reference import AddsMarginal, Honest
from gencard.client.audit import WAITS, AuditProgress, NoticedBox
from gencard.client.common.arguments import Where
from gencard.core import errors
from gencard.core.audit.report import Verdict
from gencard.core.audit.uniques import made_up
from gencard.core.audit.wording import opening, wording
from gencard.core.errors import BlackBoxError, GencardError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import ipf
from gencard.core.types import ignore_progress
from tests.client.fake_controller import Audits

PAIRS = [("sex", "age"), ("sex", "health"), ("age", "health")]


@pytest.fixture
def card(ana):
    return ana.propose("survey", PAIRS, purpose="?", rows=4_000).accept()


def records(card):
    return made_up(card.agreement.domain, 4_000, rng=rng_of(1))


class TestFromAfar:
    def test_an_honest_box(self, card, world):
        honest = Honest(ipf(), card.terms.marginals)
        world.box = lambda dataset, rows, seed: honest(dataset, rows, seed=seed)
        stages = []
        audit = card.audit(
            "ipf",
            runs=6,
            seed=2,
            records=records(card),
            progress=lambda stage, share: stages.append(stage),
        )
        assert audit.verdict is Verdict.NO_EVIDENCE
        assert "no proof" in audit.wording
        assert audit.where is Where.MADE_UP
        assert world.faults.calls["RunBlackBox"] == 30
        assert {"pair", "report"} <= set(stages)
        assert audit.findings.seconds > 0
        assert "Found" not in dict(audit.lines())  # the wording says it all
        at_card = replace(audit, wording=wording(audit.findings))
        assert dict(at_card.lines())["Found"].startswith("p = ")
        assert dict(audit.findings.versions)["gencard"]

    def test_a_box_that_smuggles_is_caught_and_the_marginal_named(self, card, world):
        leaky = AddsMarginal(ipf(), card.terms.marginals, ("sex", "age", "health"))
        world.box = lambda dataset, rows, seed: leaky(dataset, rows, seed=seed)
        audit = card.audit("leaky", runs=6, seed=2, progress=False)
        assert audit.verdict is Verdict.LEAKAGE
        assert audit.findings.strongest.clique == ("sex", "age", "health")
        assert "Verdict" in audit._repr_html_()

    def test_a_box_that_answers_with_another_number_of_rows(self, card, world):
        world.box = lambda dataset, rows, seed: dataset.take(np.arange(rows - 1))
        with pytest.raises(errors.VerificationError, match="number of rows"):
            card.audit(runs=6, records=records(card), progress=False)

    def test_a_box_that_answers_over_other_attributes(self, card, world):
        world.box = lambda dataset, rows, seed: dataset.project(("age", "sex"))
        with pytest.raises(errors.DomainMismatchError):
            card.audit(runs=6, records=records(card), progress=False)

    def test_a_typed_error_and_no_second_try(self, card, world):
        world.faults.fail["RunBlackBox"] = [errors.JobLimitError(what="memory")]
        with pytest.raises(errors.JobLimitError):
            card.audit(runs=6, records=records(card), progress=False)
        assert world.faults.calls["RunBlackBox"] == 1

    def test_whoever_stops_it_reads_how_far_it_was(self, card, world):
        world.box = lambda dataset, rows, seed: dataset.take(np.arange(rows))
        with pytest.raises(KeyboardInterrupt) as stopped:
            card.audit(runs=6, records=records(card), progress=interrupt_at("look, run 2 of 42"))
        assert (
            "stopped at: look, run 2 of 42. Nothing was stored or charged." in stopped.value.__notes__[0]
        )

    def test_a_person_reads_what_time_is_left_and_a_function_the_stage(self):
        seconds = iter([0.0, 2.0, 6.0])
        told = []
        clock = AuditProgress(lambda stage, share: told.append(stage), now=lambda: next(seconds))
        for stage in ("pair", "look, run 1 of 70", "look, run 2 of 70", "look, run 4 of 70"):
            clock(stage, 0.1)
        assert told[:2] == ["pair", "look, run 1 of 70"]
        assert told[2] == "look, run 2 of 70, about 2 min 20 s left"  # 69 runs of 2 s
        assert told[3] == "look, run 4 of 70, about 2 min 10 s left"  # 67 runs of 2 s
        AuditProgress(lambda stage, share: told.append(stage), is_shown=False)("look, run 9 of 70", 0.5)
        assert told[4] == "look, run 9 of 70"


class TestLongRuns:
    def test_a_person_is_given_a_reason_for_a_run_without_an_answer(self, monkeypatch):
        monkeypatch.setattr("gencard.client.audit.PATIENCE", 0.01)
        stages, answered = [], threading.Event()
        clock = AuditProgress(lambda stage, share: (stages.append((stage, share)), answered.set()))
        clock("look, run 3 of 70", 0.2)
        answered.clear()

        def slow(dataset, rows, *, seed):
            assert answered.wait(10)
            return dataset

        assert NoticedBox(slow, clock.notice)("dataset", 1, seed=0) == "dataset"
        assert stages[1] == (f"look, run 3 of 70; {WAITS}", 0.2)
        assert "jobs at the records" in WAITS
        NoticedBox(lambda dataset, rows, *, seed: dataset, clock.notice)("dataset", 1, seed=0)
        assert len(stages) == 2


class TestEstimate:
    def test_a_person_reads_what_all_runs_will_take_before_the_first(self):
        seconds, told = iter([1.0, 3.5]), []
        clock = AuditProgress(lambda stage, share: told.append(stage), now=lambda: next(seconds))
        clock.expect(42, lambda: None)
        assert told == ["42 runs, about 1 min 40 s"]  # of 2.5 s

    def test_without_a_person_nothing_is_rehearsed(self):
        def rehearsal():
            raise AssertionError

        AuditProgress(ignore_progress).expect(42, rehearsal)
        AuditProgress(lambda stage, share: None, is_shown=False).expect(42, rehearsal)

    @pytest.mark.parametrize("where", ["made-up", "card"])
    def test_a_terminal_shows_it(self, card, world, monkeypatch, where):
        told = []
        shown = contextmanager(lambda title, display: iter([lambda stage, share: told.append(stage)]))
        monkeypatch.setattr("gencard.client.audit.progress_bar", shown)
        world.box = lambda dataset, rows, seed: dataset.take(np.arange(rows))
        with suppress(GencardError):
            card.audit("leaky", where=where, progress=True)
        assert re.fullmatch(r"\d+ runs, about .+", told[0])

    def test_a_box_that_fails_then_is_heard_of_by_the_audit_alone(self):
        def rehearsal():
            raise BlackBoxError(problem="it raised an error")

        told = []
        AuditProgress(lambda stage, share: told.append(stage)).expect(42, rehearsal)
        assert told == []


def interrupt_at(stage):
    def heard(now, share):
        if now == stage:
            raise KeyboardInterrupt

    return heard


class TestAtTheCard:
    def test_an_analyst_gets_the_verdict_and_no_report(self, card):
        audit = card.audit(where="card", progress=False)
        assert audit.verdict is Verdict.NO_EVIDENCE
        assert audit.attempt == 1
        assert audit.attestation
        with pytest.raises(errors.PermissionDeniedError):
            _ = audit.report

    def test_whoever_stops_it_reads_how_it_goes_on(self, card, world):
        def interrupt(stage, share):
            raise KeyboardInterrupt

        world.pending = 3
        with pytest.raises(KeyboardInterrupt) as stopped:
            card.audit(where="card", progress=interrupt)
        how = "\n".join(stopped.value.__notes__)
        assert "operation to resume, operations/" in how
        assert "Interrupted: the controller was told to cancel operations/" in how
        assert "is refunded" in how
        assert f"gencard audit {card.name} --black-box ipf --where card --resume operations/" in how

    @pytest.mark.parametrize(
        ("field", "value"),
        [("verdict", 2), ("wording", "Safe."), ("attempt", 7), ("level", "0.5"), ("black_box", "other")],
    )
    def test_a_verdict_that_was_not_signed(self, card, world, field, value):
        honest = world.started

        def lie(response):
            setattr(response, field, value)
            return honest(response)

        world.started = lie
        with pytest.raises(errors.VerificationError, match="signed verdict"):
            card.audit(where="card", progress=False)

    def test_a_verdict_on_another_box(self, card):
        with pytest.raises(errors.VerificationError, match="signed verdict"):
            card.audit("smuggler", where="card", progress=False)

    def test_a_verdict_on_another_card(self, ana, card, world):
        other = ana.propose("survey", [("sex", "age")], purpose="?").accept()
        honest = world.started

        def swap(response):
            elsewhere = Audits(world).verdict(other.name)
            return honest(elsewhere)

        world.started = swap
        with pytest.raises(errors.VerificationError, match="signed verdict"):
            card.audit(where="card", progress=False)

    def test_too_few_runs_are_refused(self, card):
        with pytest.raises(errors.InvalidNumberError, match="from 6 to"):
            card.audit(runs=5, records=records(card), progress=False)

    @pytest.mark.parametrize("given", [{"where": "moon"}, {"where": "card", "runs": 30}])
    def test_arguments_of_the_other_kind(self, card, given):
        with pytest.raises(errors.InvalidInputError, match="made-up"):
            card.audit(**given)


def test_the_report_is_saved(card, world, tmp_path):
    honest = Honest(ipf(), card.terms.marginals)
    world.box = lambda dataset, rows, seed: honest(dataset, rows, seed=seed)
    report = card.audit(runs=6, seed=2, records=records(card), progress=False).report
    report.save_json(tmp_path / "report.json")
    report.save_html(tmp_path / "report.html")
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "no-evidence"
    page = (tmp_path / "report.html").read_text()
    assert card.name in page
    assert f'<p class="big">{opening(report.facts)}</p>' in page
    assert type(report).of_json(tmp_path / "report.json").facts == report.facts
