"""Whether the dataset's own unique records come out on it more than on datasets with the same psi."""

import numpy as np
from numpy.typing import NDArray

from gencard.core.audit.arms.comparison import welch
from gencard.core.audit.arms.planting import unique_records
from gencard.core.audit.arms.presence import Presence, best_single, one_in
from gencard.core.audit.arms.runs import Side
from gencard.core.audit.arms.unique_evidence import UniquesEvidence
from gencard.core.audit.pairs.cells import key_of
from gencard.core.audit.pairs.extremal_pair import ExtremalPair
from gencard.core.audit.report import LEVEL_SHARES, Check, CheckResult
from gencard.core.dataset import Dataset

NONE_LEFT = "the dataset has no unique record that both sides of the pair lack"


def own_uniques(dataset: Dataset, pair: ExtremalPair) -> NDArray[np.integer]:
    """Codes of the dataset's unique records that neither side of a pair holds, shape ``(n, d)``."""
    uniques = dataset.codes[unique_records(dataset)]
    held = np.concatenate([uniques, pair.low.codes, pair.high.codes])
    keys = key_of(held.T, dataset.domain.sizes)
    codes: NDArray[np.integer] = uniques[~np.isin(keys[: len(uniques)], keys[len(uniques) :])]
    return codes


def uniques_check(
    presence: dict[Side, Presence], level: float
) -> tuple[CheckResult, UniquesEvidence | None]:
    """Compare the dataset with its twins, which have the same psi: all records, and the best single one.

    Args:
        presence: Of the records of ``own_uniques`` in the runs on each side and on the dataset.
        level: Of the whole audit.
    """
    check, share = Check.UNIQUES, LEVEL_SHARES[Check.UNIQUES]
    original = presence[Side.ORIGINAL].table
    twins = np.vstack([presence[Side.LOW].table, presence[Side.HIGH].table])
    if not original.shape[1]:
        return CheckResult(check, share, 1.0, not_run=NONE_LEFT), None
    on_it, on_twins = (table.sum(axis=1).astype(np.float64) for table in (original, twins))
    compared = welch(on_twins, on_it)
    p_value = min(1.0, 2 * min(compared.p_value, best_single(original, twins)))
    room = original.shape[1] - float(on_twins.mean())
    evidence = UniquesEvidence(
        original.shape[1],
        tuple(original.sum(axis=1).tolist()),
        tuple(twins.sum(axis=1).tolist()),
        one_in(compared, len(original), room, 1, share * level / 2),
    )
    return CheckResult(check, share, p_value), evidence
