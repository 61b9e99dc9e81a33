"""CTGAN: conditions, the penalty's formula, and what it learns."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from gencard.boxes.ctgan import ENTRY, Ctgan, options_of
from gencard.boxes.net_options import CtganOptions, conditions_of
from gencard.boxes.nets import declared, layout_of
from gencard.core.blackbox import FittingBox
from gencard.core.card.budget import NO_CLAIM
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import OperationCancelledError
from gencard.core.statistics.marginals import count
from tests.core.strategies import datasets


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Not by the module: the import takes a second, in each process of a run that collects the tests."""
    pytest.importorskip("torch", reason="the extra deep is not installed")
    global torch, Discriminator, OutputBlocks, GeneratorNet  # noqa: PLW0603  # as an import would
    import torch

    from gencard.boxes.net_training import Discriminator, GeneratorNet, OutputBlocks


NAN = float("nan")
DOMAIN = Domain.of({"a": 3, "b": 5, "c": 4})
VALUES = {"b": (1.0, NAN, 2.0, 10.0, NAN)}
TINY = CtganOptions(epochs=2, batch_size=20, embedding=4, generator=(8,), discriminator=(8,), pac=5)


def rng(seed=0):
    return np.random.default_rng(seed)


def records(count=60, seed=0):
    columns = [rng(seed + axis).integers(size, size=count) for axis, size in enumerate(DOMAIN.sizes)]
    return Dataset.of_columns(DOMAIN, columns)


def conditions(dataset, values):
    layout = layout_of(dataset.domain, values, lambda _, numbers: declared(numbers))
    return layout, conditions_of(layout, layout.encoded(dataset, rng()))


class TestConditions:
    @given(datasets(DOMAIN, fewest=1))
    @settings(max_examples=40, deadline=None)
    def test_every_record_that_is_drawn_meets_its_condition(self, dataset):
        layout, found = conditions(dataset, VALUES)
        entries, drawn = found.drawn(200, rng())
        for entry, record in zip(entries, drawn, strict=True):
            place = int(np.searchsorted(layout.starts, entry, side="right")) - 1
            code = dataset.codes[record, layout.axes[place]]
            assert code == entry - layout.starts[place]

    def test_levels_are_drawn_by_the_logarithm_of_their_frequency(self):
        dataset = records(500)
        _, found = conditions(dataset, VALUES)
        entries, _ = found.drawn(20_000, rng(5))
        weights = [np.log1p(count(dataset, (name,))) for name in "ac"]
        expected = np.concatenate([each / each.sum() / 2 for each in weights]) * 20_000
        assert stats.chisquare(np.bincount(entries, minlength=7), expected).pvalue > 1e-3

    def test_among_those_who_meet_it_any_record_is_as_likely(self):
        dataset = Dataset.of_columns(Domain.of({"a": 2}), [np.array([0, 1, 0, 0, 1])])
        _, found = conditions(dataset, {})
        entries, drawn = found.drawn(20_000, rng(1))
        of_zero = np.bincount(drawn[entries == 0], minlength=5)
        assert of_zero[[1, 4]].sum() == 0
        assert stats.chisquare(of_zero[[0, 2, 3]]).pvalue > 1e-3

    def test_in_sampling_levels_are_as_frequent_as_among_the_records(self):
        dataset = records(500)
        _, found = conditions(dataset, {})
        shares = np.concatenate([count(dataset, (name,)) / 500 / 3 for name in "abc"])
        np.testing.assert_allclose(found.by_count, shares)

    def test_without_nominal_attributes_any_record_is_drawn(self):
        domain = Domain.of({"x": 3})
        _, found = conditions(Dataset(domain, np.zeros((4, 1), dtype=int)), {"x": (0.0, 1.0, 2.0)})
        assert len(found) == 0
        assert set(found.drawn(100, rng())[1]) == {0, 1, 2, 3}


class TestDiscriminator:
    def test_the_gradient_by_slopes_is_the_one_of_autograd(self):
        net = Discriminator(6, 4, (5, 7, 3), rng=rng())
        packs = torch.randn(9, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)
        given_conditions = torch.from_numpy(rng(2).integers(4, size=(9, 2)))
        scores, slopes = net._passed(net.begun(packs, given_conditions), rng(3))
        (expected,) = torch.autograd.grad(scores.sum(), packs)
        assert torch.allclose(net.gradient(slopes), expected, atol=1e-6)

    def test_the_derivative_of_the_penalty_is_that_of_finite_differences(self):
        net = Discriminator(6, 0, (5, 4), rng=rng())
        units = net.begun(torch.randn(9, 6, generator=torch.Generator().manual_seed(1)), None).detach()
        weight = net.weights[0]
        (found,) = torch.autograd.grad(net.penalty(units, rng(3)), [net.first])
        for place in ((0, 0), (3, 2), (5, 4)):
            values = []
            for step in (1e-2, -1e-2):
                with torch.no_grad():
                    net.first[place] += step
                    values.append(float(net.penalty(units, rng(3))))
                    net.first[place] -= step
            slope = (values[0] - values[1]) / 2e-2
            assert slope == pytest.approx(float(found[place]), rel=0.02, abs=1e-4)
        assert weight.requires_grad

    def test_a_unit_left_out_weighs_on_the_others(self):
        net = Discriminator(6, 0, (2000,), rng=rng())
        _, slopes = net._passed(torch.ones(1, 2000), rng(4))
        assert set(slopes[0].ravel().tolist()) == {0.0, 2.0}
        assert float(slopes[0].mean()) == pytest.approx(1, abs=0.1)


class TestGenerator:
    def test_its_fitted_net_is_the_net_with_the_batch_as_population(self):
        net = GeneratorNet(4, 3, (6, 5), 7, rng=rng())
        noise = torch.from_numpy(rng(1).standard_normal((50, 4), dtype=np.float32))
        entries = rng(2).integers(3, size=50)
        expected = net(noise, torch.from_numpy(entries)).detach().numpy()
        inputs = np.concatenate([noise.numpy(), np.eye(3, dtype=np.float32)[entries]], axis=1)
        fitted = net.fitted(noise, torch.from_numpy(entries))
        np.testing.assert_allclose(fitted(inputs), expected, atol=1e-5)

    def test_softmax_and_cross_entropy_of_blocks_are_those_of_torch(self):
        layout = layout_of(DOMAIN, VALUES, lambda _, numbers: declared(numbers))
        blocks = OutputBlocks(layout)
        outputs = 30 * torch.randn(8, layout.width, generator=torch.Generator().manual_seed(2))
        row = blocks.row(outputs, rng())
        sums = np.add.reduceat(row.numpy()[:, 1:], layout.starts[:-1], axis=1)
        np.testing.assert_allclose(sums, 1, atol=1e-5)
        hard = blocks.hard_row(outputs, rng()).numpy()[:, 1:]
        np.testing.assert_allclose(np.sort(hard, axis=1)[:, -3:], 1, atol=1e-6)
        entries = rng(3).integers(3, size=8)
        expected = torch.nn.functional.cross_entropy(outputs[:, 1:4], torch.from_numpy(entries))
        assert float(blocks.surprise(outputs, entries)) == pytest.approx(float(expected), rel=1e-5)


class TestBox:
    def test_it_is_in_the_form_of_a_box_that_fits(self):
        assert isinstance(Ctgan(TINY), FittingBox)
        assert options_of(ENTRY.parameters) == CtganOptions()
        assert ENTRY.claim(ENTRY.parameters) == NO_CLAIM
        assert ENTRY.extra == "deep"

    @pytest.mark.parametrize(
        "values",
        [{}, VALUES, {name: tuple(range(size)) for name, size in zip("abc", (3, 5, 4), strict=True)}],
    )
    def test_rows_are_in_the_domain_and_a_function_of_records_and_seed(self, values):
        box = Ctgan(TINY, values)
        first, again = (box(records(), 70, seed=4) for _ in range(2))
        assert first.domain == DOMAIN
        assert len(first) == 70
        assert first.digest() == again.digest()
        assert box(records(), 70, seed=5).digest() != first.digest()

    def test_a_fit_is_the_same_to_the_last_bit_and_can_be_kept(self):
        box = Ctgan(TINY, VALUES)
        saved = box.fit(records(), seed=1).save()
        assert box.fit(records(), seed=1).save() == saved
        rows = box.load(saved).sample(30, seed=9)
        assert rows.digest() == box.fit(records(), seed=1).sample(30, seed=9).digest()

    def test_nothing_of_torch_is_changed_for_others(self):
        before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
        state = torch.get_rng_state().clone()
        Ctgan(TINY)(records(), 5, seed=0)
        assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before
        assert torch.equal(torch.get_rng_state(), state)

    def test_progress_is_told_after_each_epoch_and_may_cancel(self):
        told = []
        Ctgan(TINY).fit(records(), seed=0, progress=lambda stage, share: told.append((stage, share)))
        assert told == [("epochs", 0.5), ("epochs", 1.0)]

        def cancel(_stage, _share):
            raise OperationCancelledError

        with pytest.raises(OperationCancelledError):
            Ctgan(TINY).fit(records(), seed=0, progress=cancel)

    @pytest.mark.parametrize("numeric", [False, True])
    def test_it_learns_what_two_attributes_have_in_common(self, numeric):
        a = rng(1).choice(2, 1000, p=(0.3, 0.7))
        b = np.where(rng(2).random(1000) < 0.95, a, 1 - a)
        dataset = Dataset.of_columns(Domain.of({"a": 2, "b": 2}), [a, b])
        options = CtganOptions(
            epochs=60, batch_size=100, embedding=8, generator=(32,), discriminator=(32,),
            generator_rate=2e-3, discriminator_rate=2e-3, pac=5,
        )  # fmt: skip
        made = Ctgan(options, {"b": (0.0, 10.0)} if numeric else {})(dataset, 4000, seed=3)
        real, synthetic = (count(each, ("a", "b")) / len(each) for each in (dataset, made))
        independent = np.outer(real.sum(axis=1), real.sum(axis=0))
        assert np.abs(synthetic - real).sum() < 0.6 * np.abs(independent - real).sum()
