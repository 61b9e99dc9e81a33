"""Disclosure measures against R's synthpop, a count record by record, and their own laws."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidCliqueError,
    InvalidInputError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.measures.privacy.disclosure import NOTHING, Excluded, Exclusions, disclosure_risk
from tests.core.oracles import coded, read
from tests.core.strategies import datasets, domains
from tests.shared_data import oracle_file


def oracle(name, section):
    return json.loads(oracle_file(f"synthpop/{name}.json").read_text())[section]


def check_against_synthpop(found, case):
    """The percentages of synthpop are our shares."""
    for family, measures in (
        (found.uniques.named, case["ident"]),
        (found.attribute.named, case["attrib"]),
        (found.attribution.named, case["allCAPs"]),
    ):
        assert family.keys() == measures.keys() - {"max_denom", "mean_denom"}
        for name, value in family.items():
            if value is None:  # R divides 0 by 0 and prints NaN or 0
                assert not measures[name], name
                continue
            assert 100 * value == pytest.approx(measures[name], rel=1e-9, abs=1e-9), name
    assert found.attribute.largest_cell == case["attrib"]["max_denom"]
    assert (found.attribute.mean_cell or 0) == pytest.approx(case["attrib"]["mean_denom"] or 0, rel=1e-9)


@pytest.mark.shared
@pytest.mark.parametrize("number", range(8))
def test_synthpop_says_the_same(number):
    """300 records on 4 attributes; the last cases exclude large cells and a level of the target."""
    case = oracle("pairA_300x4", "disclosure")[number]
    files = ("synthpop/pairA_300x4_orig.csv", "synthpop/pairA_300x4_syn.csv")
    options, target = case["options"], case["target"]
    levels = sorted({row[target] for file in files for row in read(file)})
    exclusions = NOTHING
    if options.get("exclude_ov_denom_lim"):
        exclusions = Exclusions(most=options["denom_lim"])
    elif "not.targetlev" in options:
        level = levels.index(options["not.targetlev"])
        exclusions = Exclusions((Excluded((target,), ((level,),)),))
    check_against_synthpop(
        disclosure_risk(*coded(*files), tuple(case["keys"]), target, exclusions), case
    )


@pytest.mark.shared
@pytest.mark.parametrize("number", range(2))
def test_missing_values_are_a_level(number):
    """1,000 records; numbers are levels as they stand."""
    case = oracle("pairD_mixed", "disclosure_syn1")[number]
    pair = coded("synthpop/pairD_mixed_orig.csv", "synthpop/pairD_mixed_syn1.csv")
    check_against_synthpop(disclosure_risk(*pair, tuple(case["keys"]), case["target"]), case)


def brute_force(original, synthetic, excluded, most):
    """From records as (keys, level) and a predicate of a record: the measures in synthpop's order."""
    ours, theirs = Counter(original), Counter(synthetic)

    def by_keys(counts):
        sums = Counter()
        for (keys, _), times in counts.items():
            sums[keys] += times
        return sums

    def kept(counts):
        return Counter(
            {cell: n for cell, n in counts.items() if not excluded(cell) and n <= (most or n)}
        )

    def total(counts, where):
        return sum(kept(Counter({cell: n for cell, n in counts.items() if where(cell)})).values())

    our_keys, their_keys = by_keys(ours), by_keys(theirs)
    told = {cell: n for cell, n in theirs.items() if n == their_keys[cell[0]]}
    telling = {keys for keys, _ in told}
    attribute = [
        total(ours, lambda cell: ours[cell] == our_keys[cell[0]]),
        total(theirs, lambda cell: cell in told),
        total(ours, lambda cell: their_keys[cell[0]] > 0),
        total(ours, lambda cell: cell[0] in telling),
        total(ours, lambda cell: cell in told),
        total(ours, lambda cell: cell in told and ours[cell] == our_keys[cell[0]]),
    ]
    few, fewer = kept(ours), kept(theirs)
    few_keys, fewer_keys = by_keys(few), by_keys(fewer)
    once = [keys for keys, n in few_keys.items() if n == 1]
    uniques = [
        len(once),
        sum(n == 1 for n in fewer_keys.values()),
        sum(their_keys[keys] > 0 for keys in once),
        sum(fewer_keys[keys] == 1 for keys in once),
    ]
    reached = sum(n for cell, n in few.items() if fewer_keys[cell[0]])
    attribution = [
        sum(n * n / few_keys[cell[0]] for cell, n in few.items()) / len(original),
        sum(n * n / fewer_keys[cell[0]] for cell, n in fewer.items()) / len(synthetic),
        sum(n * few[cell] / fewer_keys[cell[0]] for cell, n in fewer.items()) / len(original),
        attribute[4] / reached if reached else None,
        attribute[4] / attribute[3] if attribute[3] else None,
    ]
    return uniques, attribute, attribution


def records(dataset):
    return [(tuple(keys), level) for *keys, level in dataset.codes.tolist()]


small = domains(fewest=2, most=3, largest=3)
pairs = small.flatmap(
    lambda d: st.tuples(datasets(d, fewest=1, most=25), datasets(d, fewest=1, most=25))
)


@given(pairs, st.sampled_from([None, 1, 2, 4]), st.sampled_from(["none", "level", "key", "pair"]))
def test_counting_record_by_record(pair, most, kind):
    *keys, target = pair[0].domain.attributes
    named, excluded = {
        "none": ((), lambda cell: False),
        "level": ((Excluded((target,), ((0,),)),), lambda cell: cell[1] == 0),
        "key": ((Excluded((keys[-1],), ((0,),)),), lambda cell: cell[0][-1] == 0),
        "pair": (
            (Excluded((target, keys[0]), ((0, 0),)),),
            lambda cell: (cell[1], cell[0][0]) == (0, 0),
        ),
    }[kind]
    found = disclosure_risk(*pair, tuple(keys), target, Exclusions(named, most))
    uniques, attribute, attribution = brute_force(*map(records, pair), excluded, most)
    ids, told, guesses = found.uniques, found.attribute, found.attribution
    assert [ids.in_original, ids.in_synthetic, ids.matched, ids.replicated] == uniques
    assert [
        told.disclosed_by_original,
        told.disclosed_by_synthetic,
        told.covered,
        told.disclosed,
        told.correct,
        told.correct_and_in_original,
    ] == attribute
    assert [
        guesses.original,
        guesses.synthetic,
        guesses.across,
        guesses.targeted,
        guesses.targeted_disclosed,
    ] == [None if value is None else pytest.approx(value) for value in attribution]


@given(pairs, st.randoms(use_true_random=False))
def test_laws(pair, random):
    *keys, target = pair[0].domain.attributes
    found = disclosure_risk(*pair, tuple(keys), target)
    told, ids = found.attribute, found.uniques
    assert told.records >= told.covered >= told.disclosed >= told.correct >= told.correct_and_in_original
    assert told.correct_and_in_original <= told.disclosed_by_original
    assert ids.replicated <= ids.matched <= ids.in_original <= told.disclosed_by_original
    guesses = found.attribution
    assert all(value is None or 0 <= value <= 1 for value in guesses.named.values())
    assert (guesses.targeted is None) == (guesses.across_covered is None) == (told.covered == 0)
    if told.covered:
        assert guesses.across <= guesses.across_covered + 1e-12 <= 1 + 2e-12
    if told.disclosed:
        assert guesses.targeted_disclosed * told.disclosed == pytest.approx(told.correct)
    else:
        assert guesses.targeted_disclosed is None
    shuffled = [data.take(np.array(random.sample(range(len(data)), len(data)))) for data in pair]
    assert disclosure_risk(*shuffled, tuple(reversed(keys)), target) == found


@given(small.flatmap(lambda d: datasets(d, fewest=1)))
def test_a_copy_tells_what_the_original_tells(dataset):
    *keys, target = dataset.domain.attributes
    found = disclosure_risk(dataset, dataset, tuple(keys), target)
    told, guesses = found.attribute, found.attribution
    assert told.covered == told.records
    assert told.disclosed_by_original == told.disclosed == told.correct == told.correct_and_in_original
    assert found.uniques.replicated == found.uniques.in_original
    assert guesses.original == guesses.synthetic == guesses.across >= guesses.baseline - 1e-12


def test_by_hand():
    """Three people at place 0, one of them ill, one ill at place 1; synthetic ones of both are well."""
    domain = Domain.of({"place": 3, "ill": 2})
    original = Dataset(domain, np.array([[0, 0], [0, 0], [0, 1], [1, 1]]))
    synthetic = Dataset(domain, np.array([[0, 0], [1, 0], [2, 1], [2, 0]]))
    found = disclosure_risk(original, synthetic, ("place",), "ill")
    told = {"Dorig": 0.25, "Dsyn": 0.5, "iS": 1, "DiS": 1, "DiSCO": 0.5, "DiSDiO": 0}
    guesses = {"baseCAPd": 0.5, "CAPd": 2 / 3, "CAPs": 0.75, "DCAP": 0.5, "TCAP": 0.5}
    assert found.uniques.named == {"UiO": 0.25, "UiS": 0.5, "UiOiS": 0.25, "repU": 0.25}
    assert found.attribute.named == told
    assert found.attribution.named == pytest.approx(guesses)
    assert (found.attribute.largest_cell, found.attribute.mean_cell) == (2, 2)


def test_nothing_is_left():
    dataset = Dataset(Domain.of({"a": 2, "b": 1}), np.array([[0, 0], [1, 0], [1, 0]]))
    all_of_b = Exclusions((Excluded(("b",), ((0,),)),))
    found = disclosure_risk(dataset, dataset, ("a",), "b", all_of_b)
    assert set(found.uniques.named.values()) == set(found.attribute.named.values()) == {0}
    assert found.attribution.named == {"baseCAPd": 1, "CAPd": 0, "CAPs": 0, "DCAP": 0, "TCAP": None}
    assert found.attribute.mean_cell is None


def test_keys_and_levels_too_many_for_one_table():
    """12 attributes of 600 levels have more than 2**110 combinations."""
    domain = Domain(tuple(f"a{number}" for number in range(12)), (600,) * 12)
    codes = np.random.default_rng(3).integers(0, 600, (50, 12))
    original, synthetic = Dataset(domain, codes), Dataset(domain, codes[:20])
    found = disclosure_risk(original, synthetic, domain.attributes[:-1], "a11")
    assert (found.uniques.in_original, found.uniques.replicated, found.attribute.correct) == (50, 20, 20)


class TestBadInput:
    domain = Domain.of({"a": 2, "b": 2, "c": 3})
    dataset = Dataset(domain, np.array([[0, 1, 2]]))

    @pytest.mark.parametrize(
        ("keys", "target", "error"),
        [
            ((), "c", InvalidCliqueError),
            (("a", "a"), "c", InvalidCliqueError),
            (("a", "c"), "c", InvalidCliqueError),
            (("a", "nobody"), "c", UnknownAttributeError),
            (("a",), "nobody", UnknownAttributeError),
        ],
    )
    def test_keys_and_targets(self, keys, target, error):
        with pytest.raises(error):
            disclosure_risk(self.dataset, self.dataset, keys, target)

    @pytest.mark.parametrize(
        ("clique", "cells", "error"),
        [
            ((), (), InvalidCliqueError),
            (("b",), ((0,),), InvalidCliqueError),
            (("a", "a"), ((0, 0),), InvalidCliqueError),
            (("c",), ((3,),), InvalidInputError),
            (("c",), ((-1,),), InvalidInputError),
            (("c",), ((0, 0),), InvalidInputError),
            (("a", "c"), ((0,),), InvalidInputError),
        ],
    )
    def test_exclusions(self, clique, cells, error):
        exclusions = Exclusions((Excluded(clique, cells),))
        with pytest.raises(error):
            disclosure_risk(self.dataset, self.dataset, ("a",), "c", exclusions)

    @pytest.mark.parametrize("most", [0, -1])
    def test_bounds_are_positive(self, most):
        with pytest.raises(InvalidNumberError, match="most"):
            Exclusions(most=most)

    def test_domains_agree(self):
        other = Dataset(Domain.of({"a": 2, "b": 2, "c": 4}), self.dataset.codes)
        with pytest.raises(DomainMismatchError):
            disclosure_risk(self.dataset, other, ("a",), "c")

    @pytest.mark.parametrize("empty", [0, 1])
    def test_both_hold_records(self, empty):
        pair = [self.dataset, self.dataset]
        pair[empty] = self.dataset.take(np.array([], dtype=np.intp))
        with pytest.raises(InvalidInputError, match="no record"):
            disclosure_risk(*pair, ("a",), "c")
