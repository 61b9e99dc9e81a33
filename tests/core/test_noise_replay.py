"""Noise calls of every differentially private path, recorded on one dataset and replayed on a neighbour.

The replay answers each call with the noisy numbers that were drawn for the first dataset. A path that is
differentially private then makes the same calls (mechanism, number of counts, scale, order), returns the
same result to the byte, since all that it may use are noisy numbers, and its counts differ by no more
than its budget pays for. The test finds records that reach a scale, a branch, a retry, a seed or an
output beside the noise [1]_, and most faults of PATE-GAN implementations [2]_.

References:
    .. [1] T. Cebere, D. Erb, D. Desfontaines, A. Bellet, J. Fitzsimons, "Privacy in Theory, Bugs in
       Practice: Grey-Box Auditing of Differential Privacy Libraries", arXiv 2602.17454, 2026.
    .. [2] G. Ganev, M. Annamalai, E. De Cristofaro, "The Elusive Pursuit of Reproducing PATE-GAN",
       arXiv 2406.13985, 2024.
"""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.entry import Surroundings
from gencard.boxes.pate_gan import options_of
from gencard.boxes.registry import BOXES, box_named, complete
from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import gaussian, laplace
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.measure import measure
from tests.core.seeded_noise import SeededNoise

ADD_REMOVE, REPLACE_ONE = Neighbouring.ADD_REMOVE, Neighbouring.REPLACE_ONE
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
VALUES = {"c": (0.0, 1.0, 5.0, float("nan"))}
PAIRS = (("a", "b"), ("b", "c"), ("a", "c"))
TINY_NET = {
    "teachers": "5",
    "iterations": "3",
    "batch_size": "6",
    "embedding": "4",
    "generator": "8",
    "teacher": "4",
    "student": "4",
}


class Source:
    def __init__(self, dataset):
        self.dataset = dataset

    def count(self, cliques):
        return count_all(self.dataset, cliques)


class Recording(SeededNoise):
    """Keeps each call with its input and its output."""

    def __init__(self, seed):
        super().__init__(seed)
        self.calls = []

    def _kept(self, kind, counts, scale, result):
        self.calls.append((kind, np.shape(counts), scale, np.array(counts), result))
        return result

    def laplace(self, counts, scale):
        return self._kept("laplace", counts, scale, super().laplace(counts, scale))

    def gaussian(self, counts, scale):
        return self._kept("gaussian", counts, scale, super().gaussian(counts, scale))

    def choose(self, scores, scale):
        return self._kept("choose", scores, scale, super().choose(scores, scale))


class Replaying:
    """Answers with what was drawn before, as long as the same is wanted; adds up what the inputs cost.

    ``cost`` is of epsilon where the noise is Laplace noise, else of rho.
    """

    def __init__(self, calls, *, pure):
        self.left, self.pure, self.cost = list(calls), pure, 0.0

    def _next(self, kind, counts, scale):
        before = self.left.pop(0)
        assert (kind, np.shape(counts), scale) == before[:3], "the calls depend on the records"
        moved = np.asarray(counts, dtype=float) - before[3]
        self.cost += self._price(kind, moved, scale)
        return before[4]

    def _price(self, kind, moved, scale):
        if kind == "gaussian":
            return float((moved**2).sum()) / (2 * scale**2)
        spread = float(np.ptp(moved)) if kind == "choose" else float(np.abs(moved).sum())
        epsilon = spread / scale
        if self.pure:
            return epsilon
        return epsilon**2 / 8 if kind == "choose" else epsilon**2 / 2  # bounded range, pure noise

    def laplace(self, counts, scale):
        return self._next("laplace", counts, scale)

    def gaussian(self, counts, scale):
        return self._next("gaussian", counts, scale)

    def choose(self, scores, scale):
        return self._next("choose", scores, scale)


def neighbours(relation: Neighbouring, seed: int, records: int) -> tuple[Dataset, Dataset]:
    """Two datasets that differ in one record, some with rare levels and copies."""
    rng = np.random.default_rng(seed)
    shares = [rng.dirichlet(np.full(size, 0.5)) for size in DOMAIN.sizes]
    codes = np.stack(
        [rng.choice(size, records, p=share) for size, share in zip(DOMAIN.sizes, shares, strict=True)],
        axis=1,
    )
    other = codes.copy()
    place = int(rng.integers(records))
    if relation is ADD_REMOVE:
        other = np.delete(other, place, axis=0)
    else:
        other[place] = [rng.integers(size) for size in DOMAIN.sizes]
    pair = Dataset(DOMAIN, codes), Dataset(DOMAIN, other)
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def replayed(path: Callable, relation, *, pure: bool, seed: int, records: int) -> float:
    """Return the spending of the path on two neighbours; assert that calls and result are the same."""
    first, second = neighbours(relation, seed, records)
    recording = Recording(seed)
    result = path(first, recording)
    replaying = Replaying(recording.calls, pure=pure)
    assert path(second, replaying) == result, "the result depends on more than noisy numbers"
    assert not replaying.left, "the number of calls depends on the records"
    return replaying.cost


LINEAR = LinearStatistic(
    ("a", "c"), (Function("one", (1,) * 8), Function("x", (0, 1, 2, 7, 3, 3, 5, 7), 2))
)


def psi_with(privacy, statistics, weights=()):
    def path(dataset, noise):
        psi = measure(Source(dataset), statistics, DOMAIN, privacy, noise=noise, weights=weights)
        tables = [(one.clique, one.values.tolist(), one.stddev) for one in psi.measurements]
        return tables, [one.values.tolist() for one in psi.linear]

    return path


class TestPsi:
    @given(
        st.sampled_from(Neighbouring),
        st.booleans(),
        st.integers(0, 2**32),
        st.integers(1, 40),
        st.booleans(),
    )
    def test_a_measurement(self, relation, pure, seed, records, is_weighted):
        noise = laplace if pure else gaussian
        privacy = noise("0.5", neighbouring=relation)
        path = psi_with(privacy, PAIRS, (1, 5, 2) if is_weighted else ())
        assert replayed(path, relation, pure=pure, seed=seed, records=records) <= 0.5

    @pytest.mark.parametrize("relation", Neighbouring)
    @pytest.mark.parametrize("noise", [laplace, gaussian])
    def test_the_last_record_leaves_no_error(self, relation, noise):
        """The existence of any record is as private as the record."""
        empty = Dataset(DOMAIN, np.empty((0, 3), dtype=np.int64))
        drawn = psi_with(noise(1, neighbouring=relation), PAIRS)(empty, SeededNoise(0))
        assert len(drawn[0]) == len(PAIRS)

    @given(st.sampled_from(Neighbouring), st.integers(0, 2**32), st.integers(1, 40))
    def test_moments(self, relation, seed, records):
        for noise in (laplace, gaussian):
            privacy = noise("0.5", neighbouring=relation)
            path = psi_with(privacy, [("b",), LINEAR])
            spent = replayed(path, relation, pure=noise is laplace, seed=seed, records=records)
            assert spent <= 0.5


def fit_path(name, parameters, workload=()):
    def path(dataset, noise):
        box = box_named(name, parameters, Surroundings(workload, VALUES, noise))
        fit = box.fit(dataset, seed=5)
        return fit.save(), fit.sample(30, seed=2).digest()

    return path


class TestBoxes:
    @pytest.mark.parametrize("relation", Neighbouring)
    @pytest.mark.parametrize("name", ["mst", "aim"])
    @settings(max_examples=15)
    @given(st.integers(0, 2**32), st.integers(1, 60))
    def test_marginal_models(self, name, relation, seed, records):
        parameters = {"epsilon": "2", "delta": "0.00001", "neighbouring": str(relation)}
        if name == "aim":
            parameters["rounds"] = "2"
        privacy = BOXES[name].privacy(complete(BOXES[name], parameters))
        path = fit_path(name, parameters, PAIRS)
        spent = replayed(path, relation, pure=False, seed=seed, records=records)
        assert Decimal(spent) <= privacy.price.rho

    @settings(max_examples=15)
    @given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from(["0.5", "8"]))
    def test_privbayes(self, seed, records, epsilon):
        path = fit_path("privbayes", {"epsilon": epsilon, "theta": "0.5"})
        spent = replayed(path, REPLACE_ONE, pure=True, seed=seed, records=records)
        assert Decimal(spent) <= Decimal(epsilon)

    @pytest.mark.parametrize("seed", range(6))
    def test_pate_gan(self, seed):
        pytest.importorskip("torch", reason="the extra deep is not installed")
        path = fit_path("pate-gan", TINY_NET)
        spent = replayed(path, REPLACE_ONE, pure=False, seed=seed, records=23)
        options = options_of(complete(BOXES["pate-gan"], TINY_NET))
        most = options.affordable * options.batch_size / (2 * options.noise**2)
        assert spent <= most

    def test_every_private_box_is_here(self):
        """A box with a privacy of its own gets a test above."""
        private = {
            name for name, entry in BOXES.items() if entry.privacy(complete(entry, {})) is not None
        }
        assert private == {"mst", "aim", "privbayes", "pate-gan"}


def careless(scale_of=None, calls=None, beside=None):
    """A path with one of the faults that the replay is to find."""

    def path(dataset, noise):
        counts = count_all(dataset, [("a",)])[0]
        scale = scale_of(dataset) if scale_of else 4.0
        drawn = [noise.laplace(counts, scale) for _ in range(calls(dataset) if calls else 1)]
        return [one.tolist() for one in drawn], beside(dataset) if beside else 0

    return path


FAULTS = {
    "scale": careless(scale_of=lambda dataset: 1.0 + len(dataset)),
    "calls": careless(calls=lambda dataset: 1 + len(dataset) % 2),
    "result": careless(beside=len),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_replay_finds_a_fault(fault):
    with pytest.raises((AssertionError, IndexError)):
        replayed(FAULTS[fault], ADD_REMOVE, pure=True, seed=1, records=20)
