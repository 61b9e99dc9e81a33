r"""An attack beside its two baselines, and what of its success is due to records in train.

Guesses succeed without any leak: by luck, which ``naive`` shows, and by what synthetic records rightly
teach of everybody, which ``control`` shows, the same attack on records that the generator never saw.
With a and c the middles of the Wilson intervals of attack and control, and A and C their half widths,
the risk is what was gained of what control left to gain,

.. math:: R = \frac{a - c}{1 - c}, \qquad
   \Delta R = \sqrt{\Big(\frac{A}{1 - c}\Big)^2 + \Big(\frac{(1 - a)\, C}{(1 - c)^2}\Big)^2}.

A risk of 0 is no proof of privacy: a better attack may succeed where this one did not.

References:
    M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi, "A Unified Framework for Quantifying Privacy Risk in
    Synthetic Data", PoPETs 2023(2).
"""

from dataclasses import dataclass
from math import hypot

from gencard.core.privacy.proportion import Proportion


@dataclass(frozen=True, slots=True)
class Risk:
    """What an attack gains over control: a share, 0 to 1, of what control leaves to gain.

    ``low`` and ``high`` are an interval, and no bound on what another attack gains.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack and its baselines; each counts guesses that were right.

    Args:
        attack: By the synthetic records, on records of train.
        control: By the synthetic records, on records of holdout.
        naive: By luck, on records of train.
    """

    attack: Proportion
    control: Proportion
    naive: Proportion

    def risk(self, confidence: float = 0.95) -> Risk:
        """The gain over control, cut to 0 and 1.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        (hit, hit_width), (base, base_width) = (
            found.wilson(confidence) for found in (self.attack, self.control)
        )
        gain = (hit - base) / (1 - base)
        width = hypot(hit_width / (1 - base), (1 - hit) * base_width / (1 - base) ** 2)
        return Risk(*(min(1.0, max(0.0, value)) for value in (gain, gain - width, gain + width)))

    def beats_luck(self, confidence: float = 0.95) -> bool:
        """Whether the attack's interval lies above the naive one's; if not, its risk says nothing.

        Raises:
            InvalidNumberError: The confidence is not between 0 and 1.
        """
        return self.attack.interval(confidence)[0] > self.naive.interval(confidence)[1]
