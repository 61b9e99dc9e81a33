"""The audit as a whole: honest boxes pass at the level, every kind of leak is found by its own check."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from gencard.boxes.reference import AddsMarginal, CopiesRows, Honest
from gencard.core.audit.exploration import LARGEST_Z, holm, welch
from gencard.core.audit.plan import AuditPlan, AuditStep, Side, level, run_seed
from gencard.core.audit.report import LEVEL_SHARES, Check, Verdict
from gencard.core.audit.run import audit
from gencard.core.audit.uniques import made_up
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    BlackBoxError,
    InvalidCliqueError,
    InvalidNumberError,
    NoExtremalPairError,
    OperationCancelledError,
    UnknownAttributeError,
)
from gencard.core.generators.family import ipf
from tests.core import hostile

DOMAIN = Domain.of({"a": 4, "b": 3, "c": 3, "d": 2})
PAIRS = tuple(combinations("abcd", 2))
IPF = ipf(tolerance=1e-4)


def records(number=2_000, seed=0):
    """Made-up records with an interaction of a, b and c of their own."""
    uniform = made_up(DOMAIN, 2 * number, rng=np.random.default_rng(seed))
    even = uniform.codes[:, :3].astype(int).sum(axis=1) % 2 == 0
    kept = np.random.default_rng(seed + 1).random(len(uniform)) < np.where(even, 0.9, 0.35)
    return uniform.take(np.flatnonzero(kept)[:number])


def plan(seed=0, rows=2_000, runs=8, **terms):
    return AuditPlan(PAIRS, rows, seed, AuditTerms(runs=runs, **terms))


def honest():
    return Honest(IPF, PAIRS)


def p_of(report, check):
    return next(result.p_value for result in report.checks if result.check is check)


class TestVerdict:
    def test_an_honest_box_gives_no_evidence(self):
        report = audit(honest(), records(), plan())
        assert report.verdict is Verdict.NO_EVIDENCE
        assert report.p_value > 0.05
        assert report.effect.low < 0.02
        assert report.effect.smallest < 0.1

    def test_an_added_marginal_is_found_and_named(self):
        box = AddsMarginal(IPF, PAIRS, ("a", "b", "c"))
        report = audit(box, records(), plan())
        assert report.verdict is Verdict.LEAKAGE
        assert p_of(report, Check.MEAN) < 1e-8
        assert report.blocks[0].clique == report.effect.block == ("a", "b", "c")
        assert report.tested[0] == ("a", "b", "c")
        assert report.effect.low < 1 < report.effect.high + 0.05
        assert report.blocks[0].p_value < 1e-4 < min(block.p_value for block in report.blocks[1:])

    @pytest.mark.parametrize("share", [1.0, 0.3])
    def test_copied_rows_are_found_and_their_share_is_told(self, share):
        report = audit(CopiesRows(honest(), share), records(), plan())
        assert report.verdict is Verdict.LEAKAGE
        assert abs(report.effect.value - share) < 0.1
        assert report.effect.low < report.effect.value < report.effect.high

    def test_a_leak_that_does_not_look_like_the_input_is_found(self):
        report = audit(hostile.Sideways(honest()), records(), plan())
        assert report.verdict is Verdict.LEAKAGE
        assert max(block.energy for block in report.blocks) > 4

    def test_boxes_without_randomness_are_judged_with_certainty(self):
        leaky = audit(hostile.Constant(honest()), records(), plan(runs=6))
        assert p_of(leaky, Check.MEAN) == 0
        assert abs(leaky.blocks[0].z) <= LARGEST_Z
        fixed = honest()
        still = audit(lambda d, rows, *, seed: fixed(d, rows, seed=1), records(), plan(runs=6))
        assert [result.p_value for result in still.checks] == [1.0] * len(still.checks)

    def test_an_audit_can_be_made_again_to_the_last_digit(self):
        box = CopiesRows(honest(), 0.1)
        assert audit(box, records(), plan(seed=5)) == audit(box, records(), plan(seed=5))

    def test_psi_of_the_sides_is_proved(self):
        report = audit(honest(), records(), plan(runs=6))
        assert [pair.step for pair in report.pairs] == [1, 2]
        for pair in report.pairs:
            assert pair.original == pair.low == pair.high
            assert pair.moved > 100

    def test_a_made_up_dataset_will_do(self):
        dataset = made_up(DOMAIN, 1_500, rng=np.random.default_rng(3))
        leaky = AddsMarginal(IPF, PAIRS, ("b", "c", "d"))
        report = audit(leaky, dataset, plan(rows=1_500))
        assert report.verdict is Verdict.LEAKAGE
        assert report.blocks[0].clique == ("b", "c", "d")


class TestHostileBoxes:
    """Each is found by the check that is made for it, or refused."""

    def test_one_that_sorts_its_rows(self):
        report = audit(hostile.InOrder(honest()), balanced(), plan())
        assert report.verdict is Verdict.LEAKAGE
        assert Check.ORDER in {result.check for result in report.rejecting}

    def test_one_that_varies_more_on_one_side(self):
        report = audit(hostile.InScatter(honest()), balanced(), plan(runs=12))
        assert report.verdict is Verdict.LEAKAGE
        assert Check.SCATTER in {result.check for result in report.rejecting}

    def test_one_that_is_right_on_average(self):
        report = audit(hostile.InSpread(honest()), balanced(), plan(runs=12))
        assert p_of(report, Check.MEAN) > 0.05
        assert [result.check for result in report.rejecting] == [Check.SCATTER]

    def test_one_that_is_right_on_average_in_the_only_direction_there_is(self):
        cube = Domain.of({"a": 2, "b": 2, "c": 2})
        cliques = tuple(combinations("abc", 2))
        dataset = made_up(cube, 2_000, rng=np.random.default_rng(0))
        box = hostile.InSpread(Honest(IPF, cliques))
        report = audit(box, dataset, AuditPlan(cliques, 2_000, 0, AuditTerms(runs=20)))
        assert Check.SPREAD in {result.check for result in report.rejecting}

    def test_one_that_counts_its_rows(self):
        with pytest.raises(BlackBoxError, match="requested number of rows"):
            audit(hostile.InRowCount(honest()), records(), plan())

    def test_one_that_recognises_the_records(self):
        dataset = records()
        report = audit(hostile.Recogniser(honest(), dataset.digest()), dataset, plan())
        assert report.verdict is Verdict.LEAKAGE
        assert [result.check for result in report.rejecting] == [Check.RECOGNITION]

    @pytest.mark.parametrize("seed", range(5))
    def test_one_that_tells_it_where_the_inputs_do_not_differ(self, seed):
        cube, cliques = Domain.of({"a": 2, "b": 2, "c": 2}), (("a",), ("b",), ("c",))
        codes = np.random.default_rng(seed).integers(0, 2, (400, 3)) * [1, 1, 0]
        box = hostile.Elsewhere(Honest(IPF, cliques))
        report = audit(box, Dataset(cube, codes), AuditPlan(cliques, 2_000, seed))
        assert report.verdict is Verdict.LEAKAGE
        assert ("a", "c") in report.tested

    def test_one_that_screams(self):
        with pytest.raises(BlackBoxError) as caught:
            audit(hostile.Screams(honest()), records(), plan())
        assert "Ann Smith" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_one_whose_error_is_ours_is_heard(self):
        def cancelled(dataset, rows, *, seed):
            raise OperationCancelledError

        with pytest.raises(OperationCancelledError):
            audit(cancelled, records(), plan())

    def test_twenty_tries_do_not_pass_by_luck(self):
        box, dataset = CopiesRows(honest(), 1.0), records(1_000)
        for attempt in range(1, 21):
            tried = AuditPlan(PAIRS, 1_000, attempt, AuditTerms(runs=6), attempt=attempt)
            assert audit(box, dataset, tried).verdict is Verdict.LEAKAGE


def balanced():
    """Records with no interaction of a, b and c, so that the two sides of a pair straddle none."""
    return made_up(DOMAIN, 2_000, rng=np.random.default_rng(11))


class TestCalibration:
    def test_honest_boxes_are_rejected_at_the_level(self):
        domain = Domain.of({"a": 3, "b": 3, "c": 2})
        cliques = tuple(combinations("abc", 2))
        dataset = made_up(domain, 400, rng=np.random.default_rng(0))
        box = Honest(IPF, cliques)
        reports = [
            audit(box, dataset, AuditPlan(cliques, 400, seed, AuditTerms(runs=6))) for seed in range(300)
        ]
        overall = sum(report.p_value <= 0.05 for report in reports)
        assert overall <= stats.binom.ppf(0.999, len(reports), 0.05)
        means = [p_of(report, Check.MEAN) for report in reports]
        assert stats.kstest(means, "uniform").pvalue > 0.01
        for check in [result.check for result in reports[0].checks]:
            rejected = sum(p_of(report, check) <= 0.05 for report in reports)
            assert rejected <= stats.binom.ppf(0.999, len(reports), 0.05), check

    def test_the_shares_of_the_level_sum_to_it(self):
        assert sum(LEVEL_SHARES.values()) == pytest.approx(1)
        assert set(LEVEL_SHARES) == set(Check)

    def test_the_tries_together_spend_no_more_than_alpha(self):
        spent = sum(level(0.05, attempt) for attempt in range(1, 10_000))
        assert 0.0499 < spent < 0.05


class TestComparison:
    SAMPLES = hnp.arrays(np.float64, 6, elements=st.floats(-100, 100, allow_subnormal=False))

    @given(SAMPLES, SAMPLES)
    def test_welch_is_scipy_s(self, low, high):
        if min(np.ptp(low), np.ptp(high)) < 1e-3:
            return
        ours, theirs = welch(low, high), stats.ttest_ind(high, low, equal_var=False)
        assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-6)
        assert ours.interval() == pytest.approx(theirs.confidence_interval(), rel=1e-6, abs=1e-9)

    def test_constants_are_no_evidence_or_proof(self):
        same, other = np.full(3, 0.1), np.full(3, 0.2)
        assert welch(same, same).p_value == 1
        assert welch(same, other).p_value == 0
        assert welch(same, other).interval() == pytest.approx((0.1, 0.1))

    def test_one_constant_side_is_a_side_without_variance(self):
        assert 0 < welch(np.zeros(4), np.array([1.0, 2, 3, 4])).p_value < 0.1

    def test_a_gap_of_the_smallest_size_found_is_found_in_80_percent(self):
        rng = np.random.default_rng(1)
        samples = rng.normal(size=(2_000, 2, 10))
        gap = float(np.mean([welch(*pair).smallest_detectable(0.05) for pair in samples]))
        found = np.mean([welch(low, high + gap).p_value <= 0.05 for low, high in samples])
        assert 0.75 < found < 0.85

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
    def test_holm_is_the_definition(self, p_values):
        adjusted = holm(p_values)
        order = sorted(range(len(p_values)), key=p_values.__getitem__)
        highest = 0.0
        for rank, position in enumerate(order):
            highest = max(highest, min(1.0, (len(order) - rank) * p_values[position]))
            assert adjusted[position] == pytest.approx(highest)


class TestPlan:
    @pytest.mark.parametrize(
        "wrong", [{"rows": 1}, {"seed": -1}, {"seed": 2**64}, {"attempt": 0}, {"attempt": 10**7}]
    )
    def test_numbers_out_of_range_are_refused(self, wrong):
        with pytest.raises(InvalidNumberError):
            AuditPlan(**{"cliques": PAIRS, "rows": 10, "seed": 0} | wrong)

    def test_phi_must_name_something(self):
        with pytest.raises(InvalidCliqueError):
            AuditPlan((), 10, 0)

    def test_phi_must_fit_the_domain(self):
        with pytest.raises(UnknownAttributeError):
            audit(honest(), records(), AuditPlan((("a", "z"),), 10, 0))

    def test_a_phi_that_determines_everything_is_not_passed(self):
        with pytest.raises(NoExtremalPairError):
            audit(honest(), records(), AuditPlan((("a", "b", "c", "d"),), 10, 0))

    def test_no_two_runs_share_a_seed(self):
        seeds = {
            run_seed(7, step, side, run) for step in AuditStep for side in Side for run in range(100)
        }
        assert len(seeds) == 900
        assert all(0 <= seed < 2**64 for seed in seeds)

    def test_the_box_gets_the_seeds_of_the_plan(self):
        seen, box = [], honest()

        def watched(dataset, rows, *, seed):
            seen.append((rows, seed))
            return box(dataset, rows, seed=seed)

        audit(watched, records(300), plan(seed=9, rows=300, runs=6))
        sides = [
            (AuditStep.LOOK, Side.LOW),
            (AuditStep.LOOK, Side.HIGH),
            *((AuditStep.TEST, side) for side in Side),
        ]
        assert seen == [(300, run_seed(9, *side, run)) for side in sides for run in range(6)]


class TestProgress:
    def told(self, seed):
        calls = []
        audit(
            honest(),
            records(300, seed),
            plan(rows=300, runs=6),
            progress=lambda *call: calls.append(call),
        )
        return calls

    def test_it_is_told_often_and_never_goes_back(self):
        calls = self.told(0)
        shares = [share for _, share in calls]
        assert shares == sorted(shares)
        assert (shares[0], calls[-1]) == (0, ("report", 1.0))
        assert {stage.partition(",")[0] for stage, _ in calls} == {
            "pair", "look", "test", "planted", "report",
        }  # fmt: skip
        numbered = [stage for stage, _ in calls if "run" in stage]
        assert [stage.partition(", ")[2] for stage in numbered] == [
            f"run {number} of 42" for number in range(1, 43)
        ]
        assert max(np.diff(shares)) < 0.06

    def test_it_depends_on_no_record(self):
        assert self.told(0) == self.told(1)

    def test_it_may_cancel(self):
        def cancel(stage, share):
            if share > 0.3:
                raise OperationCancelledError

        with pytest.raises(OperationCancelledError):
            audit(honest(), records(300), plan(rows=300, runs=6), progress=cancel)


def test_the_order_of_attributes_in_the_output_does_not_matter():
    box = honest()

    def turned(dataset, rows, *, seed):
        made = box(dataset, rows, seed=seed)
        return made.project(made.domain.attributes[::-1])

    assert audit(turned, records(500), plan(rows=500, runs=6)) == audit(
        box, records(500), plan(rows=500, runs=6)
    )


def test_an_output_over_another_domain_is_refused():
    def narrow(dataset, rows, *, seed):
        return Dataset(DOMAIN.project(("a", "b")), np.zeros((rows, 2), dtype=np.int64))

    with pytest.raises(BlackBoxError, match="declared domain"):
        audit(narrow, records(), plan())
