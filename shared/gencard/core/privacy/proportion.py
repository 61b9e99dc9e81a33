r"""A proportion with Wilson's interval, which holds for few attempts and for shares near 0 and 1.

With k successes of n, and z the normal quantile at :math:`(1 + \text{confidence}) / 2`,

.. math:: \frac{k + z^2/2}{n + z^2} \pm \frac{z}{n + z^2} \sqrt{\frac{k (n - k)}{n} + \frac{z^2}{4}}

References:
    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22, 1927.
"""

from dataclasses import dataclass
from math import sqrt

from scipy.special import ndtri

from gencard.core.errors import InvalidNumberError


@dataclass(frozen=True, slots=True)
class Proportion:
    """Successes of independent attempts.

    Raises:
        InvalidNumberError: No attempt, or successes that are negative or more than the attempts.
    """

    successes: int
    attempts: int

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidNumberError(field="The number of attempts", expected="at least 1")
        if not 0 <= self.successes <= self.attempts:
            raise InvalidNumberError(field="The successes", expected="from 0 to the attempts")

    @property
    def share(self) -> float:
        """Successes by attempts, 0 to 1."""
        return self.successes / self.attempts

    def wilson(self, confidence: float = 0.95) -> tuple[float, float]:
        """Middle and half width of the interval, in shares; the middle is never 0 or 1.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        z = quantile(confidence)
        k, n = self.successes, self.attempts
        width = z * sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
        return (k + z * z / 2) / (n + z * z), width

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Lowest and highest share, 0 to 1; raises as ``wilson`` does."""
        middle, width = self.wilson(confidence)
        return max(0.0, middle - width), min(1.0, middle + width)


def quantile(confidence: float) -> float:
    """How many standard errors an interval reaches to both sides.

    Raises:
        InvalidNumberError: The confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InvalidNumberError(field="The confidence", expected="between 0 and 1")
    return float(ndtri((1 + confidence) / 2))
