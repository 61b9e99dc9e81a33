"""How far a part of an audit is, told as a share of the whole."""

from collections.abc import Callable

from gencard.core.blackbox.contract import Progress


def part(progress: Progress, stage: str, begin: float, end: float) -> Callable[[float], None]:
    """Progress within one stage, which is the share ``begin`` to ``end`` of the whole.

    >>> part(lambda stage, share: print(stage, share), "look", 0.2, 0.4)(0.5)
    look 0.3
    """
    return lambda share: progress(stage, round(begin + (end - begin) * share, 4))
