"""How far a long computation is, told to whoever waits for it."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called with the stage and the share done of the whole, 0 to 1, neither depending on any record.
It may raise: that cancels the computation."""


def quiet(_stage: str, _share: float) -> None:
    """Tell nobody."""


def part(progress: Progress, stage: str, begin: float, end: float) -> Callable[[float], None]:
    """Progress within one stage, which is the share ``begin`` to ``end`` of the whole.

    >>> part(lambda stage, share: print(stage, share), "look", 0.2, 0.4)(0.5)
    look 0.3
    """
    return lambda share: progress(stage, round(begin + (end - begin) * share, 4))
