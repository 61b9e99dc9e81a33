"""Runs the tests of each mutant against a copy of the source that holds the defect."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TypeVar

from tests.mutation.mutant import ROOT, SOURCE_ROOTS, Mutant, Tests

SECONDS = 900
"""Much longer than any run takes: one that is slower says nothing about the defect."""

_NO_CHANGE = "\n# A mutant without a defect.\n"
"""Tests that fail for this look at the bytes of the source, and so prove nothing about a defect."""

_PASSED, _FAILED = 0, 1


Value = TypeVar("Value")


class Outcome(StrEnum):
    """Outcome of the tests for a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Result:
    """One mutant and what its tests made of it."""

    mutant: Mutant
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.outcome:9} {self.mutant.room}: {self.mutant.name}"


class MutationError(Exception):
    """The check itself does not work, so that its figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the four source roots, which tests import instead of the installed ones."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> "Copy":
        """Made with the bytecode beside the source: it stays valid, as times are copied, too."""
        for root in SOURCE_ROOTS:
            shutil.copytree(ROOT / root / "gencard", folder / root / "gencard")
        return cls(folder)

    def environment(self) -> dict[str, str]:
        """Folders of PYTHONPATH come before those of installed packages.

        The parts of a namespace package are searched in that order, so the copy of each module wins.
        No bytecode is written: that of a mutant could be taken for that of the source.
        """
        path = os.pathsep.join(str(self.folder / root) for root in SOURCE_ROOTS)
        return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Python in the repository with the modules of the copy."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    @contextmanager
    def changed(self, texts: dict[Path, str]) -> Iterator[None]:
        """The copy with other texts in some of its files, by their path in the repository."""
        try:
            for path, text in texts.items():
                (self.folder / path.relative_to(ROOT)).write_text(text, encoding="utf-8")
            yield
        finally:
            for path in texts:
                shutil.copy2(path, self.folder / path.relative_to(ROOT))


def check(mutants: Sequence[Mutant], jobs: int, report: Callable[[str], None]) -> list[Result]:
    """Run every mutant's tests, after they have passed without a defect.

    Args:
        jobs: How many copies of the source there are, and runs at a time.
        report: Gets a line for each run that has ended.

    Raises:
        MutationError: Tests fail without a defect, or cannot be run.
    """
    with TemporaryDirectory(prefix="gencard-mutation-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            copies.put(Copy.made(Path(folder) / str(number)))

        def on_a_copy(task: Callable[[Copy], Value]) -> Value:
            copy = copies.get()
            try:
                value = task(copy)
            finally:
                copies.put(copy)
            report(str(value))
            return value

        with ThreadPoolExecutor(jobs) as threads:
            baseline = [_baseline(mutants, tests) for tests in dict.fromkeys(m.tests for m in mutants)]
            list(threads.map(on_a_copy, baseline))
            return list(threads.map(on_a_copy, [_trial(mutant) for mutant in mutants]))


def _baseline(mutants: Iterable[Mutant], tests: Tests) -> Callable[[Copy], str]:
    """A task that makes sure that tests pass on the copy without a defect, and do import the copy."""
    files = {mutant.module: mutant.file() for mutant in mutants if mutant.tests == tests}

    def task(copy: Copy) -> str:
        with copy.changed({path: path.read_text("utf-8") + _NO_CHANGE for path in files.values()}):
            _check_imported(copy, files)
            if _outcome(copy, tests) is Outcome.KILLED:
                raise MutationError(f"fails without a defect: pytest {' '.join(tests)}")
        return f"{'passes':9} without a defect: {' '.join(tests)}"

    return task


def _check_imported(copy: Copy, files: dict[str, Path]) -> None:
    for module, path in files.items():
        imported = copy.run("-c", f"import {module} as module; print(module.__file__)")
        if imported.stdout.strip() != str(copy.folder / path.relative_to(ROOT)):
            raise MutationError(f"{module} is imported from {imported.stdout}{imported.stderr}")


def _trial(mutant: Mutant) -> Callable[[Copy], Result]:
    def task(copy: Copy) -> Result:
        with copy.changed({mutant.file(): mutant.text()}):
            return Result(mutant, _outcome(copy, mutant.tests))

    return task


def _outcome(copy: Copy, tests: Tests) -> Outcome:
    try:
        run = copy.run(*_PYTEST, *tests)
    except subprocess.TimeoutExpired:
        raise MutationError(f"takes over {SECONDS} s: pytest {' '.join(tests)}") from None
    if run.returncode == _PASSED:
        return Outcome.SURVIVED
    if run.returncode == _FAILED:
        return Outcome.KILLED
    raise MutationError(f"pytest ended with {run.returncode}:\n{run.stdout}{run.stderr}")


_PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
