"""What a black box promises of itself: nobody believes it, and everybody may read it on the card."""

from dataclasses import dataclass
from decimal import Decimal

from gencard.core.budget import Neighbouring


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise about one fit: every sample of the fitted model is covered by it.

    Args:
        sentence: What holds and why, for people; where nothing is promised, that.
        epsilon: None where nothing is promised.
        delta: 0 for pure differential privacy.
        neighbouring: Which records may differ; it belongs to epsilon.
    """

    sentence: str
    epsilon: Decimal | None = None
    delta: Decimal = Decimal(0)
    neighbouring: Neighbouring | None = None


NO_CLAIM = Claim("No formal privacy is promised.")
