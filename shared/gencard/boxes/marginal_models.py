"""Boxes whose fit is a model of ``core.generators``, the fit as bytes, and models of noisy marginals."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_letters

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import BlackBoxError, InvalidDatasetError, InvalidInputError
from gencard.core.generators.contract import quotient, rng_of
from gencard.core.generators.family import graphical
from gencard.core.generators.model_file import FittedModel, bytes_of, model_of
from gencard.core.generators.models import TreeModel
from gencard.core.statistics.marginals import others, project, sum_out
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Progress, Table, ignore_progress


def pair_marginals(model: TreeModel, pairs: Sequence[Clique]) -> Mapping[Clique, Table]:
    r"""Probabilities on pairs, whose attributes are in the domain's order.

    Given what it shares with its neighbour, a clique is independent of what lies behind: for an
    attribute a behind the separator S and b in the clique, :math:`P(a, b) = \sum_S P(a, S) P(b \mid S)`.
    What is handed on from clique to clique is :math:`P(a, S)` alone, so no table grows with the tree.
    """
    walk = _TreeWalk(model)
    later: dict[str, list[str]] = {}
    for one, other in pairs:
        later.setdefault(one, []).append(other)
    tables = {one: walk.beside(one, frozenset(others)) for one, others in later.items()}
    return {(one, other): tables[one][other] for one, other in pairs}


class _TreeWalk:
    """Passing over a tree from any attribute; what a clique says of a few attributes is kept."""

    def __init__(self, model: TreeModel) -> None:
        self._model, self._cliques = model, model.tree.cliques
        self._parts: dict[tuple[int, Clique], Table] = {}
        self._near: list[list[int]] = [[] for _ in self._cliques]
        for clique, parent in enumerate(model.tree.parents[1:], start=1):
            self._near[clique].append(parent)
            self._near[parent].append(clique)

    def beside(self, attribute: str, wanted: Collection[str]) -> dict[str, Table]:
        """The joint probabilities of an attribute with each of the wanted ones."""
        marginals: dict[str, Table] = {}
        home = next(number for number, clique in enumerate(self._cliques) if attribute in clique)
        waiting: list[tuple[int, int, Clique, Table | None]] = [(home, -1, (), None)]
        while waiting and len(marginals) < len(wanted):
            clique, before, separator, joint = waiting.pop()
            for other in self._cliques[clique]:
                if other in wanted and other not in marginals:
                    marginals[other] = self._with_attribute(
                        clique, attribute, separator, joint, (other,)
                    )
            for neighbour in self._near[clique]:
                if neighbour != before:
                    shared = self._model.tree.separator(max(clique, neighbour))
                    handed = None
                    if attribute not in shared:
                        handed = self._with_attribute(clique, attribute, separator, joint, shared)
                    waiting.append((neighbour, clique, shared, handed))
        return marginals

    def _with_attribute(
        self, clique: int, attribute: str, separator: Clique, joint: Table | None, wanted: Clique
    ) -> Table:
        """Probabilities of the attribute, its axis first, with others of the clique.

        Args:
            separator: What lies between the clique and the attribute.
            joint: Probabilities of the attribute with the separator; None where the clique holds it.
        """
        if joint is None:
            return self._part(clique, (attribute, *wanted))
        inside = (*separator, *(name for name in wanted if name not in separator))
        part = self._part(clique, inside)
        conditional = quotient(part, sum_out(part, others(inside, separator)))
        letter = dict(zip((attribute, *inside), ascii_letters, strict=False))
        one, other, result = (
            "".join(letter[name] for name in names)
            for names in ((attribute, *separator), inside, (attribute, *wanted))
        )
        product: Table = np.einsum(f"{one},{other}->{result}", joint, conditional, optimize=True)
        return product

    def _part(self, clique: int, names: Clique) -> Table:
        if (clique, names) not in self._parts:
            table = self._model.tables[clique]
            self._parts[clique, names] = project(table, self._cliques[clique], names)
        return self._parts[clique, names]


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
        return frozenset(measurement.clique for measurement in self.measurements)

    @property
    def records(self) -> float:
        r"""The mean of all totals, weighted by inverse variance; 1 at least."""
        totals = np.array([m.values.sum() for m in self.measurements], dtype=np.float64)
        weights = np.array([1 / (m.stddev**2 * m.values.size) for m in self.measurements])
        return max(1.0, float(totals @ weights / weights.sum()))

    def with_one(self, measurement: Measurement) -> "NoisyModel":
        """The model with one more measurement; those of its clique become their weighted mean."""
        clique = measurement.clique
        others = [one for one in self.measurements if one.clique != clique]
        same = [*(one for one in self.measurements if one.clique == clique), measurement]
        weights = np.array([one.stddev**-2 for one in same])  # by inverse variance
        values = sum(weight * one.values for weight, one in zip(weights, same, strict=True))
        mean = Measurement(clique, values / weights.sum(), float(weights.sum() ** -0.5))
        return NoisyModel(self.domain, [*others, mean])

    def expected(self, cliques: Sequence[Clique]) -> dict[Clique, Table]:
        """Marginals of the model, in records."""
        records = self.records
        pairs = pair_marginals(self.tree, [clique for clique in cliques if len(clique) == 2])
        others = {clique: self.tree.marginal(clique) for clique in cliques if len(clique) != 2}
        return {clique: records * shares for clique, shares in {**pairs, **others}.items()}
