"""Measures that are not defined are None, in words "undefined", and never a good number."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import stats

from gencard.analysis.answers import crosstabs
from gencard.analysis.answers.correlations import correlation_pvalue, kendall_pvalue, kendall_tau
from gencard.client.findings import plots
from gencard.client.findings.fidelity import UtilityOptions, utility_report
from gencard.client.findings.findings import sentence
from gencard.client.findings.plots import draw
from gencard.client.pages import card_page
from gencard.core.audit.exploration import _Block
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.measure import measure_dataset
from gencard.measures.evaluation.evaluation import Declared, Material, finding_to_json_object
from gencard.measures.evaluation.registry import REPORTED, evaluate, finding_of_json_object
from gencard.measures.evaluation.risk_findings import CloneFinding, DisclosureFinding
from gencard.measures.evaluation.utility_findings import (
    Association,
    AssociationsFinding,
    GapFinding,
    PropensityFinding,
)
from gencard.measures.privacy.disclosure import disclosure_risk, replicated_uniques
from gencard.measures.privacy.distances import Missing
from gencard.measures.utility.fidelity import GapWords
from gencard.measures.utility.propensity import LARGEST_ERROR, TreeSettings, tree_propensity
from gencard.measures.utility.table_utility import (
    cramers_v,
    mean_measure,
    table_utilities,
    table_utility,
)
from tests.client.test_card_report import report
from tests.core.strategies import datasets

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("town", Labels(("a", "b", "c"))),
        Attribute("age", Edges((0.0, 30.0, 60.0, 90.0), missing=True)),
    )
)
DOMAIN = CODING.domain
DECLARED = Declared(keys=("sex",), target="town", attacks=20, gap=GapWords("sex", "f", "m", "town"))
HARD = TreeSettings(price=0.01)


def differing(records, seed=0):
    """Two datasets of one attribute of two levels: shares of 0.3 and of 0.7."""
    rng = np.random.default_rng(seed)
    domain = Domain.of({"a": 2})
    return [Dataset(domain, (rng.random((records, 1)) < share).astype(int)) for share in (0.3, 0.7)]


class TestTree:
    def test_rows_that_differ_clearly_have_no_good_value_where_no_permutation_splits(self):
        found = tree_propensity(*differing(200_000), {}, rng=np.random.default_rng(1), settings=HARD)
        assert found.pmse > 0.03
        assert found.expected == 0
        assert found.standardised is None

    @pytest.mark.parametrize("records", [3_000, 6_000, 12_000, 20_000])
    def test_a_value_that_is_stated_does_not_depend_on_the_seed(self, records):
        """However many of the permutations split; at 20,000 records it is one in a hundred."""
        pair = differing(records)
        found = [
            tree_propensity(*pair, {}, rng=np.random.default_rng(seed), settings=HARD)
            for seed in range(8)
        ]
        stated = [one.standardised for one in found if one.standardised is not None]
        assert all(
            (one.standardised is None) == (one.expected_error > LARGEST_ERROR * one.expected)
            for one in found
        )
        if stated:
            assert max(stated) < 2 * min(stated)

    def test_more_permutations_come_nearer_to_the_truth(self):
        """Beside 3,000 permutations: three standard errors of a tenth."""
        pair = differing(3_000)
        truth = tree_propensity(
            *pair, {}, rng=np.random.default_rng(7), settings=HARD, permutations=3_000
        )
        for seed in range(6):
            found = tree_propensity(*pair, {}, rng=np.random.default_rng(seed), settings=HARD)
            assert found.standardised == pytest.approx(truth.standardised, rel=3 * LARGEST_ERROR)


class TestTables:
    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
    def test_a_standardised_measure_is_a_ratio_of_what_is_there(self, cells):
        ours, theirs = (np.array(counts) for counts in zip(*cells, strict=True))
        if not (ours.any() and theirs.any()):
            return
        found = table_utility(ours, theirs)
        occupied, both = int(np.sum(ours + theirs > 0)), int(np.sum((ours > 0) & (theirs > 0)))
        assert (found.standardised is None) == (occupied == 1)
        assert (found.named["S_G"] is None) == (both < 2)
        assert (found.named["G"] is None) == (both < 2 and occupied > 1)
        json.dumps(found.named, allow_nan=False)

    def test_disjoint_tables_have_no_mean_that_hides_them(self):
        alike = table_utility(np.array([5, 5]), np.array([6, 4]))
        apart = table_utility(np.array([5, 0, 5]), np.array([0, 5, 0]))
        constant = table_utility(np.array([5]), np.array([7]))
        assert mean_measure([alike, constant], "S_G") == alike.named["S_G"]
        assert mean_measure([alike, apart], "S_G") is None
        assert mean_measure([constant], "S_pMSE") is None
        assert mean_measure([alike, apart], "S_pMSE") > 1

    def test_an_association_with_a_constant(self):
        assert cramers_v(np.array([[3.0, 4.0]])) is cramers_v(np.zeros((2, 2))) is None


def test_attribution_of_keys_that_no_row_has():
    domain = Domain.of({"key": 2, "secret": 2})
    original = Dataset(domain, np.array([[0, 0], [0, 1]]))
    rows = Dataset(domain, np.array([[1, 0], [1, 1]]))
    found = disclosure_risk(original, rows, ("key",), "secret").attribution
    assert found.targeted is found.targeted_disclosed is found.across_covered is None
    assert found.across == 0  # a share of all records: no guess is right


def test_shares_of_no_records():
    some = Dataset(DOMAIN, np.zeros((3, 3), int))
    none = some.take(np.arange(0))
    assert set(replicated_uniques(none, none).named.values()) == {None}
    assert replicated_uniques(some, none).named == {"UiO": 0, "UiS": None, "UiOiS": 0, "repU": 0}


def material(original, holdout, rows, **changes):
    values = {"declared": DECLARED, "psi": measure_dataset(original, [("sex", "town"), ("age",)])}
    return Material(rows, CODING, (("sex", "town"),), seed=1, original=original, holdout=holdout,
                    **values | changes)  # fmt: skip


class TestFindings:
    @given(*(datasets(DOMAIN, fewest=1, most=25) for _ in range(3)), st.sampled_from(Missing))
    @settings(max_examples=30, deadline=None)
    def test_every_number_is_one_or_is_called_undefined(self, original, holdout, rows, missing):
        """Tiny tables, constant and disjoint ones among them: JSON, sentence, text and figure."""
        declared = Declared(DECLARED.keys, DECLARED.target, 5, missing, DECLARED.gap)
        made = material(original, holdout, rows, declared=declared)
        for name, measure in REPORTED.items():
            if name == "predictions":
                continue
            exact = evaluate(measure, made)
            if exact is None:
                continue
            for finding in (exact, exact.rounded(made)):
                document = finding_to_json_object(finding)
                again = json.loads(json.dumps(document, allow_nan=False))
                assert finding_of_json_object(name, again) == finding
                texts = [sentence(finding), str(finding), finding._repr_html_()]
                assert not any(word in text for text in texts for word in ("nan", "None", "inf "))
                assert not (finding.stands_out and finding.undecided)
                missing_lines = sum(value is None for _, value in finding.lines)
                assert str(finding).count("undefined") == missing_lines

    @pytest.mark.parametrize(
        "finding",
        [
            PropensityFinding(2, 3, 0.2, None, 0.15, None),
            CloneFinding(10, None, None, None, None),
            GapFinding("f less m", 0.1, ("a", "b"), (0.2, None), (None, 0.1)),
            DisclosureFinding(
                ("sex",), "town", (("DiS", 0.0), ("DiSCO", 0.0), ("Dorig", 0.1), ("TCAP", None))
            ),
            AssociationsFinding((Association(("sex", "town"), 0.4, None),), 0),
        ],
        ids=lambda finding: type(finding).__name__,
    )  # fmt: skip
    def test_the_word_is_in_sentence_figure_and_page(self, finding):
        figure = plots.drawn(finding, "A figure")
        assert "undefined" in figure
        name = {one.kind: name for name, one in REPORTED.items()}[type(finding)]
        page = card_page(report(None, findings={name: finding}))
        assert "undefined" in page
        axes = Figure().subplots()
        draw(finding, axes)

    def test_a_finding_that_decides_nothing_is_in_the_headline(self):
        undecided = CloneFinding(10, None, None, None, None, 0.1, 0.1, 0.1, copied=False, detectable=2.0)
        made = report(None, findings={"clones": undecided})
        assert undecided.undecided
        assert not undecided.stands_out
        assert "Not decided" in made.wording
        assert made.document()["measures"][0]["undecided"] is True
        assert "not decided" in card_page(made)
        assert [sign for *_, sign in made.grid()] == ["?"]

    def test_levels_that_the_release_does_not_have_are_named_first(self):
        rng = np.random.default_rng(0)
        original = Dataset(
            DOMAIN, np.column_stack([rng.integers(0, size, 300) for size in DOMAIN.sizes])
        )
        rows = original.take(np.flatnonzero(original.column("town") != 2))
        finding = evaluate(REPORTED["gap"], material(original, original, rows))
        assert finding.levels[0] == "c"
        assert finding.synthetic[0] is None
        assert finding.original[0] is not None
        assert "no rows at c" in sentence(finding)


class TestAnswers:
    """P-values and ratios beside scipy, where the records do not define them."""

    def test_two_records_are_no_evidence_of_a_correlation(self):
        assert np.isnan(correlation_pvalue(1.0, 2))
        assert stats.pearsonr([1, 2], [3, 5]).pvalue == 1  # we leave it out
        assert correlation_pvalue(1.0, 3) == 0

    def test_a_constant_has_no_rank_correlation_and_no_p_value(self):
        expected = stats.kendalltau([1, 1, 1], [1, 2, 3])
        table = np.array([[1.0, 1.0, 1.0]])
        assert np.isnan(expected.pvalue)
        assert np.isnan(kendall_tau(table))
        assert np.isnan(kendall_pvalue(table))

    def test_a_table_of_one_row_has_no_association(self):
        assert np.isnan(crosstabs.cramers_v(np.array([[3.0, 4.0]])))

    def test_a_block_in_which_the_inputs_agree_reproduces_nothing_that_could_be_measured(self):
        change = np.array([[1.0, 0.5], [0.9, 0.6], [1.1, 0.4]])
        still = _Block(change, np.zeros(2), np.zeros(2)).evidence(("a", "b"), 1.0)
        moved = _Block(change, np.ones(2), np.ones(2)).evidence(("a", "b"), 1.0)
        assert still.reproduced is None
        assert moved.reproduced == pytest.approx(0.75)


def test_a_utility_report_says_undefined():
    constant = Dataset(DOMAIN, np.zeros((30, 3), int))
    options = UtilityOptions(gap=GapWords("sex", "f", "m", "town"))
    made = utility_report(constant, constant, CODING, options, rng=np.random.default_rng(0))
    text = "\n".join(value for _, value in made.lines())
    assert text.count("undefined") == 5  # means of two widths, the worst pair, regression, tree
    document = json.loads(json.dumps(made.document(), allow_nan=False))
    assert document["tables"] == {"1": None, "2": None}
    assert document["tree"]["standardised"] is None


def test_the_mean_over_tables_leaves_out_the_constant_ones():
    """An attribute that is the same in all records has no standardised measure of its own."""
    rng = np.random.default_rng(0)
    ours, theirs = (
        Dataset.of_columns(DOMAIN, [rng.integers(0, 2, 200), np.ones(200, int), rng.integers(0, 3, 200)])
        for _ in range(2)
    )
    tables = table_utilities(ours, theirs, 1)
    others = [tables[("sex",)].standardised, tables[("age",)].standardised]
    assert mean_measure(tables.values(), "S_pMSE") == pytest.approx(np.mean(others))
    finding = evaluate(REPORTED["tables"], material(ours, ours, theirs))
    assert [width.constant for width in finding.widths] == [1, 0, 0]
    assert "2 of the 3 tables, the others constant," in sentence(finding)
    pairs = list(combinations(DOMAIN.attributes, 2))
    assert len(finding.valued_pairs()) == len(pairs)
