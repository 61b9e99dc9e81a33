"""Compiled copies for sandboxes: what one service of the tests has compiled, others get copied.

A service compiles what its boxes and programs import, from numpy to statsmodels: one to nine seconds of
processor time, and tests start some hundred services.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

import pytest

from gencard.controller.sandbox.environment import CompiledCopies

compiled_anew = CompiledCopies._compile


@pytest.fixture(scope="session", autouse=True)
def copies_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All services of a test run, also where several processes share the tests."""
    folder = tmp_path_factory.getbasetemp()
    with compiled_once(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder):
        yield


FOLDER = "GENCARD_TESTS_COMPILED"
"""The variable that names the folder of kept copies, for controllers in processes of their own."""


@contextmanager
def compiled_once(parent: Path) -> Iterator[None]:
    """Each set of modules is compiled once, and kept in a folder ``compiled``."""
    folder = parent / "compiled"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder))
        patch.setattr(CompiledCopies, "_compile", copied)
        yield


def copied(copies: CompiledCopies, target: Path) -> int:
    """In place of ``CompiledCopies._compile``."""
    folder, modules = Path(os.environ[FOLDER]), copies._modules.split(", ")
    kept = folder / sha256(copies._modules.encode()).hexdigest()
    with (folder / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not kept.exists():
            shutil.rmtree(folder / "new", ignore_errors=True)
            (folder / "new").mkdir()
            if part := _largest_part(folder, {*modules}):
                shutil.copytree(part, folder / "new", dirs_exist_ok=True)
            if code := compiled_anew(copies, folder / "new"):
                return code
            (folder / "new").rename(kept)
            kept.with_suffix(".modules").write_text(" ".join(modules))
    shutil.copytree(kept, target, dirs_exist_ok=True)
    return 0


def _largest_part(folder: Path, modules: set[str]) -> Path | None:
    """The kept copies of most of these modules, and no others: the rest takes less time then."""
    names = {file: {*file.read_text().split()} for file in folder.glob("*.modules")}
    parts = [file for file in names if names[file] <= modules]
    return max(parts, key=lambda file: len(names[file])).with_suffix("") if parts else None
