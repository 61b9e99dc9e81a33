"""A program of a stranger: its files, its command line, and the digest of every byte that runs."""

import hashlib
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gencard.controller.sandbox.contents import COPIES, digest_of_view
from gencard.controller.sandbox.views import PYTHON, View, view_of
from gencard.core.errors import InvalidInputError

MOST_FILES = 200
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that runs for a black box, as bytes in memory.

    Its files are digested as they are put into the sandbox: there is no moment between the two at which
    one on disk could change. What the sandbox shows besides is its view, see ``view.View``.

    Args:
        command: First "python", the path of an interpreter of the system, or a file of the program; then
            arguments. A file of the program is named by "./" and its path.
        files: Path below the program's folder, with "/", and content; in the order of paths.
        parameters: What the program is told besides records.
        libraries: Distributions that a program in Python finds besides Gencard, numpy and scipy.
    """

    command: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...] = field(repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        folder: Path,
        command: Sequence[str],
        parameters: Mapping[str, str],
        libraries: Sequence[str] = (),
    ) -> "Program":
        """The program in a folder as it stands there now; compiled copies of Python's are left out.

        Raises:
            InvalidInputError: The folder cannot be read, holds anything but files and folders, or too
                much; or the command does not name an interpreter that is there.
        """
        files = tuple(sorted(_files_in(folder)))
        _check_command(command, dict(files))
        return cls(tuple(command), files, dict(parameters), tuple(libraries))

    def view(self) -> View:
        """What of the machine its sandbox shows."""
        return view_of(self.command, dict(self.files), self.libraries)

    def digest(self, view: View) -> str:
        """SHA-256, in hex, of command, parameters, view and every file, each with its length.

        Raises:
            GeneratorChangedError: What the view names is not there any more.
        """
        hasher = hashlib.sha256(b"gencard.program.v2\x00")
        parts = [digest_of_view(view), *self.command, *_flat(self.parameters)]
        for part in (str(len(self.command)), str(len(self.parameters)), *parts):
            data = part.encode()
            hasher.update(b"%d\x00" % len(data) + data)
        for path, content in self.files:
            name = path.encode()
            hasher.update(b"%d\x00%d\x00" % (len(name), len(content)) + name + content)
        return hasher.hexdigest()


def _files_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    left = MOST_BYTES
    try:
        paths = [path for path in sorted(folder.rglob("*")) if COPIES not in path.parts]
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
        raise _refusal("folder", "contains no files")
    if any(word.startswith("./") and word[2:] not in files for word in command):
        raise _refusal("command", "names a file that the folder does not hold")
    if not (first == PYTHON or first.startswith("./") or _is_of_the_system(first)):
        raise _refusal(
            "command", "must begin with an interpreter: python, one of the system's, or ./ and a file"
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
