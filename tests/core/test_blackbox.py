"""Black boxes, and the form in which their output may leave."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.reference import AddsMarginal, CopiesRows, Honest
from gencard.core.audit.uniques import made_up
from gencard.core.blackbox import canonicalise, in_domain
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, InvalidNumberError
from gencard.core.generators.contract import synthesise
from gencard.core.generators.family import ipf
from gencard.core.statistics.marginals import count
from gencard.core.statistics.measure import measure_dataset
from tests.core import hostile
from tests.core.strategies import datasets

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})
PAIRS = tuple(combinations("abc", 2))


def rng(seed=0):
    return np.random.default_rng(seed)


class Watched:
    """A generator that counts its fits."""

    def __init__(self):
        self.fits = 0

    def fit(self, psi, domain):
        self.fits += 1
        return ipf().fit(psi, domain)


class TestHonest:
    @given(datasets(DOMAIN, fewest=1), st.integers(0, 2**64 - 1))
    @settings(max_examples=30, deadline=None)
    def test_it_is_psi_fit_and_sample(self, dataset, seed):
        psi = measure_dataset(dataset, PAIRS)
        expected = synthesise(ipf(), psi, psi.domain, 20, seed)
        made = Honest(ipf(), PAIRS)(dataset, 20, seed=seed)
        np.testing.assert_array_equal(made.codes, expected.codes)

    def test_it_keeps_a_few_models_by_psi(self):
        generator = Watched()
        box = Honest(generator, PAIRS)
        inputs = [made_up(DOMAIN, 100, rng=rng(seed)) for seed in range(5)]
        for dataset in (inputs[0], inputs[0], inputs[0].take(rng().permutation(100))):
            box(dataset, 10, seed=1)
        assert generator.fits == 1
        for dataset in inputs:
            box(dataset, 10, seed=1)
        assert generator.fits == 5
        box(inputs[0], 10, seed=1)
        assert generator.fits == 6  # it was the oldest

    def test_it_speaks_of_the_attributes_that_phi_names(self):
        made = Honest(ipf(), (("a", "b"),))(made_up(DOMAIN, 50, rng=rng()), 10, seed=0)
        assert made.domain == DOMAIN.project(("a", "b"))


class TestDishonest:
    def test_an_added_marginal_is_reproduced(self):
        dataset = made_up(DOMAIN, 500, rng=rng())
        box = AddsMarginal(ipf(tolerance=1e-10), PAIRS, ("a", "b", "c"))
        fitted = box.model(dataset).marginal(("a", "b", "c"))
        np.testing.assert_allclose(fitted, count(dataset, ("a", "b", "c")) / 500, atol=1e-9)
        assert box.extra == ("a", "b", "c")

    def test_a_share_of_the_rows_is_copied(self):
        dataset = Dataset(DOMAIN, np.ones((10, 3), dtype=np.int64))

        def zeros(_, rows, *, seed):
            return Dataset(DOMAIN, np.zeros((rows, 3), dtype=np.int64))

        made = CopiesRows(zeros, 0.2)(dataset, 5_000, seed=1)
        assert set(made.codes.sum(axis=1).tolist()) == {0, 3}
        assert made.codes[:, 0].mean() == pytest.approx(0.2, abs=0.03)
        assert CopiesRows(zeros, 0.0)(dataset, 50, seed=1).codes.sum() == 0
        assert CopiesRows(zeros, 1.0)(dataset, 50, seed=1).codes.all()

    @pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
    def test_a_share_is_a_share(self, share):
        with pytest.raises(InvalidNumberError):
            CopiesRows(Honest(ipf(), PAIRS), share)

    def test_the_seed_fixes_every_byte(self):
        dataset = made_up(DOMAIN, 100, rng=rng())
        box = CopiesRows(Honest(ipf(), PAIRS), 0.5)
        runs = [box(dataset, 100, seed=seed).digest() for seed in (4, 4, 5)]
        assert runs[0] == runs[1] != runs[2]


class TestCanonical:
    @given(datasets(DOMAIN, fewest=1), st.permutations("abc"), st.integers(0, 99))
    def test_records_stay_and_orders_go(self, dataset, names, seed):
        output = dataset.project(tuple(names))
        left = canonicalise(output, DOMAIN, len(dataset), rng=rng(seed))
        assert left.domain == DOMAIN
        assert sorted(map(tuple, left.codes.tolist())) == sorted(map(tuple, dataset.codes.tolist()))

    def test_what_leaves_is_a_fresh_copy(self):
        dataset = made_up(DOMAIN, 20, rng=rng())
        assert not np.shares_memory(in_domain(dataset, DOMAIN, 20).codes, dataset.codes)

    @pytest.mark.parametrize(
        ("output", "problem"),
        [
            ("a,b,c", "not a dataset"),
            (Dataset(DOMAIN.project(("a", "b")), np.zeros((5, 2), int)), "declared domain"),
            (Dataset(Domain.of({"a": 3, "b": 2, "c": 5}), np.zeros((5, 3), int)), "declared domain"),
            (Dataset(Domain.of({"A": 3, "b": 2, "c": 4}), np.zeros((5, 3), int)), "declared domain"),
            (
                Dataset(Domain.of({"a": 3, "b": 2, "c": 4, "d": 2}), np.zeros((5, 4), int)),
                "declared domain",
            ),
            (Dataset(DOMAIN, np.zeros((6, 3), int)), "number of rows"),
            (Dataset(DOMAIN, np.zeros((4, 3), int)), "number of rows"),
        ],
    )
    def test_anything_else_is_refused(self, output, problem):
        with pytest.raises(BlackBoxError, match=problem):
            canonicalise(output, DOMAIN, 5, rng=rng())

    @pytest.mark.parametrize("box", [hostile.InOrder, hostile.InFirstRow])
    def test_a_bit_hidden_in_the_order_is_gone(self, box):
        honest = Honest(ipf(), PAIRS)
        dataset = made_up(DOMAIN, 400, rng=rng(2))
        odd = dataset.codes.astype(int).sum(axis=1) % 2
        sides = {bit: dataset.take(np.flatnonzero(odd == (not bit))) for bit in (False, True)}
        assert all(hostile.secret(side) is bit for bit, side in sides.items())
        guessed = {"raw": 0, "canonical": 0}
        for run in range(200):
            bit = bool(run % 2)
            raw = box(honest)(sides[bit], 50, seed=run)
            left = canonicalise(raw, DOMAIN, 50, rng=rng(run))
            for name, output in (("raw", raw), ("canonical", left)):
                guessed[name] += told(box, output) is bit
        assert guessed["raw"] > 150
        assert 70 < guessed["canonical"] < 130


def told(box, output):
    """Read the hidden bit as its receiver would."""
    if box is hostile.InFirstRow:
        return bool(output.codes[0, 0])
    order = np.lexsort(output.codes.T)
    return bool((output.codes[order] == output.codes).all())
