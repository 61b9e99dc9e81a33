"""How reports say names and shares."""

from gencard.core.domain import Clique


def named(names: Clique) -> str:
    """A set of attributes, or of their levels.

    >>> named(("sex", "health"))
    'sex × health'
    """
    return " × ".join(names)


def percent(share: float) -> str:
    """A share of 1 for people.

    >>> percent(-0.01234)
    '−1.23 %'
    """
    return f"{100 * share:.3g} %".replace("-", "−")
