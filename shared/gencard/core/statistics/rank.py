r"""Price of exact marginals, histograms and sums together: the rank of all their functions.

Functions of one attribute are written in blocks: the constant; whether it is present; its other level
contrasts; its other contrasts of fine cells; its units u; their squares. A function of several
attributes lies in products of blocks, one for each attribute, so that the rank is the sum over
different products of their dimensions. What one statistic shares with another counts once.

The price is never below the rank. It is one above for each product with u and squares of a scale on
which exactly one level, or one cell of the histogram, holds two values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import TooLargeError
from gencard.core.statistics.marginals import MOST_SUBSETS

_ONE, _PRESENT, _LEVELS, _CELLS, _UNITS, _SQUARES = "1", "present", "levels", "cells", "u", "u^2"


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of one attribute.

    Args:
        sizes: Dimension of each block.
        levels: Blocks that functions of the level lie in.
        cells: The same for functions of the cell of the histogram.
        number: Block of u, then that of its squares.
        may_be_missing: Whether there is a missing level.
    """

    sizes: dict[str, int]
    levels: frozenset[str]
    cells: frozenset[str]
    number: tuple[str, str]
    may_be_missing: bool

    @property
    def present(self) -> str:
        """Block of the function that is 1 for every record in which the attribute is present."""
        return _PRESENT if self.may_be_missing else _ONE

    @property
    def present_levels(self) -> frozenset[str]:
        """Blocks of functions of the level that are 0 where the attribute is missing."""
        return self.levels - {_ONE} if self.may_be_missing else self.levels


def _blocks_of(coding: Coding, name: str, *, apart: bool) -> _Blocks:
    """Return the blocks of an attribute.

    Args:
        apart: A histogram or sum tells contrasts of its levels apart; else all of them are one block.
    """
    own = coding.attribute(name).coding
    if not apart:
        whole = frozenset({_ONE, _LEVELS})
        sizes = {_ONE: 1, _LEVELS: own.size - 1}
        return _Blocks(sizes, whole, whole, (_UNITS, _SQUARES), own.missing)
    present_levels = own.size - own.missing
    sizes = {_ONE: 1, _PRESENT: int(own.missing), _LEVELS: present_levels - 1}
    base = frozenset({_ONE, _LEVELS} | ({_PRESENT} if own.missing else set()))
    if not isinstance(own, Edges) or own.scale is None:
        return _Blocks(sizes, base, base, (_UNITS, _SQUARES), own.missing)
    values, cells = own.scale.size, len(own.scale.cells) - 1
    squares = _UNITS if values == 2 else _SQUARES  # units of two values are 0 and 1
    numbers = frozenset({_UNITS, squares})
    sizes |= dict.fromkeys(numbers, int(values > 1))
    levels = base
    # Each level holds one number: u and its squares are then functions of the level.
    if present_levels == values:
        sizes[_LEVELS] -= sum(sizes[one] for one in numbers)
        levels = base | numbers
    sizes[_CELLS] = cells - present_levels
    fine = levels | {_CELLS}
    if cells == values > present_levels:
        sizes[_CELLS] -= len(numbers)  # may be -1: where it counts, both blocks of numbers do
        fine |= numbers
    return _Blocks(sizes, levels, fine, (_UNITS, squares), own.missing)


def rank(
    coding: Coding, marginals: Iterable[Clique], histograms: Iterable[str] = (), sums: Sequence[Sum] = ()
) -> int:
    """Return the number of independent statistics in exact marginals, histograms and sums.

    The number of records is one of them. A sum's counts of its population are another statistic.

    Raises:
        UnknownAttributeError: An attribute is not declared.
        TooLargeError: There are more than ``MOST_SUBSETS`` products of blocks.
    """
    histograms = tuple(histograms)
    apart = {*histograms, *(name for one in sums for name in (*one.of, *one.present))}
    blocks = {name: _blocks_of(coding, name, apart=name in apart) for name in coding.domain.attributes}
    spans = [{name: blocks[name].levels for name in clique} for clique in marginals]
    spans += [{name: blocks[name].cells} for name in histograms]
    for one in sums:
        # Blocks of the counts of the sum's population, for each attribute.
        present = {name: frozenset({blocks[name].present}) for name in (*one.of, *one.present)}
        groups = {
            name: blocks[name].present_levels if name in one.present else blocks[name].levels
            for name in one.by
        }
        counted = {**present, **groups}
        numbers = {name: frozenset({blocks[name].number[one.of.count(name) - 1]}) for name in one.of}
        spans += [counted, {**counted, **numbers}]
    if sum(prod(map(len, span.values())) for span in spans) > MOST_SUBSETS:
        raise TooLargeError(
            what="The number of subsets of the cliques",
            limit=MOST_SUBSETS,
            advice="Request marginals of fewer attributes.",
        )
    # Products of blocks: attributes with their blocks, without the constant.
    products = {
        frozenset((name, block) for name, block in zip(span, one, strict=True) if block != _ONE)
        for span in spans
        for one in product(*map(sorted, span.values()))
    }
    return sum(prod(blocks[name].sizes[block] for name, block in one) for one in products)
