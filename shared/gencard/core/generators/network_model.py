"""A Bayesian network: one attribute after another, each given some of those before it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidNumberError
from gencard.core.generators.sampling import Inversion, drawn_rows
from gencard.core.types import Table


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An attribute given its parents.

    Args:
        parents: Attributes drawn before it.
        table: The parents' axes first, in their order, and the attribute's last; zero or more. What
            counts are the shares along the last axis; where all are zero, every level is as likely.
            Read-only.
    """

    attribute: str
    parents: Clique
    table: Table

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.float64)
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    @property
    def possible(self) -> Table:
        """The table, with ones where parents have nothing to give."""
        return np.where(self.table.sum(axis=-1, keepdims=True) > 0, self.table, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkModel:
    r"""Independent records with :math:`P(x) = \prod_i P(x_i \mid x_{\Pi_i})`.

    Args:
        nodes: Every attribute of the domain once, after its parents.

    Raises:
        DomainMismatchError: The nodes are not those of a network on the domain.
        InvalidNumberError: A number of a table is negative or not finite.
    """

    domain: Domain
    nodes: tuple[Node, ...]
    _draws: tuple[Inversion, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check(self.domain, self.nodes)
        axes = self.domain.axes
        draws = tuple(
            Inversion.of(n.possible, axes(n.parents), axes((n.attribute,))) for n in self.nodes
        )
        object.__setattr__(self, "_draws", draws)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records node by node, by inversion, one 64-bit word for each; see ``TreeModel.sample``.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        return drawn_rows(self.domain, self._draws, rows, rng=rng)


def _check(domain: Domain, nodes: Sequence[Node]) -> None:
    drawn: set[str] = set()
    for node in nodes:
        if not drawn.issuperset(node.parents) or node.attribute in drawn:
            raise DomainMismatchError(problem="an attribute comes before its parents, or twice")
        if node.table.shape != domain.project((*node.parents, node.attribute)).sizes:
            raise DomainMismatchError(problem=f"the table of '{node.attribute}' has the wrong shape")
        if not (np.isfinite(node.table).all() and node.table.min() >= 0):
            raise InvalidNumberError(field="probabilities", expected="zero or more, and finite")
        drawn.add(node.attribute)
    if drawn != set(domain.attributes):
        raise DomainMismatchError(problem="the network does not have the domain's attributes")
