"""Files that a sandbox shows: system and interpreter, and for Python Gencard and declared distributions.

All files are read-only, at their paths outside. A sandbox shows nothing of the controller: no settings,
keys, state or records.
"""

import ast
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from glob import glob
from hashlib import sha256
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from threading import Lock

from gencard.controller.sandbox.distributions import Checked, checked, stamp_of
from gencard.core.errors import GeneratorChangedError, InvalidInputError
from gencard.core.json_codecs import written

PYTHON = "python"
"""First word of a command for the controller's own interpreter, with Gencard to import."""

BASE = ("numpy", "rfc8785", "scipy")
"""Distributions that every program in Python finds besides Gencard."""

COMPILED = "/cell/compiled"
"""Folder in which Python looks for compiled copies, and nowhere else."""

WORK = Path("/cell/work")
"""The working folder: empty, its own, and gone with the run."""

VARIABLES = {
    "HOME": str(WORK),
    "LC_ALL": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TMPDIR": str(WORK),
}
"""The whole environment: the same for every program, on every machine."""

_OURS = "gencard"
_PACKAGES = ("gencard.boxes", "gencard.core", "gencard.run", "gencard.wire")
_OF_THE_CONTROLLER = ("__init__.py", "noise.py")
"""Modules of the controller that the sandbox shows: noise of private boxes comes from there."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/R")
"""Settings of the system by which its libraries and interpreters are found."""

_UNDECLARED = (
    "/usr/lib/python3*/dist-packages",
    "/usr/local/lib/python3*/dist-packages",
    "/usr/local/lib/python3*/site-packages",
)
"""Folders of packages that no box declares: hidden from Python, since its digest does not cover them."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution as digests of programs name it.

    Args:
        record: SHA-256, in hex, of its files' hashes; see ``distributions.Installed``.
    """

    name: str
    version: str
    record: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """All that runs a program and is part of its digest.

    Args:
        interpreter: Name and version of Python; of an interpreter of the system, SHA-256 of its file.
        distributions: Distributions of a program in Python.
    """

    interpreter: str = ""
    libc: str = ""
    distributions: tuple[Distribution, ...] = field(default=(), metadata=written(omit=True))


@dataclass(frozen=True, slots=True)
class Environment:
    """Files of the machine that a sandbox shows, besides the system.

    Args:
        shown: Files and folders to show.
        hidden: Folders that are empty inside, except for entries of ``shown``.
        links: Symbolic links that lead to the interpreter: paths and targets.
        compiled: A folder of compiled copies, see ``CompiledCopies``; empty for none.
        distributions: Entries of ``shown`` that were compared with RECORDs.
        stamp: Stamp of distributions and compiled copies at the comparison; empty if there are none.
        libraries: Names of the distributions that a program declares.
        records: Digest of name, version and RECORD of all ``distributions``; empty if not compared.
    """

    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    compiled: str = ""
    distributions: tuple[str, ...] = ()
    stamp: str = ""
    libraries: tuple[str, ...] = ()
    records: str = ""

    def check_unchanged(self) -> None:
        """Check that no file's content has changed since the comparison.

        Installers share files between environments by hard links. A link made or removed elsewhere
        changes the time of a file's last change (ctime) and not its content: the distributions are then
        compared with their RECORDs again.

        Raises:
            GeneratorChangedError: A file was changed, is missing, or was added.
        """
        if not self.stamp or _stamp(stamp_of(self.distributions), self.compiled) == self.stamp:
            return
        _, _, copies = self.stamp.partition(" ")
        same_copies = not self.compiled or stamp_of([self.compiled]) == copies
        if not (self.records and same_copies and self._is_same_content()):
            raise GeneratorChangedError.since_start()

    def _is_same_content(self) -> bool:
        try:
            again = checked((*BASE, *self.libraries))
        except InvalidInputError:
            return False
        return (_records(again), again.entries) == (self.records, self.distributions)


def python_environment(libraries: Iterable[str], compiled: str = "") -> Environment:
    """Return the controller's interpreter, Gencard, and distributions with all that they require.

    Args:
        libraries: Distributions besides ``BASE``.

    Raises:
        InvalidInputError, GeneratorChangedError: See ``distributions.checked``.
    """
    names = tuple(libraries)
    libraries_checked = checked((*BASE, *names))
    visible, hidden, links = _interpreter()
    entries, stamp = libraries_checked.entries, _stamp(libraries_checked.stamp, compiled)
    shown, records = tuple(sorted({*visible, *entries})), _records(libraries_checked)
    return Environment(shown, hidden, links, compiled, entries, stamp, names, records)


def _records(libraries: Checked) -> str:
    """Return the digest of the compared names, versions and RECORDs."""
    facts = [f"{one.name}\0{one.version}\0{one.record}\n" for one in libraries.distributions]
    return sha256("".join(facts).encode()).hexdigest()


def _stamp(distributions: str, compiled: str) -> str:
    """Return the stamp of distributions, combined with that of compiled copies if there are any."""
    return f"{distributions} {stamp_of([compiled])}" if compiled else distributions


def python_runtime(libraries: Iterable[str]) -> Runtime:
    """Interpreter and C library by version, distributions by version and RECORD; raises the same."""
    installed = checked((*BASE, *libraries)).distributions
    return Runtime(
        f"{platform.python_implementation()} {platform.python_version()}",
        libc(),
        tuple(Distribution(each.name, each.version, each.record) for each in installed),
    )


def libc() -> str:
    """Name and version of the C library, and the kind of machine."""
    return f"{' '.join(platform.libc_ver())} {platform.machine()}"


@cache
def _interpreter() -> tuple[frozenset[str], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Paths that the interpreter needs besides the system's, folders to hide, and links to it."""
    path, links = Path(sys.executable), []
    while path.is_symlink():
        links.append((str(path), os.readlink(path)))
        path = Path(os.path.normpath(path.parent / path.readlink()))
    standard = sysconfig.get_paths()["stdlib"]
    undeclared = [*_UNDECLARED, f"{standard}/site-packages", f"{standard}/dist-packages"]
    hidden = sorted({path for pattern in undeclared for path in glob(pattern)})
    paths = {str(path), str(Path(standard).parent), f"{sys.prefix}/pyvenv.cfg", *_ours()}
    # the sandbox already mounts all of /usr except site-packages
    unmounted = (each for each in paths if not each.startswith("/usr/") or "-packages/" in each)
    visible = frozenset(filter(os.path.exists, unmounted))
    return visible, tuple(hidden), tuple(links)


def _ours() -> Iterator[str]:
    """Yield the files of Gencard and, for an editable installation, the files that name its place."""
    yield from (str(files(package)) for package in _PACKAGES)
    yield from (str(files("gencard.controller") / name) for name in _OF_THE_CONTROLLER)
    installed = distribution(_OURS)
    yield from (
        str(installed.locate_file(file)) for file in installed.files or () if file.suffix == ".pth"
    )


def root_of(environment: Environment) -> Iterator[str]:
    """Yield bubblewrap's arguments for the root of a sandbox, without the program's own files."""
    yield from ("--ro-bind", "/usr", "/usr")
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    folders = {Path("/usr"), *map(Path, _SYSTEM)}
    for name in _SETTINGS:
        yield from (*_folders_above(Path(name), folders), "--ro-bind-try", name, name)
    # Sorted, so that hidden folders come before what is in them.
    for name in sorted({*environment.shown, *environment.hidden}):
        hides = name in environment.hidden
        yield from _folders_above(Path(name), folders)
        yield from ("--perms", "0755", "--tmpfs", name) if hides else ("--ro-bind", name, name)
    for name, target in environment.links:
        yield from (*_folders_above(Path(name), folders), "--symlink", target, name)
    if environment.compiled:
        yield from (
            *_folders_above(Path(COMPILED), folders),
            "--ro-bind",
            environment.compiled,
            COMPILED,
        )


def closing_of(environment: Environment) -> Iterator[str]:
    """Yield the options that need a complete sandbox: hidden folders become read-only."""
    for path in environment.hidden:
        yield from ("--remount-ro", path)


def _folders_above(path: Path, made: set[Path]) -> Iterator[str]:
    """Empty folders above a path that is not the system's, which others than root may pass too."""
    for above in reversed(path.parents[:-1]):
        if above not in made and not above.is_relative_to("/usr"):
            made.add(above)
            yield from ("--perms", "0755", "--dir", str(above))


_MODULES = (
    "gencard.wire.black_box",
    "gencard.boxes.registry",
    "gencard.controller.noise",
    "numpy.random",
)
"""Modules that programs in Python find loaded."""

_MODULES_OF = {
    "synthpop": ("sklearn.tree",),
    "ctgan": ("gencard.boxes.net_training", "sklearn.mixture"),
    "pate-gan": ("gencard.boxes.net_training", "scipy.stats"),
}
"""Additional modules that built-in boxes find loaded."""

SCRIPTS = ("gencard.wire.black_box", "numpy.random")
"""Modules that every script in Python finds loaded, besides what it imports of declared distributions.

They are loaded with the rights that close the sandbox, which no program has: modules of Gencard, and of
distributions whose files were compared with their RECORDs and whose digests the card names.
"""


def modules_of(box: str) -> tuple[str, ...]:
    """Return the modules that a built-in box finds loaded."""
    return (*_MODULES, *_MODULES_OF.get(box, ()))


ANALYSES = {
    "pandas": ("gencard.run.session",),
    "statsmodels": ("statsmodels.api", "statsmodels.formula.api"),
    "scikit-learn": (
        "sklearn.cluster",
        "sklearn.decomposition",
        "sklearn.ensemble",
        "sklearn.linear_model",
    ),
    "lifelines": ("lifelines",),
}
"""Distributions that programs of analysts may declare, with the modules that they usually import."""

_PATIENCE = 300.0
"""Seconds for all of them."""

_READABLE = 0o022
"""Mode bits that a compiled copy must not have: write for others. In a sandbox another user reads it."""


class CompiledCopies:
    """A folder of Python's compiled copies, so that programs start sooner; made when first needed.

    Compiled copies beside sources are never run in a sandbox: Python runs any copy whose recorded time
    and size match the source, whatever the copy contains. The service therefore makes its own copies.

    Args:
        work: A private folder, in which the copies are made.
        boxes: Names of the built-in boxes that will run.
        libraries: Distributions that programs of analysts will declare.
        imports: Imports of other programs, as ``program.Program.imports`` returns them. These modules
            are compiled from their sources, and not imported here: the service does not run them.
        entries: Files and folders of the distributions that hold them, as in ``Environment``.
    """

    def __init__(
        self,
        work: Path,
        boxes: Iterable[str],
        libraries: Iterable[str] = (),
        imports: Iterable[str] = (),
        entries: Iterable[str] = (),
    ) -> None:
        self._parent = work / "compiled"
        special = [name for box in boxes for name in _MODULES_OF.get(box, ())]
        special += [name for library in libraries for name in ANALYSES.get(library, ())]
        self._modules = ", ".join((*_MODULES, *special))
        self._imports, self._entries = sorted({*imports}), sorted({*entries})
        self._stamp: str | None = None
        self._making = Lock()

    def folder(self) -> str:
        """Return the folder of the copies; empty if they cannot be made, and programs start later.

        Raises:
            GeneratorChangedError: A copy has changed since it was made.
        """
        copies = str(self._parent / "copies")
        with self._making:
            if self._stamp is None:
                self._stamp = stamp_of([copies]) if self._are_made(Path(copies)) else ""
        if self._stamp and stamp_of([copies]) != self._stamp:
            raise GeneratorChangedError
        return copies if self._stamp else ""

    def _are_made(self, folder: Path) -> bool:
        """Copies of other modules that are imported on the way come along, and are as good."""
        shutil.rmtree(self._parent, ignore_errors=True)
        try:
            folder.mkdir(parents=True)
            self._parent.chmod(0o700)
            folder.chmod(0o755)
            return self._compile(folder) == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _compile(self, folder: Path) -> int:
        script = f"import {self._modules}"
        if self._imports:
            script += f"\nfrom {__name__} import compile_sources"
            script += f"\ncompile_sources({self._imports!r}, {self._entries!r})"
        return subprocess.run(
            # -I and an empty environment: no variable and no module of a working folder takes part in
            # what is compiled.
            [sys.executable, "-I", "-X", f"pycache_prefix={folder}", "-c", script],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            umask=_READABLE,
            timeout=_PATIENCE,
        ).returncode


def compile_sources(imports: Iterable[str], entries: Iterable[str]) -> None:
    """Make compiled copies of modules and of their imports, without running any module.

    A copy has the name and the place that Python expects; an invalid source gets no copy.

    Args:
        imports: See ``zygote.load``.
        entries: Files and folders of the distributions that hold them.
    """
    tops = map(Path, entries)
    places = {top.name.partition(".")[0]: top.with_suffix("") for top in tops if "-info" not in top.name}
    left, known = [name.replace(":", ".") for name in imports], set[str]()
    while left:
        name = left.pop()
        source = _source_of(name, places)
        if name in known:
            continue
        known.add(name)
        left += [name.rpartition(".")[0]] if "." in name else []
        if source is None:
            continue
        with suppress(OSError, SyntaxError, ValueError, RecursionError, py_compile.PyCompileError):
            is_package = source.name == "__init__.py"
            package = name if is_package else name.rpartition(".")[0]
            left += _imported_at_start(ast.parse(source.read_bytes()), package)
            py_compile.compile(str(source), doraise=True)


def _source_of(module: str, places: Mapping[str, Path]) -> Path | None:
    """Return the source file of a module of these packages; None for all other modules."""
    top, _, rest = module.partition(".")
    if top not in places:
        return None
    place = places[top].joinpath(*rest.split(".")) if rest else places[top]
    sources = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((source for source in sources if source.is_file()), None)


def _imported_at_start(tree: ast.Module, package: str) -> Iterator[str]:
    """Modules, or members of modules, that a text imports while it is imported itself."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)
