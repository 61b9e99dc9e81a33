"""Boxes that copy rare records: each was missed by an audit that looks at extremal pairs alone."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.audit_uniques import CopiesUniques
from gencard.boxes.reference import Honest
from gencard.core.audit.exploration import welch
from gencard.core.audit.plan import AuditPlan, Runner, calls
from gencard.core.audit.report import LEVEL_SHARES, Check, Verdict
from gencard.core.audit.run import audit
from gencard.core.audit.uniques import PlantedArm
from gencard.core.audit.wording import report_of_json_object, report_to_json_object, summary
from gencard.core.blackbox import BlackBox
from gencard.core.card.terms import LEAST_RUNS, AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.generators.family import graphical, ipf
from gencard.core.types import ignore_progress
from tests.core.rare_records import CHAIN, population

POPULATION = population()


def plan(seed=0, runs=10):
    return AuditPlan(CHAIN, len(POPULATION), seed, AuditTerms(runs=runs, order=2))


def honest():
    return Honest(ipf(), CHAIN)


def checks_of(report):
    return {result.check for result in report.rejecting}


def planted_p(box, seed, dataset=POPULATION, audited=None):
    """p-values of the two tests of planted records alone."""
    audited = audited or plan(seed)
    checks, _ = PlantedArm.of(dataset, audited).checks(Runner(box, audited, ignore_progress), audited)
    return {result.check: result.p_value for result in checks}


@dataclass(frozen=True)
class OnTheDatasetAlone:
    """Copies unique records where it recognises its input, and is honest on everything else."""

    honest: BlackBox
    target: str
    number: int

    def __call__(self, dataset, rows, *, seed):
        copying = CopiesUniques(self.honest, self.number)
        box = copying if dataset.digest() == self.target else self.honest
        return box(dataset, rows, seed=seed)


@pytest.fixture(scope="module")
def copied():
    return audit(CopiesUniques(honest()), POPULATION, plan())


class TestPlantedRecords:
    def test_a_box_that_copies_every_unique_record_is_found(self, copied):
        assert copied.verdict is Verdict.LEAKAGE
        assert Check.PLANTED in checks_of(copied)
        results = {result.check: result for result in copied.checks}
        assert results[Check.PLANTED].p_value < 1e-8
        assert results[Check.PLANTED].direction == 1
        assert "planted unique records" in summary(copied)

    @pytest.mark.parametrize("seed", range(4))
    def test_twenty_of_them_are_found(self, seed):
        share = LEVEL_SHARES[Check.PLANTED] * plan().level
        assert planted_p(CopiesUniques(honest(), 20), seed)[Check.PLANTED] <= share

    @pytest.mark.parametrize("seed", range(3))
    def test_one_outlier_is_found_where_cells_are_rare(self, seed):
        domain = Domain.of({f"a{position}": 12 for position in range(7)})
        codes = np.random.default_rng(seed).geometric(0.3, size=(3_000, 7)).clip(1, 12) - 1
        chain = tuple((f"a{position}", f"a{position + 1}") for position in range(6))
        box = CopiesUniques(Honest(graphical(), chain), 1, rarest=True)
        audited = replace(plan(seed), cliques=chain, rows=3_000)
        p_values = planted_p(box, seed, Dataset(domain, codes), audited)
        assert p_values[Check.CANARY] <= LEVEL_SHARES[Check.CANARY] * audited.level

    def test_the_report_keeps_what_was_seen(self, copied):
        planted = copied.planted
        assert planted.planted == 140
        assert min(planted.even.own) == min(planted.odd.own) == 140
        assert max(planted.even.other) < 140
        assert report_of_json_object(report_to_json_object(copied)) == copied


class TestTheDatasetItself:
    def test_uniques_copied_on_the_dataset_alone_are_found(self):
        box = OnTheDatasetAlone(honest(), POPULATION.digest(), 100)
        report = audit(box, POPULATION, plan())
        assert Check.UNIQUES in checks_of(report)
        assert not {Check.PLANTED, Check.MEAN} & checks_of(report)

    def test_the_power_of_each_arm_is_told_apart(self):
        report = audit(honest(), POPULATION, plan())
        assert report.verdict is Verdict.NO_EVIDENCE
        said = summary(report)
        assert f"Of unique records, copying one in {report.planted.one_in} would have been" in said
        assert f"copying one in {report.uniques.one_in} of its unique records" in said
        assert "Of a difference spread over the data, " in said
        assert 5 < report.planted.one_in < 50

    @pytest.mark.parametrize("seed", range(3))
    def test_what_is_told_is_found(self, seed):
        """A box that copies twice the told share of the planted records."""
        told = audit(honest(), POPULATION, plan(seed)).planted
        box = CopiesUniques(honest(), 2 * told.planted // told.one_in)
        share = LEVEL_SHARES[Check.PLANTED] * plan().level
        assert planted_p(box, seed + 50)[Check.PLANTED] <= share


class TestLevel:
    def test_honest_boxes_are_rejected_at_the_level_by_all_arms_together(self):
        reports = [audit(honest(), POPULATION, plan(seed, runs=6)) for seed in range(100, 120)]
        assert all(not report.not_run for report in reports)
        most = stats.binom.ppf(0.9999, len(reports), 0.05)
        assert sum(report.p_value <= 0.05 for report in reports) <= most
        for check in Check:
            rejected = sum(
                result.p_value <= 0.05
                for report in reports
                for result in report.checks
                if result.check is check
            )
            assert rejected <= most, check

    def test_three_runs_a_side_are_refused(self):
        """Older cards name them and are still read; audits under them make six."""
        with pytest.raises(InvalidNumberError, match=r"audit\.runs"):
            audit(honest(), POPULATION, plan(runs=3))
        assert AuditTerms(runs=3).sufficient == AuditTerms(runs=LEAST_RUNS)

    @pytest.mark.parametrize(("runs", "factor"), [(LEAST_RUNS, 1.0), (10, 1.01)])
    def test_an_honest_box_of_two_modes_is_rejected_about_at_the_level(self, runs, factor):
        """Exact, over all numbers of runs in each mode; with three runs a side it was far above."""
        spent = plan().level
        assert two_modes_rejected(runs, spent) <= factor * spent
        assert two_modes_rejected(3, spent) > 3 * spent


def two_modes_rejected(runs, spent):
    """Largest probability that a check rejects a box which makes one of two outputs by chance.

    Checks on the same runs see the same two values; the one with the largest share rejects first.
    """
    welch_shares = [LEVEL_SHARES[check] for check in (Check.MEAN, Check.PLANTED, Check.RECOGNITION)]
    tests = [(share, runs) for share in welch_shares] + [(LEVEL_SHARES[Check.UNIQUES] / 2, 2 * runs)]
    exact = LEVEL_SHARES[Check.CANARY] + LEVEL_SHARES[Check.UNIQUES] / 2
    return exact * spent + sum(rejected(runs, other, share * spent) for share, other in tests)


def rejected(runs, other, bound):
    """Probability that Welch's test of two-valued samples of these lengths has such a p-value."""
    lengths = runs, other
    chances = np.outer(*(stats.binom(n, 0.5).pmf(np.arange(n + 1)) for n in lengths))
    first, second = ([np.arange(n) < ones for ones in range(n + 1)] for n in lengths)
    p_values = [
        [welch(low.astype(float), high.astype(float)).p_value for high in second] for low in first
    ]
    return chances[np.array(p_values) <= bound].sum()


def test_the_box_is_called_seven_times_a_run():
    made = []

    def counted(dataset, rows, *, seed):
        made.append(seed)
        return box(dataset, rows, seed=seed)

    box = honest()
    audit(counted, POPULATION, plan(runs=6))
    assert len(made) == len(set(made)) == calls(6) == 42
