"""What a sandbox shows of the machine: what each kind of program needs, and all of it is digested.

For programs of the system the system is shown besides: what they start or load by themselves is not
known beforehand.
"""

import importlib.metadata
import io
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError
from importlib.resources import files
from pathlib import Path
from typing import Any

from gencard.controller.sandbox.shared_objects import libraries_of, needs_of, placed


@dataclass(frozen=True, slots=True)
class View:
    """Files and folders, at the paths that they have outside; all of them read-only.

    Args:
        shown: Everything that is digested.
        hidden: Folders within those that are empty inside, and not digested.
        links: Symbolic links, where they are and what they say.
        system: Whether the system's programs and libraries are there too, digested or not.
        compiled: A folder of compiled copies that the service made of what is shown; empty for none.
    """

    shown: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    system: bool = False
    compiled: str = ""


def document_of_view(view: View) -> dict[str, Any]:
    """The view as a JSON object of a job's description."""
    return asdict(view)


def view_of_document(document: Mapping[str, Any]) -> View:
    """The view of a document, which may have been JSON in between."""
    links = tuple((path, target) for path, target in document["links"])
    return View(
        tuple(document["shown"]),
        tuple(document["hidden"]),
        links,
        document["system"],
        document["compiled"],
    )


_NAME = re.compile(r"^[A-Za-z0-9._-]+")


def entries_of(names: Iterable[str], *, required: bool = True) -> frozenset[str]:
    """Paths of what these distributions have brought beside each other.

    What is not installed brings nothing; what is only required for an extra does not come along.

    Args:
        required: Whether those that they require come along.
    """
    distributions = _installed(names, required=required)
    return frozenset(path for distribution in distributions for path in _entries(distribution))


def _installed(names: Iterable[str], *, required: bool) -> Iterator[Distribution]:
    left, seen = list(names), set()
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            try:
                distribution = importlib.metadata.distribution(name)
            except PackageNotFoundError:
                continue
            wanted = distribution.requires or () if required else ()
            left += [_name(words) for words in wanted if "extra ==" not in words]
            yield distribution


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match[0].lower() if match else ""


def _entries(distribution: Distribution) -> Iterator[str]:
    """Where no list of its files was kept, the whole folder that it lies in."""
    listed = distribution.read_text("RECORD")
    names = (
        {line.partition("/")[0].partition(",")[0] for line in listed.splitlines()} if listed else {""}
    )
    for name in names - {"..", "__pycache__"}:
        path = Path(str(distribution.locate_file(name)))
        if path.exists():
            yield str(path)


PYTHON = "python"
"""As the first word of a command: the controller's own interpreter, with Gencard to import."""

BASE = ("numpy", "rfc8785", "scipy")
"""Distributions that every program in Python finds besides Gencard."""

_OURS = "gencard"
_PACKAGES = ("gencard.boxes", "gencard.core", "gencard.wire")
_OF_THE_CONTROLLER = ("__init__.py", "noise.py", "sandbox")
"""What runs for a box that comes with Gencard."""

_HIDDEN = ("dist-packages", "ensurepip", "idlelib", "site-packages", "test", "turtledemo")
"""Of the standard library's folder: what is not of it, and what no computation needs."""

_STARTERS = ("prlimit", "setpriv")
"""Programs of the system that bound a process and then become the interpreter."""

_PATH = "/usr/bin:/bin"
_LINE = 4096
"""Bytes in which the first line of a script ends."""

_LIBRARY = re.compile(r"^(?!_tkinter).*\.so(\.|$)")
"""Files that are loaded with libraries of the system; a sandbox has no window to draw."""


@cache
def python_view(distributions: tuple[str, ...] = (), *, controller: bool = False) -> View:
    """The controller's interpreter, standard library, Gencard, distributions, and what all these load.

    Args:
        distributions: By name, besides ``BASE``; those that they require come along.
        controller: Whether to show what boxes that come with Gencard are run by.
    """
    interpreter, links = _interpreter()
    standard, unused = _standard_library()
    brought = entries_of((*BASE, *distributions))
    folders = {standard, *_ours(controller=controller), *brought}
    hidden = (*unused, *_headers(brought))
    programs = {interpreter, *_starters()}
    loaded = libraries_of([*programs, *_shared_objects(folders, hidden)])
    single = {path for path in {*programs, *loaded, *_settings()} if not _is_within(path, folders)}
    return View(tuple(sorted(folders | single)), hidden, links)


@cache
def system_view(interpreter: str) -> View:
    """An interpreter of the system and the libraries it is loaded with; of a script, its own one too."""
    with open(interpreter, "rb") as file:
        above = _interpreters(file.read(_LINE))
    paths = {placed(path) for path in (interpreter, *above, *_starters())}
    return View(tuple(sorted({*paths, *libraries_of(paths)})), system=True)


def program_view(content: bytes) -> View:
    """What a file of the program, run as it is, is loaded with: libraries, or an interpreter."""
    paths = {placed(path) for path in (*_interpreters(content), *_starters())}
    needs = needs_of(io.BytesIO(content), "/nowhere")
    return View(tuple(sorted({*paths, *libraries_of(paths, needs)})), system=True)


def view_of(command: tuple[str, ...], program: Mapping[str, bytes], libraries: tuple[str, ...]) -> View:
    """Of a program by its command; see ``program.Program``."""
    first = command[0]
    if first == PYTHON:
        return python_view(libraries)
    return program_view(program.get(first[2:], b"")) if first.startswith("./") else system_view(first)


def _interpreters(content: bytes) -> list[str]:
    """What the first line of a script names: a file, and what ``env`` would find."""
    if not content.startswith(b"#!"):
        return []
    words = os.fsdecode(content[2:_LINE].partition(b"\n")[0]).split()
    named = [shutil.which(word, path=_PATH) for word in words]
    return [path for path in named if path]


def _starters() -> list[str]:
    paths = [shutil.which(name, path=_PATH) for name in _STARTERS]
    return [placed(path) for path in paths if path]


def _interpreter() -> tuple[str, tuple[tuple[str, str], ...]]:
    """The file that is executed, and the links that lead to it."""
    path, links = Path(sys.executable), []
    while path.is_symlink():
        links.append((str(path), os.readlink(path)))
        path = Path(os.path.normpath(path.parent / path.readlink()))
    return str(path), tuple(links)


def _standard_library() -> tuple[str, tuple[str, ...]]:
    folder = sysconfig.get_paths()["stdlib"]
    names = sorted(name for name in os.listdir(folder) if name in _HIDDEN or name.startswith("config-"))
    return folder, tuple(f"{folder}/{name}" for name in names)


def _headers(folders: Collection[str]) -> list[str]:
    """What is compiled against and never run: most of the files that torch has."""
    return sorted(path for folder in folders if os.path.isdir(path := f"{folder}/include"))


def _settings() -> Iterator[str]:
    """By which an interpreter knows that it is one of a virtual environment."""
    path = f"{sys.prefix}/pyvenv.cfg"
    if os.path.isfile(path):
        yield path


def _ours(*, controller: bool) -> Iterator[str]:
    """Our packages, and where they are not installed by copying, what says where they are."""
    yield from (str(files(package)) for package in _PACKAGES)
    if controller:
        yield from (str(files("gencard.controller") / name) for name in _OF_THE_CONTROLLER)
    yield from (path for path in entries_of([_OURS], required=False) if path.endswith(".pth"))


def _shared_objects(folders: Collection[str], hidden: Collection[str]) -> Iterator[str]:
    for folder in folders:
        for above, below, names in os.walk(folder):
            below[:] = [name for name in below if f"{above}/{name}" not in hidden]
            yield from (f"{above}/{name}" for name in names if _LIBRARY.match(name))


def _is_within(path: str, folders: Collection[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
