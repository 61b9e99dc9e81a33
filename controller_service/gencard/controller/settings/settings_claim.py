"""The settings table for the declared privacy guarantee of a program."""

from decimal import Decimal

from pydantic import Field, model_validator

from gencard.controller.settings.toml_file import Section
from gencard.core.card.budget import ZERO, Neighbouring, decimal_of, delta_of
from gencard.core.card.claim import Claim


class ClaimTable(Section):
    """Privacy guarantee that somebody declares for a program; recorded and shown, not checked.

    Args:
        by: Who declares it, in a few words.
        delta: 0 for pure differential privacy.
    """

    by: str = Field(pattern=r"^[^\s\x00-\x1f][^\x00-\x1f]{0,199}$")
    epsilon: Decimal
    delta: Decimal = ZERO
    neighbouring: Neighbouring

    @model_validator(mode="after")
    def _is_a_claim(self) -> "ClaimTable":
        self.claim()
        return self

    def claim(self) -> Claim:
        return Claim(
            f"Declared by {self.by}, and not proved.",
            decimal_of(str(self.epsilon), "black_boxes.claim.epsilon"),
            delta_of(str(self.delta), "black_boxes.claim.delta") if self.delta else ZERO,
            self.neighbouring,
        )
