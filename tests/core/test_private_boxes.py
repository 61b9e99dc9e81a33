"""MST, AIM and PrivBayes as one family: what each promises is what its steps spend.

The main law needs no theory of any method. Given the same answers of the noise, two neighbours go the
same way; so a method's privacy loss is that of its draws, and each is judged by what it was given on
either side.
"""

from dataclasses import dataclass
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.entry import PrivacyBudget, Surroundings
from gencard.boxes.registry import BOXES, box_named
from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, GencardError, InvalidDatasetError, InvalidInputError
from gencard.core.statistics.noise import rho_of
from tests.core.seeded_noise import Recorded, SeededNoise
from tests.core.strategies import datasets, domains, workloads
from tests.core.tables import dense_dataset

FAMILY = ("mst", "aim", "privbayes")
APPROXIMATE = ("mst", "aim")
DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4, "d": 2})
DATASET = dense_dataset(DOMAIN, 400)
SMALL = {"mst": {}, "aim": {"rounds": "2"}, "privbayes": {"degree": "2"}}
"""Parameters for quick runs."""


def box(name, noise=None, workload=(), **parameters):
    told = {**SMALL[name], **{key: str(value) for key, value in parameters.items()}}
    return box_named(name, told, Surroundings(tuple(workload), noise=noise or SeededNoise(0)))


@dataclass
class Scripted:
    """Answers that owe nothing to the records; remembers what it was asked."""

    seed: int

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.asked = []

    def laplace(self, counts, scale):
        self.asked.append(("laplace", counts.copy(), scale))
        return self.rng.integers(-5, 40, counts.shape)

    def gaussian(self, counts, scale):
        self.asked.append(("gaussian", counts.copy(), scale))
        return self.rng.integers(-5, 40, counts.shape)

    def choose(self, scores, scale):
        self.asked.append(("choose", scores.copy(), scale))
        return int(self.rng.integers(len(scores)))


def transcript(name, dataset, seed, **parameters):
    """Record each step of a fit: its kind, counts or scores, scale, sensitivity of scores."""
    noise, sensitivities = Scripted(seed), []
    with pytest.MonkeyPatch.context() as patch:
        watch(patch, sensitivities)
        box(name, noise, **parameters).fit(dataset, seed=seed)
    left = iter(sensitivities)
    return [(*step, next(left) if step[0] == "choose" else None) for step in noise.asked]


def check_moves(one, other):
    """No score of any choice moves by more than the choice was made for."""
    for (_, before, _, sensitivity), (_, after, _, same) in zip(one, other, strict=True):
        assert sensitivity == same
        assert sensitivity is None or np.abs(after - before).max() <= sensitivity


def zcdp(one, other):
    """zCDP loss of one step: Bun and Steinke 2016 for noise, a range of log ratios for choices."""
    (kind, before, scale, _), (_, after, other_scale, _) = one, other
    assert scale == other_scale
    moved = [int(step) for step in (after - before).ravel()]
    if kind == "gaussian":
        return Fraction(sum(step**2 for step in moved)) / (2 * Fraction(scale) ** 2)
    assert kind == "choose"
    return (Fraction(max(moved) - min(moved)) / Fraction(scale)) ** 2 / 8


def pure(one, other):
    (kind, before, scale, _), (_, after, other_scale, _) = one, other
    assert scale == other_scale
    moved = [int(step) for step in (after - before).ravel()]
    if kind == "laplace":
        return Fraction(sum(map(abs, moved))) / Fraction(scale)
    assert kind == "choose"
    return Fraction(max(moved) - min(moved)) / Fraction(scale)


@st.composite
def neighbours(draw, relation):
    """Two datasets, one with one record more or another one."""
    domain = draw(domains(fewest=1, most=4, largest=3))
    larger = draw(datasets(domain, fewest=1, most=12))
    if relation == Neighbouring.ADD_REMOVE:
        return larger.take(np.arange(len(larger) - 1)), larger
    codes = larger.codes.copy()
    codes[-1] = [draw(st.integers(0, size - 1)) for size in domain.sizes]
    return larger, Dataset(domain, codes)


class TestLoss:
    """No neighbours, no answers: nowhere is the loss above the claim."""

    @pytest.mark.parametrize("relation", list(Neighbouring))
    @pytest.mark.parametrize("name", APPROXIMATE)
    @given(data=st.data(), seed=st.integers(0, 2**32))
    @settings(max_examples=40, deadline=None)
    def test_gaussian_steps_keep_the_rho_of_the_claim(self, name, relation, data, seed):
        one, other = data.draw(neighbours(relation))
        if data.draw(st.booleans()):
            one, other = other, one
        told = {"neighbouring": relation, "epsilon": 2}
        if name == "aim":
            told["workload"] = data.draw(st.just(()) | workloads(one.domain))
        runs = [transcript(name, each, seed, **told) for each in (one, other)]
        check_moves(*runs)
        spent = sum(zcdp(*steps) for steps in zip(*runs, strict=True))
        assert spent <= Fraction(rho_of(*promised(name, epsilon="2")))

    @given(data=st.data(), seed=st.integers(0, 2**32), binary=st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_privbayes_keeps_epsilon(self, data, seed, binary):
        one, other = data.draw(neighbours(Neighbouring.REPLACE_ONE))
        if binary:
            sizes = tuple(min(size, 2) for size in one.domain.sizes)
            domain = Domain(one.domain.attributes, sizes)
            one, other = (
                Dataset(domain, np.minimum(each.codes, np.array(sizes) - 1)) for each in (one, other)
            )
        runs = [transcript("privbayes", each, seed, epsilon=2, theta="0.01") for each in (one, other)]
        check_moves(*runs)
        assert sum(pure(*steps) for steps in zip(*runs, strict=True)) <= 2


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("sizes", [(3, 2, 4, 2), (2, 2, 2, 2, 2), (7, 30)])
def test_what_comes_out_follows_from_the_answers_alone(name, sizes):
    """Other records, the same answers: the same fit and the same progress, to the byte."""
    domain = Domain(tuple("abcde"[: len(sizes)]), sizes)
    one = dense_dataset(domain, 200)
    number = 200 if name == "privbayes" else 0  # which is public there
    other = Dataset(domain, np.tile(np.array(sizes) - 1, (number, 1)))
    for seed in range(3):
        told = [[], []]
        fits = [
            box(name, Scripted(seed)).fit(each, seed=1, progress=lambda *step, to=to: to.append(step))
            for each, to in zip((one, other), told, strict=True)
        ]
        assert fits[0].save() == fits[1].save()
        assert told[0] == told[1]


def parameters(name, **told):
    return {**BOXES[name].parameters, **told}


class TestSpending:
    """The other side: the whole claim is spent, so nobody pays for privacy that is not used."""

    @pytest.mark.parametrize("relation", list(Neighbouring))
    @pytest.mark.parametrize("name", APPROXIMATE)
    def test_the_steps_spend_rho_to_the_last_part(self, name, relation, monkeypatch):
        noise, moved, spent = run(name, monkeypatch, neighbouring=relation)
        rho = Fraction(rho_of(*promised(name)))
        assert rho * (1 - Fraction(1, 10**6)) <= sum(spent) <= rho
        event = dp_accounting.ComposedDpEvent(list(events(noise, moved)))
        accountant = RdpAccountant(np.concatenate([np.arange(2.0, 60), np.arange(60, 400, 10.0)]))
        accountant.compose(event)
        epsilon, delta = map(float, promised(name))
        assert 0.97 * epsilon <= accountant.get_epsilon(delta) <= epsilon * (1 + 1e-3)

    def test_privbayes_spends_epsilon(self, monkeypatch):
        noise, sensitivities = Recorded(), []
        watch(monkeypatch, sensitivities)
        box("privbayes", noise, epsilon="0.7").fit(DATASET, seed=1)
        left = iter(sensitivities)
        spent = [
            Fraction(2 if kind == "laplace" else 2 * next(left)) / Fraction(scale)
            for kind, _, scale in noise.draws
        ]
        assert Fraction(7, 10) * (1 - Fraction(1, 10**6)) <= sum(spent) <= Fraction(7, 10)
        choices = [one for one, (kind, *_) in zip(spent, noise.draws, strict=True) if kind == "choose"]
        assert float(sum(choices)) == pytest.approx(0.3 * 0.7)


def watch(monkeypatch, sensitivities):
    """Note the sensitivity that each choice is made for."""
    chosen = PrivacyBudget.choose

    def noted(self, scores, sensitivity, budget):
        sensitivities.append(sensitivity)
        return chosen(self, scores, sensitivity, budget)

    monkeypatch.setattr(PrivacyBudget, "choose", noted)


def run(name, monkeypatch, **told):
    """A fit's draws, what a record moves in each, and what each spends by the theorems."""
    noise, sensitivities = Recorded(), []
    watch(monkeypatch, sensitivities)
    box(name, noise, **told).fit(DATASET, seed=1)
    step = 2 if told["neighbouring"] == Neighbouring.REPLACE_ONE else 1
    left = iter(sensitivities)
    moved = [step if kind == "gaussian" else next(left) ** 2 for kind, *_ in noise.draws]
    spent = [
        Fraction(square) / (2 * Fraction(scale) ** 2)
        for square, (*_, scale) in zip(moved, noise.draws, strict=True)
    ]
    return noise, moved, spent


def events(noise, moved):
    """The draws as dp-accounting has them."""
    for square, (kind, _, scale) in zip(moved, noise.draws, strict=True):
        if kind == "gaussian":
            yield dp_accounting.GaussianDpEvent(scale / square**0.5)
        else:
            yield dp_accounting.ZCDpEvent(square / (2 * scale**2))


def promised(name, **told):
    claim = BOXES[name].claim(parameters(name, **told))
    return claim.epsilon, claim.delta


class TestContract:
    @pytest.mark.parametrize("name", FAMILY)
    def test_the_same_noise_and_seed_give_the_same_rows(self, name):
        made = [box(name, SeededNoise(4))(DATASET, 300, seed=seed).digest() for seed in (9, 9, 8)]
        assert made[0] == made[1] != made[2]
        assert box(name, SeededNoise(5))(DATASET, 300, seed=9).digest() != made[0]

    @pytest.mark.parametrize("name", FAMILY)
    def test_the_order_of_records_is_irrelevant(self, name):
        order = np.random.default_rng(0).permutation(len(DATASET))
        one, other = (
            box(name, SeededNoise(1)).fit(each, seed=2).save() for each in (DATASET, DATASET.take(order))
        )
        assert one == other

    @pytest.mark.parametrize("name", FAMILY)
    def test_a_fit_can_be_kept(self, name):
        fitted = box(name).fit(DATASET, seed=3)
        saved = fitted.save()
        loaded = box(name).load(saved)
        assert loaded.save() == saved
        assert loaded.sample(400, seed=5).digest() == fitted.sample(400, seed=5).digest()
        for broken in (b"", saved[: len(saved) // 2], b"PK" + saved[5:]):
            with pytest.raises(BlackBoxError):
                box(name).load(broken)

    @pytest.mark.parametrize("name", FAMILY)
    @given(data=st.data(), seed=st.integers(0, 2**32))
    @settings(max_examples=25, deadline=None)
    def test_any_domain_and_any_number_of_records_have_a_fit(self, name, data, seed):
        dataset = data.draw(datasets())
        made = box(name, SeededNoise(seed), epsilon=data.draw(st.sampled_from(["0.01", "1", "100"])))(
            dataset, 20, seed=seed
        )
        assert made.domain == dataset.domain
        assert len(made) == 20

    @pytest.mark.parametrize("name", FAMILY)
    def test_progress_grows_and_may_cancel(self, name):
        told = []
        box(name).fit(DATASET, seed=1, progress=lambda stage, share: told.append((stage, share)))
        shares = [share for _, share in told]
        assert shares == sorted(shares)
        assert len(set(shares)) > 1
        assert 0 <= shares[0] <= shares[-1] < 1

        def cancel(stage, share):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            box(name).fit(DATASET, seed=1, progress=cancel)

    @pytest.mark.parametrize("name", FAMILY)
    def test_without_attributes_there_is_nothing_to_fit(self, name):
        with pytest.raises(InvalidDatasetError):
            box(name).fit(Dataset(Domain((), ()), np.zeros((3, 0), dtype=int)), seed=1)

    @pytest.mark.parametrize("name", FAMILY)
    def test_somebody_must_draw_the_noise(self, name):
        with pytest.raises(InvalidInputError, match="noise"):
            box_named(name, {}, Surroundings())

    @pytest.mark.parametrize("name", FAMILY)
    def test_the_claim_says_which_neighbours(self, name):
        claim = BOXES[name].claim(parameters(name, epsilon="0.5"))
        assert float(claim.epsilon) == 0.5
        assert claim.neighbouring is not None
        assert claim.neighbouring in claim.sentence or "replacing one" in claim.sentence

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            *((name, {"epsilon": text}) for name in FAMILY for text in ("0", "-1", "nan", "x", "1e99")),
            *((name, {"epsilon": "0.000000001"}) for name in APPROXIMATE),
            *((name, {"delta": text}) for name in APPROXIMATE for text in ("0", "1", "inf", "")),
            *((name, {"neighbouring": "both"}) for name in APPROXIMATE),
            ("privbayes", {"neighbouring": "replace-one"}),
            *(("aim", {"rounds": text}) for text in ("0", "-3", "1.5", "²", "9" * 30)),
            ("aim", {"max_cells": "0"}),
            *(("privbayes", {"theta": text}) for text in ("0", "-1", "inf", "x")),
            *(("privbayes", {"beta": text}) for text in ("0", "1", "nan")),
            ("privbayes", {"degree": "17"}),
            ("privbayes", {"degree": "-1"}),
        ],
    )
    def test_parameters_out_of_range_are_named(self, name, wrong):
        with pytest.raises(GencardError) as refused:
            box(name, **wrong)
        assert isinstance(refused.value, InvalidInputError)
