"""A trial of a question on made-up counts of the schema: whether it can have an answer at all.

Made-up records belong to a few latent classes, and their attributes are independent given the class.
All levels occur, all attributes depend on each other a little, and no cell is small. So an analysis that
has no result here lacks one because of its formula, its condition, its options or the schema: a response
with a level that stands for no number, or an attribute of which the condition leaves one level.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import Margins, Mask, Occupied, occupied_of, within
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, NoAnswerError
from gencard.core.types import FloatArray

MOST_TRIED = 1 << 16
"""Cells of all attributes of a question that is tried: the service must not spend seconds on a trial."""

_RECORDS = 1e5
_CLASSES = 3
_SEEDS = (1, 2)
"""Seeds of the made-up counts; a question is refused if no seed gives it an answer."""


def _spread(number: int, seed: int) -> FloatArray:
    """Different numbers from 1 to 3, without a pattern that an analysis could meet."""
    parts, _ = np.modf(np.sin(12.9898 * (np.arange(number) + 1) + 78.233 * seed) * 43758.5453)
    return np.asarray(1.0 + 2.0 * np.abs(parts))


@dataclass(frozen=True, slots=True, eq=False)
class MadeUp:
    """Margins of made-up records, exact and consistent with each other.

    Args:
        domain: The attributes.
        classes: Shares of the latent classes, shape ``(classes,)``.
        shares: For each attribute, shares of its levels in each class, shape ``(classes, levels)``.
    """

    domain: Domain
    classes: FloatArray
    shares: Mapping[str, FloatArray]

    @classmethod
    def of(cls, domain: Domain, seed: int) -> "MadeUp":
        sizes = zip(domain.attributes, domain.sizes, strict=True)
        # shares between 1 and 3 to each other: no level is rare, and none is like another
        shares = {
            name: _spread(_CLASSES * size, seed + 10 * place).reshape(_CLASSES, size)
            for place, (name, size) in enumerate(sizes)
        }
        shares = {name: one / one.sum(axis=1, keepdims=True) for name, one in shares.items()}
        classes = _spread(_CLASSES, seed)
        return cls(domain, classes / classes.sum(), shares)

    def counts(self, clique: Clique) -> FloatArray:
        tables = []
        for one in range(_CLASSES):
            shares = (self.shares[name][one] for name in clique)
            tables.append(reduce(np.multiply.outer, shares, _RECORDS * self.classes[one]))
        return np.asarray(sum(tables))

    def variances(self, clique: Clique) -> FloatArray:
        return np.zeros(tuple(self.domain.size(name) for name in clique))

    def occupied(self, clique: Clique) -> Occupied:
        return occupied_of(self.counts(clique))

    def source(self, clique: Clique) -> Clique:
        self.domain.axes(clique)
        return tuple(clique)


def tried(question: CheckedQuestion, conditions: Iterable[tuple[Clique, Mask]]) -> AnalysisAnswer | None:
    """The answer to a question on made-up records; None if it is too wide to be tried.

    Args:
        conditions: Tests that choose its population: attributes, and the cells of them that are in.

    Raises:
        NoAnswerError: It has no answer, or the conditions leave no cell of the schema.
    """
    tests = [(attributes, cells) for attributes, cells in conditions if attributes]
    if not all(bool(cells.any()) for _, cells in tests):
        raise NoAnswerError(problem="no level of the schema fulfils the condition")
    names = (*question.formula.attributes, *(name for attributes, _ in tests for name in attributes))
    domain = question.coding.domain.covered_by([tuple(dict.fromkeys(names))])
    if domain.cells > MOST_TRIED:
        return None
    for seed in _SEEDS:
        margins: Margins = MadeUp.of(domain, seed)
        for attributes, cells in tests:
            margins = within(margins, attributes, cells)
        try:
            return answered(question, margins)
        except GencardError as error:
            problem = error.message
    raise NoAnswerError(problem=problem.rstrip("."))
