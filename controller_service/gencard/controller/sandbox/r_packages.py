"""R in a sandbox: its place, its start, and the packages that a program finds.

R's own front end is a shell script that starts other programs, which a sandbox does not allow. Therefore
R's binary is started, with the variables that the script would set.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from gencard.controller.sandbox.distributions import stamp_of
from gencard.controller.sandbox.environment import Environment
from gencard.core.errors import InvalidInputError
from gencard.run.r_language import R

PACKAGE = f"{R}-"
"""Begins the name of a package of R, as a library of a card."""

_HOMES = ("/usr/lib/R", "/usr/lib64/R", "/usr/local/lib/R", "/usr/local/lib64/R")
"""Folders in which Linux distributions and R's own installer put R; a sandbox shows all of /usr."""

_FOLDERS = ("/usr/local/lib/R/site-library", "/usr/lib/R/site-library", "/usr/share/R/site-library")
"""Folders of packages besides R's own folder."""

_SHARED = {"R_SHARE_DIR": "share", "R_INCLUDE_DIR": "include", "R_DOC_DIR": "doc"}
_BASE = "Priority: base"
_NEEDS = ("Depends:", "Imports:", "LinkingTo:")


@cache
def home() -> Path | None:
    """Return R's folder; None if R is not installed."""
    homes = (Path(name) for name in _HOMES if (Path(name) / "bin" / "exec" / "R").is_file())
    return next(homes, None)


def r_command(start: str, program: str) -> tuple[str, ...]:
    """Return the command of a program in R by ``start.R``; raises InvalidInputError without R."""
    folder = _home()
    shared = Path("/usr/share/R") if Path("/usr/share/R").is_dir() else folder
    variables = {"R_HOME": folder, "LD_LIBRARY_PATH": folder / "lib", "R_DEFAULT_PACKAGES": "NULL"}
    variables |= {name: shared / below for name, below in _SHARED.items()}
    words = (f"{name}={value}" for name, value in variables.items())
    binary = str(folder / "bin" / "exec" / "R")
    return ("/usr/bin/env", *words, binary, "--vanilla", "--no-echo", "-f", start, "--args", program)


def r_environment(libraries: Iterable[str]) -> Environment:
    """Return the files for a program in R: base R, declared packages and their requirements.

    Args:
        libraries: Libraries of a card; only packages of R count.

    Raises:
        InvalidInputError: R or a package is not installed.
    """
    installed = packages()
    open_ = set(_with_needed(packages_in(libraries), installed))
    hidden = sorted(str(path) for name, path in installed.items() if name not in open_)
    visible = tuple(str(installed[name]) for name in sorted(open_))
    return Environment(hidden=tuple(hidden), distributions=visible, stamp=stamp_of(visible))


def packages_in(libraries: Iterable[str]) -> list[str]:
    """Return the packages of R among the libraries of a card."""
    return [name.removeprefix(PACKAGE) for name in libraries if name.startswith(PACKAGE)]


def packages() -> dict[str, Path]:
    """Folders of all installed packages but the base ones; raises InvalidInputError without R."""
    folders = [Path(name) for name in _FOLDERS] + [_home() / "library"]
    entries = (entry for folder in folders if folder.is_dir() for entry in sorted(folder.iterdir()))
    described = ((entry, _description(entry)) for entry in entries)
    return {entry.name: entry for entry, text in described if text and _BASE not in text}


def check_installed(libraries: Iterable[str]) -> None:
    """Raise InvalidInputError if R, or a package of R that is named, is not installed."""
    names = [*libraries]
    if R in names or packages_in(names):
        _with_needed(packages_in(names), packages())


def _home() -> Path:
    folder = home()
    if folder is None:
        raise InvalidInputError(field="libraries", problem="name R, which is not installed here")
    return folder


def _with_needed(names: Iterable[str], installed: dict[str, Path]) -> Iterator[str]:
    """Yield packages with their requirements, each once; raises InvalidInputError if one is missing."""
    left, added_names = [*names], set[str]()
    for name in left:
        if name not in installed and not _is_base(name):
            problem = f"name the package {name} of R, which is not installed here"
            raise InvalidInputError(field="libraries", problem=problem)
        if name in added_names or name not in installed:
            continue
        added_names.add(name)
        yield name
        left += _needed(_description(installed[name]))


def _is_base(name: str) -> bool:
    return _BASE in _description(_home() / "library" / name)


def _needed(description: str) -> list[str]:
    """Return the packages that a package's description requires, without R itself."""
    fields = re.sub(r"\n\s+", " ", description).splitlines()
    lists = [line.partition(":")[2] for line in fields if line.startswith(_NEEDS)]
    names = [one.split("(")[0].strip() for text in lists for one in text.split(",")]
    return [name for name in names if name not in ("", R)]


def _description(folder: Path) -> str:
    """Return the DESCRIPTION of a package; empty for a folder that is none."""
    file = folder / "DESCRIPTION"
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
