"""In which order attributes are drawn, each from which."""

from dataclasses import dataclass

from gencard.boxes.synthpop.options import BY_LEVELS, DECLARED, Options
from gencard.boxes.synthpop.rules import Rule
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Visit:
    """One attribute, what it is predicted from, and the rules for it."""

    attribute: str
    predictors: Clique
    rules: tuple[Rule, ...]


def visits_of(options: Options, domain: Domain) -> tuple[Visit, ...]:
    """One for each attribute of the domain.

    Raises:
        InvalidInputError: The order is not one of all attributes; a predictor or the condition of
            a rule comes later than what it decides; a rule names a code outside its attribute's size.
        UnknownAttributeError: An attribute is not in the domain.
    """
    order = _order(options.order, domain)
    domain.axes(tuple(options.predictors))
    for rule in options.rules:
        rule.check(domain)
    return tuple(_visit(options, name, order[:place]) for place, name in enumerate(order))


def _order(order: str | Clique, domain: Domain) -> Clique:
    if order == DECLARED:
        return domain.attributes
    if order == BY_LEVELS:
        return tuple(sorted(domain.attributes, key=domain.size))
    if sorted(order) != sorted(domain.attributes):
        raise InvalidInputError(field="order", problem="must name every attribute exactly once")
    return tuple(order)


def _visit(options: Options, attribute: str, earlier: Clique) -> Visit:
    predictors = options.predictors.get(attribute, earlier)
    rules = tuple(rule for rule in options.rules if rule.attribute == attribute)
    conditions = {name for rule in rules for name, _ in rule.where}
    for field, names in (("predictors", set(predictors)), ("rules", conditions)):
        if not names <= set(earlier):
            problem = f"'{attribute}' depends on an attribute that does not come before it"
            raise InvalidInputError(field=field, problem=problem)
    return Visit(attribute, tuple(dict.fromkeys(predictors)), rules)
