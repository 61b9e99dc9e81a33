"""Black boxes: programs from a dataset to synthetic rows, and the form in which rows may leave."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError
from gencard.core.types import FloatArray, Progress, ignore_progress


class BlackBox(Protocol):
    """A generator of which nothing is known or believed."""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them, over the domain of ``dataset``."""


@runtime_checkable
class ManyRunsBox(BlackBox, Protocol):
    """A black box that can make several runs at the same time, on other machines for instance."""

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        """Yield the output of a call with each seed, in the order of the seeds."""


def runs_of(box: BlackBox, dataset: Dataset, rows: int, seeds: Sequence[int]) -> Iterator[Dataset]:
    """One run for each seed, in their order: at the same time where the box can, else one by one."""
    if isinstance(box, ManyRunsBox):
        yield from box.runs_by_seed(dataset, rows, seeds=seeds)
        return
    for seed in seeds:
        yield box(dataset, rows, seed=seed)


@runtime_checkable
class WeighedBox(BlackBox, Protocol):
    """A black box that learns which of its runs matter: one that checks runs of other machines."""

    def weigh(self, seeds: Sequence[int], values: FloatArray) -> None:
        """Take note of what an audit concludes from runs.

        Args:
            seeds: Seed of each run of one side.
            values: Numbers that the audit computed from each run, shape ``(runs, numbers)``.
        """


class FittedBox(Protocol):
    """Result of a fit: samples cost no more privacy, and it can be kept."""

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them."""

    def save(self) -> bytes:
        """All that a later process needs to sample: its own format, read without running code."""


@runtime_checkable
class FittingBox(BlackBox, Protocol):
    """A black box that fits first, and whose fit can be used again.

    Calling it is to fit with the seed and to sample with the seed.
    """

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> FittedBox:
        """Fit to records."""

    def load(self, saved: bytes) -> FittedBox:
        """A fit that was saved.

        Raises:
            BlackBoxError: The bytes are not what ``save`` gave.
        """


def canonicalise(output: object, domain: Domain, rows: int, *, rng: np.random.Generator) -> Dataset:
    """The same records in the declared domain, attributes in its order, rows in random order.

    What a box could hide in the order of rows or attributes, in their number, or in anything that is
    not a declared code is gone. What it hides in the distribution of the records stays: that is
    what audits are for.

    Raises:
        BlackBoxError: Not a dataset, other attributes or sizes, or another number of rows.
    """
    checked = in_domain(output, domain, rows)
    return checked.take(rng.permutation(rows))


def in_domain(output: object, domain: Domain, rows: int) -> Dataset:
    """A fresh dataset of the codes alone, attributes in the domain's order, rows as they came.

    Raises:
        BlackBoxError: As for ``canonicalise``.
    """
    if not isinstance(output, Dataset):
        raise BlackBoxError(problem="its output is not a dataset")
    sizes = dict(zip(domain.attributes, domain.sizes, strict=True))
    if dict(zip(output.domain.attributes, output.domain.sizes, strict=True)) != sizes:
        raise BlackBoxError(problem="its output does not have the declared domain")
    if len(output) != rows:
        raise BlackBoxError(problem="its output does not have the requested number of rows")
    return Dataset(domain, output.codes[:, list(output.domain.axes(domain.attributes))])
