"""What an audit looks at: any program from a dataset to a synthetic dataset."""

from typing import Protocol

from gencard.core.dataset import Dataset


class BlackBox(Protocol):
    """A generator of which nothing is known or believed."""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them, over the domain of ``dataset``."""
        ...
