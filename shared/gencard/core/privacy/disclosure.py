r"""What synthetic data give away about people whose keys are known: three families of measures at once.

How many can be singled out (``replicated_uniques``), about how many the target is told, and correctly
(``attribute_disclosure``), and how good a guess of it is (``correct_attribution``).

What the synthetic data tell about the target of somebody whose keys are known.

Who finds all synthetic records with certain keys at one level of the target may conclude that it is the
level of the person with those keys. With :math:`d_{tq}` original and :math:`s_{tq}` synthetic records at
level t of the target and the keys q, and :math:`d_{.q}, s_{.q}` their sums over t, the measures are

* Dorig, what the original itself would tell: :math:`\sum d_{tq} [d_{tq} = d_{.q}]`;
* Dsyn, synthetic records that seem to tell: :math:`\sum s_{tq} [s_{tq} = s_{.q}]`;
* iS, people whose keys are in the synthetic data: :math:`\sum d_{tq} [s_{.q} > 0]`;
* DiS, those whose keys seem to tell: :math:`\sum d_{tq} [s_{uq} = s_{.q} > 0]` for some level u;
* DiSCO, those of whom it is correct: :math:`\sum d_{tq} [s_{tq} = s_{.q} > 0]`;
* DiSDiO, those of whom the original would tell it too: the same where :math:`d_{tq} = d_{.q}`.

Which keys tell is decided among all records: cells that are excluded are left out of the sums only, and
a bound on records is one on each sum's own cells.

References:
    G. Raab, B. Nowok, C. Dibben, "Practical privacy metrics for synthetic data", 2024, arXiv:2406.16826.

Correct attribution probability: how often a guess of the target from the keys is right.

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

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.privacy.key_table import NOTHING, Cells, Exclusions, KeyTable, key_table
from gencard.core.privacy.uniques import ReplicatedUniques, uniques_among


@dataclass(frozen=True, slots=True)
class AttributeDisclosure:
    """Numbers of records.

    Args:
        records: Original records, those left out too.
        synthetic_records: Synthetic ones.
        told_by_original: Dorig.
        told_by_synthetic: Dsyn, in synthetic records.
        found: iS.
        told: DiS.
        correct: DiSCO.
        correct_and_in_original: DiSDiO.
        correct_cells: Number of cells that DiSCO is the sum over.
        largest_cell: Original records in the largest of them.
    """

    records: int
    synthetic_records: int
    told_by_original: int
    told_by_synthetic: int
    found: int
    told: int
    correct: int
    correct_and_in_original: int
    correct_cells: int
    largest_cell: int

    @property
    def mean_cell(self) -> float:
        """Original records in a cell of DiSCO, on average; 0 where there is none."""
        return self.correct / self.correct_cells if self.correct_cells else 0.0

    @property
    def named(self) -> dict[str, float]:
        """The measures under their names in the literature, in shares of the original records.

        Dsyn is a share of the synthetic ones.
        """
        return {
            "Dorig": self.told_by_original / self.records,
            "Dsyn": self.told_by_synthetic / self.synthetic_records,
            "iS": self.found / self.records,
            "DiS": self.told / self.records,
            "DiSCO": self.correct / self.records,
            "DiSDiO": self.correct_and_in_original / self.records,
        }


def attribute_disclosure(table: KeyTable) -> AttributeDisclosure:
    """Sum over the cells of a table."""
    ours, theirs = table.original, table.synthetic
    our_keys, their_keys = table.around(ours), table.around(theirs)
    tells = (theirs == their_keys) & (theirs > 0)
    told = table.around(tells.astype(np.int64)) > 0

    correct = table.kept(ours * tells)
    return AttributeDisclosure(
        records=int(ours.sum()),
        synthetic_records=int(theirs.sum()),
        told_by_original=int(table.kept(ours * (ours == our_keys)).sum()),
        told_by_synthetic=int(table.kept(theirs * tells).sum()),
        found=int(table.kept(ours * (their_keys > 0)).sum()),
        told=int(table.kept(ours * told).sum()),
        correct=int(correct.sum()),
        correct_and_in_original=int(table.kept(ours * (tells & (ours == our_keys))).sum()),
        correct_cells=int(np.count_nonzero(correct)),
        largest_cell=int(correct.max()),
    )


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


@dataclass(frozen=True, slots=True)
class DisclosureRisk:
    """Of one target from some keys."""

    keys: Clique
    target: str
    uniques: ReplicatedUniques
    attribute: AttributeDisclosure
    attribution: CorrectAttribution


def disclosure_risk(
    original: Dataset, synthetic: Dataset, keys: Clique, target: str, exclusions: Exclusions = NOTHING
) -> DisclosureRisk:
    """Measure it.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidCliqueError: The keys are none, repeat or hold the target, or an exclusion names others.
        InvalidInputError: A dataset holds no record, or an exclusion names a cell outside the domain.
        UnknownAttributeError: An attribute is not in the domain.
    """
    table = key_table(original, synthetic, keys, target, exclusions)
    told = attribute_disclosure(table)
    return DisclosureRisk(
        keys=original.domain.canonical(keys),
        target=target,
        uniques=_uniques(table),
        attribute=told,
        attribution=correct_attribution(table, told),
    )


def _uniques(table: KeyTable) -> ReplicatedUniques:
    """Among the records that are kept; what is found, is found among all synthetic ones."""
    return uniques_among(
        table.by_keys(table.kept(table.original)),
        table.by_keys(table.kept(table.synthetic)),
        table.by_keys(table.synthetic),
        records=int(table.original.sum()),
        synthetic_records=int(table.synthetic.sum()),
    )
