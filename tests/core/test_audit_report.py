"""The report: what it says, in words and in JSON, and what it never says."""

import json
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gencard.boxes.reference import CopiesRows, Honest
from gencard.core.audit.arms.planted_pair import made_up
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import (
    LEVEL_SHARES,
    AuditReport,
    Check,
    EarlierTry,
    Verdict,
)
from gencard.core.audit.run import audit
from gencard.core.audit.wording import (
    QUESTIONS,
    effect_sentence,
    limits,
    power_by_arm,
    report_of_json_object,
    report_to_json_object,
    summary,
    try_of_object,
    wording,
)
from gencard.core.card.terms import AuditTerms
from gencard.core.coding import StructuralZeros
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError
from gencard.core.generators.maximum_entropy.family import ipf

CLIQUES = tuple(combinations("abcd", 2))
DATASET = made_up(Domain.of({"a": 3, "b": 2, "c": 2, "d": 2}), 500, rng=np.random.default_rng(0))


@pytest.fixture(scope="module", params=["honest", "copying"])
def report(request):
    honest = Honest(ipf(), CLIQUES)
    box = honest if request.param == "honest" else CopiesRows(honest, 1.0)
    plan = AuditPlan(CLIQUES, 400, 2**63 + 1, AuditTerms(runs=6), attempt=2)
    return audit(box, DATASET, plan, versions=[("gencard", "0.1.0")])


class TestJson:
    def test_nothing_is_lost(self, report):
        full = replace(report, seconds=1.25)
        for one in (report, full):
            text = json.dumps(report_to_json_object(one), allow_nan=False)
            assert report_of_json_object(json.loads(text)) == one

    def test_structural_zeros_are_written_where_there_are_some(self, report):
        zeros = (StructuralZeros(("b", "a"), ((0, 2), (1, 0))),)
        with_zeros = replace(report, plan=replace(report.plan, structural_zeros=zeros))
        document = json.loads(json.dumps(report_to_json_object(with_zeros)))
        assert report_of_json_object(document) == with_zeros
        assert document["plan"].pop("structural_zeros") == [
            {"clique": ["b", "a"], "cells": [[0, 2], [1, 0]]}
        ]
        assert document["plan"] == report_to_json_object(report)["plan"]

    def test_the_form_is_the_documented_one(self, report):
        document = report_to_json_object(report)
        assert set(document) == {
            "format", "verdict", "wording", "summary", "p_value", "level", "plan", "domain", "records",
            "checks", "effect", "blocks", "tested", "g", "pairs", "versions", "seconds", "power",
            "recognised",
        }  # fmt: skip
        assert document["format"] == "gencard.audit.v1"
        assert document["plan"]["seed"] == str(2**63 + 1)
        assert document["level"] == pytest.approx(0.05 / 6)
        assert [len(document["g"][side]) for side in ("low", "high", "original")] == [6, 6, 6]
        checks = [result.check for result in report.checks]
        assert [entry["check"] for entry in document["checks"]] == checks
        assert all(pair["low"] == pair["high"] == pair["original"] for pair in document["pairs"])

    def test_a_report_without_directions_is_still_read(self, report):
        document = deepcopy(report_to_json_object(report))
        for entry in document["checks"]:
            entry.pop("direction", None)
        assert {result.direction for result in report_of_json_object(document).checks} == {0}

    def test_the_power_of_old_reports_is_not_read(self, report):
        document = report_to_json_object(report)
        power = {"fraction": 0.1, "found": 8, "trials": 10}
        assert report_of_json_object(document | {"power": power}) == report

    def test_tests_with_a_direction_say_which(self, report):
        directed = {result.check for result in report.checks if result.direction}
        assert directed == {Check.MEAN, Check.ORDER, Check.RECOGNITION}

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda d: d.pop("effect"),
            lambda d: d.update(format="gencard.audit.v2"),
            lambda d: d.update(verdict="safe"),
            lambda d: d.update(wording="The generator is safe."),
            lambda d: d.update(p_value=0.5),
            lambda d: d.update(remark="unknown"),
            lambda d: d["plan"].update(seed="one"),
            lambda d: d["plan"].update(rows=0),
            lambda d: d["checks"][0].update(check="luck"),
            lambda d: d["checks"][0].update(p_value="small"),
            lambda d: d["checks"][0].update(direction=2),
            lambda d: d["checks"][0].update(direction=0),
            lambda d: d["effect"].update(remark=1),
            lambda d: d["domain"].append(["a"]),
            lambda d: d.update(blocks=None),
            lambda d: d.update(blocks=[]),
            lambda d: d.update(g=[]),
        ],
    )
    def test_what_does_not_hold_together_is_refused(self, report, spoil):
        document = deepcopy(report_to_json_object(report))
        spoil(document)
        with pytest.raises(InvalidInputError, match=r"gencard\.audit\.v1"):
            report_of_json_object(document)

    def test_a_report_of_an_earlier_version_still_reads(self):
        """Its five checks, its three runs a side and its words are what they were."""
        text = (Path(__file__).parent / "report_of_five_checks.json").read_text()
        earlier = report_of_json_object(json.loads(text))
        assert report_to_json_object(earlier) == json.loads(text)
        assert (earlier.plan.terms.runs, len(earlier.checks)) == (3, 5)
        assert not earlier.looks_at_uniques
        assert power_by_arm(earlier)[0].startswith("A generator that reproduces ")


class TestWords:
    def test_no_evidence_is_said_as_it_is(self, report):
        honest = rejected_by(report, None)
        assert wording(honest) == (
            "No evidence of leakage (level 0.00833 at try 2, 6 runs a side, interactions of up to 3 "
            "attributes). This is no proof that there is none: a smaller leak, one in interactions that "
            "were not looked at, or one that its author hides on purpose would have been missed."
        )
        said = summary(honest)
        assert "Of a difference spread over the data, " in said
        assert "Of leaks on the dataset itself alone, " in said
        assert "Not tested: whether planted unique records come out (the records leave no" in said

    def test_leakage_is_said_with_what_leaked(self, report):
        leaky = rejected_by(report, Check.ORDER)
        assert wording(leaky) == (
            "Evidence of leakage: the generator uses more of the records than Phi (level 0.00833 at "
            "try 2, 6 runs a side, interactions of up to 3 attributes)."
        )
        assert "found by: order. Clearest in " in summary(leaky)
        assert " x ".join(leaky.effect.block) in summary(leaky)

    @pytest.mark.parametrize("check", [None, Check.MEAN])
    def test_it_never_says_safe(self, report, check):
        said = summary(rejected_by(report, check)).lower()
        assert not any(word in said for word in ("safe", "secure", "anonymous", "guarantee"))

    def test_the_analyst_s_wording_holds_no_number_of_the_records(self, report):
        """Another dataset, the same plan: the same words."""
        other = replace(
            rejected_by(report, None),
            records=7,
            g_low=(0.0,) * 6,
            effect=replace(report.effect, value=0.7),
        )
        assert wording(other) == wording(rejected_by(report, None))


class TestVerdict:
    def test_each_check_rejects_at_its_share_of_the_level(self, report):
        share, level = LEVEL_SHARES[Check.ORDER], report.plan.level
        for p_value, verdict in (
            (share * level, Verdict.LEAKAGE),
            (2 * share * level, Verdict.NO_EVIDENCE),
        ):
            results = tuple(
                replace(r, p_value=p_value if r.check is Check.ORDER else 1.0) for r in report.checks
            )
            judged = replace(report, checks=results)
            assert judged.verdict is verdict
            assert bool(judged.rejecting) is (verdict is Verdict.LEAKAGE)

    def test_the_p_value_is_at_most_one(self, report):
        assert rejected_by(report, None).p_value == 1

    def test_blocks_are_named_strongest_first(self, report):
        strengths = [block.strength for block in report.blocks]
        assert strengths == sorted(strengths, reverse=True)
        assert report.strongest is report.blocks[0]


class TestTries:
    """Evidence of earlier tries of the same family, pooled with that of the report."""

    @pytest.fixture
    def weak(self, report):
        """Nothing that one try at level 0.00833 would be rejected for."""
        results = tuple(
            replace(r, p_value=0.02, direction=1) if r.check is Check.MEAN else replace(r, p_value=1.0)
            for r in report.checks
        )
        return replace(report, checks=results)

    @pytest.fixture
    def pooled(self, weak):
        earlier = try_of_object(report_to_json_object(weak), same_bytes=True)
        return replace(weak, earlier=(earlier, replace(earlier, same_bytes=False)))

    def test_weak_evidence_adds_up(self, weak, pooled):
        assert (weak.verdict, pooled.verdict) == (Verdict.NO_EVIDENCE, Verdict.LEAKAGE)
        assert [result.check for result in pooled.rejecting] == [Check.MEAN]
        assert pooled.p_value_alone == weak.p_value > pooled.p_value

    def test_it_does_not_in_opposite_directions(self, weak, pooled):
        turned = tuple(replace(r, direction=-r.direction) for r in weak.checks)
        opposite = replace(pooled, earlier=(replace(pooled.earlier[0], checks=turned),))
        assert opposite.verdict is Verdict.NO_EVIDENCE

    def test_a_test_that_an_earlier_try_did_not_make_stands_alone(self, weak):
        before = EarlierTry(6, 400, True, ())
        assert replace(weak, earlier=(before,)).p_value == weak.p_value

    def test_nor_does_one_that_could_not_be_made(self, weak, pooled):
        """Its p-value of 1 is no evidence for the box, in whichever try it stands."""
        gone = tuple(replace(r, p_value=1.0, direction=0, not_run="no cube") for r in weak.checks)
        before = replace(pooled.earlier[0], checks=gone)
        assert replace(weak, earlier=(before,)).p_value == weak.p_value
        assert replace(pooled, checks=gone).p_value == 1

    def test_the_words_name_the_pool_and_both_p_values(self, pooled):
        assert "at try 2, evidence of 3 tries pooled, 6 runs a side" in wording(pooled)
        alone = f"{0.02 / LEVEL_SHARES[Check.MEAN]:.2g}"
        assert f"(this try alone: {alone})" in summary(pooled)
        assert alone not in wording(pooled)

    def test_nothing_is_lost_and_the_verdict_follows(self, pooled):
        document = json.loads(json.dumps(report_to_json_object(pooled)))
        assert report_of_json_object(document) == pooled
        for spoil in (
            lambda d: d["earlier"].pop(),
            lambda d: d["earlier"][0].update(rows=4_000_000),
            lambda d: d.update(p_value_alone=0.5),
            lambda d: d.update(earlier=[]),
        ):
            spoiled = deepcopy(document)
            spoil(spoiled)
            with pytest.raises(InvalidInputError):
                report_of_json_object(spoiled)


def rejected_by(report: AuditReport, check: Check | None) -> AuditReport:
    results = tuple(
        replace(r, p_value=0.0 if r.check is check else 1.0, direction=0) for r in report.checks
    )
    return replace(report, checks=results)


class TestLimits:
    def test_each_verdict_says_what_it_does_not_prove(self, report):
        sentences = " ".join(limits(report))
        if report.verdict is Verdict.LEAKAGE:
            assert "there may be others" in sentences
        else:
            assert all(one in limits(report) for one in power_by_arm(report))
            assert "not a proof of safety" in sentences

    def test_the_effect_is_that_of_the_strongest_interaction(self, report):
        assert " × ".join(report.effect.block) in effect_sentence(report)
        assert set(QUESTIONS) == set(Check)
