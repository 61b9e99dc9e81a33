"""scikit-learn, which comes with the extra ``utility`` and is loaded only where something is learned."""

from importlib import import_module
from types import ModuleType

from gencard.core.errors import InvalidInputError


def learning(name: str) -> ModuleType:
    """A module of scikit-learn.

    Raises:
        InvalidInputError: It is not installed.
    """
    try:
        return import_module(f"sklearn.{name}")
    except ModuleNotFoundError:
        problem = "predictions need scikit-learn: pip install 'gencard[utility]'"
        raise InvalidInputError(field="utility", problem=problem) from None
