"""Functions in the formulas of analyses without a model matrix: log(income) gives levels other numbers.

Such an analysis knows attributes and the numbers of their levels. A function is other numbers to it, or
the attribute itself (``C(age)``), or something that it cannot have: that is refused, for an answer as if
the function were not there would be wrong.
"""

from collections.abc import Mapping

import numpy as np

from gencard.core.answers.kinds import Kind
from gencard.core.coding import Coding
from gencard.core.errors import InvalidFormulaError
from gencard.core.statistics.formula import Written
from gencard.formulas.design import Values, numbers_of
from gencard.formulas.evaluation import Levels, evaluated
from gencard.formulas.formulas import read_factors
from gencard.formulas.functions import NotUsableError

_SEVERAL = "this analysis takes attributes one by one, and no function of several"
_COMPARED = "this analysis compares the levels themselves; write the attribute without a function"
_INFINITE = "this is no finite number at a level; give the numbers of the levels as values"
_TWICE = "the attribute stands here in two ways; write it in one"

_Numbers = Mapping[str, tuple[float, ...]]


def transformed_numbers(
    text: str, kind: Kind, coding: Coding, values: Values | None = None
) -> dict[str, tuple[float, ...]]:
    """``numbers_of``, where an attribute in a function has the function's values, NaN where it has none.

    Raises:
        InvalidFormulaError: A function that this kind of analysis cannot have.
        InvalidInputError, UnknownAttributeError: As ``numbers_of``.
    """
    written, numbers = read_factors(text, coding), numbers_of(coding, values)
    sides = {"response": [written.response] if written.response else []}
    sides["terms"] = [factor for term in written.terms for factor in term]
    transformed: dict[str, tuple[float, ...]] = {}
    first: dict[str, str] = {}
    for side, factors in sides.items():
        for factor in factors:
            name, way = _way(text, factor, written, coding, numbers)
            if way is not None and side not in kind.numbers:
                raise _wrong(text, factor, _COMPARED)
            if first.setdefault(name, factor) != factor and (way or name in transformed):
                raise _wrong(text, factor, _TWICE)
            if way is not None:
                transformed[name] = way
    return numbers | transformed


def _way(
    text: str, factor: str, written: Written, coding: Coding, numbers: _Numbers
) -> tuple[str, tuple[float, ...] | None]:
    """The attribute of a factor, and its numbers under a function; None for the attribute itself."""
    own = written.attributes[factor]
    if len(own) != 1:
        raise _wrong(text, factor, _SEVERAL)
    name = own[0]
    levels = Levels(np.arange(coding.domain.size(name)), coding.attribute(name).coding.level_names)
    given = np.array(numbers.get(name, (np.nan,) * len(levels.names)))
    try:
        value = evaluated(factor, {name: given} if name in numbers else {}, {name: levels})
    except NotUsableError as error:
        raise _wrong(text, factor, error.problem) from None
    if isinstance(value, Levels):
        if value.names != levels.names:
            raise _wrong(text, factor, _COMPARED)
        return name, None
    if np.array_equal(value.values, given, equal_nan=True):
        return name, None
    if not np.isfinite(value.values[np.isfinite(given)]).all():
        raise _wrong(text, factor, _INFINITE)
    return name, tuple(value.values.tolist())


def _wrong(text: str, factor: str, problem: str) -> InvalidFormulaError:
    return InvalidFormulaError(position=max(text.find(factor), 0) + 1, problem=problem)
