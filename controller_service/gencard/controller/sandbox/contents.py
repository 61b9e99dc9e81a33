"""The digest of what a sandbox shows, and compiled copies of Python's sources for faster starts.

Contents are read once; afterwards only the files' times, sizes and inode numbers are compared. Compiled
copies that lie beside sources are never run in a sandbox: Python runs any copy whose recorded time and
size match the source, whatever it holds. So the service makes its own.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from gencard.controller.sandbox.views import View
from gencard.core.errors import GeneratorChangedError

COPIES = "__pycache__"
"""Python's compiled copies: not digested, and never run in a sandbox; see ``CompiledCopies``."""

_SETTLED = 2_000_000_000
"""Nanoseconds after which a further change is certain to get a different timestamp."""

_READERS = 2


class _File(NamedTuple):
    path: str
    target: bytes
    """What a link says; empty for a file."""
    number: int
    size: int
    written: int
    changed: int


_known: dict[str, str] = {}
"""Digests of the views that were read, by their stamps."""

_read: dict[_File, bytes] = {}
"""Digests of the files that were read, by what identified them then."""


def digest_of_view(view: View) -> str:
    """SHA-256, in hex, of path, length and content of every file that a view shows.

    A view is not read again while every file has the same inode number, size and times of last change.
    Only root can set the time of a file's last change (ctime), so no program can hide a change.

    Raises:
        GeneratorChangedError: Something that the view names is not there any more, or cannot be read.
    """
    try:
        files = sorted(_files_of(view))
        stamp = _stamp(view, files)
        if stamp in _known:
            return _known[stamp]
        settled = time.time_ns() - _SETTLED
        contents = _contents(files)
        digest = _digest(view, contents)
        if _stamp(view, sorted(_files_of(view))) == stamp:
            _read.update({file: read for file, read in contents.items() if file.changed < settled})
            if _read.keys() >= contents.keys():
                _known[stamp] = digest
            return digest
    except OSError:
        pass
    raise GeneratorChangedError


def stamp_of_view(view: View) -> str:
    """What is another after any change, found without reading; raises as ``digest_of_view``.

    Empty where it was not read, or something had been written so lately that a change might not show.
    """
    try:
        stamp = _stamp(view, sorted(_files_of(view)))
        return stamp if stamp in _known else ""
    except OSError:
        pass
    raise GeneratorChangedError


def remember(stamp: str, digest: str) -> None:
    """Accept the digest for a stamp from the service, which this worker trusts anyway."""
    _known[stamp] = digest


def _files_of(view: View) -> Iterator[_File]:
    hidden = set(view.hidden)
    for path in view.shown:
        if os.path.isdir(path):
            yield from _below(path, hidden)
        else:
            yield _file(path, os.stat(path))


def _below(folder: str, hidden: Collection[str]) -> Iterator[_File]:
    left = [folder]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.name == COPIES or entry.path in hidden:
                    continue
                if entry.is_symlink():
                    yield _link(entry)
                elif entry.is_dir():
                    left.append(entry.path)
                else:
                    yield _file(entry.path, entry.stat(follow_symlinks=False))


def _file(path: str, status: os.stat_result) -> _File:
    return _File(path, b"", status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _link(entry: "os.DirEntry[str]") -> _File:
    return _File(entry.path, os.fsencode(os.readlink(entry.path)), 0, 0, 0, 0)


def _stamp(view: View, files: Collection[_File]) -> str:
    seen = repr((view.shown, view.hidden, view.links, view.system, [tuple(file) for file in files]))
    return hashlib.sha256(seen.encode()).hexdigest()


def _digest(view: View, contents: Mapping[_File, bytes]) -> str:
    hasher = hashlib.sha256(b"gencard.view.v1\x00")
    hasher.update(repr((view.links, view.system)).encode() + b"\x00")
    for file, content in contents.items():
        path = os.fsencode(file.path)
        hasher.update(b"%d\x00%d\x00" % (len(path), file.size) + path + content)
    return hasher.hexdigest()


def _contents(files: Collection[_File]) -> dict[_File, bytes]:
    """The digest of each file, read where it is not known yet; in their order."""
    new = [file for file in files if file not in _read]
    with ThreadPoolExecutor(_READERS) as readers:
        known = _read | dict(zip(new, readers.map(_content, new), strict=True))
    return {file: known[file] for file in files}


def _content(file: _File) -> bytes:
    if file.target:
        return hashlib.sha256(b"link\x00" + file.target).digest()
    with open(file.path, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


_MODULES = ("gencard.wire.black_box", "gencard.controller.sandbox.built_in", "numpy.random")
"""What every program in Python starts with."""

_MODULES_OF = {
    "synthpop": ("sklearn.tree",),
    "ctgan": ("gencard.boxes.nets.ctgan_training", "sklearn.mixture"),
    "pate-gan": ("gencard.boxes.nets.pate_gan_training", "scipy.stats"),
}
"""What boxes of the registry load besides."""

_PATIENCE = 300.0
"""Seconds for all of them."""

_READABLE = 0o022
"""What others may not do with a copy: write. In a sandbox it is another user who reads."""


class CompiledCopies:
    """A folder of them, made when it is asked for first.

    Args:
        work: A private folder, in which it is made.
        boxes: Those of the registry that will start, by name.
    """

    def __init__(self, work: Path, boxes: Iterable[str]) -> None:
        self._parent = work / "compiled"
        special = [name for box in boxes for name in _MODULES_OF.get(box, ())]
        self._modules = ", ".join((*_MODULES, *special))
        self._digest: str | None = None
        self._making = Lock()

    def folder(self) -> str:
        """Where they are; empty where they cannot be made, and programs start later.

        Raises:
            GeneratorChangedError: Something there is not as it was made.
        """
        made = self._parent / "copies"
        view = View((str(made),))
        with self._making:
            if self._digest is None:
                self._digest = digest_of_view(view) if self._are_made(made) else ""
        if self._digest and digest_of_view(view) != self._digest:
            raise GeneratorChangedError
        return str(made) if self._digest else ""

    def _are_made(self, folder: Path) -> bool:
        """Copies of other modules that are imported on the way come along, and are as good."""
        shutil.rmtree(self._parent, ignore_errors=True)
        try:
            folder.mkdir(parents=True)
            self._parent.chmod(0o700)
            return self._compiled(folder) == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _compiled(self, folder: Path) -> int:
        folder.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-I", "-X", f"pycache_prefix={folder}", "-c", f"import {self._modules}"],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            umask=_READABLE,
            timeout=_PATIENCE,
        )
        return done.returncode
