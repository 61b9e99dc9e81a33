"""Measures by name: each tells no more numbers than it is priced at, and draws itself."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from html import escape
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy.stats.contingency import association

from gencard.client.findings.findings import EXPLANATIONS, sentence
from gencard.client.findings.plots import draw
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import EmptyDatasetError, InvalidInputError, InvalidPsiError
from gencard.core.statistics.marginals import count
from gencard.core.statistics.psi import Measurement, Psi
from gencard.measures.evaluation.evaluation import (
    Declared,
    Finding,
    Group,
    Material,
    Need,
    finding_to_json_object,
)
from gencard.measures.evaluation.registry import (
    EVALUATIONS,
    REPORTED,
    evaluate,
    evaluation_named,
    finding_of_json_object,
    price_in_statistics,
)
from gencard.measures.utility.fidelity import GapWords

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("age", Edges((0.0, 20.0, 40.0, 60.0, 80.0), missing=True)),
        Attribute("town", Labels(tuple("abcdefgh"))),
        Attribute("illness", Labels(("none", "cold", "flu"))),
        Attribute("work", Labels(("0", "1", "2", "3"), integer=True, ordered=True)),
    )
)
DECLARED = Declared(
    keys=("sex", "age", "town"),
    target="illness",
    attacks=60,
    gap=GapWords("sex", "m", "f", "town", "work", ("1", "2")),
)
CLIQUES = (("sex", "age"), ("town", "illness"))


def drawn(records, seed):
    rng = np.random.default_rng(seed)
    domain = CODING.domain
    return Dataset.of_columns(domain, [rng.integers(0, size, records) for size in domain.sizes])


def psi_of(dataset):
    return Psi(
        dataset.domain, tuple(Measurement(clique, count(dataset, clique), 0.0) for clique in CLIQUES)
    )


def material(synthetic, **changes):
    original = drawn(300, 1)
    given = {
        "original": original,
        "holdout": drawn(150, 2),
        "psi": psi_of(original),
        "declared": DECLARED,
    }
    return Material(synthetic=synthetic, coding=CODING, cliques=CLIQUES, seed=7, **given | changes)


HONEST = material(drawn(250, 3))
COPIER = material(drawn(300, 1))


@cache
def finding_of(name, *, copied=False):
    """Each evaluation is computed once for both releases."""
    return evaluate(REPORTED[name], COPIER if copied else HONEST)


def numbers_in(value):
    """Count the numbers in an object of JSON types."""
    if isinstance(value, dict):
        return sum(map(numbers_in, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(numbers_in, value))
    return int(isinstance(value, int | float) and not isinstance(value, bool))


@pytest.mark.parametrize("name", REPORTED)
class TestEveryMeasure:
    def test_it_finds_something_and_says_so(self, name):
        finding = finding_of(name)
        assert isinstance(finding, Finding)
        assert isinstance(finding, REPORTED[name].kind)
        assert sentence(finding).endswith(".")
        assert EXPLANATIONS[name].title
        assert all(isinstance(label, str) for label, _ in finding.lines)

    def test_it_prints_itself(self, name):
        finding = finding_of(name)
        page, text = finding._repr_html_(), str(finding)
        for label, _ in finding.lines:
            assert escape(label) in page
            assert label in text
        assert page.count("<td>") == len(finding.lines)

    def test_it_is_json_without_loss(self, name):
        finding = finding_of(name)
        text = json.dumps(finding_to_json_object(finding), allow_nan=False)
        assert finding_of_json_object(name, json.loads(text)) == finding

    def test_no_more_numbers_leave_than_are_paid_for(self, name):
        measure, document = (REPORTED[name], finding_to_json_object(finding_of(name, copied=True)))
        paid = measure.numbers(len(CODING.attributes), len(CLIQUES))
        assert bool(paid) is measure.reads_records
        if measure.reads_records:
            public = 2 * 3 if name == "tables" else 0  # width and number of tables
            assert numbers_in(document) <= paid + public

    def test_it_draws_itself(self, name):
        for copied in (False, True):
            axes = Figure().subplots()
            draw(finding_of(name, copied=copied), axes)
            assert axes.has_data() or axes.collections

    def test_it_is_the_same_again(self, name):
        assert evaluate(REPORTED[name], HONEST) == evaluate(REPORTED[name], material(drawn(250, 3)))

    def test_garbage_is_no_finding(self, name):
        for wrong in (None, 3, [], {}, {"attack": 1}, "x"):
            with pytest.raises(InvalidInputError):
                finding_of_json_object(name, wrong)

    def test_what_it_lacks_is_known_without_records(self, name):
        measure = REPORTED[name]
        alone = measure.lacks(("sex", "work"), DECLARED, holdout=False)
        assert set(alone) == set(measure.needs) & {Need.HOLDOUT, Need.TARGET, Need.GAP}
        assert not measure.lacks(CODING.domain.attributes, DECLARED, holdout=True)


COMPARING = ("dcr", "clones", "membership", "inference")


@pytest.mark.parametrize("name", COMPARING)
def test_copies_stand_out_and_strangers_do_not(name):
    assert finding_of(name, copied=True).stands_out
    assert not finding_of(name).stands_out


def test_without_records_without_holdout_without_psi():
    bare = material(drawn(10, 3), original=None, holdout=None, psi=None)
    assert all(evaluate(measure, bare) is None for measure in EVALUATIONS.values())
    with pytest.raises(EmptyDatasetError):
        _ = bare.records
    with pytest.raises(InvalidPsiError):
        _ = bare.measured


def test_one_row_is_measured_or_nothing_is_said():
    for measure in EVALUATIONS.values():
        found = evaluate(measure, material(drawn(1, 3)))
        assert found is None or isinstance(found, measure.kind)


def test_the_heat_map_knows_the_worst_pair():
    """Two attributes that are equal among the records and independent in the release."""
    original = drawn(300, 1)
    codes = original.codes.copy()
    codes[:, 3] = codes[:, 2] % 3
    tied = Dataset(original.domain, codes)
    found = evaluate(EVALUATIONS["tables"], material(drawn(300, 3), original=tied))
    pairs = list(combinations(CODING.domain.attributes, 2))
    assert pairs[int(np.argmax(found.pairs))] == ("town", "illness")
    assert found.widths[1].worst[0].clique == ("town", "illness")
    assert [one.tables for one in found.widths] == [5, 10, 10]


def test_prices_add_up():
    each = [price_in_statistics([name], attributes=5, marginals=2) for name in EVALUATIONS]
    assert price_in_statistics(list(EVALUATIONS), attributes=5, marginals=2) == sum(each)
    with pytest.raises(InvalidInputError):
        price_in_statistics(["nonsense"], attributes=5, marginals=2)
    assert evaluation_named("dcr").group is Group.RISK


class TestOfRowsAndPsi:
    def test_they_need_no_record_and_cost_nothing(self):
        free = REPORTED.keys() - EVALUATIONS.keys()
        assert free == {"row-uniques", "associations"}
        for name in free:
            without = replace(HONEST, original=None, holdout=None)
            assert evaluate(REPORTED[name], without) == finding_of(name)
            assert not REPORTED[name].numbers(3, 2)

    @given(st.integers(0, 99))
    def test_unique_rows_are_those_that_occur_once(self, seed):
        made = material(drawn(40, seed))
        rows = Counter(map(tuple, made.synthetic.codes.tolist()))
        cells = np.concatenate([one.values.ravel() for one in made.measured.measurements])
        finding = REPORTED["row-uniques"].find(made)
        assert finding.unique == sum(count == 1 for count in rows.values()) / 40
        assert finding.single == (cells == 1).sum() / (cells > 0).sum()

    def test_noisy_counts_single_nobody_out(self):
        psi = psi_of(drawn(300, 1))
        noisy = tuple(replace(one, stddev=2.0) for one in psi.measurements)
        made = material(drawn(40, 1), psi=replace(psi, measurements=noisy))
        assert REPORTED["row-uniques"].find(made).single is None

    def test_associations_are_cramers_v_of_the_pairs_in_phi(self):
        original = drawn(300, 1)
        pair = CODING.domain.attributes[:2]
        psi = Psi(original.domain, (Measurement(pair, count(original, pair)),))
        finding = REPORTED["associations"].find(material(drawn(250, 3), psi=psi))
        (one,) = finding.pairs
        assert finding.unmeasured == len(CODING.attributes) * (len(CODING.attributes) - 1) // 2 - 1
        for value, table in ((one.psi, original), (one.rows, drawn(250, 3))):
            counts = count(table, pair)
            assert value == pytest.approx(association(counts, method="cramer"))

    def test_a_copy_has_no_difference_and_a_phi_without_pairs_says_so(self):
        same = REPORTED["associations"].find(material(drawn(300, 1)))
        assert all(one.difference == 0 for one in same.pairs)
        single = CODING.domain.attributes[:1]
        psi = Psi(HONEST.synthetic.domain, (Measurement(single, count(HONEST.records, single)),))
        none = REPORTED["associations"].find(replace(HONEST, psi=psi))
        assert not none.pairs
        assert "none of the" in sentence(none)
        axes = Figure().subplots()
        draw(none, axes)
