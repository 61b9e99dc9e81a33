"""Evidence of copies from a holdout of few records: tests by labels, their level, power and words."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gencard.client.findings.findings import sentence
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidDatasetError
from gencard.measures.evaluation.evaluation import NOTHING_DECLARED, Material, finding_to_json_object
from gencard.measures.evaluation.registry import EVALUATIONS, evaluate, finding_of_json_object
from gencard.measures.evaluation.risk_findings import BLIND, CloneFinding, DistanceFinding
from gencard.measures.privacy.attacks import Proportion
from gencard.measures.privacy.dcr import LEVEL, POWER, clone_test, nearness_test

CODING = Coding(tuple(Attribute(name, Labels(tuple("abcdefg"))) for name in "uvwxyz"))


def rng(seed=1):
    return np.random.default_rng(seed)


class TestClones:
    @given(st.integers(1, 40), st.integers(1, 40), st.data())
    def test_it_is_fishers_exact_test(self, train, holdout, data):
        ours, theirs = data.draw(st.integers(0, train)), data.draw(st.integers(0, holdout))
        found = clone_test(Proportion(ours, train), Proportion(theirs, holdout), 100, 0.1)
        table = [[ours, train - ours], [theirs, holdout - theirs]]
        assert found.p_value == pytest.approx(stats.fisher_exact(table, "greater").pvalue)

    @pytest.mark.parametrize(("train", "holdout", "alike"), [(5_000, 50, 0.04), (2_000, 400, 0.3)])
    def test_the_share_that_it_states_is_detected_in_eight_of_ten(self, train, holdout, alike):
        """Records that copies or likeness reproduce are drawn; 2,000 evaluations."""
        rows, random = train, rng()
        stated = clone_test(
            Proportion(train // 2, train), Proportion(0, holdout), rows, alike
        ).detectable
        for share, detected in ((stated, 0.75), (stated / 3, 0.0)):
            hit = alike + (1 - alike) * (1 - (1 - 1 / train) ** (share * rows))
            ours, theirs = random.binomial(train, hit, 2_000), random.binomial(holdout, alike, 2_000)
            p_values = stats.hypergeom.cdf(theirs, train + holdout, ours + theirs, holdout)
            power = float(np.mean(p_values <= LEVEL))
            assert power >= detected
            if share < stated:
                assert power < POWER / 2

    def test_a_holdout_that_shows_nothing_says_so(self):
        assert clone_test(Proportion(5, 100), Proportion(0, 1), 100, 0.05).detectable is None
        assert clone_test(Proportion(5, 100), Proportion(0, 100), 100, 1.0).detectable is None

    def test_a_larger_holdout_shows_fewer_copies(self):
        stated = [
            clone_test(Proportion(500, 5_000), Proportion(0, size), 5_000, 0.05).detectable
            for size in (25, 50, 100, 500, 5_000)
        ]
        assert stated == sorted(stated, reverse=True)
        assert stated[-1] < 0.03 < BLIND < stated[0]


class TestNearness:
    @given(
        st.lists(st.integers(0, 3), min_size=1, max_size=5),
        st.lists(st.integers(0, 3), min_size=1, max_size=4),
    )
    @settings(max_examples=40)
    def test_it_is_the_rank_sum_over_all_choices_of_a_holdout(self, ours, theirs):
        both = np.array([*ours, *theirs]) / 10
        ranks = stats.rankdata(both)
        sums = [ranks[list(chosen)].sum() for chosen in combinations(range(len(both)), len(theirs))]
        exact = np.mean(np.array(sums) >= ranks[len(ours) :].sum() - 1e-9)
        found = nearness_test(both[: len(ours)], both[len(ours) :], 10, rng=rng())
        assert found.p_value == pytest.approx(exact, abs=0.025)

    @pytest.mark.parametrize(("train", "holdout", "zeros"), [(3_000, 60, 0.05), (1_000, 1_000, 0.3)])
    def test_the_share_that_it_states_is_detected_in_eight_of_ten(self, train, holdout, zeros):
        random, rows, trials = rng(), train, 150

        def distances(records, copied):
            far = np.round(random.random(records), 2) + 0.01
            near = random.random(records) < zeros + (1 - zeros) * copied
            return np.where(near, 0.0, far)

        stated = nearness_test(distances(train, 0), distances(holdout, 0), rows, rng=random).detectable
        copied = 1 - (1 - 1 / train) ** (stated * rows)
        found = [
            nearness_test(distances(train, copied), distances(holdout, 0), rows, rng=random).rejects
            for _ in range(trials)
        ]
        assert np.mean(found) == pytest.approx(POWER, abs=0.1)

    @pytest.mark.parametrize(("train", "holdout"), [(900, 30), (30, 900), (500, 60)])
    def test_ranks_without_ties_are_those_of_scipy(self, train, holdout):
        """By random choices where a table is small, by the normal distribution elsewhere."""
        ours, theirs = rng(2).random(train), 0.08 + rng(3).random(holdout)
        expected = stats.mannwhitneyu(theirs, ours, alternative="greater", method="asymptotic").pvalue
        assert nearness_test(ours, theirs, 100, rng=rng()).p_value == pytest.approx(expected, abs=0.01)

    def test_records_without_a_distance_do_not_count(self):
        ours, theirs = np.array([0.1, np.nan]), np.array([np.nan])
        with pytest.raises(InvalidDatasetError):
            nearness_test(ours, theirs, 5, rng=rng())
        assert nearness_test(ours, ours, 5, rng=rng()).p_value == 1


def world(seed, holdout, copies, records=2_000):
    """Records without structure; a share of the rows are copies of records of train."""
    random, domain = rng(seed), CODING.domain
    train, others, rows = (random.integers(0, 7, (size, 6)) for size in (records, holdout, records))
    copied = random.random(records) < copies
    rows[copied] = train[random.integers(0, records, copied.sum())]
    train, others, rows = (Dataset(domain, codes) for codes in (train, others, rows))
    return Material(rows, CODING, (), NOTHING_DECLARED, seed, train, others)


def found(name, made):
    return evaluate(EVALUATIONS[name], made)


class TestRelease:
    """Every fifth row is a copy; the holdout has one record for each forty or hundred of train."""

    def test_copies_stand_out_beside_a_small_holdout(self):
        seen = [found("clones", world(seed, 50, 0.2)) for seed in range(6)]
        assert sum(one.stands_out for one in seen) >= 5
        for one, made in ((seen[0], world(0, 50, 0.2)),):
            assert one.train > 3 * one.alike
            assert one.rounded(made).stands_out == one.stands_out

    def test_rows_without_copies_do_not(self):
        """The interval of the rows alone lay above one half in up to a quarter of such evaluations."""
        for name, alarms in (("clones", 1), ("dcr", 2)):
            seen = [found(name, world(seed, 30, 0.0, records=600)) for seed in range(15)]
            assert sum(one.stands_out for one in seen) <= alarms, name

    def test_a_tiny_holdout_is_replaced_by_likeness(self):
        made = found("clones", world(1, 5, 0.2))
        assert made.detectable > BLIND
        assert not made.copied
        assert made.stands_out
        assert "likeness" in sentence(made)
        honest = found("clones", world(1, 5, 0.0))
        assert honest.undecided
        assert not honest.stands_out

    @pytest.mark.parametrize("name", ["clones", "dcr"])
    def test_the_finding_says_what_the_holdout_can_show(self, name):
        made = world(2, 50, 0.0)
        finding = found(name, made).rounded(made)
        assert finding.undecided
        assert "decides nothing about fewer than" in sentence(finding)
        blind = found(name, world(2, 2, 0.0))
        assert "too small to show copies" in sentence(blind.rounded(world(2, 2, 0.0)))
        large = found(name, world(2, 2_000, 0.0))
        assert large.detectable < BLIND
        assert not large.undecided

    @pytest.mark.parametrize("name", ["dcr", "clones", "membership", "linkability"])
    def test_rounding_changes_no_verdict(self, name):
        """Rounded to a holdout of 50 records, an area of 0.59 is 0.5 to 0.6."""
        for seed, copies in ((1, 0.2), (2, 0.2), (1, 0.0)):
            made = world(seed, 50, copies, records=1_000)
            finding = found(name, made)
            assert finding.rounded(made).stands_out == finding.stands_out

    def test_findings_of_earlier_versions_are_judged_as_they_were(self):
        clones = CloneFinding(1_000, 0.3, 0.2, 0.1, None)
        distance = found("dcr", world(3, 40, 0.0))
        assert clones.stands_out
        for name, finding in (("clones", clones), ("dcr", _first(distance, 0.6))):
            document = finding_to_json_object(finding)
            assert not {"alike", "copied", "detectable"} & document.keys()
            again = finding_of_json_object(name, json.loads(json.dumps(document)))
            assert again == finding
            assert (again.stands_out, again.undecided) == (True, False)
            assert "8 of 10" not in sentence(again)


def _first(finding: DistanceFinding, low: float) -> DistanceFinding:
    """The finding as version 1 stated it."""
    document = finding_to_json_object(finding)
    kept = {name: value for name, value in document.items() if name not in ("copied", "detectable")}
    first = finding_of_json_object("dcr", kept | {"low": low})
    assert isinstance(first, DistanceFinding)
    return first
