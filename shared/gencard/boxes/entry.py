"""The form in which the built-in black boxes are listed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gencard.core.blackbox.contract import BlackBox
from gencard.core.card.budget import Privacy
from gencard.core.card.claim import Claim
from gencard.core.domain import Clique, Domain
from gencard.core.noise.mechanisms import Noise

Parameters = Mapping[str, str]
"""Names and values, as a card holds them: decimals and words."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a built-in box may be told besides its parameters; all of it is public but the noise.

    Args:
        workload: The cliques of the card.
        values: For each ordered attribute the number that each of its codes stands for, NaN for missing.
            An attribute that is not here is nominal.
        noise: The source of privacy noise; boxes that promise nothing get none.
    """

    workload: tuple[Clique, ...] = ()
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    noise: Noise | None = None


def promises_nothing(_parameters: Parameters) -> Privacy | None:
    """The privacy of a box that adds no noise."""
    return None


def fits_everything(_parameters: Parameters, _workload: tuple[Clique, ...], _domain: Domain) -> None:
    """The check of a box that has no bound of its own."""


@dataclass(frozen=True, slots=True)
class BoxEntry:
    """A built-in black box as everybody may know it.

    Args:
        parameters: Every parameter with its default.
        claim: What is promised with these parameters.
        make: From checked, complete parameters; raises typed errors for values out of range.
        extra: The optional part of Gencard that it needs, such as "deep"; else empty.
        privacy: What one fit spends with these parameters, in the currency in which fits add up; None
            where nothing is promised. A box with a privacy is of tier private.
        within_workload: Whether a fit looks at no marginal that is not inside one of the workload.
        check: With parameters, workload and domain: raises TooLargeError or ModelTooLargeError where a
            fit would, for a reason that depends on no record.
    """

    description: str
    parameters: Parameters
    claim: Callable[[Parameters], Claim]
    make: Callable[[Parameters, Surroundings], BlackBox]
    extra: str = ""
    privacy: Callable[[Parameters], Privacy | None] = promises_nothing
    within_workload: bool = False
    check: Callable[[Parameters, tuple[Clique, ...], Domain], None] = fits_everything
