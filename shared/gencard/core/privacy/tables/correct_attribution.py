r"""Correct attribution probability: how often a guess of the target from the keys is right.

The guess is drawn from the levels of the target among records with the same keys:

.. math:: CAP_d = \frac{1}{N_d} \sum \frac{d_{tq}}{d_{.q}} d_{tq}, \quad
   CAP_s = \frac{1}{N_s} \sum \frac{s_{tq}}{s_{.q}} s_{tq}, \quad
   DCAP = \frac{1}{N_d} \sum \frac{s_{tq}}{s_{.q}} d_{tq}

Terms with no record of the keys are 0; DCAP is also told of those records alone whose keys are in the
synthetic data (SDMetrics calls the former zero CAP, the latter CAP). Beside them stands
:math:`\sum_t (d_{t.} / N_d)^2`, the guess without any keys. TCAP looks at keys that seem to tell
(``attribute_disclosure``): it is DiSCO by the original records whose keys are in the synthetic data, or,
as others define it, DiSCO by DiS. Cells that are excluded are taken away first, from all but the guess
without keys, and N stays. DiSCO is still that of all keys, as in synthpop, so that TCAP may pass 1 where
there is a bound on records.

References:
    J. Taub, M. Elliot, M. Pampaka, D. Smith, "Differential Correct Attribution Probability for Synthetic
    Data: An Exploration", PSD 2018.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.tables.attribute_disclosure import AttributeDisclosure
from gencard.core.privacy.tables.key_table import Cells, KeyTable


@dataclass(frozen=True, slots=True)
class CorrectAttribution:
    """Shares of the records, from 0 to 1 (TCAP: but see above).

    Args:
        baseline: baseCAPd: a guess from the original's own levels, without keys.
        original: CAPd: a guess of original records from the original.
        synthetic: CAPs: a guess of synthetic records from the synthetic data.
        across: DCAP: a guess of original records from the synthetic data.
        across_found: DCAP of those whose keys are in the synthetic data.
        targeted: TCAP: the share that is told correctly of those whose keys are in the synthetic data.
        targeted_told: TCAP, of those who are told anything.
    """

    baseline: float
    original: float
    synthetic: float
    across: float
    across_found: float
    targeted: float
    targeted_told: float

    @property
    def named(self) -> dict[str, float]:
        """The measures under their names in synthpop."""
        return {
            "baseCAPd": self.baseline,
            "CAPd": self.original,
            "CAPs": self.synthetic,
            "DCAP": self.across,
            "TCAP": self.targeted,
        }


def correct_attribution(table: KeyTable, told: AttributeDisclosure) -> CorrectAttribution:
    """Guess in the cells of a table; ``told`` is its attribute disclosure."""
    ours, theirs = table.kept(table.original), table.kept(table.synthetic)
    their_keys = table.around(theirs)
    levels = np.bincount(table.level, table.original) / told.records
    guessed = _shares(theirs, their_keys)
    right, found = float(np.sum(guessed * ours)), int(ours[their_keys > 0].sum())
    return CorrectAttribution(
        baseline=float(np.sum(levels**2)),
        original=float(np.sum(_shares(ours, table.around(ours)) * ours)) / told.records,
        synthetic=float(np.sum(guessed * theirs)) / told.synthetic_records,
        across=right / told.records,
        across_found=_ratio(right, found),
        targeted=_ratio(told.correct, found),
        targeted_told=_ratio(told.correct, told.told),
    )


def _shares(counts: Cells, sums: Cells) -> NDArray[np.float64]:
    return counts / np.maximum(sums, 1)


def _ratio(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
