"""The digest of our own code, as it lies on disk."""

import hashlib
from functools import cache
from importlib.resources import files

from gencard.core.generators.registry import sources_in


@cache
def sources_digest(*packages: str) -> str:
    """SHA-256, in hex, of every Python file of these packages, in the order of their paths."""
    hasher = hashlib.sha256(b"gencard.sources.v1\x00")
    for package in packages:
        for path, source in sorted(sources_in(files(package), f"{package}/")):
            hasher.update(f"{path}\x00{len(source)}\x00".encode() + source)
    return hasher.hexdigest()
