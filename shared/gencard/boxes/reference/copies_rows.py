"""A black box that hands on records: a leak of known size."""

from dataclasses import dataclass

import numpy as np

from gencard.core.blackbox.contract import BlackBox
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidNumberError
from gencard.core.generators.replay import rng_of


@dataclass(frozen=True, slots=True)
class CopiesRows:
    """Each row is a random record of the input with probability ``share``, else an honest one.

    Args:
        honest: Makes the other rows.
        share: From 0 (honest) to 1 (a bootstrap of the records).

    Raises:
        InvalidNumberError: The share is not from 0 to 1.
    """

    honest: BlackBox
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidNumberError(field="share", expected="from 0 to 1")

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        rng = rng_of(seed)
        made = self.honest(dataset, rows, seed=int(rng.integers(2**63)))
        copied = np.flatnonzero(rng.random(rows) < self.share)
        codes = made.codes.copy()
        codes[copied] = dataset.codes[rng.integers(len(dataset), size=len(copied))]
        return Dataset(made.domain, codes)
