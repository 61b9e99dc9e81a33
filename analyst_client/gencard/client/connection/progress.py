"""How far something is, shown where somebody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

Tell = Callable[[str, float], None]
"""Called with a stage and the share done, 0 to 1."""

Shown = bool | Tell
"""True: a bar in a terminal or notebook, nothing elsewhere. A function: called instead."""


@contextmanager
def shown(title: str, progress: Shown) -> Iterator[Tell]:
    """A function to tell progress to, while something goes on."""
    if callable(progress):
        yield progress
        return
    console = Console(stderr=True)
    if not progress or not (console.is_terminal or console.is_jupyter):
        yield _nobody
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[stage]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0, stage="")
        yield lambda stage, share: bar.update(task, completed=share, stage=stage)


def _nobody(_stage: str, _share: float) -> None:
    """Nobody looks."""
