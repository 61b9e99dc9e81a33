r"""How well released rows follow psi, and how much of the difference is the luck of the draw.

The distance between a marginal's shares p in psi and q among n rows is their total variation,
:math:`\frac{1}{2} \sum_i |p_i - q_i|`: the share of the rows that would have to move. Rows that are
drawn independently from p itself do not meet it either: the count of a cell is binomial, and so [1]_

.. math:: E\,TV = \frac{1}{2n} \sum_i 2 \nu_i (1 - p_i) P(X_i = \nu_i), \quad
   X_i \sim B(n, p_i), \quad \nu_i = \lfloor n p_i \rfloor + 1

One row changes the total variation by at most 1/n, so it exceeds its expectation by t with a
probability of at most :math:`e^{-2 n t^2}` [2]_.

References:
    .. [1] A. de Moivre, 1730; P. Diaconis, S. Zabell, "Closed Form Summation for Classical
       Distributions: Variations on a Theme of De Moivre", Statistical Science 6, 1991, section 1.
    .. [2] C. McDiarmid, "On the method of bounded differences", Surveys in Combinatorics, 1989.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.consistency import check_consistent
from gencard.core.statistics.marginal import count_all
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.statistics.reconcile import reconcile

FALSE_ALARMS = 0.01
"""Probability, at most, that rows drawn from psi itself exceed the bound of any of its marginals."""

WORST_CELLS = 5

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CellFidelity:
    """One cell of a marginal, in shares of 1.

    Args:
        codes: The cell, one code for each attribute of the clique.
        asked: Its share in psi.
        released: Its share among the rows.
        stderr: Standard deviation of the latter where rows are drawn from psi.
    """

    codes: tuple[int, ...]
    asked: float
    released: float
    stderr: float


@dataclass(frozen=True, slots=True)
class MarginalFidelity:
    """One marginal of psi beside that of the rows, in shares of 1.

    Args:
        stddev: Noise on each count of psi, in records; not part of the distances.
        total_variation: Between psi and the rows.
        expected: Total variation expected from sampling alone.
        bound: What sampling alone exceeds in no marginal, but for ``FALSE_ALARMS`` of all releases.
        worst: Cells that differ most, the worst first.
    """

    clique: Clique
    cells: int
    stddev: float
    total_variation: float
    expected: float
    bound: float
    worst: tuple[CellFidelity, ...]

    @property
    def beyond_chance(self) -> bool:
        return self.total_variation > self.bound


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How well rows follow psi: its marginals in psi's order."""

    rows: int
    marginals: tuple[MarginalFidelity, ...]

    @property
    def largest(self) -> MarginalFidelity:
        """The marginal with the largest total variation."""
        return max(self.marginals, key=lambda marginal: marginal.total_variation)

    @property
    def beyond_chance(self) -> tuple[MarginalFidelity, ...]:
        """Marginals that rows drawn from psi would not miss by so much."""
        return tuple(marginal for marginal in self.marginals if marginal.beyond_chance)


def fidelity(psi: Psi, rows: Dataset, *, worst: int = WORST_CELLS) -> Fidelity:
    """Compare rows with the marginals of psi; noisy psi is reconciled first, as for a fit.

    Args:
        worst: At most so many cells are named for each marginal.

    Raises:
        DomainMismatchError: The rows are not over psi's domain.
        InvalidInputError: There is no row.
        InvalidPsiError: psi contradicts itself.
    """
    check_same_domain(psi.domain, rows.domain)
    if not len(rows):
        raise InvalidInputError(field="rows", problem="there is none to compare with psi")
    reconciled = psi if psi.exact else reconcile(psi)
    check_consistent(reconciled)
    slack = sqrt(log(len(psi.cliques) / FALSE_ALARMS) / (2 * len(rows)))
    pairs = zip(reconciled.measurements, count_all(rows, psi.cliques), strict=True)
    return Fidelity(len(rows), tuple(_compared(asked, counts, slack, worst) for asked, counts in pairs))


def expected_variation(shares: Shares, rows: int) -> float:
    """Total variation expected between ``shares`` and those of so many rows drawn from them."""
    inside = shares[(shares > 0) & (shares < 1)]
    nearest = np.minimum(np.floor(rows * inside) + 1, rows)
    log_chance = (
        xlogy(nearest, inside)
        + xlog1py(rows - nearest, -inside)
        - betaln(rows - nearest + 1, nearest + 1)
        - log(rows + 1)
    )
    return float(np.sum(nearest * (1 - inside) * np.exp(log_chance)) / rows)


def _compared(
    measurement: Measurement, counts: NDArray[Any], slack: float, worst: int
) -> MarginalFidelity:
    rows = int(counts.sum())
    asked, released = measurement.values / measurement.values.sum(), counts / rows
    expected = expected_variation(asked, rows)
    return MarginalFidelity(
        clique=measurement.clique,
        cells=counts.size,
        stddev=measurement.stddev,
        total_variation=float(np.abs(asked - released).sum() / 2),
        expected=expected,
        bound=expected + slack,
        worst=_worst(asked, released, rows, worst),
    )


def _worst(asked: Shares, released: Shares, rows: int, most: int) -> tuple[CellFidelity, ...]:
    apart = np.abs(asked - released).ravel()
    places = [place for place in np.argsort(-apart, kind="stable")[:most] if apart[place] > 0]
    cells = [tuple(map(int, np.unravel_index(place, asked.shape))) for place in places]
    return tuple(
        CellFidelity(
            codes=cell,
            asked=float(asked[cell]),
            released=float(released[cell]),
            stderr=sqrt(float(asked[cell] * (1 - asked[cell])) / rows),
        )
        for cell in cells
    )
