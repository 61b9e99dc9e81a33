"""Boxes whose fit is a net, and the fit as it is kept."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from gencard.boxes.nets.file import bytes_of, net_of
from gencard.boxes.nets.fitted import FittedNet
from gencard.core.dataset import Dataset
from gencard.core.types import Progress, ignore_progress


@dataclass(frozen=True, slots=True)
class KeptNet:
    """A fitted net and nothing else: what trained it is gone."""

    net: FittedNet

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records; raises InvalidNumberError where rows or seed are out of range."""
        return self.net.sample(rows, seed=seed)

    def save(self) -> bytes:
        """An npz archive of plain arrays; see ``file``."""
        return bytes_of(self.net)


class NetBox(ABC):
    """A black box that trains a net on records: see ``FittingBox``."""

    __slots__ = ()

    @abstractmethod
    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptNet:
        """Train a net on records."""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.fit(dataset, seed=seed).sample(rows, seed=seed)

    def load(self, saved: bytes) -> KeptNet:
        """A fit that was saved; raises BlackBoxError where the bytes are none."""
        return KeptNet(net_of(saved))
