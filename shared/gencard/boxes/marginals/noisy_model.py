"""What noisy marginals measured so far say together: a model, and the number of records."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gencard.core.domain import Clique, Domain
from gencard.core.generators.maximum_entropy.graphical import Graphical
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.generators.pair_marginals import pair_marginals
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Table

_TOLERANCE = 1e-3
"""L1 distance, in shares, to which marginals are met; the noise on them is far larger."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyModel:
    """The model of largest entropy with these marginals, reconciled.

    Args:
        measurements: Every attribute is in one of them; measured again, a clique stands there twice.
    """

    domain: Domain
    measurements: Sequence[Measurement]
    tree: TreeModel = field(init=False)

    def __post_init__(self) -> None:
        psi = Psi(self.domain, tuple(self.measurements))
        tree = Graphical(tolerance=_TOLERANCE).fit(psi, self.domain)
        object.__setattr__(self, "tree", tree)

    @property
    def cliques(self) -> frozenset[Clique]:
        """What was measured."""
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
