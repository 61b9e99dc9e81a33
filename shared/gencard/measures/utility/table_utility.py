r"""Utility of a synthetic table in place of the original one.

pMSE is the mean squared difference between c, the synthetic share of the N records, and the probability
of being synthetic that a saturated model gives to each (Snoke et al. 2018):

.. math:: pMSE = VW \, c (1 - c)^2 / N, \quad S\_pMSE = VW / (k - 1)

A standardised measure is a multiple of what is expected where the synthetic records are drawn from the
original table itself, so 1 means a table as good as resampling. It is None where nothing is expected:
where one cell holds all records, or, for G, where fewer than two cells hold both kinds. Two samples of
one population reach :math:`1 / (1 - c)`, since the original is random too.

References:
    G. Raab, "Utility and Disclosure Risk for Differentially Private Synthetic Categorical Data", PSD
    2022. Its section 3.2 prints the formula of VW and calls it pMSE; its tables show S_pMSE.

The root mean squared error of one marginal is

:math:`\sqrt{\frac{1}{k} \sum_i (p_i - q_i)^2}` over all k cells of the domain, empty ones too, with the
shares p of the original and q of the synthetic records (Houssiau et al. 2022, Table 1).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from math import comb, log, pi, sqrt

import numpy as np
import scipy

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError, TooLargeError
from gencard.core.statistics.marginals import count, count_all, project
from gencard.core.statistics.psi import Psi
from gencard.core.types import Counts, FloatArray

# Statistics of two tables of counts on the same cells.
#
# **Chi-squared**, or nearly, where records are drawn from the original table.
# With counts o and s of the k cells, :math:`r = \sum s / \sum o`, :math:`c = \sum s / N`, the expected
# :math:`E = (o + s) c` and the differences :math:`d = s - r o`:
#
# .. math:: VW = \sum d^2 / E, \quad FT = 4 \sum (\sqrt{s} - \sqrt{r o})^2, \quad
#    G = 2 \sum s \ln \frac{s / S}{o / O}, \quad WMabsDD = \sum \frac{|d|}{\sqrt{E}} \Big/ \sqrt{2 / \pi}
#
# The original is taken as given, so each is expected to be about k - 1; WMabsDD, whose terms are
# absolute values of normal deviates, k - 1/2. G looks only at cells that hold both kinds of records: S
# and O are the sums over those, and what stands in other cells does not count. Tables with fewer than
# two common cells have no G.
#
# References:
#     G. Raab, B. Nowok, C. Dibben, "Assessing, visualizing and improving the utility of synthetic data",
#     2021, arXiv:2109.12717.
#
# **Distances** between the shares p of the original and q of the synthetic table, from 0 to 1:
#
# .. math:: TV = \frac{1}{2} \sum |p - q|, \quad
#    JSD = \frac{1}{2} \sum \Big( p \log_2 \frac{p}{h} + q \log_2 \frac{q}{h} \Big), \quad
#    dBhatt = \sqrt{1 - \sum \sqrt{p q}}
#
# with :math:`h = (p + q) / 2`. Each is 0 where the shares agree and 1 where no cell holds both kinds.
#
# **Ranks** of propensity scores, which tell synthetic from original records.
#
# With the score t of each record and F, the distribution functions of the original and of the synthetic
# records' scores, over cells of o original and s synthetic records each:
#
# .. math:: U = \sum_{i, j} s_i o_j \Big( [t_i > t_j] + \frac{1}{2} [t_i = t_j] \Big), \quad
#    PO50 = \frac{1}{N} \Big( \sum s [t > a] + \sum o [t \le a] \Big) - \frac{1}{2}, \quad
#    SPECKS = \sup_t |F_s(t) - F_o(t)|
#
# A table has the score that a saturated model gives to each record of the cell, the share of synthetic
# records in it, :math:`s / (s + o)`, and a is their share c of all; with the shares p of the original
# and q of the synthetic records, t is above c where q is above p. SPECKS, the Kolmogorov-Smirnov
# distance of the scores, is total variation then: scores put the cells in the order of q / p, and the
# distribution functions are furthest apart where that passes 1. The scores of other models are guesses
# at a = 1/2, as in R's synthpop.


def likelihood_ratio(original: FloatArray, synthetic: FloatArray) -> tuple[float | None, int]:
    """G and its degrees of freedom: the cells that hold both kinds of records, less one; 0 at least.

    G is None without a degree of freedom, unless all records are in one cell: shares of a single common
    cell are 1 and agree, whatever the other cells hold.
    """
    both = (original > 0) & (synthetic > 0)
    if len(original) > 1 and np.count_nonzero(both) <= 1:
        return None, 0
    ours, theirs = original[both], synthetic[both]
    logarithms = np.log((theirs / theirs.sum()) / (ours / ours.sum()))
    return float(2 * np.sum(theirs * logarithms)), len(ours) - 1


def expected_jensen_shannon(freedom: int, synthetic: int, original: int | None = None) -> float:
    r"""Return the expected JSD if the synthetic records are drawn from the original table itself.

    .. math:: E\,JSD \approx \frac{k - 1}{8 \ln 2} \cdot \frac{1}{n_2}

    with k cells and :math:`n_2` synthetic records. JSD is an f-divergence, in nats with
    :math:`f''(1) = 1/4`, so :math:`JSD = \frac{1}{8 \ln 2} \sum (q - p)^2 / p` to second order
    [1]_; and :math:`n_2 \sum (q - p)^2 / p` is Pearson's statistic, of mean :math:`k - 1`. The number
    :math:`n_1` of original records does not appear, since they are given. Where both tables are samples
    of one population, the variance of q - p is :math:`p (1 - p) (1/n_1 + 1/n_2)`, and

    .. math:: E\,JSD \approx \frac{k - 1}{8 \ln 2} \left( \frac{1}{n_1} + \frac{1}{n_2} \right).

    Both hold for any two sizes; the next term is of the order of :math:`\sum 1 / (n_2^2 p)`.

    Args:
        freedom: k - 1, cells that hold any record, less one.
        synthetic: :math:`n_2`.
        original: :math:`n_1`, where the original records are a sample too; None where they are given.

    References:
        .. [1] I. Csiszár, P. Shields, "Information Theory and Statistics: A Tutorial", 2004, Theorem
           4.1; JSD: J. Lin, IEEE Trans. Inf. Theory 37(1), 1991.

    >>> round(expected_jensen_shannon(9, 800), 6)
    0.002029
    """
    variance = 1 / synthetic + (1 / original if original else 0.0)
    return freedom * variance / (8 * log(2))


def mann_whitney(original: FloatArray, synthetic: FloatArray) -> float:
    """U: pairs of a synthetic and an original record where the former has the higher score.

    A tie counts half. Half of all pairs where the tables agree, and never less.
    """
    return _pairs_won(*_by_score(synthetic / (original + synthetic), original, synthetic))


_SCORE_DIGITS = 10
"""Scores that agree so far are equal: a fit is no more exact."""


def score_ranks(
    scores: FloatArray, original: FloatArray, synthetic: FloatArray
) -> tuple[float, float, float]:
    """SPECKS, PO50 in shares of the records, and U, of the scores of some model.

    Args:
        scores: Of each cell, shape ``(k,)``.
        original: Records in each; ``synthetic`` likewise. Neither is 0 in all.
    """
    scores = np.round(scores, _SCORE_DIGITS)
    right = np.where(scores > 0.5, synthetic, original).sum() / (original.sum() + synthetic.sum())
    ours, theirs = _by_score(scores, original, synthetic)
    apart = np.cumsum(ours) / ours.sum() - np.cumsum(theirs) / theirs.sum()
    return float(np.abs(apart).max()), float(right) - 0.5, _pairs_won(ours, theirs)


def _by_score(
    scores: FloatArray, original: FloatArray, synthetic: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Records of each score, the lowest score first."""
    places = np.unique(scores, return_inverse=True)[1].reshape(-1)
    ours, theirs = (np.bincount(places, counts).astype(float) for counts in (original, synthetic))
    return ours, theirs


def _pairs_won(ours: FloatArray, theirs: FloatArray) -> float:
    return float(np.sum(theirs * (np.cumsum(ours) - ours / 2)))


def pair_tables(psi: Psi) -> dict[Clique, FloatArray]:
    """The table of each pair that a marginal of psi holds; noise below 0 counts as 0."""
    tables: dict[Clique, FloatArray] = {}
    for one in sorted(psi.measurements, key=lambda one: (one.stddev, len(one.clique))):
        for pair in combinations(psi.domain.canonical(one.clique), 2):
            if pair not in tables:
                tables[pair] = np.maximum(project(one.values, one.clique, pair), 0).astype(np.float64)
    return tables


def cramers_v(table: FloatArray) -> float | None:
    r"""Cramér's V of a table of counts, :math:`\sqrt{\chi^2 / (n (\min(r, c) - 1))}`.

    None where an attribute has one level only: an association of a constant is not defined.

    >>> cramers_v(np.array([[5.0, 0.0], [0.0, 5.0]]))
    1.0
    """
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape, default=0) < 2:
        return None
    shares = table / table.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    squared = float(np.sum((shares - expected) ** 2 / expected))
    return min(1.0, sqrt(squared / (min(table.shape) - 1)))


MOST_TABLES = 20_000
"""All pairs of 200 attributes, or all triples of 50."""


@dataclass(frozen=True, slots=True)
class TableUtility:
    """One table, compared.

    Args:
        voas_williamson: VW; a chi-squared statistic, 0 where the shares agree.
        freedom: Its degrees of freedom: cells that hold any record, less one.
        records: Original and synthetic records together.
        synthetic_share: The share c of them that is synthetic.
        freeman_tukey: FT; another, with the same degrees of freedom.
        weighted_differences: WMabsDD; expected like them, though not chi-squared.
        likelihood_ratio: G; chi-squared on the cells that hold both kinds of records, None where it is
            not defined.
        total_variation: Share of the records that would have to move; 0 to 1.
        jensen_shannon: JSD, in bits; 0 to 1.
        bhattacharyya: dBhatt; 0 to 1.
        mann_whitney: U, in pairs of a synthetic and an original record.
        over_half_right: PO50: share of the records that the best guess tells right, less 1/2. At equal
            sizes it is half of total variation; else it also follows the sizes.
    """

    voas_williamson: float
    freedom: int
    records: int
    synthetic_share: float
    freeman_tukey: float
    weighted_differences: float
    likelihood_ratio: float | None
    likelihood_freedom: int
    total_variation: float
    jensen_shannon: float
    bhattacharyya: float
    mann_whitney: float
    over_half_right: float

    @property
    def pmse(self) -> float:
        """Mean squared error of the propensity scores; 0 to 1/4."""
        share = self.synthetic_share
        return self.voas_williamson * share * (1 - share) ** 2 / self.records

    @property
    def standardised(self) -> float | None:
        """S_pMSE; None where one cell holds all records, so that nothing can differ."""
        return _each(self.voas_williamson, self.freedom)

    @property
    def named(self) -> dict[str, float | None]:
        r"""Every measure under its name in the literature; ``S_`` means standardised.

        SPECKS is total variation and MabsDD twice that. PO50 is in per cent. S_JSD divides JSD by
        ``expected_jensen_shannon``, with k cells that hold any record and :math:`n_2` synthetic
        records; how many original ones there are does not matter, as for the other measures. The R
        package synthpop divides by :math:`(k - 1) \ln 2 / (2 (n_1 + n_2))` instead, so its S_JSD is ours
        times :math:`(n_1 + n_2) / (4 (\ln 2)^2 n_2)`: 4.07 % more for equal sizes, 17.1 % more for 800
        synthetic beside 1,000 original records, 6.3 % less for 1,000 beside 800.
        """
        synthetic = self.synthetic_share * self.records
        return {
            "VW": self.voas_williamson,
            "FT": self.freeman_tukey,
            "JSD": self.jensen_shannon,
            "SPECKS": self.total_variation,
            "WMabsDD": self.weighted_differences,
            "U": self.mann_whitney,
            "G": self.likelihood_ratio,
            "pMSE": self.pmse,
            "PO50": 100 * self.over_half_right,
            "MabsDD": 2 * self.total_variation,
            "dBhatt": self.bhattacharyya,
            "S_VW": self.standardised,
            "S_FT": _each(self.freeman_tukey, self.freedom),
            "S_JSD": _each(self.jensen_shannon, expected_jensen_shannon(self.freedom, round(synthetic))),
            "S_WMabsDD": _each(self.weighted_differences, self.freedom),
            "S_G": _each(self.likelihood_ratio, self.likelihood_freedom),
            "S_pMSE": self.standardised,
        }


def _each(statistic: float | None, expected: float) -> float | None:
    return None if statistic is None or not expected else statistic / expected


def table_utility(original: Counts, synthetic: Counts) -> TableUtility:
    """Compare two tables of counts on the same cells; their totals may differ."""
    if original.shape != synthetic.shape:
        raise DomainMismatchError(problem="the tables have different shapes")
    if not (original.any() and synthetic.any()):
        raise InvalidInputError(field="table", problem="contains no records")
    occupied = (original + synthetic) > 0
    o, s = (counts[occupied].astype(np.float64) for counts in (original, synthetic))
    records = int(o.sum() + s.sum())
    ratio, share = float(s.sum() / o.sum()), float(s.sum() / records)
    differences, expected = s - ratio * o, (o + s) * share
    p, q = o / o.sum(), s / s.sum()
    mixed = (p + q) / 2
    divergence = np.sum(scipy.special.rel_entr(p, mixed) + scipy.special.rel_entr(q, mixed))
    # The best guess is "synthetic" in the cells that hold more of the synthetic share.
    right = np.where(q > p, s, o)
    common, common_freedom = likelihood_ratio(o, s)
    return TableUtility(
        voas_williamson=float(np.sum(differences**2 / expected)),
        freedom=len(o) - 1,
        records=records,
        synthetic_share=share,
        freeman_tukey=float(4 * np.sum((np.sqrt(s) - np.sqrt(ratio * o)) ** 2)),
        weighted_differences=float(np.sum(np.abs(differences) / np.sqrt(expected)) / sqrt(2 / pi)),
        likelihood_ratio=common,
        likelihood_freedom=common_freedom,
        total_variation=float(np.abs(p - q).sum() / 2),
        jensen_shannon=float(divergence / (2 * log(2))),
        # The same number as by sqrt(p q), and nothing cancels where the tables are near each other.
        bhattacharyya=sqrt(float(np.sum((np.sqrt(p) - np.sqrt(q)) ** 2)) / 2),
        mann_whitney=mann_whitney(o, s),
        over_half_right=float(right.sum() / records - 0.5),
    )


def table_utilities(
    original: Dataset, synthetic: Dataset, width: int, wanted: Callable[[Clique], bool] = lambda _: True
) -> dict[Clique, TableUtility]:
    """Compare the tables of every ``width`` attributes.

    Args:
        wanted: Whether a table is compared; the others are not counted.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidNumberError: There are not so many attributes.
        InvalidInputError: A dataset holds no record.
        TooLargeError: More than ``MOST_TABLES``, or more cells than may be counted.
    """
    check_same_domain(original.domain, synthetic.domain)
    if not 0 < width <= len(original.domain):
        raise InvalidNumberError(field="width", expected="from 1 to the number of attributes")
    if comb(len(original.domain), width) > MOST_TABLES:
        raise TooLargeError(
            what="The number of tables", limit=MOST_TABLES, advice="Compare tables of fewer attributes."
        )
    cliques = list(filter(wanted, combinations(original.domain.attributes, width)))
    counts = zip(cliques, count_all(original, cliques), count_all(synthetic, cliques), strict=True)
    return {clique: table_utility(ours, theirs) for clique, ours, theirs in counts}


def mean_measure(tables: Iterable[TableUtility], name: str) -> float | None:
    """Mean of one measure over those tables in which records can differ; None where it is not defined.

    Tables whose records are all in one cell have no standardised measure and are left out. A table that
    has none for another reason is worse than any that has one, so there is no mean with it.

    Args:
        name: As in ``TableUtility.named``.
    """
    values = [(table.named[name], table.freedom) for table in tables]
    known = [value for value, _ in values if value is not None]
    undefined = any(value is None and freedom for value, freedom in values)
    return float(np.mean(known)) if known and not undefined else None


def marginal_error(original: Dataset, synthetic: Dataset, clique: Clique) -> float:
    """The error of the marginal on a clique, in shares; 0 where the shares agree.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: A dataset holds no record.
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    check_same_domain(original.domain, synthetic.domain)
    if not (len(original) and len(synthetic)):
        raise InvalidInputError(field="dataset", problem="contains no records")
    ours, theirs = (count(dataset, clique) / len(dataset) for dataset in (original, synthetic))
    return float(np.sqrt(np.mean((ours - theirs) ** 2)))
