"""What a sandbox shows: system and interpreter, and for Python Gencard and declared distributions.

All of it is read-only, at the paths that it has outside. Nothing of the controller is there: no
settings, keys, state or records.
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
"""As the first word of a command: the controller's own interpreter, with Gencard to import."""

BASE = ("numpy", "rfc8785", "scipy")
"""Distributions that every program in Python finds besides Gencard."""

COMPILED = "/cell/compiled"
"""Where Python looks for compiled copies, and nowhere else."""

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
"""Where the noise of private boxes comes from."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/R")
"""Of the system's settings, what finds its libraries and interpreters."""

_UNDECLARED = (
    "/usr/lib/python3*/dist-packages",
    "/usr/local/lib/python3*/dist-packages",
    "/usr/local/lib/python3*/site-packages",
)
"""Where packages lie that no box declares: hidden from Python, since its digest does not cover them."""


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
        distributions: Of a program in Python.
    """

    interpreter: str = ""
    libc: str = ""
    distributions: tuple[Distribution, ...] = field(default=(), metadata=written(omit=True))


@dataclass(frozen=True, slots=True)
class Environment:
    """What of the machine is there inside, besides the system.

    Args:
        shown: Files and folders.
        hidden: Folders that are empty inside; what of ``shown`` lies in them is there.
        links: Symbolic links that lead to the interpreter: where they are and what they say.
        compiled: A folder of compiled copies, see ``CompiledCopies``; empty for none.
        distributions: Those of ``shown`` that were compared with RECORDs.
        stamp: Of distributions and compiled copies then; empty where there are none.
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
        """Check that no file has other content than when it was compared.

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
    """The controller's interpreter, Gencard, and distributions with all that they require.

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
    """Digest of what was compared: names, versions and RECORDs."""
    facts = [f"{one.name}\0{one.version}\0{one.record}\n" for one in libraries.distributions]
    return sha256("".join(facts).encode()).hexdigest()


def _stamp(distributions: str, compiled: str) -> str:
    """The stamp of distributions, and with it that of compiled copies, where there are any."""
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
    visible = frozenset(each for each in paths if os.path.exists(each) and not _is_of_the_system(each))
    return visible, tuple(hidden), tuple(links)


def _is_of_the_system(path: str) -> bool:
    """Whether it is there anyway; site-packages below /usr are hidden, so what is in them is not."""
    return path.startswith("/usr/") and "-packages/" not in path


def _ours() -> Iterator[str]:
    """Our packages, and where they are not installed by copying, what says where they are."""
    yield from (str(files(package)) for package in _PACKAGES)
    yield from (str(files("gencard.controller") / name) for name in _OF_THE_CONTROLLER)
    installed = distribution(_OURS)
    yield from (
        str(installed.locate_file(file)) for file in installed.files or () if file.suffix == ".pth"
    )


def root_of(environment: Environment) -> Iterator[str]:
    """The root of a sandbox as arguments of bubblewrap, before the program's own files are there."""
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
    """What can only be done once all is there: nothing is written into hidden folders either."""
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
"""What programs in Python start with."""

_MODULES_OF = {
    "synthpop": ("sklearn.tree",),
    "ctgan": ("gencard.boxes.nets.ctgan_training", "sklearn.mixture"),
    "pate-gan": ("gencard.boxes.nets.pate_gan_training", "scipy.stats"),
}
"""What built-in boxes load besides."""

SCRIPTS = ("gencard.wire.black_box", "numpy.random")
"""Modules that every script in Python finds loaded, besides what it imports of declared distributions.

They are loaded with the rights that close the sandbox, which no program has: modules of Gencard, and of
distributions whose files were compared with their RECORDs and whose digests the card names.
"""


def modules_of(box: str) -> tuple[str, ...]:
    """What a built-in box finds loaded."""
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
"""What others may not do with a copy: write. In a sandbox it is another user who reads."""


class CompiledCopies:
    """A folder of Python's compiled copies, so that programs start sooner; made when first needed.

    Copies that lie beside sources are never run in a sandbox: Python runs any copy whose recorded time
    and size match the source, whatever it holds. So the service makes its own.

    Args:
        work: A private folder, in which it is made.
        boxes: Names of the built-in boxes that will run.
        libraries: Distributions that programs of analysts will declare.
        imports: What other programs import, as ``program.Program.imports`` gives it. These modules are
            compiled from their sources, and not imported here: the service does not run them.
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
        """Where they are; empty where they cannot be made, and programs start later.

        Raises:
            GeneratorChangedError: Something there is not as it was made.
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
    """Make compiled copies of modules and of those that they import, without running any.

    A copy has the name and the place that Python gives it; a source that is not valid has none.

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
    """The file of a module in Python of these packages; None for all others."""
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
