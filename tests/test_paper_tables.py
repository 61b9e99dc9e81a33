"""The parts of the paper tables: synthpop's algorithm, and what differences mean."""

from decimal import Decimal

import numpy as np
import pytest

from benchmarks import mipfp, raab, synthpop
from benchmarks.contest import Margin
from benchmarks.scores import Scores
from gencard.core.card.privacy import laplace
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.family import ipf
from gencard.core.statistics.noise import scales
from tests.core.tables import dense_dataset, textbook
from tests.shared_data import oracle_file, shared_file

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 5})
DATASET = dense_dataset(DOMAIN, 500)


def disagreeing():
    """Marginals of no table: noise, and nothing done about it but what synthpop does."""
    noisy = synthpop.with_laplace(synthpop.margins(DATASET), 1.0, np.random.default_rng(1))
    return synthpop.made_positive(noisy, 500)


class TestSynthpop:
    @pytest.mark.parametrize("cells", [1, 40, 10_000], ids=["pair by pair", "in runs", "all at once"])
    def test_each_sweep_is_the_textbooks_even_where_marginals_disagree(self, monkeypatch, cells):
        monkeypatch.setattr(synthpop, "_BLOCK_CELLS", cells)
        monkeypatch.setattr(synthpop, "_MOST_SWEEPS", 7)
        tables = disagreeing()
        fitted = synthpop.ipf(tables, DOMAIN)
        assert not fitted.converged
        psi = synthpop.psi_with_prior(DATASET)
        asked = [type(m)(m.clique, table) for m, table in zip(psi.measurements, tables, strict=True)]
        expected = textbook(type(psi)(DOMAIN, tuple(asked)), DOMAIN, 7)
        np.testing.assert_allclose(fitted.model.probabilities, expected, rtol=1e-12)

    def test_marginals_that_agree_are_met_as_by_our_own_fit(self):
        fitted = synthpop.ipf(synthpop.margins(DATASET), DOMAIN)
        ours = ipf(tolerance=1e-9).fit(synthpop.psi_with_prior(DATASET), DOMAIN)
        assert fitted.converged
        np.testing.assert_allclose(fitted.model.probabilities, ours.probabilities, atol=1e-6)

    def test_catall_is_the_counts_and_one_record_over_all_cells(self):
        expected = (np.bincount(cells(DATASET), minlength=120) + 1 / 120) / 501
        np.testing.assert_allclose(synthpop.catall(DATASET).model.probabilities.ravel(), expected)

    def test_noise_has_the_scale_that_is_said(self):
        zeros = [np.zeros((100, 100)) for _ in range(6)]
        drawn = synthpop.with_laplace(zeros, 0.5, np.random.default_rng(1))
        assert np.mean(np.abs(drawn)) == pytest.approx(6 / 0.5, rel=0.02)

    def test_counts_are_lifted_and_scaled(self):
        (table,) = synthpop.made_positive([np.array([-3.0, 0.0, 1.0, 3.0])], 8)
        np.testing.assert_allclose(table, [2e-6, 2e-6, 2, 6], rtol=1e-5)
        assert table.sum() == pytest.approx(8)


def cells(dataset):
    return np.ravel_multi_index(dataset.codes.T, dataset.domain.sizes)


@pytest.mark.parametrize("epsilon", raab.EPSILONS)
@pytest.mark.parametrize("pairs", [3, 10, 21])
def test_equal_true_epsilon_is_noise_of_equal_scale(epsilon, pairs):
    """Sensitivity 1 and epsilon; sensitivity 2 and twice epsilon."""
    privacy = laplace(2 * Decimal(str(epsilon)), neighbouring="replace-one")
    np.testing.assert_allclose(scales(privacy, [1] * pairs), pairs / epsilon)


@pytest.mark.shared
@pytest.mark.parametrize("attributes", [3, 5])
def test_our_fit_is_that_of_mipfp(attributes):
    oracle_file("synthpop/ipf_fit_S3_S5.json")
    shared_file("sd2011_s7.parquet")
    assert mipfp.farthest(attributes) < 1e-6


@pytest.mark.shared
def test_a_row_of_the_paper_comes_out_again():
    oracle_file("synthpop/table2_table3_reference.json")
    shared_file("sd2011_s7.parquet")
    row = raab.reproduced(3, "ipf", 0.1, 10)
    assert len(row.scores) == 10
    assert max(row.deviations) < 3
    assert row.paper["two"] == 12.63


class TestDifferences:
    def test_in_standard_errors(self):
        """Spreads 1 and 1, of 2 and 2 values: the standard error is 1."""
        ours = np.array([0.0, 2**0.5])
        assert raab._pooled(ours, 1.0, 2) == pytest.approx(1)
        assert raab._pooled(ours, None, 2) == pytest.approx(1)
        assert raab._in_errors(3.0, 1.0, 2, 2) == pytest.approx(3)

    def test_nothing_that_varies(self):
        assert raab._in_errors(0.0, 0.0, 10, 10) == 0
        assert raab._in_errors(0.1, 0.0, 10, 10) == np.inf

    def test_of_pairs(self):
        margin = Margin.of(np.array([1.0, 3.0]), np.array([2.0, 4.0]))
        assert (margin.ours, margin.theirs, margin.error) == (2.0, 3.0, 0.0)

    def test_scores_of_a_copy(self):
        scores = Scores(DATASET)
        scores.add(DATASET)
        scores.add(Dataset(DOMAIN, DATASET.codes[::-1]), converged=False)
        assert scores.two.tolist() == scores.three.tolist() == [0.0, 0.0]
        assert (len(scores), scores.unconverged, scores.worst) == (2, 1, 0.0)
        assert scores.uniques[0] == 100 * np.mean(np.bincount(cells(DATASET))[cells(DATASET)] == 1)
