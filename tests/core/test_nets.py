"""Records as rows of nets, and fitted nets as bytes."""

import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes import nets as layout
from gencard.boxes.entry import Surroundings
from gencard.boxes.nets import (
    FittedNet,
    ResidualNet,
    declared,
    drawn_by,
    gumbel,
    layout_of,
    learned,
    net_of,
)
from gencard.boxes.registry import box_named
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, InvalidDatasetError, InvalidInputError, InvalidNumberError
from gencard.core.generators.model_file import archived, unarchived
from tests.core.seeded_noise import SeededNoise
from tests.core.strategies import datasets

NAN = float("nan")
DOMAIN = Domain.of({"a": 3, "b": 5, "c": 4})
VALUES = {"b": (1.0, NAN, 2.0, 10.0, NAN)}


def rng(seed=0):
    return np.random.default_rng(seed)


def by_declaration(domain, values):
    return layout_of(domain, values, lambda _, numbers: declared(numbers))


def some_net(seed=0, conditions=True):
    layout = by_declaration(DOMAIN, VALUES)
    chances = rng(seed).random(7) if conditions else np.empty(0)
    shapes = ((4 + len(chances), 6), (10 + len(chances), layout.width))
    net = ResidualNet(
        tuple(rng(seed).normal(size=shape).astype(np.float32) for shape in shapes),
        tuple(rng(seed).normal(size=shape[1]).astype(np.float32) for shape in shapes),
    )
    return FittedNet(layout, net, 4, chances)


class TestModes:
    @given(
        st.lists(st.one_of(st.just(NAN), st.integers(-50, 50).map(float)), min_size=1, max_size=12),
        st.integers(0, 99),
    )
    @settings(max_examples=60, deadline=None)
    def test_there_and_back_by_the_declared_range(self, numbers, seed):
        if np.isnan(numbers).all():
            numbers[0] = 0.0
        modes = declared(np.array(numbers))
        codes = rng(seed).integers(len(numbers), size=50)
        entries, alphas = modes.placed(codes, rng(seed))
        back = modes.codes_of(entries, alphas)
        np.testing.assert_array_equal(modes.numbers[back], modes.numbers[codes])
        missing = np.isnan(modes.numbers[codes])
        np.testing.assert_array_equal(back[missing], codes[missing])
        assert np.abs(alphas).max() <= 1
        assert entries.max() < modes.entries

    def test_two_heaps_are_two_modes_and_their_numbers_come_back(self):
        numbers = np.append(np.arange(100.0), NAN)
        heap = rng().choice(2, 4000)
        codes = np.clip(np.rint(rng(1).normal(np.where(heap, 80, 20), 4)), 0, 99).astype(int)
        modes = learned(numbers, np.append(codes, 100), rng(2))
        near = [np.abs(modes.means - middle).min() for middle in (20, 80)]
        assert max(near) < 2
        entries, alphas = modes.placed(codes, rng(3))
        inside = np.abs(alphas) < 1
        assert inside.mean() > 0.99
        np.testing.assert_array_equal(modes.codes_of(entries, alphas)[inside], codes[inside])
        assert set(modes.means[entries[codes < 40]] > 50) == {False}
        assert modes.placed(np.array([100]), rng())[0] == modes.entries - 1

    def test_a_mode_is_drawn_by_the_posterior_law(self):
        modes = declared(np.arange(3.0))
        two = type(modes)(modes.numbers, np.array([0.0, 2.0]), np.ones(2), np.array([0.75, 0.25]))
        entries, _ = two.placed(np.ones(20_000, dtype=int), rng())
        assert abs(entries.mean() - 0.25) < 4 * np.sqrt(0.1875 / 20_000)

    @pytest.mark.parametrize("codes", [[], [1, 1, 4], [2, 2]])
    def test_without_two_numbers_the_range_is_the_declared_one(self, codes):
        modes = learned(np.array(VALUES["b"]), np.array(codes, dtype=int), rng())
        assert modes.means == pytest.approx([5.5])
        assert modes.stddevs == pytest.approx([4.5 / 4])


class TestLayout:
    @given(datasets(DOMAIN, fewest=1), st.sampled_from([{}, VALUES, {"a": (0.0, 1.0, 5.0), **VALUES}]))
    @settings(max_examples=40, deadline=None)
    def test_rows_are_records_again(self, dataset, values):
        layout = by_declaration(DOMAIN, values)
        rows = layout.encoded(dataset, rng())
        np.testing.assert_array_equal(layout.decoded(rows).codes, dataset.codes)
        dense = rows.dense(np.arange(len(dataset)), layout.width)
        sums = np.add.reduceat(dense[:, layout.numbers :], layout.starts[:-1], axis=1)
        assert (sums == 1).all()
        assert np.abs(dense).max() <= 1

    def test_nominal_attributes_come_first(self):
        layout = by_declaration(DOMAIN, VALUES)
        assert layout.axes == (0, 2, 1)
        assert layout.sizes == (3, 4, 3)
        assert (layout.nominal, layout.numbers, layout.width) == (2, 1, 11)

    @pytest.mark.parametrize(
        ("domain", "values", "error"),
        [
            (Domain((), ()), {}, InvalidInputError),
            (DOMAIN, {"a": (1.0, 2.0)}, InvalidInputError),
            (DOMAIN, {"a": (1.0, 2.0, float("inf"))}, InvalidNumberError),
        ],
    )
    def test_what_does_not_fit_is_refused(self, domain, values, error):
        with pytest.raises(error):
            by_declaration(domain, values)

    def test_an_attribute_without_any_number_is_nominal(self):
        assert by_declaration(DOMAIN, {"a": (NAN,) * 3}).numbers == 0


class TestDraws:
    def test_gumbel_noise_draws_by_softmax(self):
        logits = np.log([0.5, 0.3, 0.2]).astype(np.float32)
        highest = (logits + gumbel((30_000, 3), rng())).argmax(axis=1)
        shares = np.bincount(highest, minlength=3) / 30_000
        np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=4 * 0.5 / np.sqrt(30_000))

    def test_what_has_no_probability_is_not_drawn(self):
        cumulative = np.cumsum([0.0, 0.25, 0.0, 0.5, 0.0])
        uniforms = np.array([0.0, 0.2, 1 / 3, 0.5, np.nextafter(1, 0)])
        np.testing.assert_array_equal(drawn_by(cumulative, uniforms), [1, 1, 3, 3, 3])


class TestFile:
    @pytest.mark.parametrize("conditions", [True, False])
    def test_what_was_saved_draws_the_same_rows(self, conditions):
        fitted = some_net(conditions=conditions)
        again = net_of(fitted.save())
        assert again.save() == fitted.save()
        rows, repeated = (each.sample(5000, seed=3) for each in (fitted, again))
        assert rows.digest() == repeated.digest()
        assert rows.domain == DOMAIN
        assert len(rows) == 5000
        assert len(fitted.sample(0, seed=1)) == 0

    def test_many_rows_need_the_memory_of_their_codes(self):
        """200,000 rows of three codes of one byte each: 600 kB, and what a block of 4,096 rows takes."""
        fitted = some_net()
        first = fitted.sample(4_096, seed=3)
        tracemalloc.start()
        rows = fitted.sample(200_000, seed=3)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3_000_000
        np.testing.assert_array_equal(rows.codes[:4_096], first.codes)

    @pytest.mark.parametrize("rows", [-1, -5])
    def test_no_negative_number_of_rows(self, rows):
        with pytest.raises(InvalidNumberError):
            some_net().sample(rows, seed=0)

    @given(st.binary(max_size=200))
    @settings(max_examples=30, deadline=None)
    def test_other_bytes_are_no_fit(self, data):
        with pytest.raises(BlackBoxError):
            net_of(data)

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("layers.0", np.zeros((11, 5), np.float32)),
            ("layers.1", np.full((17, 11), np.nan, np.float32)),
            ("layers.1", np.zeros((17, 12), np.float32)),
            ("biases.0", np.zeros(6)),
            ("biases.1", np.zeros((11, 1), np.float32)),
            ("conditions", np.ones(6)),
            ("conditions", -np.ones(7)),
            ("conditions", np.zeros(7)),
            ("conditions", np.ones(7, np.float32)),
            ("stddevs.1", np.zeros(1)),
            ("means.1", np.ones(2)),
            ("numbers.1", np.full(5, np.nan)),
            ("numbers.1", np.ones(4)),
        ],
    )
    def test_an_array_that_does_not_fit_is_refused(self, name, array):
        header, arrays = unarchived(some_net().save(), most_bytes=2**20, version=1)
        with pytest.raises(BlackBoxError):
            net_of(archived(header, {**arrays, name: array}))

    @pytest.mark.parametrize(
        ("name", "value"),
        [("layers", 1), ("layers", 0), ("kind", "tree"), ("noise", 3), ("noise", 0), ("numeric", [7])],
    )
    def test_a_header_that_does_not_fit_is_refused(self, name, value):
        header, arrays = unarchived(some_net().save(), most_bytes=2**20, version=1)
        with pytest.raises(BlackBoxError):
            net_of(archived({**header, name: value}, arrays))


class TestWithoutTorch:
    @pytest.mark.parametrize("name", ["ctgan", "pate-gan"])
    def test_the_error_says_what_to_install(self, name, monkeypatch):
        monkeypatch.setattr(layout, "find_spec", lambda _: None)
        with pytest.raises(InvalidInputError, match=r"gencard\[deep\]"):
            box_named(name, {}, Surroundings(noise=SeededNoise(0)))

    def test_without_scikit_learn_too(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sklearn.mixture", None)
        with pytest.raises(InvalidInputError, match=r"gencard\[deep\]"):
            learned(np.arange(3.0), np.array([0, 1, 2]), rng())


class TestParameters:
    @pytest.mark.parametrize(
        ("name", "parameter", "value"),
        [
            ("ctgan", "epochs", "0"),
            ("ctgan", "epochs", "1.5"),
            ("ctgan", "batch_size", "501"),
            ("ctgan", "generator", "256,x"),
            ("ctgan", "generator", ",".join("1" * 9)),
            ("ctgan", "discriminator", ""),
            ("ctgan", "generator_rate", "nan"),
            ("ctgan", "discriminator_rate", "-1"),
            ("ctgan", "pac", "0"),
            ("ctgan", "colour", "red"),
            ("pate-gan", "epsilon", "0"),
            ("pate-gan", "delta", "0"),
            ("pate-gan", "teachers", "-3"),
            ("pate-gan", "noise", "much"),
            ("pate-gan", "noise", "0.001"),
            ("pate-gan", "iterations", "100000"),
            ("pate-gan", "critic_rate", "two"),
        ],
    )
    def test_a_value_out_of_range_is_refused(self, name, parameter, value):
        with pytest.raises(InvalidInputError):
            box_named(name, {parameter: value}, Surroundings(noise=SeededNoise(0)))

    def test_numbers_that_do_not_fit_and_too_few_records_are_refused(self):
        pytest.importorskip("torch", reason="the extra deep is not installed")
        none = Dataset(DOMAIN, np.empty((0, 3), dtype=np.int64))
        some = Dataset(DOMAIN, np.ones((40, 3), dtype=np.int64))
        for name in ("ctgan", "pate-gan"):
            with pytest.raises(InvalidDatasetError):
                box_named(name, {}, Surroundings(noise=SeededNoise(0)))(none, 1, seed=0)
        wrong = Surroundings(values={"a": (1.0,)}, noise=SeededNoise(0))
        with pytest.raises(InvalidInputError):
            box_named("ctgan", {}, wrong)(some, 1, seed=0)
        with pytest.raises(InvalidInputError):
            box_named("pate-gan", {"teachers": "5"}, wrong)(some, 1, seed=0)
