r"""How well a synthetic table stands for the original one: Voas and Williamson, pMSE, S_pMSE.

With counts :math:`o_i` of the original and :math:`s_i` of the synthetic records, in the k cells where
either is above zero, :math:`N = \sum (o_i + s_i)` and :math:`c = \sum s_i / N`:

.. math:: VW = \sum_i \frac{(s_i - o_i c / (1 - c))^2}{(o_i + s_i) c}, \quad
   pMSE = VW \, c (1 - c)^2 / N, \quad S\_pMSE = VW / (k - 1)

pMSE is the mean squared difference between c and the probability of being synthetic that a saturated
model gives to each record (Snoke et al. 2018). S_pMSE is pMSE as a multiple of what it is expected to
be when the synthetic records are drawn from the original table itself, so 1 means a table as good as
resampling. Two samples of one population reach :math:`1 / (1 - c)`, since the original is random too.

References:
    G. Raab, "Utility and Disclosure Risk for Differentially Private Synthetic Categorical Data", PSD
    2022. Its section 3.2 prints the formula of VW and calls it pMSE; its tables show S_pMSE.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError
from gencard.core.statistics.marginal import count_all
from gencard.core.statistics.psi import Counts


@dataclass(frozen=True, slots=True)
class TableUtility:
    """One table, compared.

    Args:
        voas_williamson: VW; a chi-squared statistic, 0 where the shares agree.
        freedom: Its degrees of freedom: cells that hold any record, less one.
        records: Original and synthetic records together.
        synthetic_share: The share c of them that is synthetic.
    """

    voas_williamson: float
    freedom: int
    records: int
    synthetic_share: float

    @property
    def pmse(self) -> float:
        """Mean squared error of the propensity scores; 0 to 1/4."""
        share = self.synthetic_share
        return self.voas_williamson * share * (1 - share) ** 2 / self.records

    @property
    def standardised(self) -> float:
        """S_pMSE; 0 where one cell holds all records, and nothing can differ."""
        return self.voas_williamson / self.freedom if self.freedom else 0.0


def table_utility(original: Counts, synthetic: Counts) -> TableUtility:
    """Compare two tables of counts on the same cells; their totals may differ.

    Raises:
        DomainMismatchError: The shapes differ.
        InvalidInputError: A table holds no record.
    """
    if original.shape != synthetic.shape:
        raise DomainMismatchError(problem="the tables have different shapes")
    if not (original.any() and synthetic.any()):
        raise InvalidInputError(field="table", problem="holds no record")
    held = (original + synthetic) > 0
    ours, theirs = original[held].astype(np.float64), synthetic[held].astype(np.float64)
    records = ours.sum() + theirs.sum()
    share = theirs.sum() / records
    differences = theirs - ours * (share / (1 - share))
    statistic = float(np.sum(differences**2 / ((ours + theirs) * share)))
    return TableUtility(statistic, int(held.sum()) - 1, int(records), float(share))


def table_utilities(original: Dataset, synthetic: Dataset, width: int) -> dict[Clique, TableUtility]:
    """Compare the tables of every ``width`` attributes.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidNumberError: There are not so many attributes.
        InvalidInputError: A dataset holds no record.
        TooLargeError: The tables have more cells than may be counted.
    """
    check_same_domain(original.domain, synthetic.domain)
    cliques = list(combinations(original.domain.attributes, width)) if width > 0 else []
    if not cliques:
        raise InvalidNumberError(field="width", expected="from 1 to the number of attributes")
    counts = zip(cliques, count_all(original, cliques), count_all(synthetic, cliques), strict=True)
    return {clique: table_utility(ours, theirs) for clique, ours, theirs in counts}


def mean_table_utility(original: Dataset, synthetic: Dataset, width: int) -> float:
    """Mean S_pMSE over the tables of every ``width`` attributes; raises as ``table_utilities`` does."""
    utilities = table_utilities(original, synthetic, width).values()
    return float(np.mean([utility.standardised for utility in utilities]))
