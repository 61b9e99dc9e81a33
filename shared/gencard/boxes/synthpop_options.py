"""Options of the sequential trees, read from a card's parameters: order, predictors, rules, growth."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import Parameters, whole
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError

FREE = -1
"""In place of a code, where no rule holds."""


@dataclass(frozen=True, slots=True)
class CodeRule:
    """Records that meet every condition have this code.

    Args:
        attribute: The one whose code is fixed.
        code: The code it then has.
        where: Attributes that come before it, each with the codes of which it must have one.
    """

    attribute: str
    code: int
    where: tuple[tuple[str, tuple[int, ...]], ...]

    def check(self, domain: Domain) -> None:
        """Check that the rule fits this domain.

        Raises:
            InvalidInputError: A code is outside its attribute's size.
            UnknownAttributeError: An attribute is not in the domain.
        """
        for attribute, codes in ((self.attribute, (self.code,)), *self.where):
            if not all(0 <= code < domain.size(attribute) for code in codes):
                raise InvalidInputError(
                    field="rules", problem="a code is outside the domain of its attribute"
                )

    def holds(self, codes: NDArray[Any], domain: Domain) -> NDArray[np.bool_]:
        """Whether each record meets all conditions: shape ``(n,)``."""
        is_met = np.ones(len(codes), dtype=np.bool_)
        for attribute, allowed in self.where:
            is_met &= np.isin(codes[:, domain.axis(attribute)], allowed)
        return is_met


def ruled(rules: Sequence[CodeRule], codes: NDArray[Any], domain: Domain) -> NDArray[np.int64]:
    """The code that the first rule which holds gives to each record, else ``FREE``: shape ``(n,)``."""
    fixed = np.full(len(codes), FREE, dtype=np.int64)
    for rule in reversed(rules):
        fixed[rule.holds(codes, domain)] = rule.code
    return fixed


DECLARED = "declared"
BY_LEVELS = "by-levels"

DEFAULTS: Parameters = {
    "order": DECLARED,
    "predictors": "{}",
    "minimum_leaf": "5",
    "complexity": "1e-8",
    "pruning": "none",
    "smoothing": "none",
    "rules": "[]",
}

_CHOICES = {"pruning": ("none", "misclassification"), "smoothing": ("none", "density")}

_LARGEST_LEAF = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """Options for growing and using the trees.

    Args:
        order: In which attributes are drawn: ``DECLARED``, ``BY_LEVELS`` (fewest first), or all names.
        predictors: For some attributes, those that theirs are predicted from; else all before them.
        minimum_leaf: Fewest records in a leaf; a node with fewer than three times as many is a leaf.
        complexity: Least gain of a split, as a share of the impurity of the root: the Gini index of a
            nominal attribute, the variance of one with numbers.
        pruning: "misclassification" takes splits of nominal attributes back that do not lower
            the number of records outside the commonest class of their leaf, as rpart does.
        smoothing: "density" adds normal noise to numbers that were drawn.
        rules: The first that holds fixes the code.
    """

    order: str | Clique = DECLARED
    predictors: Mapping[str, Clique] = field(default_factory=dict)
    minimum_leaf: int = 5
    complexity: float = 1e-8
    pruning: str = "none"
    smoothing: str = "none"
    rules: tuple[CodeRule, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.minimum_leaf <= _LARGEST_LEAF:
            expected = f"a whole number from 1 to {_LARGEST_LEAF}"
            raise InvalidNumberError(field="minimum_leaf", expected=expected)
        if not (isfinite(self.complexity) and 0 <= self.complexity < 1):
            raise InvalidNumberError(field="complexity", expected="at least 0 and below 1")
        for name, words in _CHOICES.items():
            if getattr(self, name) not in words:
                raise InvalidInputError(field=name, problem=f"must be one of {', '.join(words)}")


def options_of(parameters: Parameters) -> Options:
    """Options from a card's parameters; lists of names, predictors and rules are JSON.

    Raises:
        InvalidInputError: A word is none that is known, or is not JSON of the right form.
        InvalidNumberError: A number is none, or out of its range.
    """
    order: str | Clique = parameters["order"]
    if order not in (DECLARED, BY_LEVELS):
        order = _names("order", _json("order", parameters["order"]))
    predictors = _object("predictors", _json("predictors", parameters["predictors"]))
    return Options(
        order=order,
        predictors={name: _names("predictors", names) for name, names in predictors.items()},
        minimum_leaf=whole(parameters, "minimum_leaf", 1, _LARGEST_LEAF),
        complexity=_number(parameters, "complexity"),
        pruning=parameters["pruning"],
        smoothing=parameters["smoothing"],
        rules=rules_of(_json("rules", parameters["rules"])),
    )


def rules_of(value: Any) -> tuple[CodeRule, ...]:
    """Rules from JSON: a list of ``{"attribute": NAME, "code": CODE, "where": {NAME: [CODE, ...]}}``.

    Raises:
        InvalidInputError: It has another form.
    """
    form = {"attribute", "code", "where"}
    rules = _list("rules", value)
    if not all(isinstance(rule, dict) and rule.keys() == form for rule in rules):
        raise InvalidInputError(
            field="rules", problem="each rule needs an attribute, a code and a where"
        )
    read = []
    for rule in rules:
        name, code = _name("rules", rule["attribute"]), _code(rule["code"])
        conditions = _object("rules", rule["where"])
        where = tuple(
            (of, tuple(_code(one) for one in _list("rules", codes))) for of, codes in conditions.items()
        )
        read.append(CodeRule(name, code, where))
    return tuple(read)


def json_of(rules: tuple[CodeRule, ...]) -> list[dict[str, Any]]:
    """Write rules as the JSON that ``rules_of`` reads."""
    return [
        {"attribute": rule.attribute, "code": rule.code, "where": dict(rule.where)} for rule in rules
    ]


def _names(field: str, value: Any) -> Clique:
    return tuple(_name(field, name) for name in _list(field, value))


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(field=field, problem="names must be text")
    return value


def _code(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInputError(field="rules", problem="codes must be whole numbers")
    return value


def _list(field: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInputError(field=field, problem="must be a list")
    return value


def _object(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInputError(field=field, problem="must be an object")
    return value


def _json(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInputError(
            field=field, problem="is neither a known keyword nor valid JSON"
        ) from None


def _number(parameters: Parameters, field: str) -> float:
    try:
        return float(parameters[field])
    except ValueError:
        raise InvalidNumberError(field=field, expected="a number") from None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One attribute, what it is predicted from, and the rules for it."""

    attribute: str
    predictors: Clique
    rules: tuple[CodeRule, ...]


def planned_steps(options: Options, domain: Domain) -> tuple[PlannedStep, ...]:
    """One for each attribute of the domain.

    Raises:
        InvalidInputError: The order is not one of all attributes; a predictor or the condition of
            a rule comes later than what it decides; a rule names a code outside its attribute's size.
        UnknownAttributeError: An attribute is not in the domain.
    """
    order = tuple(options.order)
    if options.order == DECLARED:
        order = domain.attributes
    elif options.order == BY_LEVELS:
        order = tuple(sorted(domain.attributes, key=domain.size))
    elif sorted(order) != sorted(domain.attributes):
        raise InvalidInputError(field="order", problem="must name every attribute exactly once")
    domain.axes(tuple(options.predictors))
    for rule in options.rules:
        rule.check(domain)
    return tuple(_planned_step(options, name, order[:place]) for place, name in enumerate(order))


def _planned_step(options: Options, attribute: str, earlier: Clique) -> PlannedStep:
    predictors = options.predictors.get(attribute, earlier)
    rules = tuple(rule for rule in options.rules if rule.attribute == attribute)
    conditions = {condition for rule in rules for condition, _ in rule.where}
    for name, names in (("predictors", set(predictors)), ("rules", conditions)):
        if not names <= set(earlier):
            problem = f"'{attribute}' depends on an attribute that does not come before it"
            raise InvalidInputError(field=name, problem=problem)
    return PlannedStep(attribute, tuple(dict.fromkeys(predictors)), rules)
