"""Correct attribution, told as a protection beside a guess without records, as SDMetrics tells it.

Protection is 1 less the share of right guesses (``correct_attribution``, ``nearest_attribution``). Its
baseline is that of a guess among all levels that occur, each alike; a guess of the most frequent level
is right more often, so a ratio of 1 is far from the best there is.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidNumberError

_ROUNDING = 1e-9
"""By how much a sum of shares may pass 1."""


@dataclass(frozen=True, slots=True)
class DisclosureProtection:
    """Shares of wrong guesses, 0 to 1.

    Args:
        protection: From the keys.
        baseline: Among all combinations of levels, without keys or records.
    """

    protection: float
    baseline: float

    @property
    def ratio(self) -> float | None:
        """The former by the latter, at most 1; None where the target has one level only."""
        return min(self.protection / self.baseline, 1.0) if self.baseline else None


def disclosure_protection(attributed: float, original: Dataset, targets: Clique) -> DisclosureProtection:
    """Tell a share of right guesses as a protection.

    Args:
        attributed: Share, 0 to 1, of original records whose targets are guessed.
        targets: What is guessed; levels that occur in the original count.

    Raises:
        InvalidCliqueError: There is no target, or one repeats.
        InvalidInputError: The original holds no record.
        InvalidNumberError: The share is not from 0 to 1.
        UnknownAttributeError: A target is not in the domain.
    """
    targets = original.domain.canonical(targets)
    if not 0 <= attributed <= 1 + _ROUNDING:
        raise InvalidNumberError(field="The share of right guesses", expected="from 0 to 1")
    if not len(original):
        raise InvalidInputError(field="original", problem="there is no record")
    levels = prod(len(np.unique(original.column(name))) for name in targets)
    return DisclosureProtection(max(0.0, 1 - attributed), 1 - 1 / levels)
