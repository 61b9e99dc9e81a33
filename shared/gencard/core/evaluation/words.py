"""How findings say shares and numbers."""


def percent(share: float) -> str:
    """A share of 1 for people.

    >>> percent(-0.01234)
    '−1.23 %'
    """
    return f"{100 * share:.3g} %".replace("-", "−")


def interval(low: float, high: float) -> str:
    """A 95 % interval for people.

    >>> interval(0.1, 0.25)
    '95 % interval 10 % to 25 %'
    """
    return f"95 % interval {percent(low)} to {percent(high)}"
