"""Replicated uniques against R's synthpop, another program, and counting by hand."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidCliqueError
from gencard.measures.privacy.disclosure import replicated_rows, replicated_uniques
from tests.core.oracles import coded
from tests.core.strategies import datasets, domains
from tests.shared_data import oracle_file


@pytest.mark.shared
@pytest.mark.parametrize(
    ("json_name", "section", "files"),
    [
        ("pairA_300x4.json", "replicated_uniques", ("pairA_300x4_orig.csv", "pairA_300x4_syn.csv")),
        (
            "pairD_mixed.json",
            "replicated_uniques_syn1",
            ("pairD_mixed_orig.csv", "pairD_mixed_syn1.csv"),
        ),
    ],
    ids=["300 records", "numbers and missing values"],
)
def test_synthpop_says_the_same(json_name, section, files):
    original, synthetic = coded(*(f"synthpop/{file}" for file in files))
    for case in json.loads(oracle_file(f"synthpop/{json_name}").read_text())[section]:
        found = replicated_uniques(original, synthetic, tuple(case["keys"]))
        assert found.records == case["n"]
        assert found.in_original == case["uniques_in_original"]
        assert found.in_synthetic == case["uniques_in_synthetic"]
        assert found.present == case["synthetic_uniques_in_original"]
        assert found.replicated == case["replicated_uniques"]
        assert round(100 * found.share, 2) == case["pct_rounded"][3]
        assert found.synthetic_records == case["k"]
        rows = replicated_rows(original, synthetic, tuple(case["keys"]))
        assert (rows + 1).tolist() == case["repU_rows_1based"]


@pytest.mark.shared
def test_another_program_says_the_same():
    """32,561 records on 13 attributes, two thirds of the synthetic ones copied; and 1,000 on five."""
    path = oracle_file("metrics/utility_tables_adult.json")
    tables = coded(*(f"metrics/adult_clearbox_{part}.csv" for part in ("train", "synthetic")))
    for case in json.loads(path.read_text())["replicated_uniques"]:
        sizes = case["n_orig"], case["n_syn"]
        some = (table.take(np.arange(size)) for table, size in zip(tables, sizes, strict=True))
        found = replicated_uniques(*some, tuple(case["keys"]))
        assert (found.in_original, found.in_synthetic) == (case["uniques_orig"], case["uniques_syn"])
        assert found.present == case["syn_uniques_in_orig"]
        assert found.replicated == case["replicated_uniques"]
        assert 100 * found.share == pytest.approx(case["pct_of_orig"])
        assert 100 * found.replicated / found.synthetic_records == pytest.approx(case["pct_of_syn"])
        share = 100 * found.replicated / found.in_original
        assert share == pytest.approx(case["pct_of_orig_uniques"])
        assert found.matched == case["orig_uniques_present_in_syn_any_multiplicity"]


@given(domains(largest=3).flatmap(lambda d: st.tuples(datasets(d), datasets(d))), st.data())
def test_counting_by_hand(pair, data):
    domain = pair[0].domain
    keys = domain.canonical(data.draw(st.sets(st.sampled_from(domain.attributes), min_size=1)))
    ours, theirs = (Counter(map(tuple, dataset.project(keys).codes.tolist())) for dataset in pair)
    found = replicated_uniques(*pair, keys)
    once = {key for key, times in theirs.items() if times == 1}
    assert found.in_original == sum(times == 1 for times in ours.values())
    assert found.in_synthetic == len(once)
    assert found.present == len(once & set(ours))
    assert found.replicated == sum(ours[key] == 1 for key in once)
    assert found.matched == sum(times == 1 and key in theirs for key, times in ours.items())


@given(domains(largest=3).flatmap(lambda d: st.tuples(datasets(d), datasets(d))))
def test_without_its_rows_nothing_is_replicated(pair):
    original, synthetic = pair
    rows = replicated_rows(original, synthetic)
    assert len(rows) == replicated_uniques(original, synthetic).replicated
    others = synthetic.take(np.setdiff1d(np.arange(len(synthetic)), rows))
    assert replicated_uniques(original, others).replicated == 0


def test_keys_too_many_for_one_number():
    """30 attributes of 256 levels have 2**240 combinations; the last one tells two records apart."""
    domain = Domain(tuple(f"a{number}" for number in range(30)), (256,) * 30)
    codes = np.full((3, 30), 255)
    codes[1, -1] = 0
    original = Dataset(domain, codes[:2])
    found = replicated_uniques(original, Dataset(domain, codes[1:]))
    assert (found.in_original, found.in_synthetic, found.replicated) == (2, 2, 2)


def test_no_records_have_no_uniques():
    dataset = Dataset(Domain.of({"a": 2}), np.zeros((0, 1), dtype=int))
    found = replicated_uniques(dataset, dataset)
    assert (found.replicated, found.share) == (0, None)
    assert set(found.named.values()) <= {0, None}
    assert len(replicated_rows(dataset, dataset)) == 0


def test_bad_keys_and_domains_are_refused():
    one, other = (Dataset(Domain.of({"a": size}), np.array([[0]])) for size in (2, 3))
    with pytest.raises(DomainMismatchError):
        replicated_uniques(one, other)
    with pytest.raises(InvalidCliqueError):
        replicated_uniques(one, one, ())
