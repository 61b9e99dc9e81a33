"""Measures by name: each tells no more numbers than it is priced at, and draws itself."""

import json
from html import escape
from itertools import combinations

import numpy as np
import pytest
from matplotlib.figure import Figure

from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import EmptyDatasetError, InvalidInputError, InvalidPsiError
from gencard.core.evaluation.finding import Finding
from gencard.core.evaluation.findings_json import finding_of_json_object, finding_to_json_object
from gencard.core.evaluation.material import Declared, Material
from gencard.core.evaluation.measure import Group, Need
from gencard.core.evaluation.registry import MEASURES, measure_named, price_in_statistics, take
from gencard.core.statistics.marginal import count
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.utility.gap import GapWords

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


def numbers_in(value):
    """How many numbers an object of JSON types holds."""
    if isinstance(value, dict):
        return sum(map(numbers_in, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(numbers_in, value))
    return int(isinstance(value, int | float) and not isinstance(value, bool))


@pytest.mark.parametrize("name", MEASURES)
class TestEveryMeasure:
    def test_it_finds_something_and_says_so(self, name):
        finding = take(MEASURES[name], HONEST)
        assert isinstance(finding, Finding)
        assert isinstance(finding, MEASURES[name].kind)
        assert finding.sentence.endswith((".", "nothing."))
        assert all(isinstance(label, str) for label, _ in finding.lines)

    def test_it_prints_itself(self, name):
        finding = take(MEASURES[name], HONEST)
        page, text = finding._repr_html_(), str(finding)
        for label, _ in finding.lines:
            assert escape(label) in page
            assert label in text
        assert escape(finding.sentence) in page
        assert text.startswith(finding.sentence)
        assert page.count("<td>") == len(finding.lines)

    def test_it_is_json_without_loss(self, name):
        finding = take(MEASURES[name], HONEST)
        text = json.dumps(finding_to_json_object(finding), allow_nan=False)
        assert finding_of_json_object(name, json.loads(text)) == finding

    def test_no_more_numbers_leave_than_are_paid_for(self, name):
        measure, document = MEASURES[name], finding_to_json_object(take(MEASURES[name], COPIER))
        paid = measure.numbers(len(CODING.attributes), len(CLIQUES))
        assert bool(paid) is measure.reads_records
        if measure.reads_records:
            public = 2 * 3 if name == "tables" else 0  # width and number of tables
            assert numbers_in(document) <= paid + public

    def test_it_draws_itself(self, name):
        for given in (HONEST, COPIER):
            axes = Figure().subplots()
            take(MEASURES[name], given).plot(axes)
            assert axes.has_data() or axes.collections

    def test_it_is_the_same_again(self, name):
        assert take(MEASURES[name], HONEST) == take(MEASURES[name], material(drawn(250, 3)))

    def test_garbage_is_no_finding(self, name):
        for wrong in (None, 3, [], {}, {"attack": 1}, "x"):
            with pytest.raises(InvalidInputError):
                finding_of_json_object(name, wrong)

    def test_what_it_lacks_is_known_without_records(self, name):
        measure = MEASURES[name]
        alone = measure.lacks(("sex", "work"), DECLARED, holdout=False)
        assert set(alone) == set(measure.needs) & {Need.HOLDOUT, Need.TARGET, Need.GAP}
        assert not measure.lacks(CODING.domain.attributes, DECLARED, holdout=True)


COMPARING = ("dcr", "clones", "membership", "inference")


@pytest.mark.parametrize("name", COMPARING)
def test_copies_stand_out_and_strangers_do_not(name):
    assert take(MEASURES[name], COPIER).stands_out
    assert not take(MEASURES[name], HONEST).stands_out


def test_without_records_without_holdout_without_psi():
    bare = material(drawn(10, 3), original=None, holdout=None, psi=None)
    assert all(take(measure, bare) is None for measure in MEASURES.values())
    with pytest.raises(EmptyDatasetError):
        _ = bare.records
    with pytest.raises(InvalidPsiError):
        _ = bare.measured


def test_one_row_is_measured_or_nothing_is_said():
    for measure in MEASURES.values():
        found = take(measure, material(drawn(1, 3)))
        assert found is None or isinstance(found, measure.kind)


def test_the_heat_map_knows_the_worst_pair():
    """Two attributes that are equal among the records and independent in the release."""
    original = drawn(300, 1)
    codes = original.codes.copy()
    codes[:, 3] = codes[:, 2] % 3
    tied = Dataset(original.domain, codes)
    found = take(MEASURES["tables"], material(drawn(300, 3), original=tied))
    pairs = list(combinations(CODING.domain.attributes, 2))
    assert pairs[int(np.argmax(found.pairs))] == ("town", "illness")
    assert found.widths[1].worst[0].clique == ("town", "illness")
    assert [one.tables for one in found.widths] == [5, 10, 10]


def test_prices_add_up():
    each = [price_in_statistics([name], attributes=5, marginals=2) for name in MEASURES]
    assert price_in_statistics(list(MEASURES), attributes=5, marginals=2) == sum(each)
    with pytest.raises(InvalidInputError):
        price_in_statistics(["nonsense"], attributes=5, marginals=2)
    assert measure_named("dcr").group is Group.RISK
