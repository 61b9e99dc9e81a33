"""The reduced space on noisy marginals: nearer to the records than the noisy tables without negatives.

At a4e800e its total variation was twice that of those tables (0.7 against 0.36 on the six pairs below).
"""

from itertools import combinations

import numpy as np
import pytest

from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.contract import TargetMeans, values_on
from gencard.core.generators.moments import ReducedSpace
from gencard.core.statistics.linear import variance
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi

SEEDS = range(3)


def survey(*names):
    """The American National Election Study of 1996, 944 records (statsmodels)."""
    datasets = pytest.importorskip("statsmodels.datasets")
    columns = datasets.anes96.load_pandas().data[list(names)].astype(int)
    codes = (columns - columns.min()).to_numpy()
    sizes = dict(zip(names, (codes.max(axis=0) + 1).tolist(), strict=True))
    return Dataset(Domain.of(sizes), codes)


def with_laplace_noise(psi, epsilon, seed):
    """Add noise for the replacement of one record: two counts of each marginal change by one."""
    scale = 2 * len(psi.measurements) / epsilon
    noise = np.random.default_rng(seed)
    return Psi(
        psi.domain,
        tuple(
            Measurement(
                m.clique,
                m.values + np.rint(noise.laplace(0, scale, m.values.shape)),
                float(np.sqrt(2) * scale),
            )
            for m in psi.measurements
        ),
    )


def mean_variation(tables, exact):
    shares = [m.values / m.values.sum() for m in exact.measurements]
    return np.mean([0.5 * np.abs(one - other).sum() for one, other in zip(tables, shares, strict=True)])


def clipped(psi):
    tables = [np.maximum(m.values, 0) for m in psi.measurements]
    return [table / table.sum() for table in tables]


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(
    "names", [("PID", "educ", "income", "vote"), ("TVnews", "selfLR", "PID", "educ")]
)
def test_it_is_nearer_to_the_records_than_noisy_tables_without_negatives(names, epsilon):
    """In each of three draws of the noise, and by a sixth in the mean."""
    dataset = survey(*names)
    exact = measure_dataset(dataset, list(combinations(names, 2)))
    ours, theirs = [], []
    for seed in SEEDS:
        psi = with_laplace_noise(exact, epsilon, seed)
        model = ReducedSpace().fit(psi, dataset.domain)
        ours.append(mean_variation([model.marginal(m.clique) for m in exact.measurements], exact))
        theirs.append(mean_variation(clipped(psi), exact))
    assert all(one < other for one, other in zip(ours, theirs, strict=True))
    assert np.mean(ours) < 0.85 * np.mean(theirs)


def test_drawn_points_do_as_well():
    """A domain of 16,464 cells, of which 4,096 draws are the points."""
    names = ("PID", "educ", "income", "vote", "selfLR")
    dataset = survey(*names)
    exact = measure_dataset(dataset, [("PID", "educ"), ("PID", "vote"), ("PID", "selfLR"), ("income",)])
    psi = with_laplace_noise(exact, 0.5, 0)
    model = ReducedSpace().fit(psi, dataset.domain)
    ours = mean_variation([model.marginal(m.clique) for m in exact.measurements], exact)
    assert ours < mean_variation(clipped(psi), exact)


def test_noisy_moments_are_met_within_their_noise():
    """The fit may use their noise, and no more: three standard deviations of each sum."""
    x = Attribute("x", Labels(tuple(map(str, range(11))), integer=True))
    domain = Coding((x,)).domain
    dataset = Dataset(domain, np.random.default_rng(0).binomial(10, 0.3, 300)[:, None])
    (exact,) = measure_dataset(dataset, [variance(x)]).linear
    stddevs = np.maximum(0.02 * np.abs(exact.values), 1.0)
    noisy = exact.values + stddevs * np.random.default_rng(1).normal(size=len(stddevs))
    psi = Psi(domain, (), (LinearMeasurement(exact.statistic, noisy, stddevs),))
    model = ReducedSpace().fit(psi, domain)
    missed = np.abs(values_on(psi, model.support) @ model.weights - TargetMeans.of(psi).means)
    assert (missed <= 3 * TargetMeans.of(psi).stddevs).all()
