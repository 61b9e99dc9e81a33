"""A program that makes rows: its files, its command line, and the digest that names it on cards."""

import hashlib
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from gencard.controller.sandbox.environment import (
    BYTECODE,
    PYTHON,
    SCRIPTS,
    Environment,
    Runtime,
    libc,
    python_environment,
    python_runtime,
)
from gencard.core.errors import InvalidInputError
from gencard.core.typed_json import PLAIN
from gencard.wire.black_box import BoxRequest, bytes_of_request
from gencard.wire.canonical import digest_of

MOST_FILES = 200
MOST_BYTES = 16 << 20
_MOST_IMPORTS = 100  # modules that are loaded before runs, at most

_IMPORT = re.compile(
    rb"^[ \t]*(?:import[ \t]+([^\n#;(]{1,500})"
    rb"|from[ \t]+([\w.]{1,200})[ \t]+import[ \t]*(?:\(([^)]{1,2000})\)|([^\n#;(]{1,500})))",
    re.MULTILINE,
)
"""A line that imports, of bounded length: a text of any kind is searched in linear time."""

_SEARCHED = 1 << 17  # bytes at the beginning of a file in which imports are searched
_COMMENT = re.compile(r"#[^\n]*")
_PUBLIC = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)*", re.ASCII)
_NEVER = frozenset({"conftest", "setup", "test", "tests"})
"""Parts of names of modules that do more than define things when they are imported."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of an author, as bytes in memory.

    The bytes that are digested are the bytes that are put into the sandbox: no file on disk can change
    between the two.

    Args:
        command: First "python", the path of an interpreter of the system, or a file of the program; then
            arguments. A file of the program is named by "./" and its path.
        files: Path below the program's folder, with "/", and content; in the order of paths.
        libraries: Distributions that a program in Python finds besides Gencard, numpy and scipy.
        modules: Modules that a script in Python finds loaded: of Gencard only, never of an author's
            choice.
        preloads: Whether a script also finds its imports of declared distributions loaded.
        encode: Encodes a request for the program's standard input.
    """

    command: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...] = field(repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    modules: tuple[str, ...] = SCRIPTS
    preloads: bool = True
    encode: Callable[[BoxRequest], bytes] = bytes_of_request

    @classmethod
    def read(
        cls,
        folder: Path,
        command: Sequence[str],
        parameters: Mapping[str, str],
        libraries: Sequence[str] = (),
    ) -> "Program":
        """Read the program in a folder, without Python's compiled copies.

        Raises:
            InvalidInputError: The folder cannot be read, contains other things than files and folders,
                or is too large; or the command does not name an existing interpreter.
        """
        files = tuple(sorted(_files_in(folder)))
        paths, first = {path for path, _ in files}, command[0] if command else ""
        if not files:
            raise _refusal("folder", "contains no files")
        if any(word.startswith("./") and word[2:] not in paths for word in command):
            raise _refusal("command", "names a file that is not in the folder")
        path = Path(first).resolve() if first.startswith("/") else Path()
        is_of_the_system = any(map(path.is_relative_to, ("/usr", "/bin", "/sbin"))) and path.is_file()
        if not (first == PYTHON or first.startswith("./") or is_of_the_system):
            raise _refusal(
                "command",
                "must begin with an interpreter: python, one of the system's, or ./ and a file",
            )
        return cls(tuple(command), files, dict(parameters), tuple(libraries))

    @property
    def is_python(self) -> bool:
        return self.command[0] == PYTHON

    @property
    def is_script(self) -> bool:
        """Whether the program is one file that Python runs, without options."""
        return self.is_python and len(self.command) > 1 and self.command[1].startswith("./")

    def imports(self, environment: Environment) -> tuple[str, ...]:
        """Modules of declared distributions that its files import, in the form of ``zygote.load``.

        The files are searched and not run. A file with the name of a module would be imported in its
        place: then nothing is loaded beforehand. Modules of the standard library are not named, because
        some act when they are imported, and loading them takes no time.
        """
        if not (self.preloads and self.is_script):
            return ()
        offered = {PurePosixPath(path).name.partition(".")[0] for path in environment.distributions}
        offered.add("gencard")
        folder = PurePosixPath(self.command[1]).parent
        beside = [PurePosixPath(path) for path, _ in self.files]
        own = {
            path.relative_to(folder).parts[0].partition(".")[0]
            for path in beside
            if path.is_relative_to(folder)
        }
        if own & (offered | sys.stdlib_module_names):
            return ()
        script = self.command[1][2:]
        texts = (text[:_SEARCHED] for path, text in self.files if path.endswith(".py") or path == script)
        names = dict.fromkeys(name for text in texts for name in _imports_in(text))
        chosen = [name for name in names if name.partition(":")[0].partition(".")[0] in offered]
        return tuple(chosen[:_MOST_IMPORTS])

    def environment(self, compiled: str = "") -> Environment:
        """Return the files that its sandbox shows, with a folder of compiled copies if it is Python."""
        return python_environment(self.libraries, compiled) if self.is_python else Environment()

    def runtime(self) -> Runtime:
        """Return versions of Python and the C library, and name, version and RECORD of distributions.

        An interpreter of the system is named by the content of its file.
        """
        if self.is_python:
            return python_runtime(self.libraries)
        first = self.command[0]
        if first.startswith("./"):  # the interpreter that the script's first line names
            line = dict(self.files)[first[2:]].partition(b"\n")[0]
            first = line[2:].split()[0].decode(errors="replace") if line[2:].split() else ""
            first = first if line.startswith(b"#!") else ""
        path = Path(first)
        content = path.read_bytes() if first and path.is_file() else b""
        return Runtime(hashlib.sha256(content).hexdigest(), libc())

    def digest(self, runtime: Runtime) -> str:
        """Return the SHA-256, in hex, of the choices of author and steward, and of the runtime.

        The digest does not cover Gencard itself: the controller is trusted to run what it says.
        """
        return digest_of(
            {
                "format": "gencard.program.v3",
                "command": list(self.command),
                "files": {path: hashlib.sha256(content).hexdigest() for path, content in self.files},
                "parameters": dict(self.parameters),
                "runtime": PLAIN.write(runtime),
            }
        )


def _imports_in(text: bytes) -> Iterator[str]:
    for modules, package_name, together, members in _IMPORT.findall(text):
        package = package_name.decode(errors="replace")
        names = _COMMENT.sub("", (modules or together or members).decode(errors="replace"))
        for words in map(str.split, names.split(",")):
            if not words:
                continue
            member = words[0] if package and words[0] != "*" else ""
            name = ".".join(filter(None, (package, member))) if package else words[0]
            if _PUBLIC.fullmatch(name) and not _NEVER & {*name.split(".")}:
                yield f"{package}:{member}" if member else name


def _files_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    left = MOST_BYTES
    with suppress(OSError):
        paths = [path for path in sorted(folder.rglob("*")) if BYTECODE not in path.parts]
        for number, path in enumerate(path for path in paths if not _is_folder(path)):
            left -= path.lstat().st_size
            if number >= MOST_FILES or left < 0:
                problem = f"contains more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB"
                raise _refusal("folder", problem)
            yield path.relative_to(folder).as_posix(), path.read_bytes()
        return
    raise _refusal("folder", "cannot be read")


def _is_folder(path: Path) -> bool:
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise _refusal("folder", "contains a link or a device; only files and folders are allowed")
    return stat.S_ISDIR(mode)


def _refusal(field_name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(field=f"black_boxes.{field_name}", problem=problem)
