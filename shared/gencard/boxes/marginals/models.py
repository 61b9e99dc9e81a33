"""Boxes whose fit is a model of ``core.generators``, the fit as bytes, and models of noisy marginals."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import BlackBoxError, InvalidDatasetError, InvalidInputError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.maximum_entropy.family import graphical
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.generators.model_file import FittedModel, bytes_of, model_of
from gencard.core.generators.pair_marginals import pair_marginals
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Progress, Table, ignore_progress

_TOLERANCE = 1e-3
"""L1 distance, in shares, at which a fit stops; the noise on the marginals is far larger."""


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A fitted model; it holds nothing else of the records."""

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
    """Raises InvalidDatasetError where there is no attribute; a dataset without records is valid."""
    if not len(dataset.domain):
        raise InvalidDatasetError(problem="it has no attributes")


@dataclass(frozen=True, slots=True, eq=False)
class NoisyModel:
    """The model of largest entropy with these marginals, reconciled.

    Args:
        measurements: They cover every attribute; a clique may occur more than once.
    """

    domain: Domain
    measurements: Sequence[Measurement]
    tree: TreeModel = field(init=False)

    def __post_init__(self) -> None:
        psi = Psi(self.domain, tuple(self.measurements))
        tree = graphical(tolerance=_TOLERANCE).fit_tree(psi, self.domain)
        object.__setattr__(self, "tree", tree)

    @property
    def cliques(self) -> frozenset[Clique]:
        """The measured cliques."""
        return frozenset(measurement.clique for measurement in self.measurements)

    @property
    def records(self) -> float:
        r"""The mean of all totals, weighted by inverse variance; 1 at least."""
        totals = np.array([m.values.sum() for m in self.measurements], dtype=np.float64)
        weights = np.array([1 / (m.stddev**2 * m.values.size) for m in self.measurements])
        return max(1.0, float(totals @ weights / weights.sum()))

    def with_one(self, measurement: Measurement) -> "NoisyModel":
        """The model with one more measurement; one of the same clique is combined with it."""
        others = [one for one in self.measurements if one.clique != measurement.clique]
        same = [one for one in self.measurements if one.clique == measurement.clique]
        return NoisyModel(self.domain, [*others, _mean([*same, measurement])])

    def holds(self, clique: Clique) -> bool:
        """Whether the clique lies inside one of the tree's."""
        return any(set(clique) <= set(one) for one in self.tree.tree.cliques)

    def expected(self, cliques: Sequence[Clique]) -> dict[Clique, Table]:
        """Marginals of the model, in records."""
        records = self.records
        pairs = pair_marginals(self.tree, [clique for clique in cliques if len(clique) == 2])
        others = {clique: self.tree.marginal(clique) for clique in cliques if len(clique) != 2}
        return {clique: records * shares for clique, shares in {**pairs, **others}.items()}


def _mean(measurements: Sequence[Measurement]) -> Measurement:
    """Of several measurements of one clique, weighted by inverse variance."""
    weights = np.array([one.stddev**-2 for one in measurements])
    values = sum(weight * one.values for weight, one in zip(weights, measurements, strict=True))
    return Measurement(measurements[0].clique, values / weights.sum(), float(weights.sum() ** -0.5))
