r"""Disclosure about records whose keys an intruder knows: uniques, attribute disclosure, CAP.

With :math:`d_{tq}` original and :math:`s_{tq}` synthetic records at level t of the target and keys q,
and :math:`d_{.q}, s_{.q}` their sums over t, **attribute disclosure** [1]_ is

* Dorig, disclosed by the original itself: :math:`\sum d_{tq} [d_{tq} = d_{.q}]`;
* Dsyn, synthetic records with a single level for their keys: :math:`\sum s_{tq} [s_{tq} = s_{.q}]`;
* iS, records whose keys are in the synthetic data: :math:`\sum d_{tq} [s_{.q} > 0]`;
* DiS, records with a disclosure: :math:`\sum d_{tq} [s_{uq} = s_{.q} > 0]` for some level u;
* DiSCO, records with a correct disclosure: :math:`\sum d_{tq} [s_{tq} = s_{.q} > 0]`;
* DiSDiO, those that the original would disclose too: the same where :math:`d_{tq} = d_{.q}`.

**Correct attribution probability** [2]_ is how often a guess of the target is right that is drawn from
the records with the same keys:

.. math:: CAP_d = \frac{1}{N_d} \sum \frac{d_{tq}}{d_{.q}} d_{tq}, \quad
   CAP_s = \frac{1}{N_s} \sum \frac{s_{tq}}{s_{.q}} s_{tq}, \quad
   DCAP = \frac{1}{N_d} \sum \frac{s_{tq}}{s_{.q}} d_{tq}

Terms without a record of the keys are 0. DCAP is given of all records (SDMetrics: zero CAP) and of those
whose keys are in the synthetic data (SDMetrics: CAP). The baseline is a guess without keys,
:math:`\sum_t (d_{t.} / N_d)^2`. TCAP is DiSCO divided by iS or, as others define it, by DiS.

References:
    .. [1] G. Raab, B. Nowok, C. Dibben, "Practical privacy metrics for synthetic data", 2024,
       arXiv:2406.16826.
    .. [2] J. Taub, M. Elliot, M. Pampaka, D. Smith, "Differential Correct Attribution Probability for
       Synthetic Data: An Exploration", PSD 2018.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import ComputationError, InvalidInputError, InvalidNumberError
from gencard.core.types import IntArray
from gencard.measures.privacy.distances import combination_numbers

# Replicated uniques: combinations that exactly one original and exactly one synthetic record have.
#
# A unique original record whose combination is unique in the synthetic data too looks as if that person
# were in it. Raab (PSD 2022) prints the number divided by the number of table cells, but her tables
# divide by the number of original records, as is done here.
#
# ``unique_free`` replaces such rows by others. Whoever knows psi and the seed could draw the rows again
# and see which are missing: exactly the records that were to be hidden. So the seed of such rows must
# remain secret, and the number of replaced rows is not released. A row that remains still shows that no
# record is alone with its combination.


@dataclass(frozen=True, slots=True)
class ReplicatedUniques:
    """Number of combinations of the keys that are unique, and their places.

    Args:
        in_original: UiO: combinations of exactly one original record.
        in_synthetic: UiS: combinations of exactly one synthetic record.
        matched: UiOiS: those of ``in_original`` that some synthetic record has.
        present: Those of ``in_synthetic`` that some original record has.
        replicated: repU: those that are unique in both.
    """

    records: int
    synthetic_records: int
    in_original: int
    in_synthetic: int
    matched: int
    present: int
    replicated: int

    @property
    def share(self) -> float | None:
        """Replicated uniques by original records; None without one."""
        return _share(self.replicated, self.records)

    @property
    def named(self) -> dict[str, float | None]:
        """The measures under their names in the literature, in shares of the original records.

        UiS is a share of the synthetic ones. A share of no records is None.
        """
        return {
            "UiO": _share(self.in_original, self.records),
            "UiS": _share(self.in_synthetic, self.synthetic_records),
            "UiOiS": _share(self.matched, self.records),
            "repU": self.share,
        }


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def replicated_uniques(
    original: Dataset, synthetic: Dataset, keys: Clique | None = None
) -> ReplicatedUniques:
    """Count uniques on some attributes, or on all; a missing value is a level like any other."""
    ours, theirs, _ = _count_combinations(original, synthetic, keys)
    unique, twin = ours == 1, theirs == 1
    return ReplicatedUniques(
        records=len(original),
        synthetic_records=len(synthetic),
        in_original=int(unique.sum()),
        in_synthetic=int(twin.sum()),
        matched=int((unique & (theirs > 0)).sum()),
        present=int((twin & (ours > 0)).sum()),
        replicated=int((unique & twin).sum()),
    )


def replicated_rows(
    original: Dataset, synthetic: Dataset, keys: Clique | None = None
) -> NDArray[np.intp]:
    """Return the places of replicated uniques in the synthetic data, ascending; raise as the count does.

    To remove them means to read the original again: the rest is no longer made from psi alone, and their
    absence discloses something too.
    """
    ours, theirs, combinations = _count_combinations(original, synthetic, keys)
    return np.flatnonzero(((ours == 1) & (theirs == 1))[combinations])


def _count_combinations(
    original: Dataset, synthetic: Dataset, keys: Clique | None
) -> tuple[IntArray, IntArray, NDArray[np.int64]]:
    """Original and synthetic records of each combination, and that of each synthetic record."""
    check_same_domain(original.domain, synthetic.domain)
    domain = original.domain
    columns = (
        (np.concatenate([original.column(name), synthetic.column(name)]), domain.size(name))
        for name in domain.canonical(domain.attributes if keys is None else keys)
    )
    numbers = combination_numbers(len(original) + len(synthetic), columns)
    first, second = numbers[: len(original)], numbers[len(original) :]
    ours = np.bincount(first, minlength=numbers.max(initial=0) + 1)
    return ours, np.bincount(second, minlength=len(ours)), second


def unique_free(original: Dataset, drawn: Dataset, rows: int) -> Dataset:
    """Return ``rows`` of the drawn rows, none of them a replicated unique (see ``replicated_rows``).

    Args:
        drawn: Synthetic rows. The first ``rows`` are kept if possible; the others replace rejected rows.

    Raises:
        ComputationError: The other rows did not suffice.
        DomainMismatchError: The domains differ.
        InvalidNumberError: Fewer were drawn than are wanted.
    """
    if not 0 <= rows <= len(drawn):
        raise InvalidNumberError(field="The number of rows", expected="at most those drawn")
    positions, ahead = np.arange(rows), rows
    while len(vacant := replicated_rows(original, drawn.take(positions))):
        if ahead + len(vacant) > len(drawn):
            raise ComputationError(problem="too many rows replicate a unique record")
        positions[vacant] = np.arange(ahead, ahead + len(vacant))
        ahead += len(vacant)
    return drawn.take(positions)


# Counts of original and synthetic records by keys and target, for measures of disclosure.
#
# The *keys* are attributes that an intruder knows; the *target* is the sensitive attribute. A cell is a
# combination of keys and a level of the target; all measures of disclosure follow from the counts of the
# cells.

Cells = NDArray[np.int64]
"""A number for each cell that holds any record; shape ``(k,)``."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Counts of the k cells that hold any record.

    Args:
        original: Original records, shape ``(k,)``.
        keys: The number of the cell's combination of keys, from 0.
        level: The cell's level of the target, a code.
    """

    original: Cells
    synthetic: Cells
    keys: Cells
    level: Cells

    def around(self, counts: Cells) -> Cells:
        """Sums over the levels of the target, one for each cell: all records with its keys."""
        sums = np.zeros(int(self.keys.max()) + 1, dtype=np.int64)
        np.add.at(sums, self.keys, counts)
        return sums[self.keys]


def key_table(original: Dataset, synthetic: Dataset, keys: Clique, target: str) -> KeyTable:
    """Count the records of both datasets."""
    check_same_domain(original.domain, synthetic.domain)
    known = original.domain.canonical(keys)
    original.domain.canonical((*known, target))  # refuses a target among the keys
    if not (len(original) and len(synthetic)):
        raise InvalidInputError(field="dataset", problem="contains no records")
    *columns, levels = (
        np.concatenate([original.column(name), synthetic.column(name)]) for name in (*known, target)
    )
    keyed = zip(columns, map(original.domain.size, known), strict=True)
    combinations = combination_numbers(len(levels), keyed)
    both = [(combinations, int(combinations.max()) + 1), (levels, int(levels.max()) + 1)]
    cell = combination_numbers(len(levels), both)
    cells = int(cell.max()) + 1
    member = np.empty(cells, dtype=np.intp)
    member[cell] = np.arange(len(cell))  # any record of each cell: they share keys and level
    return KeyTable(
        original=np.bincount(cell[: len(original)], minlength=cells),
        synthetic=np.bincount(cell[len(original) :], minlength=cells),
        keys=combinations[member],
        level=levels[member],
    )


@dataclass(frozen=True, slots=True)
class AttributeDisclosure:
    """Numbers of records.

    Args:
        disclosed_by_original: Dorig.
        disclosed_by_synthetic: Dsyn, in synthetic records.
        covered: iS.
        disclosed: DiS.
        correct: DiSCO.
        correct_and_in_original: DiSDiO.
    """

    records: int
    synthetic_records: int
    disclosed_by_original: int
    disclosed_by_synthetic: int
    covered: int
    disclosed: int
    correct: int
    correct_and_in_original: int

    @property
    def named(self) -> dict[str, float]:
        """The measures under their names in the literature, in shares of the original records.

        Dsyn is a share of the synthetic ones.
        """
        return {
            "Dorig": self.disclosed_by_original / self.records,
            "Dsyn": self.disclosed_by_synthetic / self.synthetic_records,
            "iS": self.covered / self.records,
            "DiS": self.disclosed / self.records,
            "DiSCO": self.correct / self.records,
            "DiSDiO": self.correct_and_in_original / self.records,
        }


def attribute_disclosure(table: KeyTable) -> AttributeDisclosure:
    """Sum over the cells of a table."""
    ours, theirs = table.original, table.synthetic
    our_keys, their_keys = table.around(ours), table.around(theirs)
    tells = (theirs == their_keys) & (theirs > 0)
    disclosed = table.around(tells.astype(np.int64)) > 0
    return AttributeDisclosure(
        records=int(ours.sum()),
        synthetic_records=int(theirs.sum()),
        disclosed_by_original=int(ours[ours == our_keys].sum()),
        disclosed_by_synthetic=int(theirs[tells].sum()),
        covered=int(ours[their_keys > 0].sum()),
        disclosed=int(ours[disclosed].sum()),
        correct=int(ours[tells].sum()),
        correct_and_in_original=int(ours[tells & (ours == our_keys)].sum()),
    )


@dataclass(frozen=True, slots=True)
class CorrectAttribution:
    """Shares of the records, from 0 to 1.

    Args:
        baseline: baseCAPd: a guess from the original's own levels, without keys.
        original: CAPd: a guess of original records from the original.
        synthetic: CAPs: a guess of synthetic records from the synthetic data.
        across: DCAP: a guess of original records from the synthetic data.
        across_covered: DCAP of those whose keys are in the synthetic data; None where there are none.
        targeted: TCAP: correct disclosures by records whose keys are in the synthetic data; None where
            there are none.
        targeted_disclosed: TCAP, of the records with a disclosure; None where there is no disclosure.
    """

    baseline: float
    original: float
    synthetic: float
    across: float
    across_covered: float | None
    targeted: float | None
    targeted_disclosed: float | None

    @property
    def named(self) -> dict[str, float | None]:
        """The measures under their names in synthpop."""
        return {
            "baseCAPd": self.baseline,
            "CAPd": self.original,
            "CAPs": self.synthetic,
            "DCAP": self.across,
            "TCAP": self.targeted,
        }


def correct_attribution(table: KeyTable, disclosure: AttributeDisclosure) -> CorrectAttribution:
    """CAP of a table, given its attribute disclosure."""
    ours, theirs = table.original, table.synthetic
    our_keys, their_keys = table.around(ours), table.around(theirs)
    levels = np.bincount(table.level, ours) / disclosure.records
    guess_shares = theirs / np.maximum(their_keys, 1)  # without a record of the keys no guess is right
    right, covered = float(np.sum(guess_shares * ours)), int(ours[their_keys > 0].sum())
    return CorrectAttribution(
        baseline=float(np.sum(levels**2)),
        original=float(np.sum(ours / np.maximum(our_keys, 1) * ours)) / disclosure.records,
        synthetic=float(np.sum(guess_shares * theirs)) / disclosure.synthetic_records,
        across=right / disclosure.records,
        across_covered=_share(right, covered),
        targeted=_share(disclosure.correct, covered),
        targeted_disclosed=_share(disclosure.correct, disclosure.disclosed),
    )


@dataclass(frozen=True, slots=True)
class DisclosureRisk:
    """Disclosure of one target to somebody who knows some keys."""

    uniques: ReplicatedUniques
    attribute: AttributeDisclosure
    attribution: CorrectAttribution


def disclosure_risk(original: Dataset, synthetic: Dataset, keys: Clique, target: str) -> DisclosureRisk:
    """Measure the disclosure of a target by keys."""
    table = key_table(original, synthetic, keys, target)
    attribute = attribute_disclosure(table)
    uniques = replicated_uniques(original, synthetic, keys)
    return DisclosureRisk(uniques, attribute, correct_attribution(table, attribute))
