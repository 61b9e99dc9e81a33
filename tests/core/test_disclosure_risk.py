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
    UnknownAttributeError,
)
from gencard.measures.privacy.disclosure import disclosure_risk
from tests.core.oracles import coded
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


@pytest.mark.shared
def test_synthpop_says_the_same():
    """300 records on 4 attributes; cases that leave records out have no equal here."""
    files = ("synthpop/pairA_300x4_orig.csv", "synthpop/pairA_300x4_syn.csv")
    cases = oracle("pairA_300x4", "disclosure")
    whole = [
        case
        for case in cases
        if not {"exclude_ov_denom_lim", "not.targetlev"}.intersection(case["options"])
    ]
    assert len(whole) >= 4
    for case in whole:
        check_against_synthpop(
            disclosure_risk(*coded(*files), tuple(case["keys"]), case["target"]), case
        )


@pytest.mark.shared
@pytest.mark.parametrize("number", range(2))
def test_missing_values_are_a_level(number):
    """1,000 records; numbers are levels as they stand."""
    case = oracle("pairD_mixed", "disclosure_syn1")[number]
    pair = coded("synthpop/pairD_mixed_orig.csv", "synthpop/pairD_mixed_syn1.csv")
    check_against_synthpop(disclosure_risk(*pair, tuple(case["keys"]), case["target"]), case)


def brute_force(original, synthetic):
    """From records as (keys, level): the measures in synthpop's order."""
    ours, theirs = Counter(original), Counter(synthetic)

    def by_keys(counts):
        sums = Counter()
        for (keys, _), times in counts.items():
            sums[keys] += times
        return sums

    def total(counts, where):
        return sum(n for cell, n in counts.items() if where(cell))

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
    once = [keys for keys, n in our_keys.items() if n == 1]
    uniques = [
        len(once),
        sum(n == 1 for n in their_keys.values()),
        sum(their_keys[keys] > 0 for keys in once),
        sum(their_keys[keys] == 1 for keys in once),
    ]
    reached = sum(n for cell, n in ours.items() if their_keys[cell[0]])
    attribution = [
        sum(n * n / our_keys[cell[0]] for cell, n in ours.items()) / len(original),
        sum(n * n / their_keys[cell[0]] for cell, n in theirs.items()) / len(synthetic),
        sum(n * ours[cell] / their_keys[cell[0]] for cell, n in theirs.items()) / len(original),
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


@given(pairs)
def test_counting_record_by_record(pair):
    *keys, target = pair[0].domain.attributes
    found = disclosure_risk(*pair, tuple(keys), target)
    uniques, attribute, attribution = brute_force(*map(records, pair))
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
