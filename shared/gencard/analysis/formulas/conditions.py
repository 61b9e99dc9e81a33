"""Conditions that choose a part of the records by levels of the schema, and never by less."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from gencard.analysis.answers.margins import Mask
from gencard.analysis.formulas.design import Values, numbers_of
from gencard.analysis.formulas.evaluation import (
    THREE_VALUED,
    TWO_VALUED,
    Levels,
    Logic,
    NumericFactor,
    evaluated,
)
from gencard.analysis.formulas.functions import NotUsableError, attributes_of_call
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.types import IntArray

MOST_CELLS = 100_000
"""Cells of a condition's attributes: each is looked at, also by the service, before anything is paid."""


def read_condition(
    text: str, coding: Coding, values: Values | None = None, *, of_present: bool = False
) -> tuple[Clique, Mask]:
    """Levels of attributes that a condition chooses.

    A comparison with a missing number is unknown, as in SQL: neither it nor its opposite is fulfilled,
    and ``or`` is where its other side is. A missing label is a label like others. All numbers of an
    interval must be on one side of a condition: a part of a level cannot be chosen.

    Args:
        of_present: Choose among records alone that have all numbers of the condition, with comparisons
            that are true or false. Runs under output rules of versions 1 and 2 were so.

    Returns:
        The attributes, and True for each chosen cell of them.

    Raises:
        InvalidInputError: The condition cannot be read, or it cuts through an interval.
        UnknownAttributeError: It names an attribute that is not declared.
        TooLargeError: Its attributes have too many cells.
    """
    try:
        attributes = coding.domain.canonical(attributes_of_call(text, coding))
        sizes = coding.domain.project(attributes).sizes
        if np.prod(sizes, dtype=np.float64) > MOST_CELLS:
            limit = MOST_CELLS
            raise TooLargeError(
                what="The number of cells of the condition",
                limit=limit,
                advice="Use fewer attributes in the condition, or attributes with fewer levels.",
            )
        return attributes, _chosen(text, attributes, sizes, coding, values, of_present=of_present)
    except NotUsableError as error:
        raise InvalidInputError(field="where", problem=error.problem) from None


def _chosen(
    text: str,
    attributes: Clique,
    sizes: tuple[int, ...],
    coding: Coding,
    values: Values | None,
    *,
    of_present: bool,
) -> Mask:
    cells = np.array(list(product(*map(range, sizes))), dtype=np.int64)
    fulfilling = _fulfilling_of_present if of_present else _fulfilling
    middle = numbers_of(coding, values)
    mask = fulfilling(text, attributes, cells, coding, middle)
    for ends in zip(*(_ends(coding, name, values, middle) for name in attributes), strict=True):
        numbers = {name: end for name, end in zip(attributes, ends, strict=True) if end is not None}
        if not np.array_equal(fulfilling(text, attributes, cells, coding, numbers), mask):
            raise NotUsableError(
                "the bound lies inside an interval of the schema; compare with one of its edges"
            )
    return mask.reshape(sizes)


def _ends(
    coding: Coding, name: str, values: Values | None, middle: Mapping[str, Sequence[float]]
) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """The least and the largest number of each level of an attribute; None where it has none."""
    one = coding.attribute(name).coding
    if not isinstance(one, Edges) or name in (values or {}):
        return middle.get(name), middle.get(name)
    absent = (np.nan,) * one.missing
    least, largest = zip(*(map(float, ends) for ends in one.ends), strict=True)
    if one.decimals is None:  # an upper edge belongs to the next level
        largest = (*np.nextafter(largest[:-1], -np.inf), largest[-1])
    return (*least, *absent), (*largest, *absent)


def _fulfilling(
    text: str,
    attributes: Clique,
    cells: IntArray,
    coding: Coding,
    level_numbers: Mapping[str, Sequence[float]],
    logic: Logic = THREE_VALUED,
) -> Mask:
    """Return the cells that fulfil a condition."""
    labels, numbers = {}, {}
    for axis, name in enumerate(attributes):
        labels[name] = Levels(cells[:, axis], coding.attribute(name).coding.level_names)
        if name in level_numbers:
            numbers[name] = np.array(level_numbers[name])[cells[:, axis]]
    value = evaluated(text, numbers, labels, logic)
    if not isinstance(value, NumericFactor):
        raise NotUsableError("a condition must be true or false; compare with ==, <, > or in")
    mask: Mask = (value.values != 0) & ~np.isnan(value.values)
    return mask


def _fulfilling_of_present(
    text: str,
    attributes: Clique,
    cells: IntArray,
    coding: Coding,
    level_numbers: Mapping[str, Sequence[float]],
) -> Mask:
    """The same of cells that have all numbers, by comparisons that are true or false."""
    mask = _fulfilling(text, attributes, cells, coding, level_numbers, TWO_VALUED)
    for axis, name in enumerate(attributes):
        if name in level_numbers:
            mask &= ~np.isnan(np.array(level_numbers[name])[cells[:, axis]])
    return mask
