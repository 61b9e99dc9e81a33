r"""What the synthetic data tell about the target of somebody whose keys are known.

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
"""

from dataclasses import dataclass

import numpy as np

from gencard.core.privacy.tables.key_table import KeyTable


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
