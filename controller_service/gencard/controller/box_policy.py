"""Generators that a policy offers, and with which measurements black boxes among them go together."""

from collections.abc import Sequence
from dataclasses import replace

from gencard.core.budget import Privacy
from gencard.core.card import Change, Proposal, Refusal
from gencard.core.generators.registry import GENERATORS, takes_linear
from gencard.core.transform import AS_COUNTED, Transform

GENERATOR = "GENERATOR_NOT_ALLOWED"
READS_RECORDS = "GENERATOR_READS_RECORDS"


def is_black_box(name: str) -> bool:
    """Whether a generator reads records; a name that is not in the catalogue would be one."""
    return name not in GENERATORS


def takes_moments(name: str) -> bool:
    """Whether cards with this generator may name moments: a black box is not fitted to psi at all."""
    return is_black_box(name) or takes_linear(name)


def with_generator(
    terms: Proposal, privacy: Privacy, generators: Sequence[str], transform: Transform
) -> tuple[Proposal, tuple[Change, ...]] | Refusal:
    """The terms with a generator that is on offer and goes with how they are measured.

    A black box sees the records themselves: neither noise on psi nor rounding binds it. So it goes with
    exact counts alone, as they are, and costs what they cost.

    Args:
        generators: Those of the policy, in its order.
        transform: The policy's, of exact counts.
    """
    as_they_are = not privacy.noisy and transform == AS_COUNTED
    offered = [name for name in generators if as_they_are or not is_black_box(name)]
    if terms.generator in offered:
        return terms, ()
    why = READS_RECORDS if terms.generator in generators else GENERATOR
    if not offered:
        return Refusal((why,))
    change = Change("generator", terms.generator, offered[0], why)
    return replace(terms, generator=offered[0]), (change,)
