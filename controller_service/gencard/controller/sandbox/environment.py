"""Files that a sandbox shows: system and interpreter, and for Python Gencard and declared distributions.

Distributions are compared with their RECORDs first. All files are read-only, at their paths outside. A
sandbox shows nothing of the controller: no settings, keys, state or records.
"""

import ast
import csv
import importlib.metadata
import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from glob import glob
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from stat import S_ISREG
from threading import Lock
from typing import NamedTuple

from gencard.core.errors import GeneratorChangedError, InvalidInputError
from gencard.core.json_codecs import written

# Installed distributions: name, version and RECORD, and the comparison of their files with the RECORD.
#
# An installer leaves a RECORD of the files that it wrote, with their hashes. Files are compared with
# these hashes once; afterwards only times, sizes and inode numbers are compared, because only root can
# set the time of a file's last change (ctime).

BYTECODE = "__pycache__"
"""Python's compiled copies beside sources: in no RECORD with a hash, and never run in a sandbox."""

_TICK = 0.1  # seconds after which a further change is certain to get a later time than the last change
_REQUIREMENT = re.compile(r"^[A-Za-z0-9._-]+")
_OPTIONAL = re.compile(r"extra\s*==")


class _File(NamedTuple):
    path: str
    inode: int
    size: int
    written: int
    changed: int


_Values = tuple[str, int, int, int, int]  # field values of a ``_File``

_hashes: dict[tuple[_File, str], str] = {}
"""Hashes of files that were read, by the files' identity at that time, and algorithm."""

_checked: dict[tuple[str, ...], "Checked"] = {}
"""Results of comparisons, by the names of the requested distributions."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution on disk.

    Args:
        entries: Paths of its files and folders at the top.
        hashes: Algorithm and hash of each file that it runs or reads, by path, from its RECORD.
        record: SHA-256, in hex, of these hashes, by paths relative to the place of installation.
    """

    name: str
    version: str
    entries: tuple[str, ...]
    hashes: Mapping[str, str]
    record: str


class Checked(NamedTuple):
    """Distributions compared with their RECORDs: top entries, and the files' stamp by then."""

    distributions: tuple[Installed, ...]
    entries: tuple[str, ...]
    stamp: str


def checked(names: Iterable[str]) -> Checked:
    """Return these distributions and their requirements, by name, compared with their RECORDs.

    Nothing is read again while every file has the same inode number, size and times.

    Raises:
        InvalidInputError: A distribution is not installed or has no RECORD, or a file is missing,
            differs from its RECORD or is in no RECORD.
        GeneratorChangedError: A file changes while it is read, or is neither a file nor a folder.
    """
    key = tuple(sorted(names))
    if key in _checked:
        with suppress(GeneratorChangedError):
            if stamp_of(_checked[key].entries) == _checked[key].stamp:
                return _checked[key]
    left, known = [_normal(name) for name in key], set[str]()
    while left:
        name = left.pop()
        if name in known:
            continue
        required = _distribution(name).requires or ()
        known.add(name)
        # requirements of other systems and extras may be absent
        required_names = {_normal(words) for words in required if not _OPTIONAL.search(words)}
        left += filter(_is_installed, required_names)
    _checked[key] = _compared(tuple(map(_installed, sorted(known))))
    return _checked[key]


_TRIES = 5  # number of comparisons of files that change meanwhile, for example during an installation


def _compared(distributions: tuple[Installed, ...]) -> Checked:
    for _ in range(_TRIES - 1):
        with suppress(GeneratorChangedError):
            return _compared_once(distributions)
    return _compared_once(distributions)


def _compared_once(distributions: tuple[Installed, ...]) -> Checked:
    entries = tuple(sorted({path for each in distributions for path in each.entries}))
    # until the clock has passed the last change of a file: a change from then on shows in its time
    newest = max((_File(*file).changed for file in _files_in(entries)), default=0)
    time.sleep(min(_TICK, max(0.0, newest / 1e9 + _TICK - time.time())))
    files = _files_in(entries)
    stamp = _stamp(files)
    try:
        _check_hashes(distributions, {_File(*file) for file in files})
    except OSError:
        raise GeneratorChangedError.since_start() from None
    if stamp_of(entries) != stamp:
        raise GeneratorChangedError.since_start()
    return Checked(distributions, entries, stamp)


def stamp_of(paths: Collection[str]) -> str:
    """Return a digest that changes with every change of a file below these paths; reads no content."""
    return _stamp(_files_in(paths))


def _stamp(files: list[_Values]) -> str:
    return sha256(repr(sorted(files)).encode()).hexdigest()


def _normal(requirement: str) -> str:
    match = _REQUIREMENT.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _distribution(name: str) -> importlib.metadata.Distribution:
    with suppress(PackageNotFoundError):
        return importlib.metadata.distribution(name)
    raise _refusal(name, "is not installed")


def _installed(name: str) -> Installed:
    distribution = _distribution(name)
    record = distribution.read_text("RECORD")
    if not record:
        raise _refusal(name, "has no RECORD of its files; install it from a wheel")
    rows = [row for row in csv.reader(record.splitlines()) if len(row) == 3]
    inside = [(path, algorithm) for path, algorithm, _ in rows if not path.startswith(("..", "/"))]
    compared = sorted((path, known) for path, known in inside if _is_compared(path))
    tops = {path.partition("/")[0] for path, _ in inside if BYTECODE not in Path(path).parts}
    entries = tuple(sorted(str(distribution.locate_file(top)) for top in tops))
    if missing := [Path(path).name for path in entries if not os.path.lexists(path)]:
        raise _refusal(name, f"differs from its RECORD in {missing[0]}; reinstall it")
    record_text = "".join(f"{path}\x00{known}\n" for path, known in compared)
    hashes = {str(distribution.locate_file(path)): known for path, known in compared}
    digest = sha256(record_text.encode()).hexdigest()
    return Installed(name, distribution.version, entries, hashes, digest)


def _is_compared(path: str) -> bool:
    """Whether a file of a RECORD is compared; metadata of installers differs between machines."""
    parts = Path(path).parts
    return not parts[0].endswith(".dist-info") and BYTECODE not in parts


def _check_hashes(distributions: Iterable[Installed], files: Collection[_File]) -> None:
    by_path = {
        file.path: file
        for file in files
        if not any(part.endswith(".dist-info") for part in Path(file.path).parts)
    }
    for each in distributions:
        there = [by_path.pop(path, None) for path in each.hashes]
        with ThreadPoolExecutor(2) as readers:
            same = list(readers.map(_has_hash, there, each.hashes.values()))
        wrong = [path for path, is_same in zip(each.hashes, same, strict=True) if not is_same]
        if wrong:
            raise _refusal(each.name, f"differs from its RECORD in {Path(wrong[0]).name}; reinstall it")
    for path in by_path:
        owner = next(each for each in distributions if path.startswith(each.entries))
        raise _refusal(owner.name, f"has a file that is not in its RECORD: {Path(path).name}")


def _has_hash(file: _File | None, expected: str) -> bool:
    """Whether the file is there and has the hash that a RECORD writes as ``sha256=...``."""
    algorithm, _, value = expected.partition("=")
    if file is None or algorithm not in {"sha256", "sha384", "sha512"}:
        return False
    if (file, algorithm) not in _hashes:
        with open(file.path, "rb") as stream:
            digest = file_digest(stream, algorithm).digest()
        _hashes[file, algorithm] = urlsafe_b64encode(digest).rstrip(b"=").decode()
    return _hashes[file, algorithm] == value


def _files_in(paths: Iterable[str]) -> list[_Values]:
    """Return the identity of each file, as plain tuples: this runs before each run of a program."""
    left, files = list(paths), []
    with suppress(OSError):
        while left:
            path = left.pop()
            if not os.path.isdir(path) or os.path.islink(path):
                files.append(_identity(path, os.lstat(path)))
                continue
            with os.scandir(path) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        files.append(_identity(entry.path, entry.stat(follow_symlinks=False)))
                    elif entry.name != BYTECODE:
                        left.append(entry.path)
        return files
    raise GeneratorChangedError


def _identity(path: str, status: os.stat_result) -> _Values:
    """Return the identity of a file; a link is refused, because its target is not compared."""
    if not S_ISREG(status.st_mode):
        raise GeneratorChangedError
    return path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _refusal(name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(field="libraries", problem=f"name '{name}', which {problem}")


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
        record: SHA-256, in hex, of its files' hashes; see ``Installed``.
    """

    name: str
    version: str
    record: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """All that runs a program and is part of its digest.

    Args:
        interpreter: Name and version of Python; of an interpreter of the system, SHA-256 of its file.
    """

    interpreter: str = ""
    libc: str = ""
    distributions: tuple[Distribution, ...] = field(default=(), metadata=written(omit=True))


@dataclass(frozen=True, slots=True)
class Environment:
    """Files of the machine that a sandbox shows, besides the system.

    Args:
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
        """Raise GeneratorChangedError if a file was changed, removed or added since the comparison.

        Installers share files between environments by hard links. A link made or removed elsewhere
        changes the time of a file's last change (ctime) and not its content: the distributions are then
        compared with their RECORDs again.
        """
        if not self.stamp or _stamp_with(stamp_of(self.distributions), self.compiled) == self.stamp:
            return
        _, _, copies = self.stamp.partition(" ")
        same_copies = not self.compiled or stamp_of([self.compiled]) == copies
        if self.records and same_copies:
            with suppress(InvalidInputError):
                again = checked((*BASE, *self.libraries))
                if (_records(again), again.entries) == (self.records, self.distributions):
                    return
        raise GeneratorChangedError.since_start()


def python_environment(libraries: Iterable[str], compiled: str = "") -> Environment:
    """Return interpreter, Gencard, and the libraries besides ``BASE`` with all that they require."""
    names = tuple(libraries)
    libraries_checked = checked((*BASE, *names))
    visible, hidden, links = _interpreter()
    entries, stamp = libraries_checked.entries, _stamp_with(libraries_checked.stamp, compiled)
    shown, records = tuple(sorted({*visible, *entries})), _records(libraries_checked)
    return Environment(shown, hidden, links, compiled, entries, stamp, names, records)


def _records(libraries: Checked) -> str:
    facts = [f"{one.name}\0{one.version}\0{one.record}\n" for one in libraries.distributions]
    return sha256("".join(facts).encode()).hexdigest()


def _stamp_with(distributions: str, compiled: str) -> str:
    return f"{distributions} {stamp_of([compiled])}" if compiled else distributions


def python_runtime(libraries: Iterable[str]) -> Runtime:
    """Interpreter and C library by version, distributions by version and RECORD; raises the same."""
    installed = checked((*BASE, *libraries)).distributions
    python = f"{platform.python_implementation()} {platform.python_version()}"
    named = tuple(Distribution(each.name, each.version, each.record) for each in installed)
    return Runtime(python, libc(), named)


def libc() -> str:
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
    paths = {str(path), str(Path(standard).parent), f"{sys.prefix}/pyvenv.cfg"}
    paths |= {str(files(package)) for package in _PACKAGES}
    paths |= {str(files("gencard.controller") / name) for name in _OF_THE_CONTROLLER}
    # an editable installation has files that name its place
    ours = distribution("gencard")
    paths |= {str(ours.locate_file(file)) for file in ours.files or () if file.suffix == ".pth"}
    # the sandbox already mounts all of /usr except site-packages
    unmounted = (each for each in paths if not each.startswith("/usr/") or "-packages/" in each)
    visible = frozenset(filter(os.path.exists, unmounted))
    return visible, tuple(hidden), tuple(links)


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
        yield from _folders_above(Path(COMPILED), folders)
        yield from ("--ro-bind", environment.compiled, COMPILED)


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

_PATIENCE = 300.0  # seconds for all of them

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
        imports: As ``program.Program.imports`` returns them. These modules are compiled from their
            sources, and not imported here: the service does not run them.
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
        """Return the folder of the copies; empty if they cannot be made, and programs start later."""
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
    """Make compiled copies of modules and of their imports (see ``zygote.load``), without running any.

    A copy has the name and the place that Python expects; an invalid source gets no copy.
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
