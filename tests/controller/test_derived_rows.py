"""Rows of attributes that a schema derives from others: none contradicts it, in codes or in numbers."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.analysis.output_checks.inference import SearchOutcome
from gencard.client.common.rows import read_rows, write_rows
from gencard.controller.earlier import Earlier
from gencard.controller.records.declarations import compared, cut, of_person, recoded
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Attribute, Coding, Edges, Labels, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.derived_cells import computed_in, impossible, same_numbers, with_computed
from gencard.core.generators.registry import BY_CONSTRUCTION, generator_named
from gencard.core.policy import USUAL_RULES
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi
from gencard.run.levels import Midpoints, Numbers
from gencard.run.session import frame_of
from gencard.wire.documents import Question

AGE = Attribute("age", Edges((0.0, 10.0, 18.0, 40.0, 65.0, 100.0), decimals=0, missing=True))
HERE = Attribute("here", Labels(("a", "b", "c")))
BORN = Attribute("born", Labels(("a", "b", "c")))
KIDS = Attribute("kids", Labels(("0", "1", "2", "3"), integer=True, ordered=True))
STORED = Coding((AGE, HERE, BORN, KIDS))
CODING = Coding(
    (
        *STORED.attributes,
        cut("adult", AGE, (0.0, 18.0, 100.0), missing=True),
        cut("third", AGE, (0.0, 40.0, 100.0), missing=True),
        recoded("north", HERE, {"yes": ("a",)}, "no", missing=False),
        compared("moved", HERE, BORN, missing=False),
        cut("some", KIDS, (0.0, 1.0, 3.0), missing=False),
        of_person("any_a", STORED, {"here": ("a",)}, None),
        of_person("visits", STORED, {"here": ("a",)}, Edges((0.0, 1.0, 3.0, 9.0), decimals=0)),
        of_person("records", STORED, {}, Edges((0.0, 1.0, 5.0), decimals=0)),
    )
)
NAMES = CODING.domain.attributes


def person_levels(counts):
    """Levels of the three attributes of a person with so many records, of which some are in a."""
    in_a, all_records = counts
    return {
        "any_a": int(in_a > 0),
        "visits": int(np.searchsorted([1, 3], in_a, side="right")),
        "records": int(all_records >= 1),
    }


def all_records():
    """Each record that there can be, with all that follows from it and from other records."""
    rows = set()
    for stored in product(*map(range, STORED.domain.sizes)):
        code = dict(zip(STORED.domain.attributes, stored, strict=True))
        for one in CODING.attributes:
            how = one.derivation
            if how is not None and not how.per_person:
                columns = [np.array([code[name]]) for name in how.sources]
                code[one.name] = int(
                    how.of_records(columns, CODING.domain.project(how.sources).sizes)[0]
                )
        for others_in_a, others in ((0, 0), (0, 5), (1, 5), (2, 5), (3, 5), (9, 9)):
            in_a = others_in_a + (code["here"] == 0)
            whole = code | person_levels((in_a, others + 1))
            rows.add(tuple(whole[name] for name in NAMES))
    return np.array(sorted(rows))


POSSIBLE = all_records()


@settings(max_examples=150)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
def test_the_cells_that_cannot_occur_are_those_that_no_record_has(names):
    """Attributes of a person are known by pairs alone, so that more of them are a bound."""
    domain = CODING.domain.covered_by([tuple(names)])
    impossible_here = impossible_cells(domain, impossible(CODING, domain))
    possible = np.zeros(domain.sizes, dtype=bool)
    possible[tuple(POSSIBLE[:, list(CODING.domain.axes(domain.attributes))].T)] = True
    assert not (impossible_here & possible).any()
    of_person_here = [
        name
        for name in names
        if (how := CODING.attribute(name).derivation) is not None and how.per_person
    ]
    if len(of_person_here) <= 1:
        assert (impossible_here | possible).all()


def made_up(attributes, records, rng):
    rows = POSSIBLE[rng.integers(len(POSSIBLE), size=records)]
    return Dataset(CODING.domain, rows).project(attributes)


CARDS = [
    [("age",), ("adult",)],
    [("adult",), ("third",)],
    [("age",), ("adult", "north"), ("third",)],
    [("here",), ("born",), ("moved", "kids"), ("some",)],
    [("north",), ("moved",), ("born",)],
    [("here", "any_a"), ("visits",), ("records",)],
]


@pytest.mark.parametrize("noise", [0, 15])
@pytest.mark.parametrize("cliques", CARDS, ids=str)
@pytest.mark.parametrize("generator", BY_CONSTRUCTION)
def test_no_generator_makes_an_impossible_row(generator, cliques, noise):
    rng = np.random.default_rng(1)
    domain = CODING.domain.covered_by(cliques)
    records = made_up(domain.attributes, 3_000, rng)
    if generator == "saturated":
        cliques = [domain.attributes]
    psi = measure_dataset(records, [domain.canonical(clique) for clique in cliques])
    if noise:
        noisy = [
            Measurement(m.clique, m.values + rng.integers(-noise, noise, m.values.shape), float(noise))
            for m in psi.measurements
        ]
        psi = Psi(domain, tuple(noisy))
    zeros = impossible(CODING, domain)
    fitted = generator_named(generator, structural_zeros=zeros, max_cells=10**6).fit(psi, domain)
    rows = with_computed(fitted.sample(2_000, rng=rng), computed_in(CODING, domain.attributes))
    assert not impossible_cells(domain, zeros)[tuple(rows.codes.T)].any()
    if not noise and generator not in ("independent", "spanning-tree"):
        for clique in psi.cliques:
            shares = [
                measure_dataset(one, [clique]).measurements[0].values / len(one)
                for one in (rows, records)
            ]
            assert np.abs(shares[0] - shares[1]).max() < 0.06, "its marginal is held"


def test_a_column_that_is_computed_keeps_to_what_it_is_computed_from():
    rng = np.random.default_rng(2)
    domain = CODING.domain.project(("age", "adult", "here", "born", "moved"))
    rows = Dataset(domain, rng.integers(0, domain.sizes, (500, 5)))
    computed = with_computed(rows, computed_in(CODING, domain.attributes))
    assert not impossible_cells(domain, impossible(CODING, domain))[tuple(computed.codes.T)].any()
    for name in ("age", "here", "born"):
        assert np.array_equal(computed.column(name), rows.column(name))


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_numbers_of_both_are_one_number(name, tmp_path):
    attributes = ("age", "kids", "adult", "third", "some")
    rows = made_up(attributes, 2_000, np.random.default_rng(3))
    assert same_numbers(CODING, attributes) == {"adult": "age", "third": "age", "some": "kids"}
    frame = frame_of(rows, CODING, Numbers.of_rows(7, rows, CODING))
    for one, other in (("adult", "age"), ("third", "age"), ("some", "kids")):
        pd.testing.assert_series_equal(frame[one], frame[other], check_names=False, check_dtype=False)
    assert frame["age"].equals(frame_of(rows, CODING, Numbers(7))["age"])
    write_rows(rows, CODING, tmp_path / name, Numbers.of_rows(7, rows, CODING))
    again = read_rows(tmp_path / name, CODING, rows.domain)
    assert np.array_equal(again.codes, rows.codes)


def test_without_its_source_a_wider_interval_has_a_number_of_its_own():
    rows = made_up(("adult", "third"), 200, np.random.default_rng(4))
    assert frame_of(rows, CODING, Numbers.of_rows(7, rows, CODING)).equals(
        frame_of(rows, CODING, Numbers(7))
    )
    assert frame_of(rows, CODING, Midpoints()) is not None


def test_pairs_of_names_are_enough_for_the_list_above():
    """Each pair of attributes, so that none is left to chance."""
    for pair in combinations(NAMES, 2):
        domain = CODING.domain.covered_by([pair])
        cells = impossible_cells(domain, impossible(CODING, domain))
        possible = np.zeros(domain.sizes, dtype=bool)
        possible[tuple(POSSIBLE[:, list(CODING.domain.axes(domain.attributes))].T)] = True
        assert np.array_equal(cells, ~possible), pair


def test_a_run_is_judged_by_what_a_derived_attribute_tells():
    """Exact counts of adults and rounded ones of the older leave those between them to be subtracted."""
    age = Attribute("age", Edges((0.0, 18.0, 40.0, 65.0), decimals=0))
    ill = Attribute("ill", Labels(("no", "yes")))
    adult, third = (
        cut(name, age, (0.0, edge, 65.0), missing=False)
        for name, edge in (("adult", 18.0), ("third", 40.0))
    )
    coding = Coding((age, ill, adult, third))
    ages = np.repeat([0, 1, 2] * 2, [230, 51, 227, 40, 9, 43])
    codes = np.stack([ages, np.repeat([0, 1], [508, 92]), ages >= 1, ages >= 2], axis=1).astype(int)
    run = RunQuestion.of(Question("crosstab", "ill ~ third"), coding)
    earlier = Earlier(coding, (), (("ill", "adult"),))
    outcome = earlier.leaves_too_little(run, Dataset(coding.domain, codes), USUAL_RULES)
    assert outcome is SearchOutcome.DISCLOSED
