"""The digest of our own code, as it lies on disk."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def sources_digest(*packages: str) -> str:
    """SHA-256, in hex, of every Python file of these packages, in the order of their paths."""
    hasher = hashlib.sha256(b"gencard.sources.v1\x00")
    for package in packages:
        for path, source in sorted(_sources(files(package), f"{package}/")):
            hasher.update(f"{path}\x00{len(source)}\x00".encode() + source)
    return hasher.hexdigest()


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield path + entry.name, entry.read_bytes()
