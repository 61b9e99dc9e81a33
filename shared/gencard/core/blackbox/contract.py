"""What an audit looks at: any program from a dataset to a synthetic dataset."""

from typing import Protocol, runtime_checkable

from gencard.core.dataset import Dataset
from gencard.core.types import Progress, ignore_progress


class BlackBox(Protocol):
    """A generator of which nothing is known or believed."""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them, over the domain of ``dataset``."""
        ...


class FittedBox(Protocol):
    """What a fit leaves: samples cost no more privacy, and it can be kept."""

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them."""
        ...

    def save(self) -> bytes:
        """All that a later process needs to sample: its own format, read without running code."""
        ...


@runtime_checkable
class FittingBox(BlackBox, Protocol):
    """A black box that fits first, and whose fit can be used again.

    Calling it is to fit with the seed and to sample with the seed.
    """

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> FittedBox:
        """Fit to records."""
        ...

    def load(self, saved: bytes) -> FittedBox:
        """A fit that was saved.

        Raises:
            BlackBoxError: The bytes are not what ``save`` gave.
        """
        ...
