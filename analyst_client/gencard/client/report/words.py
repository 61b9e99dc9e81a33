"""How reports write names, shares and intervals."""

from gencard.core.domain import Clique


def percent(share: float) -> str:
    """A share of 1 in per cent.

    >>> percent(-0.01234)
    '−1.23 %'
    """
    return f"{100 * share:.3g} %".replace("-", "−")


def interval(low: float, high: float) -> str:
    """A 95 % interval of shares.

    >>> interval(0.1, 0.25)
    '95 % interval 10 % to 25 %'
    """
    return f"95 % interval {percent(low)} to {percent(high)}"


def named(names: Clique) -> str:
    """A set of attributes, or of their levels.

    >>> named(("sex", "health"))
    'sex × health'
    """
    return " × ".join(names)
