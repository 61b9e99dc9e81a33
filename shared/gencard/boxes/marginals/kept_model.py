"""Boxes whose fit is a model of this house, and the fit as it is kept."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from gencard.core.dataset import Dataset
from gencard.core.errors import BlackBoxError, InvalidDatasetError, InvalidInputError
from gencard.core.generators.model_file import FittedModel, bytes_of, model_of
from gencard.core.generators.replay import rng_of
from gencard.core.types import Progress, ignore_progress


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A fitted model and nothing else: what it was fitted to is gone."""

    model: FittedModel

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records; raises InvalidNumberError where rows or seed are out of range."""
        return self.model.sample(rows, rng=rng_of(seed))

    def save(self) -> bytes:
        """An npz archive of plain arrays; see ``model_file``."""
        return bytes_of(self.model)


class ModelBox(ABC):
    """A black box that fits a model to records: see ``FittingBox``."""

    __slots__ = ()

    @abstractmethod
    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptModel:
        """Fit to records."""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.fit(dataset, seed=seed).sample(rows, seed=seed)

    def load(self, saved: bytes) -> KeptModel:
        """A fit that was saved; raises BlackBoxError where the bytes are none."""
        try:
            return KeptModel(model_of(saved))
        except InvalidInputError:
            raise BlackBoxError(problem="the bytes are not a saved fit") from None


def check_attributes(dataset: Dataset) -> None:
    """Raises InvalidDatasetError where there is no attribute; no record is nothing to refuse."""
    if not len(dataset.domain):
        raise InvalidDatasetError(problem="it has no attributes")
