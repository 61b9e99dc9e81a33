r"""Generalised correct attribution probability: who finds no equal keys takes the nearest ones.

As DCAP (``correct_attribution``), the guess of a target is drawn from its levels among synthetic records
with the same keys. Where there is none, it is drawn from all synthetic records whose keys differ in the
fewest attributes, which every original record has, so that nobody counts as a failure:

.. math:: GCAP = \frac{1}{N_d} \sum_{tq} d_{tq}
   \frac{\sum_{q' \in B(q)} s_{tq'}}{\sum_{q' \in B(q)} s_{.q'}}

with B(q) the synthetic combinations of keys nearest to q. SDMetrics tells 1 - GCAP as its protection.

References:
    J. Taub, M. Elliot, M. Pampaka, D. Smith, "Differential Correct Attribution Probability for Synthetic
    Data: An Exploration", PSD 2018.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.privacy.distances.twins import first_of_each
from gencard.core.privacy.tables.attribute_disclosure import attribute_disclosure
from gencard.core.privacy.tables.combinations import combination_numbers
from gencard.core.privacy.tables.correct_attribution import correct_attribution
from gencard.core.privacy.tables.key_table import key_table

_PAIRS = 2**22
"""Pairs of combinations that are compared at once: some 40 MiB."""


def nearest_attribution(original: Dataset, synthetic: Dataset, keys: Clique, target: str) -> float:
    """GCAP, a share of the original records, 0 to 1.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidCliqueError: The keys are none, repeat or hold the target.
        InvalidInputError: A dataset holds no record.
        UnknownAttributeError: An attribute is not in the domain.
    """
    table = key_table(original, synthetic, keys, target)
    matched = correct_attribution(table, attribute_disclosure(table)).across
    combinations, ours, theirs = _combinations(original, synthetic, keys, target)
    there = theirs.sum(axis=1) > 0
    lost = np.flatnonzero(~there)
    step = max(1, _PAIRS // int(there.sum()))
    right = 0.0
    for start in range(0, len(lost), step):
        some = lost[start : start + step]
        pooled = _nearest(combinations[some], combinations[there]) @ theirs[there]
        right += float((ours[some] * (pooled / pooled.sum(axis=1, keepdims=True))).sum())
    return matched + right / len(original)


def _combinations(
    original: Dataset, synthetic: Dataset, keys: Clique, target: str
) -> tuple[NDArray[Any], Any, Any]:
    """Combinations of keys, shape ``(c, keys)``, and original and synthetic records of each by level."""
    known = original.domain.canonical(keys)
    codes = np.vstack([dataset.project(known).codes for dataset in (original, synthetic)])
    sizes = original.domain.project(known).sizes
    numbers = combination_numbers(len(codes), zip(codes.T, sizes, strict=True))
    shape = int(numbers.max()) + 1, original.domain.size(target)
    parts = (numbers[: len(original)], original), (numbers[len(original) :], synthetic)
    ours, theirs = (
        sparse.csr_array((np.ones(len(rows)), (rows, dataset.column(target))), shape=shape)
        for rows, dataset in parts
    )
    return codes[first_of_each(numbers)], ours, theirs


def _nearest(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """1 where no other combination differs in fewer attributes, else 0; shape ``(one, other)``."""
    apart = np.zeros((len(one), len(other)), dtype=np.uint16)
    for left, right in zip(one.T, other.T, strict=True):
        apart += left[:, None] != right
    return np.asarray(apart == apart.min(axis=1, keepdims=True), dtype=np.float64)
