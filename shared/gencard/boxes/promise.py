"""The parameters of a privacy promise, read, and the promise in words."""

from decimal import Decimal

from gencard.boxes.entry import Parameters, Surroundings
from gencard.core.card.budget import (
    Mechanism,
    Neighbouring,
    Privacy,
    decimal_of,
    delta_of,
    inside_generator,
    neighbouring_of,
)
from gencard.core.card.claim import Claim
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.noise.accounting import rho_of
from gencard.core.noise.mechanisms import Noise

APPROXIMATE: Parameters = {"epsilon": "1", "delta": "0.000001", "neighbouring": Neighbouring.ADD_REMOVE}
"""Defaults; a claim always says which relation it is for."""


def approximate(parameters: Parameters) -> Privacy:
    """Gaussian noise and choices that keep (epsilon, delta), by zCDP.

    Raises:
        InvalidInputError, InvalidNumberError: No such relation, or a number is out of range.
    """
    epsilon = decimal_of(parameters["epsilon"], "epsilon")
    delta = delta_of(parameters["delta"], "delta")
    relation = neighbouring_of(parameters["neighbouring"])
    rho = rho_of(epsilon, delta)
    if not rho:
        raise InvalidNumberError(field="epsilon", expected="larger, at this delta")
    return Privacy(Mechanism.GAUSSIAN, relation, rho=rho, delta=delta)


def approximate_privacy(parameters: Parameters) -> Privacy:
    """What a fit with ``approximate(parameters)`` spends: rho, because that is what its steps share out.

    Epsilon and delta follow from rho; the sum of rhos bounds several fits more closely than any sum of
    (epsilon, delta), and needs no delta in the ledger. Raises the same.
    """
    return inside_generator(approximate(parameters))


def approximate_claim(parameters: Parameters) -> Claim:
    """That of a fit with ``approximate(parameters)``; raises the same."""
    privacy = approximate(parameters)
    return Claim(
        f"All measurements and choices of one fit together keep {privacy.rho}-zCDP, and so epsilon and "
        f"delta, for neighbours by {privacy.neighbouring}; the number of records is "
        + ("not public." if privacy.neighbouring is Neighbouring.ADD_REMOVE else "the same for both."),
        Decimal(parameters["epsilon"]),
        privacy.delta or Decimal(0),
        privacy.neighbouring,
    )


def noise_of(surroundings: Surroundings) -> Noise:
    """Who draws the noise; raises InvalidInputError where there is nobody."""
    if surroundings.noise is None:
        raise InvalidInputError(field="noise", problem="a source of noise is required")
    return surroundings.noise


def whole(parameters: Parameters, name: str, least: int, most: int) -> int:
    """A whole number; raises InvalidNumberError where it is none or out of range."""
    text = parameters[name]
    if text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most:
        return int(text)
    raise InvalidNumberError(field=name, expected=f"a whole number from {least} to {most}")
