"""PATE-GAN: what a record can do to the votes, what votes cost, and what is learned from them."""

from math import exp, log

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.entry import Surroundings
from gencard.boxes.net_options import delta_of_votes, scale_of, shards_of, votes_of
from gencard.boxes.pate_gan import ENTRY, options_of
from gencard.boxes.registry import box_named
from gencard.core.blackbox import FittingBox
from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.measures.privacy.canary_findings import Guesses
from tests.core.seeded_noise import Recorded, SeededNoise

DOMAIN = Domain.of({"a": 3, "b": 5, "c": 4})
VALUES = {"b": (1.0, float("nan"), 2.0, 10.0, float("nan"))}
TINY = {
    "teachers": "7",
    "iterations": "4",
    "batch_size": "12",
    "embedding": "4",
    "generator": "8",
    "teacher": "4",
    "student": "4",
}


def rng(seed=0):
    return np.random.default_rng(seed)


def records(count=60, seed=0):
    columns = [rng(seed + axis).integers(size, size=count) for axis, size in enumerate(DOMAIN.sizes)]
    return Dataset.of_columns(DOMAIN, columns)


def box(drawn_by=None, values=None, **told):
    surroundings = Surroundings((), values or {}, drawn_by or Recorded())
    return box_named("pate-gan", {**TINY, **told}, surroundings)


def one_vote(scale):
    """The losses are on its grid."""
    return privacy_loss_distribution.from_discrete_laplace_mechanism(
        1 / scale, sensitivity=1, value_discretization_interval=1 / scale / 1024
    )


class Deaf:
    """Answers that have nothing to do with the counts, which it keeps: so two runs can be compared."""

    def __init__(self, most):
        self.rng, self.most, self.heard = rng(9), most, []

    def laplace(self, counts, scale):
        self.heard.append(counts.copy())
        return self.rng.integers(self.most + 1, size=counts.shape)


class TestAccountant:
    @pytest.mark.parametrize(
        ("votes", "scale", "epsilon"), [(50, 20.0, 0.5), (400, 60.0, 1.0), (30, 3.0, 6.0), (1, 2.0, 0.1)]
    )
    def test_it_agrees_with_the_privacy_loss_distribution(self, votes, scale, epsilon):
        one = one_vote(scale)
        expected = one.self_compose(votes).get_delta_for_epsilon(epsilon)
        found = delta_of_votes(votes, scale, epsilon)
        assert found == pytest.approx(expected, rel=1e-3)

    @given(st.integers(1, 12), st.floats(0.5, 20), st.floats(0, 4))
    @settings(max_examples=60, deadline=None)
    def test_it_is_the_sum_over_all_sequences_of_noise(self, votes, scale, epsilon):
        """For randomised response: brute force over how often the loss is positive."""
        one = 1 / scale
        share = 1 / (1 + exp(-one))
        total = 0.0
        for sequence in range(2**votes):
            high = sequence.bit_count()
            loss = (2 * high - votes) * one
            chance = share**high * (1 - share) ** (votes - high)
            total += chance * max(0.0, 1 - exp(epsilon - loss))
        assert delta_of_votes(votes, scale, epsilon) == pytest.approx(total, rel=1e-4, abs=1e-12)

    @pytest.mark.parametrize(("scale", "epsilon"), [(2.0, 1.0), (30.0, 1.0), (0.5, 30.0), (10.0, 100.0)])
    def test_one_vote_more_would_be_too_many(self, scale, epsilon):
        votes = votes_of(scale, epsilon, 1e-6)
        assert delta_of_votes(votes, scale, epsilon) <= 1e-6 < delta_of_votes(votes + 1, scale, epsilon)

    def test_moments_would_allow_no_more_votes(self):
        scale, epsilon, delta = 40.0, 1.0, 1e-6
        accountant = rdp_privacy_accountant.RdpAccountant()
        votes = votes_of(scale, epsilon, delta)
        accountant.compose(dp_event.LaplaceDpEvent(scale), votes)
        assert accountant.get_epsilon(delta) >= epsilon
        assert delta_of_votes(votes, scale, epsilon) <= delta

    @pytest.mark.parametrize(
        ("votes", "epsilon"), [(1, 1.0), (640, 1.0), (6400, 1000.0), (100_000, 0.1)]
    )
    def test_the_least_noise_is_hardly_more_than_is_needed(self, votes, epsilon):
        scale = scale_of(votes, epsilon, 1e-6)
        assert (
            delta_of_votes(votes, scale, epsilon) <= 1e-6 < delta_of_votes(votes, scale * 0.998, epsilon)
        )

    def test_no_vote_costs_nothing(self):
        assert delta_of_votes(0, 1.0, 0.0) == 0
        assert votes_of(0.001, 1.0, 1e-6) == 0

    def test_the_loss_of_one_vote_has_two_values(self):
        """The premise, on the noise's own law."""
        scale = 3.0
        law = exp(-1 / scale) ** np.abs(np.arange(-40, 41))
        losses = np.log(law[1:] / law[:-1])
        np.testing.assert_allclose(np.abs(losses), 1 / scale)
        assert (law / law.sum())[:41].sum() == pytest.approx(1 / (1 + exp(-1 / scale)), abs=1e-5)
        assert log(1 / (1 + exp(-1 / scale))) < 0


class TestShards:
    @given(st.integers(1, 60), st.data())
    @settings(max_examples=40, deadline=None)
    def test_every_record_is_in_one_shard(self, count, data):
        shards = data.draw(st.integers(1, count))
        found = shards_of(count, shards, rng())
        parts = np.split(found.order, found.starts[1:])
        assert sorted(np.concatenate(parts)) == list(range(count))
        assert {len(part) for part in parts} <= {count // shards, -(-count // shards)}
        drawn = found.drawn(20, rng(1))
        for part, positions in zip(parts, drawn, strict=True):
            assert set(positions) <= set(part)


class TestOptions:
    def test_the_defaults_last_for_all_iterations(self):
        options = options_of(ENTRY.parameters)
        assert options.affordable == options.iterations
        told = options.epsilon, options.delta
        votes = options.affordable * options.batch_size
        assert delta_of_votes(votes, options.noise, float(told[0])) <= float(told[1])

    def test_training_stops_before_the_budget_does(self):
        options = options_of({**ENTRY.parameters, "noise": "20", "batch_size": "5"})
        assert options.affordable == 26 // 5

    def test_a_delta_that_is_none_is_named(self):
        with pytest.raises(InvalidNumberError, match=r"^delta"):
            options_of({**ENTRY.parameters, "delta": "2"})

    def test_noise_that_does_not_last_for_one_batch_is_refused(self):
        with pytest.raises(InvalidInputError, match="noise"):
            options_of({**ENTRY.parameters, "noise": "20"})

    def test_the_claim_says_what_holds_and_for_whom(self):
        claim = ENTRY.claim({**ENTRY.parameters, **TINY, "epsilon": "2"})
        assert (float(claim.epsilon), float(claim.delta)) == (2, 1e-6)
        assert claim.neighbouring is Neighbouring.REPLACE_ONE
        assert "All 48 noisy votes" in claim.sentence


class TestBox:
    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch", reason="the extra deep is not installed")

    @pytest.mark.parametrize("values", [{}, VALUES])
    def test_rows_are_in_the_domain_and_a_function_of_records_seed_and_noise(self, values):
        first, again = (box(Recorded(3), values)(records(), 40, seed=2) for _ in range(2))
        assert isinstance(box(), FittingBox)
        assert first.domain == DOMAIN
        assert len(first) == 40
        assert first.digest() == again.digest()

    def test_a_fit_can_be_kept(self):
        fit = box().fit(records(), seed=1)
        assert box().load(fit.save()).sample(30, seed=4).digest() == fit.sample(30, seed=4).digest()

    @pytest.mark.parametrize("told", [{}, {"epsilon": "50"}, {"noise": "90", "iterations": "1000"}])
    def test_the_noise_that_was_drawn_keeps_the_claim(self, told):
        noise = Recorded()
        claim = ENTRY.claim({**ENTRY.parameters, **TINY, **told})
        box(noise, **told).fit(records(), seed=0)
        assert {kind for kind, _, _ in noise.draws} == {"laplace"}
        (scale,) = {scale for _, _, scale in noise.draws}
        votes = sum(size for _, size, _ in noise.draws)
        assert f"All {votes} noisy votes" in claim.sentence
        assert delta_of_votes(votes, scale, float(claim.epsilon)) <= float(claim.delta)
        one = one_vote(scale)
        spent = one.self_compose(votes).get_epsilon_for_delta(float(claim.delta))
        assert spent <= float(claim.epsilon) * 1.001

    @pytest.mark.parametrize("record", [0, 31, 59])
    def test_another_record_moves_every_vote_by_one_at_most(self, record):
        codes = np.array(records().codes)
        codes[record] = (codes[record] + 1) % np.array(DOMAIN.sizes)
        heard, rows = [], []
        for dataset in (records(), Dataset(DOMAIN, codes)):
            noise = Deaf(7)
            told = {"epsilon": "100", "critic_rate": "0.05", "iterations": "12"}
            rows.append(box(noise, **told)(dataset, 20, seed=5))
            heard.append(np.concatenate(noise.heard))
        assert np.abs(heard[0] - heard[1]).max() <= 1
        assert heard[0].any()
        assert rows[0].digest() == rows[1].digest()  # nothing but votes comes from records

    def test_progress_ends_with_the_last_iteration(self):
        told = []
        box().fit(records(), seed=0, progress=lambda stage, share: told.append((stage, share)))
        assert told == [("iterations", share) for share in (0.25, 0.5, 0.75, 1.0)]

    def test_without_noise_there_is_no_box(self):
        with pytest.raises(InvalidInputError, match="noise"):
            box_named("pate-gan", TINY, Surroundings())

    def test_it_learns_which_level_is_common(self):
        dataset = Dataset.of_columns(
            Domain.of({"a": 4}), [rng().choice(4, 400, p=(0.85, 0.05, 0.05, 0.05))]
        )
        told = {"epsilon": "1000", "iterations": "150", "teachers": "5", "generator_rate": "0.002",
                "critic_rate": "0.01", "batch_size": "32"}  # fmt: skip
        made = box(SeededNoise(1), **told)(dataset, 1000, seed=1)
        assert np.bincount(made.column("a"), minlength=4)[0] > 400

    def test_the_one_run_audit_does_not_exceed_the_claim(self):
        """A right box raises an alarm with probability 5 % at most, in each run."""
        bounds = [_audited(seed) for seed in range(3)]
        assert max(bounds) <= 1.0


def _audited(seed, canaries=60, guessed=12):
    """Each canary is a level of its own, in by a fair coin or replaced by a common one."""
    domain = Domain.of({"who": canaries + 1, "flag": 2})
    inside = rng(seed).random(canaries) < 0.5
    who = np.where(inside, np.arange(canaries), canaries)
    dataset = Dataset.of_columns(domain, [who, np.ones(canaries, dtype=int)])
    fit = box(SeededNoise(seed), teachers="20").fit(dataset, seed=seed)
    shares = np.bincount(fit.sample(20_000, seed=seed).column("who"), minlength=canaries + 1)[:-1]
    order = np.argsort(shares, kind="stable")
    correct = int((~inside[order[:guessed]]).sum() + inside[order[-guessed:]].sum())
    guesses = Guesses(canaries, 2 * guessed, correct)
    claim = ENTRY.claim(ENTRY.parameters)
    bound = guesses.bound(delta=float(claim.delta), beta=0.05, neighbouring=claim.neighbouring)
    return bound.epsilon


def test_as_many_records_as_teachers_are_enough():
    pytest.importorskip("torch", reason="the extra deep is not installed")
    assert len(box(teachers="7")(records(7), 10, seed=0)) == 10
