"""A mutant: one small, meaningful defect, and the few tests that must notice it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("protos", "shared", "controller_service", "analyst_client")

Tests = tuple[str, ...]
"""Arguments of one pytest run: paths relative to the repository, and options such as ``-k``."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect.

    Args:
        room: One of the six parts of the code that are checked.
        name: What is wrong, in words.
        module: Dotted name of the module that is changed.
        original: Occurs exactly once in the module.
        replacement: Stands in its place in the mutant.
        tests: What has to fail.
    """

    room: str
    name: str
    module: str
    original: str
    replacement: str
    tests: Tests

    def file(self, root: Path = ROOT) -> Path:
        """The module below a root; raises FileNotFoundError where no source root has it."""
        inside = Path(*self.module.split(".")).with_suffix(".py")
        for source in SOURCE_ROOTS:
            if (path := root / source / inside).is_file():
                return path
        raise FileNotFoundError(f"no source root has the module {self.module}")

    def text(self) -> str:
        """The module with the defect; raises ValueError where the original is not there exactly once."""
        source = self.file().read_text(encoding="utf-8")
        if source.count(self.original) != 1:
            raise ValueError(
                f"{self.module} holds {self.original!r} {source.count(self.original)} times"
            )
        return source.replace(self.original, self.replacement)


def mutants_of(room: str) -> Callable[..., Mutant]:
    """A constructor for the mutants of one room."""
    return partial(Mutant, room)
