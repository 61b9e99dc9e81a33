"""The shared libraries that programs are loaded with, as their ELF headers name them.

Read, and not asked of the loader, which may run what it is asked about. Where several files could be
meant, all of them are taken.
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

_LOADED, _DYNAMIC, _LOADER = 1, 2, 3
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_CACHE = Path("/etc/ld.so.cache")
_ALWAYS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_AT_LAST = "libgcc_s.so.1"
"""What the C library loads by itself when a thread is ended."""

_MOST = 4096
"""Bytes of a name or a list of folders, at most."""


class Needs(NamedTuple):
    """What one file asks of the loader.

    Args:
        names: Of libraries.
        folders: Where it says that they are.
        loader: The path of the loader; empty for a library.
    """

    names: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    loader: str = ""


def needs_of(file: BinaryIO, origin: str) -> Needs:
    """Of a 64-bit ELF file in the order of this machine; any other needs nothing.

    Args:
        origin: The folder that it lies in.
    """
    try:
        return _needs(file, origin)
    except (struct.error, ValueError, OSError):
        return Needs()


def libraries_of(files: Iterable[str], *more: Needs) -> tuple[str, ...]:
    """Every library that the loader could load for these files, for those libraries, and so on; by path.

    Args:
        asked: What other files need, which lie nowhere.
    """
    given = {placed(path): _needs_of_path(path) for path in files}
    seen = dict(given)
    while new := set(map(placed, _meant([*more, *seen.values()]))) - seen.keys():
        seen |= {path: _needs_of_path(path) for path in new}
    return tuple(sorted(seen.keys() - given.keys()))


def placed(path: str) -> str:
    """The same file in the same folder, whose own name is free of links; its name may be one."""
    return str(Path(path).parent.resolve() / Path(path).name)


def _meant(needs: Iterable[Needs]) -> Iterator[str]:
    everything = list(needs)
    folders = {folder for each in everything for folder in each.folders} | {*_ALWAYS}
    for name in {name for each in everything for name in each.names}:
        yield from (path for path in (f"{folder}/{name}" for folder in folders) if os.path.isfile(path))
        yield from (path for path in _cached().get(name, ()) if os.path.isfile(path))
    yield from {each.loader for each in everything if each.loader}


def _needs_of_path(path: str) -> Needs:
    try:
        with open(path, "rb") as file:
            return needs_of(file, os.path.dirname(os.path.realpath(path)))
    except OSError:
        return Needs()


@cache
def _cached() -> dict[str, tuple[str, ...]]:
    """Where the loader's own index says that libraries are: its strings are names and paths."""
    try:
        names = re.findall(rb"(?<=\0)/[^\0]+", _CACHE.read_bytes())
    except OSError:
        names = []
    paths: dict[str, tuple[str, ...]] = {}
    for path in map(os.fsdecode, names):
        name = path.rpartition("/")[2]
        paths[name] = (*paths.get(name, ()), path)
    return paths


def _needs(file: BinaryIO, origin: str) -> Needs:
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":
        return Needs()
    start, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
    file.seek(start)
    table = file.read(size * count)
    parts = [struct.unpack_from("<IIQQQQ", table, size * number) for number in range(count)]
    loader = "".join(_string(file, place) for kind, _, place, *_ in parts if kind == _LOADER)
    entries = [entry for kind, _, place, _, _, size in parts if kind == _DYNAMIC
               for entry in _pairs(file, place, size)]  # fmt: skip
    strings = next((_place(parts, value) for tag, value in entries if tag == _STRINGS), 0)
    names = {_string(file, strings + value) for tag, value in entries if tag == _NEEDED}
    listed = [_string(file, strings + value) for tag, value in entries if tag in {_RPATH, _RUNPATH}]
    folders = {_folder(folder, origin) for words in listed for folder in words.split(":") if folder}
    return Needs(frozenset({*names, _AT_LAST} if names else ()), frozenset(folders), loader)


def _pairs(file: BinaryIO, place: int, size: int) -> Iterator[tuple[int, int]]:
    file.seek(place)
    yield from struct.iter_unpack("<QQ", file.read(size))


def _place(parts: Iterable[tuple[int, ...]], address: int) -> int:
    """Where in the file lies what will be at this address."""
    for kind, _, place, begin, _, size in parts:
        if kind == _LOADED and begin <= address < begin + size:
            return address - begin + place
    return 0


def _string(file: BinaryIO, place: int) -> str:
    file.seek(place)
    return os.fsdecode(file.read(_MOST).partition(b"\0")[0])


def _folder(folder: str, origin: str) -> str:
    return folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
