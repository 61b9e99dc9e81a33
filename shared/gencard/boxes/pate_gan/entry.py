"""PATE-GAN in the list of built-in black boxes."""

from gencard.boxes.entry import BoxEntry, Parameters, Surroundings
from gencard.boxes.nets.extra import check_torch
from gencard.boxes.pate_gan.accountant import rho_of_votes
from gencard.boxes.pate_gan.box import PateGan
from gencard.boxes.pate_gan.options import DEFAULTS, options_of
from gencard.boxes.promise import noise_of
from gencard.core.card.budget import Mechanism, Neighbouring, Privacy
from gencard.core.card.claim import Claim


def _make(parameters: Parameters, surroundings: Surroundings) -> PateGan:
    options = options_of(parameters)
    check_torch()
    return PateGan(options, noise_of(surroundings), surroundings.values)


def _claim(parameters: Parameters) -> Claim:
    """That of a fit with these parameters; raises as ``options_of`` does."""
    options = options_of(parameters)
    return Claim(
        f"All {options.affordable * options.batch_size} noisy votes of one fit together keep epsilon "
        "and delta, however the teachers vote: a record is in front of one of them and moves a count "
        "by one at most. The number of records is the same for both.",
        options.epsilon,
        options.delta,
        Neighbouring.REPLACE_ONE,
    )


def _privacy(parameters: Parameters) -> Privacy:
    """All votes of one fit as zCDP: a sum of epsilons would leave no place for delta in the ledger."""
    options = options_of(parameters)
    votes = options.affordable * options.batch_size
    return Privacy(
        Mechanism.GENERATOR,
        Neighbouring.REPLACE_ONE,
        rho=rho_of_votes(votes, options.noise),
        delta=options.delta,
    )


ENTRY = BoxEntry(
    description="A generative adversarial net trained on noisy votes of teachers (Jordon et al. 2018).",
    parameters=DEFAULTS,
    claim=_claim,
    make=_make,
    extra="deep",
    privacy=_privacy,
)
