"""Support raking of many and of large marginals: what is met, what is told, what is refused before."""

from itertools import combinations

import numpy as np
import pytest

from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import NotConvergedError, NotFittableError, TooLargeError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import graphical
from gencard.core.generators.model_file import bytes_of, model_of
from gencard.core.generators.registry import check_fittable, made_up_psi
from gencard.core.generators.support import BoundedTree, SupportRaking, resampling_error
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement

LARGE = (300, 200, 97, 60, 20, 16, 12, 9, 8, 7, 6, 5, 4, 2)
"""The levels of the 14 attributes whose 91 pairs were paid for and then not fitted."""


def of_sizes(sizes):
    return Domain.of({f"a{number}": size for number, size in enumerate(sizes)})


def skewed(domain, records, seed, classes=5, concentration=0.3):
    """Records of latent classes whose shares of levels differ; another law than the trial's own."""
    rng = np.random.default_rng(seed)
    member = rng.choice(classes, size=records, p=rng.dirichlet(np.ones(classes)))
    columns = []
    for size in domain.sizes:
        ranks = rng.permuted(np.tile(np.arange(size), (classes, 1)), axis=1)
        zipf = (1 + ranks) ** -rng.uniform(0.5, 2.0)
        own = rng.dirichlet(np.full(size, concentration), size=classes)
        ends = np.cumsum(zipf / zipf.sum(axis=1, keepdims=True) + own, axis=1)
        drawn = rng.random(records) * ends[:, -1][member]
        columns.append(np.minimum((drawn[:, None] > ends[member]).sum(axis=1), size - 1))
    return Dataset.of_columns(domain, columns)


def pairs(domain):
    return list(combinations(domain.attributes, 2))


def mean_variation(model, psi):
    shares = [m.values / m.values.sum() for m in psi.measurements]
    return np.mean(
        [
            0.5 * np.abs(model.marginal(m.clique) - share).sum()
            for m, share in zip(psi.measurements, shares, strict=True)
        ]
    )


class TestFit:
    def test_thirty_attributes_and_all_their_pairs(self):
        """A small edition of ``python -m benchmarks.wide_raking``: refused for its size at a4e800e."""
        domain = of_sizes([2, 3, 4, 5, 6] * 6)
        psi = measure_dataset(skewed(domain, 20_000, 0, concentration=3.0), pairs(domain))
        assert len(psi.measurements) == 435
        assert SupportRaking().check(psi.cliques, domain) is None
        generator = SupportRaking(support=2**14, tree_cells=5_000)
        model = generator.fit(psi, domain)
        assert mean_variation(model, psi) == pytest.approx(model.residual, rel=1e-6)
        assert model.residual <= 0.02

    def test_a_fit_that_begins_with_a_bounded_tree_has_the_same_bytes_again(self):
        domain = of_sizes([2, 3, 4, 5, 6] * 2)
        psi = measure_dataset(skewed(domain, 5_000, 0), pairs(domain))
        generator = SupportRaking(support=2**11, tree_cells=500)
        with pytest.raises(TooLargeError):
            graphical(max_cells=500).check(psi.cliques, domain)
        one, again = (bytes_of(generator.fit(psi, domain)) for _ in range(2))
        assert one == again

    def test_large_tables_of_few_records_are_met_as_nearly_as_told(self):
        """NOT_CONVERGED at a4e800e, after psi was paid."""
        domain = of_sizes(LARGE)
        psi = measure_dataset(skewed(domain, 8_000, 1), pairs(domain))
        model = SupportRaking(support=2**16).fit(psi, domain)
        assert mean_variation(model, psi) == pytest.approx(model.residual, rel=1e-6)
        assert model.residual <= max(0.1, resampling_error(psi.measurements))
        assert model_of(bytes_of(model)).residual == model.residual

    def test_beyond_the_bound_there_is_no_model(self):
        domain = of_sizes((100,) * 6)
        psi = measure_dataset(skewed(domain, 100_000, 0, classes=20), pairs(domain))
        with pytest.raises(NotConvergedError, match="mean total variation"):
            SupportRaking(support=2**10, tolerance=0.01).fit(psi, domain)

    def test_the_number_of_marginals_has_a_bound(self):
        domain = of_sizes((2,) * 100)
        with pytest.raises(TooLargeError, match="4096"):
            SupportRaking().check(pairs(domain), domain)

    @pytest.mark.parametrize("records", [50, 2_000])
    def test_the_resampling_error_is_that_of_resamples(self, records):
        """By simulation: 200 resamples of a table of 60 cells; the bound is at most a tenth above."""
        rng = np.random.default_rng(3)
        counts = rng.multinomial(records, rng.dirichlet(np.full(60, 0.5)))
        drawn = rng.multinomial(records, counts / records, size=200)
        variations = 0.5 * np.abs(drawn - counts).sum(axis=1) / records
        told = resampling_error([Measurement(("a",), counts)])
        margin = 4 * variations.std() / np.sqrt(200)
        assert variations.mean() - margin <= told <= 1.1 * variations.mean() + margin


class TestStart:
    def test_a_bounded_tree_adds_the_pair_that_is_missed_most(self):
        """A ring of four attributes: three edges make a tree, the fourth one is added."""
        rng = np.random.default_rng(0)
        first = rng.integers(4, size=20_000)
        near = [np.where(rng.random(20_000) < 0.7, first, rng.integers(4, size=20_000)) for _ in "bcd"]
        domain = of_sizes((4,) * 4)
        psi = measure_dataset(Dataset.of_columns(domain, [first, *near]), pairs(domain))
        model = BoundedTree(graphical(tolerance=1e-2), 10_000).fit(psi, domain)
        assert mean_variation(model, psi) < 0.01


class TestTrial:
    def check(self, domain, cliques, zeros=(), **settings):
        generator = SupportRaking(zeros, **settings)
        check_fittable(generator, cliques, domain, zeros=zeros, max_cells=generator.max_cells)

    def test_the_shape_of_the_issue_passes(self):
        domain = of_sizes(LARGE)
        self.check(domain, pairs(domain))

    def test_what_would_be_missed_is_refused_with_advice_that_passes(self):
        """All pairs of 10 attributes of 100 levels: the advice is followed until the trial passes."""
        domain = of_sizes((100,) * 6 + (3,) * 6)
        with pytest.raises(NotFittableError) as caught:
            self.check(domain, pairs(domain))
        assert caught.value.reason == "NOT_FITTABLE"
        assert "Leave out the marginals (a0, a1)" in caught.value.fields["remedy"]
        fewer = [clique for clique in pairs(domain) if domain.project(clique).cells < 10_000]
        self.check(domain, fewer)

    def test_an_exact_generator_is_named_where_it_holds_all(self):
        """A chain of large attributes is a tree, which the graphical model meets exactly."""
        domain = of_sizes((400,) * 5)
        chain = [(f"a{number}", f"a{number + 1}") for number in range(4)]
        with pytest.raises(NotFittableError, match="generator graphical"):
            self.check(domain, chain, tolerance=1e-6, support=2**10)

    def test_structural_zeros_are_kept_in_the_trial(self):
        zero = StructuralZeros(("a0", "a1"), tuple((0, code) for code in range(3)))
        domain = of_sizes((4, 3, 5))
        psi = made_up_psi([("a0", "a1")], domain, (zero,), 500, rng=rng_of(0))
        assert psi is not None
        assert not psi.measurements[0].values[0].any()
        everything = StructuralZeros(("a0",), tuple((code,) for code in range(4)))
        assert made_up_psi([("a0",)], domain, (everything,), 500, rng=rng_of(0)) is None

    @pytest.mark.parametrize("seed", range(12))
    def test_where_the_trial_passes_the_fit_does(self, seed):
        """Random shapes, and skewed records of another law than the made-up ones."""
        rng = np.random.default_rng(seed)
        sizes = np.sort(np.rint(2 ** rng.uniform(1, rng.uniform(3, 7), rng.integers(7, 13))).astype(int))
        domain = of_sizes(sizes.tolist())
        cliques = pairs(domain)
        generator = SupportRaking(support=2**15)
        try:
            check_fittable(generator, cliques, domain, zeros=(), max_cells=generator.max_cells)
        except NotFittableError:
            return
        records = int(10 ** rng.uniform(2.5, 4.5))
        psi = measure_dataset(skewed(domain, records, seed, classes=int(rng.integers(2, 12))), cliques)
        assert generator.fit(psi, domain).residual is not None
