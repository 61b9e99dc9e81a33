"""The report: what it says, in words and in JSON, and what it never says."""

import json
import re
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.reference import CopiesRows, Honest
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import (
    LARGEST_EFFECT,
    LEVEL_SHARES,
    AuditReport,
    Check,
    EarlierTry,
    Effect,
    PlantedEvidence,
    PlantedRuns,
    UniquesEvidence,
    Verdict,
)
from gencard.core.audit.run import audit
from gencard.core.audit.uniques import made_up
from gencard.core.audit.wording import (
    QUESTIONS,
    effect_sentence,
    limits,
    opening,
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
from gencard.core.generators.family import ipf

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
        """The five checks, three runs a side and words of the report are unchanged."""
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
        assert "found by: order. The order of the rows differs between the sides." in summary(leaky)
        assert " × ".join(leaky.effect.block) not in summary(leaky)  # no number of another test

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
        """Report with p-values of which none rejects a try at level 0.00833."""
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
        """A p-value of 1 is no evidence for the box, in any of the tries."""
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


RUNS = 6
shares = st.one_of(
    st.sampled_from([0.0, 1.0, -0.0156, 1.16, 2.85, -0.518, 1e-300, 1e6]),
    st.floats(-5, 5, allow_subnormal=False),
)
powers = st.one_of(st.sampled_from([0.0, 1.0, LARGEST_EFFECT]), st.floats(0, 10))
counts = st.lists(st.integers(0, 24), min_size=RUNS, max_size=RUNS).map(tuple)
copies = st.sampled_from([0, 1, 2, 24, 5_000])
planted_runs = st.builds(PlantedRuns, counts, counts)


@st.composite
def generated(draw):
    """Changes to a report: any p-values, effects and powers that numbers can be."""
    value = draw(shares)
    ends = draw(st.one_of(st.just((0.0, 0.0)), st.tuples(st.floats(0, 4), st.floats(0, 4))))
    number = draw(st.integers(1, 24))
    planted = st.builds(
        PlantedEvidence,
        cubes=st.integers(1, 9),
        planted=st.just(number),
        rare=st.integers(0, 48),
        even=planted_runs,
        odd=planted_runs,
        one_in=copies,
        alone=st.integers(0, 2 * number),
    )
    uniques = st.builds(
        UniquesEvidence, uniques=st.integers(1, 99), original=counts, twins=counts, one_in=copies
    )
    p_values = st.one_of(st.sampled_from([0.0, 1e-320, 1e-9, 1.0]), st.floats(0, 1))
    return {
        "effect": Effect(("a", "b", "c"), value, value - ends[0], value + ends[1], draw(powers)),
        "planted": draw(st.none() | planted),
        "uniques": draw(st.none() | uniques),
        "recognised": draw(st.none() | powers),
        "checks": {check: draw(p_values) for check in Check},
        "tries": draw(st.integers(0, 2)),
    }


def changed(report, changes):
    """The report with generated evidence, and earlier tries with the same."""
    checks = tuple(
        replace(one, p_value=changes["checks"][one.check], direction=0, not_run="")
        for one in report.checks
    )
    rest = {name: value for name, value in changes.items() if name not in ("checks", "tries")}
    earlier = (EarlierTry(RUNS, 400, True, checks),) * changes["tries"]
    return replace(report, checks=checks, earlier=earlier, **rest)


class TestSentences:
    """Sentences about numbers, over reports whose numbers are whatever numbers can be."""

    @given(generated())
    @settings(max_examples=300)
    def test_no_sentence_states_a_number_that_says_nothing(self, report, changes):
        one = changed(report, changes)
        texts = [
            summary(one).removeprefix(wording(one)),
            opening(one),
            effect_sentence(one),
            *limits(one),
        ]
        for text in texts:
            for share in re.findall(r"([-\d.e+]+) %", text):
                assert 0 < float(share) <= 100, text
            assert not re.search(r"(?<![\w.e])0(?![\w.,])", text), text
            assert not re.search(r"[-\N{MINUS SIGN}]\d", re.sub(r"\de-\d|psi\w*", "", text)), text
            assert not any(word in text for word in ("nan", "inf ", "not even all", "None of the 0")), (
                text
            )

    @given(generated())
    @settings(max_examples=200)
    def test_a_leak_is_described_by_the_tests_that_found_it(self, report, changes):
        one = changed(report, changes)
        if one.verdict is Verdict.NO_EVIDENCE:
            assert "found a difference" in opening(one)
            return
        found = {result.check for result in one.rejecting}
        said = summary(one)
        assert ("reproduce" in said) <= (Check.MEAN in found)
        assert ("lanted unique records" in said) == (Check.PLANTED in found)
        assert ("Unique records of the dataset" in said) == (Check.UNIQUES in found)
        weights = {result.check: result.p_value / result.share for result in one.rejecting}
        decided = min(weights.values())
        assert any(
            f" is {check} " in opening(one) for check, weight in weights.items() if weight == decided
        )

    @given(generated())
    @settings(max_examples=100)
    def test_documents_of_both_editions_are_read_as_they_were_written(self, report, changes):
        one = changed(report, changes)
        for each in (one, replace(one, first_edition=True)):
            document = json.loads(json.dumps(report_to_json_object(each), allow_nan=False))
            again = report_of_json_object(document)
            assert report_to_json_object(again) == document
            assert replace(again, first_edition=each.first_edition) == each
            with pytest.raises(InvalidInputError):
                report_of_json_object(document | {"summary": "The generator is safe."})
            with pytest.raises(InvalidInputError):
                report_of_json_object(document | {"first_edition": True})

    @pytest.mark.parametrize(
        ("changes", "said", "never"),
        [
            ({"alone": 0}, "would not have been found", "one of 0"),
            ({"one_in": 0}, "Copying of unique records would not have been found", "not even all"),
            ({"alone": 24}, "any of the 24 planted", "one of 24"),
        ],
    )
    def test_power_that_a_report_stated_badly(self, report, changes, said, never):
        runs = PlantedRuns((0,) * RUNS, (0,) * RUNS)
        evidence = PlantedEvidence(3, 12, 0, runs, runs, one_in=2, alone=1)
        honest = replace(rejected_by(report, None), planted=replace(evidence, **changes))
        assert said in summary(honest)
        assert never not in summary(honest)

    def test_an_honest_pass_opens_with_its_tests(self, report):
        effect = replace(report.effect, value=1.16, low=-0.518, high=2.85)
        honest = replace(rejected_by(report, None), effect=effect)
        assert opening(honest).startswith("None of the ")
        assert "%" not in effect_sentence(honest)

    def test_a_leak_of_planted_records_opens_with_them(self, report):
        runs = PlantedRuns((3,) * RUNS, (0,) * RUNS)
        evidence = PlantedEvidence(3, 12, 0, runs, runs, one_in=2, alone=1)
        effect = replace(report.effect, value=-0.0156, low=-0.3, high=0.2)
        made = tuple(replace(one, not_run="") for one in report.checks)
        leaky = rejected_by(replace(report, checks=made), Check.PLANTED)
        leaky = replace(leaky, planted=evidence, effect=effect)
        sentence = (
            "Of 12 planted unique records, 3 came out on average where they were planted, none where"
        )
        assert f"found by: planted. {sentence}" in summary(leaky)
        assert sentence in opening(leaky)
        assert "%" not in summary(leaky).removeprefix(wording(leaky))
