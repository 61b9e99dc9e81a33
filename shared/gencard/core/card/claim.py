"""What a generator that reads records promises of itself: believed by nobody, read by everybody."""

from dataclasses import dataclass
from decimal import Decimal

from gencard.core.card.budget import Neighbouring


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

    def __str__(self) -> str:
        """The sentence, behind what it comes to where anything is promised."""
        if self.epsilon is None:
            return self.sentence
        delta = f", delta {self.delta}" if self.delta else ""
        relation = f" ({self.neighbouring})" if self.neighbouring else ""
        return f"epsilon {self.epsilon}{delta}{relation}. {self.sentence}"


NO_CLAIM = Claim("No formal privacy is promised.")
