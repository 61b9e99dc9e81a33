"""Installed distributions: name, version and RECORD, and the comparison of their files with the RECORD.

An installer leaves a RECORD of the files that it wrote, with their hashes. Files are compared with
these hashes once; afterwards only times, sizes and inode numbers are compared, because only root can
set the time of a file's last change (ctime).
"""

import csv
import hashlib
import importlib.metadata
import os
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from gencard.core.errors import GeneratorChangedError, InvalidInputError

BYTECODE = "__pycache__"
"""Python's compiled copies beside sources: in no RECORD with a hash, and never run in a sandbox."""

_TICK = 0.1
"""Seconds after which a further change is certain to get a later time than the last change."""

_READERS = 2
_REQUIREMENT = re.compile(r"^[A-Za-z0-9._-]+")
_OPTIONAL = re.compile(r"extra\s*==")


class _File(NamedTuple):
    path: str
    inode: int
    size: int
    written: int
    changed: int


_Values = tuple[str, int, int, int, int]
"""Field values of a ``_File``."""

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


_TRIES = 5
"""Number of comparisons of files that change meanwhile, for example during an installation."""


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
    return hashlib.sha256(repr(sorted(files)).encode()).hexdigest()


def _normal(requirement: str) -> str:
    match = _REQUIREMENT.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _distribution(name: str) -> Distribution:
    try:
        return importlib.metadata.distribution(name)
    except PackageNotFoundError:
        pass
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
    return Installed(
        name,
        distribution.version,
        entries,
        {str(distribution.locate_file(path)): known for path, known in compared},
        hashlib.sha256(record_text.encode()).hexdigest(),
    )


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
        with ThreadPoolExecutor(_READERS) as readers:
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
            digest = hashlib.file_digest(stream, algorithm).digest()
        _hashes[file, algorithm] = urlsafe_b64encode(digest).rstrip(b"=").decode()
    return _hashes[file, algorithm] == value


def _files_in(paths: Iterable[str]) -> list[_Values]:
    """Return the identity of each file, as plain tuples: this runs before each run of a program."""
    left, files = list(paths), []
    try:
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
    except OSError:
        pass
    raise GeneratorChangedError


def _identity(path: str, status: os.stat_result) -> _Values:
    """Return the identity of a file; a link is refused, because its target is not compared."""
    if not S_ISREG(status.st_mode):
        raise GeneratorChangedError
    return path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _refusal(name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(field="libraries", problem=f"name '{name}', which {problem}")
