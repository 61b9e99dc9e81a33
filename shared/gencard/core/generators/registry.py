"""Generators by name: what a card may ask for, and the digest of all that runs for it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from gencard.core.card import Tier
from gencard.core.coding import StructuralZeros
from gencard.core.errors import InvalidInputError
from gencard.core.generators.contract import Generator
from gencard.core.generators.ipf import Ipf

Zeros = tuple[StructuralZeros, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A generator as everybody may know it.

    Args:
        make: From structural zeros and the bound on the model's cells.
    """

    tier: Tier
    description: str
    make: Callable[[Zeros, int], Generator]


GENERATORS: Mapping[str, Entry] = {
    "ipf": Entry(
        Tier.BY_CONSTRUCTION,
        "Iterative proportional fitting: the table of largest entropy that has the marginals of psi, "
        "over all cells of the attributes that Phi names.",
        lambda zeros, max_cells: Ipf(structural_zeros=zeros, max_cells=max_cells),
    ),
}


def generator_named(name: str, *, structural_zeros: Zeros, max_cells: int) -> Generator:
    """A generator, ready to fit.

    Raises:
        InvalidInputError: There is none of this name.
    """
    if name not in GENERATORS:
        raise InvalidInputError(field="generator", problem="there is none of this name")
    return GENERATORS[name].make(structural_zeros, max_cells)


@cache
def generator_digest(name: str) -> str:
    """SHA-256, in hex, of the name and of every source file of the core, in the order of their paths.

    It is what a card promises to run: whoever has the same sources computes the same digest.
    """
    hasher = hashlib.sha256(f"gencard.generator.v1\x00{name}\x00".encode())
    for path, source in sorted(_sources(files("gencard.core"), "")):
        hasher.update(f"{path}\x00{len(source)}\x00".encode() + source)
    return hasher.hexdigest()


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield path + entry.name, entry.read_bytes()
