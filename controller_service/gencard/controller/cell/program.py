"""A program of a stranger: its files, its command line, and the digest of every byte that runs."""

import hashlib
import platform
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

from gencard.controller.cell.sources import sources_digest
from gencard.core.errors import InvalidInputError

MOST_FILES = 200
MOST_BYTES = 16 << 20

PYTHON = "python"
"""As the first word of a command: the controller's own interpreter, with Gencard to import."""

_LIBRARIES = ("numpy", "scipy")
_COPIES = "__pycache__"


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that runs for a black box, as bytes in memory.

    What is digested is what is put into the cell: there is no moment between the two at which a
    file on disk could change.

    Args:
        command: First "python", the path of an interpreter of the system, or a file of the program; then
            arguments. A file of the program is named by "./" and its path.
        files: Path below the program's folder, with "/", and content; in the order of paths.
        parameters: What the program is told besides records.
    """

    command: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...] = field(repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, command: Sequence[str], parameters: Mapping[str, str]) -> "Program":
        """The program in a folder as it stands there now; compiled copies of Python's are left out.

        Raises:
            InvalidInputError: The folder cannot be read, holds anything but files and folders, or too
                much; or the command does not name an interpreter that is there.
        """
        files = tuple(sorted(_files_in(folder)))
        _check_command(command, dict(files))
        return cls(tuple(command), files, dict(parameters))

    def digest(self) -> str:
        """SHA-256, in hex, of command, parameters, interpreter and every file, each with its length."""
        hasher = hashlib.sha256(b"gencard.program.v1\x00")
        parts = [runtime_of(self.command[0]), *self.command, *_flat(self.parameters)]
        for part in (str(len(self.command)), str(len(self.parameters)), *parts):
            data = part.encode()
            hasher.update(b"%d\x00" % len(data) + data)
        for path, content in self.files:
            name = path.encode()
            hasher.update(b"%d\x00%d\x00" % (len(name), len(content)) + name + content)
        return hasher.hexdigest()


@cache
def runtime_of(interpreter: str) -> str:
    """What executes a program's files: the digest of the interpreter, and what Python can import of us.

    The libraries of the system are not in it: whoever installs the machine answers for those.
    """
    if interpreter.startswith("./"):
        return "itself"
    path = Path(sys.executable) if interpreter == PYTHON else Path(interpreter)
    executable = hashlib.sha256(path.resolve().read_bytes()).hexdigest()
    if interpreter != PYTHON:
        return executable
    libraries = ",".join(f"{name} {version(name)}" for name in _LIBRARIES)
    ours = sources_digest("gencard.core", "gencard.wire")
    return f"{executable},python {platform.python_version()},{libraries},{ours}"


def _files_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    left = MOST_BYTES
    try:
        paths = [path for path in sorted(folder.rglob("*")) if _COPIES not in path.parts]
        for number, path in enumerate(path for path in paths if not _is_folder(path)):
            left -= path.lstat().st_size
            if number >= MOST_FILES or left < 0:
                raise _refusal("folder", f"holds over {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
            yield path.relative_to(folder).as_posix(), path.read_bytes()
        return
    except OSError:
        pass
    raise _refusal("folder", "cannot be read")


def _is_folder(path: Path) -> bool:
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise _refusal("folder", "holds a link or a device; only files and folders are read")
    return stat.S_ISDIR(mode)


def _check_command(command: Sequence[str], files: Mapping[str, bytes]) -> None:
    first = command[0] if command else ""
    if not files:
        raise _refusal("folder", "holds no file")
    if any(word.startswith("./") and word[2:] not in files for word in command):
        raise _refusal("command", "names a file that the folder does not hold")
    if not (first == PYTHON or first.startswith("./") or _is_of_the_system(first)):
        raise _refusal(
            "command", "begins with no interpreter: python, one of the system's, or ./ and a file"
        )


def _is_of_the_system(interpreter: str) -> bool:
    """Whether it will be there inside."""
    path = Path(interpreter).resolve()
    inside = any(path.is_relative_to(folder) for folder in ("/usr", "/bin", "/sbin"))
    return interpreter.startswith("/") and inside and path.is_file()


def _flat(parameters: Mapping[str, str]) -> list[str]:
    return [word for pair in sorted(parameters.items()) for word in pair]


def _refusal(field_name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(field=f"black_boxes.{field_name}", problem=problem)
