"""What sequential trees can be told, read from the words of a card."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from gencard.boxes.entry import Parameters
from gencard.boxes.promise import whole
from gencard.boxes.synthpop.rules import Rule
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidNumberError

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
    """How the trees are grown and used.

    Args:
        order: Of visits: ``DECLARED``, ``BY_LEVELS`` (fewest first), or every attribute by name.
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
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.minimum_leaf <= _LARGEST_LEAF:
            expected = f"a whole number from 1 to {_LARGEST_LEAF}"
            raise InvalidNumberError(field="minimum_leaf", expected=expected)
        if not (isfinite(self.complexity) and 0 <= self.complexity < 1):
            raise InvalidNumberError(field="complexity", expected="from 0 to below 1")
        for name, words in _CHOICES.items():
            if getattr(self, name) not in words:
                raise InvalidInputError(field=name, problem=f"must be one of {', '.join(words)}")


def options_of(parameters: Parameters) -> Options:
    """From the words of a card; lists of names, predictors and rules are JSON.

    Raises:
        InvalidInputError: A word is none that is known, or is not JSON of the right form.
        InvalidNumberError: A number is none, or out of its range.
    """
    return Options(
        order=_order(parameters["order"]),
        predictors=_predictors(parameters["predictors"]),
        minimum_leaf=whole(parameters, "minimum_leaf", 1, _LARGEST_LEAF),
        complexity=_number(parameters, "complexity"),
        pruning=parameters["pruning"],
        smoothing=parameters["smoothing"],
        rules=rules_of(_json("rules", parameters["rules"])),
    )


def rules_of(value: Any) -> tuple[Rule, ...]:
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
    return tuple(
        Rule(_name("rules", rule["attribute"]), _code(rule["code"]), _where(rule["where"]))
        for rule in rules
    )


def json_of(rules: tuple[Rule, ...]) -> list[dict[str, Any]]:
    """What ``rules_of`` reads."""
    return [
        {"attribute": rule.attribute, "code": rule.code, "where": dict(rule.where)} for rule in rules
    ]


def _order(text: str) -> str | Clique:
    return text if text in (DECLARED, BY_LEVELS) else _names("order", _json("order", text))


def _predictors(text: str) -> Mapping[str, Clique]:
    value = _object("predictors", _json("predictors", text))
    return {name: _names("predictors", names) for name, names in value.items()}


def _where(value: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    conditions = _object("rules", value)
    return tuple(
        (name, tuple(_code(code) for code in _list("rules", codes)))
        for name, codes in conditions.items()
    )


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
