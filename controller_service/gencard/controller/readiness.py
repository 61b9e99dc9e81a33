"""What must hold before anything is served: mistakes that would open a door are found at the start."""

from collections.abc import Collection

from gencard.controller.cell.trial import check_isolation
from gencard.controller.holdings import Holding, Holdings
from gencard.controller.policy import Policy
from gencard.controller.settings import Settings
from gencard.controller.settings_boxes import BuiltInBox, ProgramBox
from gencard.core.budget import ZERO, Mechanism, Price, Privacy
from gencard.core.errors import InvalidInputError
from gencard.core.utility.gap import gap_of


def check_reviewed(holdings: Holdings) -> None:
    """A drafted schema shows labels and edges of records: a person reads it before anybody else.

    Raises:
        InvalidInputError: A schema was drafted from records and nobody has reviewed it.
    """
    for holding in holdings:
        if not holding.schema.reviewed:
            raise InvalidInputError(
                field=f"{holding.name}: reviewed",
                problem="is false; read the schema, then set it to true",
            )


def check_apart(holdings: Holdings) -> None:
    """The same records under two names would have two ledgers, and could be told by two schemas.

    Raises:
        InvalidInputError: Two datasets are of one version.
    """
    first: dict[str, str] = {}
    for holding in holdings:
        other = first.setdefault(holding.version, holding.name)
        if other != holding.name:
            raise InvalidInputError(field=holding.name, problem=f"holds the same records as {other}")


def check_measures(holdings: Holdings) -> None:
    """A holdout that is no holdout, or a key that nobody has, would make measures say what is not so.

    Raises:
        InvalidInputError: A holdout holds the records of a dataset, keys and target are undeclared
            or the same, or the gap means nothing.
        UnknownAttributeError: The gap names an attribute that is undeclared.
    """
    versions = {holding.version for holding in holdings}
    for holding in holdings:
        if holding.holdout is not None and holding.holdout.version in versions:
            problem = "holds the same records as a dataset, which releases are made from"
            raise InvalidInputError(field=f"{holding.name}: holdout", problem=problem)
        declared = holding.declared
        named = [*declared.keys, *([declared.target] if declared.target else [])]
        if len(set(named)) != len(named) or not set(named) <= set(holding.domain.attributes):
            problem = "keys and target must be different attributes of the schema"
            raise InvalidInputError(field=f"{holding.name}: measures", problem=problem)
        if declared.gap is not None:
            gap_of(declared.gap, holding.schema.coding)


def check_cells(settings: Settings) -> None:
    """What reads records in a cell is not served where no cell can be closed.

    Raises:
        IsolationError: The settings name such black boxes, and see ``cell.trial``.
    """
    if any(isinstance(box, ProgramBox | BuiltInBox) for box in settings.black_boxes):
        check_isolation(settings.cell.isolation, settings.state.folder)


def check_policies(holdings: Holdings, generators: Collection[str]) -> None:
    """A policy that names what is not there forbids or allows nothing, in silence.

    Args:
        generators: The names of the catalogue.

    Raises:
        InvalidInputError: It forbids undeclared attributes, or offers what cannot be carried out.
    """
    for holding in holdings:
        for field, problem in _mistakes(holding, generators):
            raise InvalidInputError(field=f"{holding.name}: policy.{field}", problem=problem)


def _mistakes(holding: Holding, generators: Collection[str]) -> list[tuple[str, str]]:
    policy, declared = holding.policy, set(holding.domain.attributes)
    wrong = {
        ("forbidden", "names an attribute that the schema does not declare"): any(
            not clique or not declared.issuperset(clique) for clique in policy.forbidden
        ),
        ("generators", "must name one or more, each of the catalogue"): not policy.generators
        or not set(generators) >= set(policy.generators),
        ("mechanisms", "must name one or more"): not policy.mechanisms,
        ("noise", "must say, for a policy with noise, which one and its neighbouring relation"): (
            policy.noise is None and set(policy.mechanisms) != {Mechanism.EXACT}
        ),
        ("noise", "must be one of the mechanisms, and within most_per_card"): (
            policy.noise is not None and not _is_on_offer(policy.noise, policy)
        ),
    }
    return [mistake for mistake, made in wrong.items() if made]


def _is_on_offer(noise: Privacy, policy: Policy) -> bool:
    price = Price(epsilon=noise.epsilon or ZERO, rho=noise.rho or ZERO)
    return noise.mechanism in policy.mechanisms and price.fits(policy.most_per_card)
