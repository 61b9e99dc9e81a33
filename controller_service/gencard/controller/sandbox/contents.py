"""The digest of what a view shows, by content; read once, and then only looked at."""

import hashlib
import os
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from gencard.controller.sandbox.view import View
from gencard.core.errors import GeneratorChangedError

COPIES = "__pycache__"
"""Python's compiled copies: not digested, and never run in a cell; see ``compiled``."""

_SETTLED = 2_000_000_000
"""Nanoseconds after a change from which the next one is sure to bear another time."""

_READERS = 2


class _Found(NamedTuple):
    path: str
    said: bytes
    """What a link says; empty for a file."""
    number: int
    size: int
    written: int
    changed: int


_known: dict[str, str] = {}
"""Stamps of views that were read, and the digests that were found."""

_read: dict[_Found, bytes] = {}
"""Files that were read, as they were looked at before, and the digests of their contents."""


def digest_of_view(view: View) -> str:
    """SHA-256, in hex, of path, length and content of every file that a view shows.

    Where every file is the one that was read before, by number, size and the times of its last
    change, it is not read again. The time of a file's last change can be set by nobody but who
    rules the machine.

    Raises:
        GeneratorChangedError: Something that the view names is not there any more, or cannot be read.
    """
    try:
        found = sorted(_found(view))
        stamp = _stamp(view, found)
        if stamp in _known:
            return _known[stamp]
        settled = time.time_ns() - _SETTLED
        contents = _contents(found)
        digest = _digest(view, contents)
        if _stamp(view, sorted(_found(view))) == stamp:
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
        stamp = _stamp(view, sorted(_found(view)))
        return stamp if stamp in _known else ""
    except OSError:
        pass
    raise GeneratorChangedError


def remember(stamp: str, digest: str) -> None:
    """Take somebody's word, whom this process obeys anyway, for what is there under a stamp."""
    _known[stamp] = digest


def _found(view: View) -> Iterator[_Found]:
    hidden = set(view.hidden)
    for path in view.shown:
        if os.path.isdir(path):
            yield from _below(path, hidden)
        else:
            yield _file(path, os.stat(path))


def _below(folder: str, hidden: Collection[str]) -> Iterator[_Found]:
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


def _file(path: str, told: os.stat_result) -> _Found:
    return _Found(path, b"", told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)


def _link(entry: "os.DirEntry[str]") -> _Found:
    return _Found(entry.path, os.fsencode(os.readlink(entry.path)), 0, 0, 0, 0)


def _stamp(view: View, found: Collection[_Found]) -> str:
    seen = repr((view.shown, view.hidden, view.links, view.system, [tuple(file) for file in found]))
    return hashlib.sha256(seen.encode()).hexdigest()


def _digest(view: View, contents: Mapping[_Found, bytes]) -> str:
    hasher = hashlib.sha256(b"gencard.view.v1\x00")
    hasher.update(repr((view.links, view.system)).encode() + b"\x00")
    for file, content in contents.items():
        path = os.fsencode(file.path)
        hasher.update(b"%d\x00%d\x00" % (len(path), file.size) + path + content)
    return hasher.hexdigest()


def _contents(found: Collection[_Found]) -> dict[_Found, bytes]:
    """The digest of each file, read where it is not known yet; in their order."""
    new = [file for file in found if file not in _read]
    with ThreadPoolExecutor(_READERS) as readers:
        known = _read | dict(zip(new, readers.map(_content, new), strict=True))
    return {file: known[file] for file in found}


def _content(file: _Found) -> bytes:
    if file.said:
        return hashlib.sha256(b"link\x00" + file.said).digest()
    with open(file.path, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()
