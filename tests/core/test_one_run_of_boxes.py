"""The one-run audit of Steinke over the private boxes: a lower bound on epsilon stays below the claim.

Each of many canaries, all with a level of their own in a crowd, is in by a fair coin; what is guessed
from is the fitted model itself, which says more than rows do. What passes here is not proved; the last
test shows what this audit does see.
"""

import numpy as np
import pytest

from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import BOXES, box_named
from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.models import NetworkModel
from gencard.measures.privacy.canary_findings import Guesses
from tests.core.seeded_noise import SeededNoise, Silent

CANARIES = 400
DOMAIN = Domain.of({"who": CANARIES + 1, "flag": 2, "group": 2})
BETA = 0.05
CROWD = np.repeat(np.arange(CANARIES), np.where(np.arange(CANARIES) % 2, 40, 80))
"""Levels of those whom everybody knows: enough that no level is merged or drawn to the others."""

GUESSED = 50
"""The highest and the lowest of each kind of level; all others are left open."""


def records(inside, *, replaced):
    """The crowd and the canaries; where replacing is what counts, one that is out is replaced."""
    who = [CROWD, np.flatnonzero(inside)]
    if replaced:
        who.append(np.full(CANARIES - int(inside.sum()), CANARIES))
    levels = np.concatenate(who)
    return Dataset.of_columns(DOMAIN, [levels, levels // 2 % 2, levels // 4 % 2])


def seen(model):
    """Return the model's weight of each canary's level, up to a factor."""
    if not isinstance(model, NetworkModel):
        return model.marginal(("who",))[:CANARIES]
    (node,) = (node for node in model.nodes if node.attribute == "who")
    return node.table.sum(axis=tuple(range(len(node.parents))))[:CANARIES]


def bound(name, noise, epsilon, seed):
    """The audit's lower bound from one fit."""
    parameters = {**BOXES[name].parameters, "epsilon": epsilon}
    claim = BOXES[name].claim(parameters)
    inside = np.random.default_rng(seed).random(CANARIES) < 0.5
    dataset = records(inside, replaced=claim.neighbouring is Neighbouring.REPLACE_ONE)
    told = seen(box_named(name, parameters, Surroundings(noise=noise)).fit(dataset, seed=seed).model)
    correct = 0
    for kind in (0, 1):
        levels = np.arange(kind, CANARIES, 2)
        order = levels[np.argsort(told[levels], kind="stable")]
        correct += int((~inside[order[:GUESSED]]).sum() + inside[order[-GUESSED:]].sum())
    guesses = Guesses(CANARIES, 4 * GUESSED, correct)
    return guesses.bound(delta=float(claim.delta), beta=BETA, neighbouring=claim.neighbouring).epsilon


@pytest.mark.parametrize("epsilon", ["0.5", "4"])
@pytest.mark.parametrize("name", ["mst", "aim", "privbayes"])
def test_the_audit_never_exceeds_the_claim(name, epsilon):
    """A right box raises an alarm with probability BETA at most, in each run."""
    assert max(bound(name, SeededNoise(seed), epsilon, seed) for seed in range(4)) <= float(epsilon)


@pytest.mark.parametrize("name", ["mst", "aim", "privbayes"])
def test_it_sees_through_a_box_whose_noise_is_missing(name):
    assert bound(name, Silent(), "1", seed=1) > 2
