"""Black boxes that hide what they know about the records where nobody is meant to look."""

from dataclasses import dataclass

import numpy as np

from gencard.core.blackbox import BlackBox
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.marginals import count

PARITY = ("a", "b", "c")
"""The attributes whose interaction the boxes betray; no clique of the tests holds all three."""


def secret(dataset: Dataset, clique: Clique = PARITY) -> bool:
    """One bit outside Phi: whether records with an even sum of codes are the more numerous."""
    table = count(dataset, clique)
    signs = 1 - 2 * (np.indices(table.shape).sum(axis=0) % 2)
    return bool((signs * table).sum() > 0)


@dataclass(frozen=True)
class Hostile:
    honest: BlackBox

    def made(self, dataset: Dataset, rows: int, seed: int) -> Dataset:
        return self.honest(dataset, rows, seed=seed)


class InOrder(Hostile):
    """Tells the bit by sorting its rows."""

    def __call__(self, dataset, rows, *, seed):
        made = self.made(dataset, rows, seed)
        return made.take(np.lexsort(made.codes.T)) if secret(dataset) else made


class InFirstRow(Hostile):
    """Tells the bit by which row comes first."""

    def __call__(self, dataset, rows, *, seed):
        made = self.made(dataset, rows, seed)
        order = np.argsort(made.codes[:, 0] != int(secret(dataset)), kind="stable")
        return made.take(np.r_[order[0], np.delete(np.arange(rows), order[0])])


class InScatter(Hostile):
    """Tells the bit by how much its output varies: rows are drawn once, or come eight times each."""

    def __call__(self, dataset, rows, *, seed):
        made = self.made(dataset, rows, seed)
        return made.take(np.arange(rows) // 8) if secret(dataset) else made


class InSpread(Hostile):
    """Tilts its output one way or the other with equal chances: right on average, wrong each time."""

    def __call__(self, dataset, rows, *, seed):
        made = self.made(dataset, 4 * rows, seed)
        tilt = 1 if rng_of(seed).random() < 0.5 else -1
        odd = made.project(PARITY).codes.astype(int).sum(axis=1) % 2
        weight = 0.5 + 0.3 * tilt * secret(dataset) * (1 - 2 * odd)
        kept = np.flatnonzero(rng_of(seed + 1).random(len(made)) < weight)
        return made.take(kept[:rows])


class InRowCount(Hostile):
    """Tells the bit by one row more."""

    def __call__(self, dataset, rows, *, seed):
        return self.made(dataset, rows + secret(dataset), seed)


@dataclass(frozen=True)
class Recogniser(Hostile):
    """Copies the very records it was made for, and is honest on everything else."""

    target: str

    def __call__(self, dataset, rows, *, seed):
        if dataset.digest() != self.target:
            return self.made(dataset, rows, seed)
        return dataset.take(rng_of(seed).integers(len(dataset), size=rows))


class Sideways(Hostile):
    """Copies its input with the levels of one attribute renamed, so that it does not look like it."""

    def __call__(self, dataset, rows, *, seed):
        codes = dataset.codes[rng_of(seed).integers(len(dataset), size=rows)].copy()
        codes[:, 0] = (codes[:, 0].astype(int) + 1) % dataset.domain.sizes[0]
        return Dataset(dataset.domain, codes)


class Elsewhere(Hostile):
    """Tells how two attributes go together through one of them and another that is constant."""

    def __call__(self, dataset, rows, *, seed):
        made = self.made(dataset, rows, seed)
        codes = made.codes.copy()
        told = rng_of(seed).random(rows) < 0.3
        codes[told, 2] = codes[told, 0] ^ secret(dataset, ("a", "b"))
        return Dataset(made.domain, codes)


class Constant(Hostile):
    """Gives the records back as they are: no randomness at all."""

    def __call__(self, dataset, rows, *, seed):
        return dataset.take(np.sort(np.arange(rows) % len(dataset)))


class Screams(Hostile):
    """Puts a record into the message of its error."""

    def __call__(self, dataset, rows, *, seed):
        raise KeyError("Ann Smith, HIV+", dataset.codes[0])
