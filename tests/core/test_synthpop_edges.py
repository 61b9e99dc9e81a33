"""Sequential trees at the edges: missing values, many levels, few records."""

import sys

import numpy as np
import pytest

from gencard.boxes.synthpop import Options, SynthPop
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidDatasetError, InvalidInputError, InvalidNumberError

NAN = float("nan")
DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})


def rng(seed=0):
    return np.random.default_rng(seed)


def records(count=400):
    a = rng().integers(3, size=count)
    return Dataset.of_columns(DOMAIN, [a, a % 2, (a + rng(1).integers(2, size=count)) % 4])


class TestMissing:
    def test_the_pattern_is_reproduced(self):
        a = np.arange(600) % 3
        b = np.where(a == 1, 3, rng().integers(3, size=600))
        dataset = Dataset.of_columns(Domain.of({"a": 3, "b": 4}), [a, b])
        made = SynthPop(values={"b": (1.0, 2.0, 4.0, NAN)})(dataset, 900, seed=1)
        np.testing.assert_array_equal(made.codes[:, 1] == 3, made.codes[:, 0] == 1)

    def test_each_kind_of_missing_has_its_share(self):
        b = rng().choice(4, 3_000, p=(0.3, 0.1, 0.2, 0.4))
        dataset = Dataset.of_columns(Domain.of({"b": 4}), [b])
        fit = SynthPop(values={"b": (7.0, NAN, NAN, -1.0)}).fit(dataset, seed=0)
        which, number = fit.steps[0].conditionals
        assert np.bincount(which.donors + 1).tolist() == [
            (b % 3 == 0).sum(), 0, (b == 1).sum(), (b == 2).sum()
        ]  # fmt: skip
        assert set(number.donors) == {0, 3}

    def test_what_is_missing_tells_of_what_comes_later(self):
        a = rng().choice(3, 900)
        b = (a == 2).astype(int)
        dataset = Dataset.of_columns(Domain.of({"a": 3, "b": 2}), [a, b])
        made = SynthPop(values={"a": (1.0, 2.0, NAN)})(dataset, 500, seed=1)
        np.testing.assert_array_equal(made.codes[:, 1], made.codes[:, 0] == 2)

    def test_all_may_be_missing(self):
        dataset = Dataset.of_columns(Domain.of({"a": 2, "b": 3}), [np.arange(50) % 2, np.full(50, 2)])
        for numbers in ((1.0, 2.0, NAN), (NAN, NAN, NAN)):
            made = SynthPop(values={"b": numbers})(dataset, 20, seed=0)
            assert (made.codes[:, 1] == 2).all()


class TestEdges:
    def test_many_levels(self):
        codes = np.stack([rng().integers(600, size=3_000), rng(1).integers(600, size=3_000)], axis=1)
        codes[:, 1] = (codes[:, 0] + codes[:, 1] % 5) % 600
        dataset = Dataset(Domain.of({"a": 600, "b": 600}), codes)
        made = SynthPop()(dataset, 3_000, seed=0)
        near = (made.codes[:, 1].astype(int) - made.codes[:, 0]) % 600 < 5
        assert near.mean() > 0.25  # independent ones: 0.008
        numbers = {name: tuple(np.arange(600.0)) for name in "ab"}
        made = SynthPop(values=numbers)(dataset, 3_000, seed=0)
        gap = np.abs(made.codes[:, 1].astype(int) - made.codes[:, 0])
        assert np.quantile(gap, 0.9) < 20

    def test_one_record_is_repeated(self):
        dataset = Dataset(DOMAIN, np.array([[2, 1, 3]]))
        assert (SynthPop()(dataset, 7, seed=0).codes == dataset.codes).all()

    def test_constant_and_single_levels_are_kept(self):
        domain = Domain.of({"a": 1, "b": 4, "c": 2})
        dataset = Dataset.of_columns(domain, [np.zeros(40, int), np.full(40, 3), np.arange(40) % 2])
        fit = SynthPop(values={"b": (0.0, 1.0, 2.0, 3.0)}).fit(dataset, seed=0)
        assert fit.steps[2].conditionals[0].predictors == ()
        assert (fit.sample(9, seed=0).codes[:, :2] == [0, 3]).all()

    def test_predictors_that_say_the_same_are_asked_once(self):
        a = np.arange(60) % 3
        dataset = Dataset.of_columns(Domain.of({"a": 3, "b": 3, "c": 3}), [a, a, a])
        fit = SynthPop(values=dict.fromkeys("abc", (0.0, 1.0, 2.0))).fit(dataset, seed=0)
        assert fit.steps[2].conditionals[0].predictors == (0,)

    def test_extreme_numbers(self):
        dataset = records(500)
        box = SynthPop(Options(smoothing="density"), {"c": (-1e100, 0.0, 1e-300, 1e100)})
        assert len(box(dataset, 100, seed=0)) == 100

    def test_nothing_in_is_refused_and_nothing_out_is_not(self):
        with pytest.raises(InvalidDatasetError):
            SynthPop().fit(Dataset(DOMAIN, np.zeros((0, 3), int)), seed=0)
        fit = SynthPop().fit(records(20), seed=0)
        assert len(fit.sample(0, seed=0)) == 0
        with pytest.raises(InvalidNumberError):
            fit.sample(-1, seed=0)

    @pytest.mark.parametrize(
        "numbers", [(1.0, 2.0), (1.0, 2.0, float("inf"), 3.0), (0.0, -1e101, NAN, 0.0)]
    )
    def test_numbers_that_are_none_are_refused(self, numbers):
        with pytest.raises(InvalidInputError):
            SynthPop(values={"c": numbers}).fit(records(20), seed=0)

    def test_without_scikit_learn_it_says_what_is_needed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sklearn.tree", None)
        with pytest.raises(InvalidInputError, match="gencard\\[utility\\]"):
            SynthPop().fit(records(), seed=0)
        assert len(SynthPop().fit(records().project(("a",)), seed=0).sample(5, seed=0)) == 5
