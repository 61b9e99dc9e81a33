"""Numbers in groups: R's synthpop and R's quantiles, by hand, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.privacy.tables.disclosure_risk import disclosure_risk
from gencard.core.utility.prediction.number_groups import NumberGroups, number_groups
from gencard.core.utility.tables.table_utility import table_utilities
from tests.core.oracles import coded, read
from tests.core.test_disclosure_risk import check_against_synthpop
from tests.core.test_table_utility import check_against_synthpop as check_table
from tests.shared_data import oracle_file

NUMBERS = ("age", "income")


@pytest.fixture(scope="module")
def oracle():
    return json.loads(oracle_file("synthpop/pairD_mixed.json").read_text())


@pytest.fixture(scope="module")
def survey():
    """1,000 records and as many synthetic ones, with numbers in groups; and the groups."""
    files = [f"synthpop/pairD_mixed_{part}.csv" for part in ("orig", "syn1")]
    pair, groups, columns = coded(*files), {}, [{}, {}]
    for name in pair[0].domain.attributes:
        if name in NUMBERS:
            numbers = [np.array([float(row[name] or "nan") for row in read(file)]) for file in files]
            groups[name] = number_groups(numbers)
            codes = [groups[name].codes(each) for each in numbers]
        else:
            codes = [dataset.column(name) for dataset in pair]
        for side, each in enumerate(codes):
            columns[side][name] = each
    sizes = {name: 1 + max(int(side[name].max()) for side in columns) for name in columns[0]}
    domain = Domain.of(sizes)
    return [Dataset.of_columns(domain, list(side.values())) for side in columns], groups


@pytest.mark.shared
class TestSynthpopSaysTheSame:
    def test_groups(self, oracle, survey):
        for name, edges in oracle["grouping_breaks_syn1"].items():
            assert survey[1][name].edges == pytest.approx(edges)

    @pytest.mark.parametrize(("width", "section"), [(1, "oneway"), (2, "twoway")])
    def test_tables(self, oracle, survey, width, section):
        """All of six attributes, two of them numbers."""
        cases = oracle[f"utility_{section}_syn1"]
        found = table_utilities(*survey[0], width)
        assert len(cases) == len(found)
        for case in cases:
            check_table(found[tuple(case["vars"])], case)

    def test_disclosure(self, oracle, survey):
        case = oracle["disclosure_syn1"][2]
        assert case["options"] == {"ngroups_target": 5, "ngroups_keys": 5}
        check_against_synthpop(disclosure_risk(*survey[0], tuple(case["keys"]), case["target"]), case)


def test_quantiles_are_rounded_as_in_r():
    """Place 7 of 11 comes out a little above 7 there, and the seventh number is in the lower group."""
    numbers = np.array([93.0, 112, 144, 214, 263, 268, 273, 342, 483, 512, 547])
    groups = number_groups([numbers[:4], numbers[4:]])
    assert groups.edges == (93, 144, 263, 273.00000000000006, 483, 547)
    assert groups.codes(numbers).tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 4]


def test_edges_between_numbers():
    assert number_groups([np.arange(8.0)], 4).edges == (0, 1.75, 3.5, 5.25, 7)


def test_too_many_ties_make_groups_of_equal_width():
    numbers = np.array([0.0] * 30 + [1, 2, 3, 4, 5, 10])
    groups = number_groups([numbers])
    assert groups.edges == (0, 2, 4, 6, 8, 10)
    assert groups.codes(np.array([1.9, 2.0, 10.0, np.nan])).tolist() == [0, 1, 4, 5]


def test_few_numbers_are_a_group_each():
    """Also the smallest there are, which have nothing between."""
    for numbers in ([0.0, 0, 0, 5, 7.5], [5e-324, 0.0, 1e-323], [-(2.0**1022), 2.0**1022]):
        groups, values = number_groups([np.array(numbers)]), np.unique(numbers)
        assert groups.codes(values).tolist() == list(range(len(values)))
        assert groups.size == len(values) + 1


def test_one_number_and_missing_ones():
    groups = number_groups([np.array([3.0, np.nan]), np.array([])])
    assert groups == NumberGroups((3.0, 3.0))
    assert groups.codes(np.array([3.0, np.nan, 2.0])).tolist() == [0, 1, 0]


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=60), st.integers(2, 8))
def test_laws(values, groups):
    """As many groups as asked or fewer, in the order of the numbers, whichever table holds them."""
    numbers = np.array(values)
    found = number_groups([numbers], groups)
    codes = found.codes(numbers)
    assert 0 <= codes.min() <= codes.max() < found.size - 1 <= groups
    assert np.all(np.diff(codes[np.argsort(numbers)]) >= 0)
    assert number_groups([numbers[:5], numbers[5:], np.array([np.nan])], groups) == found


@pytest.mark.parametrize(
    ("columns", "groups", "error"),
    [
        ([], 5, InvalidInputError),
        ([np.array([np.nan])], 5, InvalidInputError),
        ([np.array([0.0, np.inf])], 5, InvalidInputError),
        ([np.array([-1.7e308, 1.7e308])], 5, InvalidInputError),
        ([np.array([1.0, 2.0])], 1, InvalidNumberError),
    ],
)
def test_what_is_refused(columns, groups, error):
    with pytest.raises(error):
        number_groups(columns, groups)
