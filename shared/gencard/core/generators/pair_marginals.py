"""The marginals of pairs of a tree model, by one walk over the tree for each attribute."""

from collections.abc import Collection, Mapping, Sequence
from string import ascii_letters

import numpy as np

from gencard.core.domain import Clique
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.generators.targets import quotient
from gencard.core.statistics.marginals import others, project, sum_out
from gencard.core.types import Table


def pair_marginals(model: TreeModel, pairs: Sequence[Clique]) -> Mapping[Clique, Table]:
    r"""Probabilities on pairs, whose attributes are in the domain's order.

    Given what it shares with its neighbour, a clique is independent of what lies behind: for an
    attribute a behind the separator S and b in the clique, :math:`P(a, b) = \sum_S P(a, S) P(b \mid S)`.
    What is handed on from clique to clique is :math:`P(a, S)` alone, so no table grows with the tree.
    """
    walk = _Walk(model)
    later: dict[str, list[str]] = {}
    for one, other in pairs:
        later.setdefault(one, []).append(other)
    tables = {one: walk.beside(one, frozenset(others)) for one, others in later.items()}
    return {(one, other): tables[one][other] for one, other in pairs}


class _Walk:
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
        one, other, made = (
            "".join(letter[name] for name in names)
            for names in ((attribute, *separator), inside, (attribute, *wanted))
        )
        product: Table = np.einsum(f"{one},{other}->{made}", joint, conditional, optimize=True)
        return product

    def _part(self, clique: int, names: Clique) -> Table:
        if (clique, names) not in self._parts:
            table = self._model.tables[clique]
            self._parts[clique, names] = project(table, self._cliques[clique], names)
        return self._parts[clique, names]
