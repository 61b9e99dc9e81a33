"""How reports say names and shares."""

from gencard.core.domain import Clique
from gencard.core.evaluation.words import percent

__all__ = ["named", "percent"]


def named(names: Clique) -> str:
    """A set of attributes, or of their levels.

    >>> named(("sex", "health"))
    'sex × health'
    """
    return " × ".join(names)
