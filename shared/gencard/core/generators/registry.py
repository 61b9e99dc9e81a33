"""Generators by name: what a card may ask for, and the digest that names an algorithm on it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from gencard.core.card.terms import Tier
from gencard.core.coding import StructuralZeros, impossible_records, zeros_inside
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, NotConvergedError, NotFittableError, TooLargeError
from gencard.core.generators.contract import ApproximateGenerator, Generator, LinearGenerator, rng_of
from gencard.core.generators.family import graphical, independent, ipf, saturated, spanning_tree
from gencard.core.generators.moments import MaximumEntropy, ReducedSpace
from gencard.core.generators.support import SupportRaking
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.psi import Measurement, Psi

Zeros = tuple[StructuralZeros, ...]


@dataclass(frozen=True, slots=True)
class RegisteredGenerator:
    """A generator as everybody may know it.

    Args:
        needs: Statistics that psi must hold, for people.
        bound: Cells that count against the bound on cells, for people.
        cell_bytes: Most memory of a fit for each cell so counted, in bytes.
        make: From structural zeros and ``max_cells``, the bound on cells.
        parameters: The settings besides these two that have an effect; empty means all.
        version: Version of the algorithm. It rises only if the same psi and seed give other rows.
        former: How earlier versions are made, by number, for cards and releases that name them.
    """

    tier: Tier
    description: str
    needs: str
    bound: str
    cell_bytes: int
    make: Callable[..., Generator]
    parameters: tuple[str, ...] = ()
    version: int = 1
    former: Mapping[int, Callable[..., Generator]] = field(default_factory=dict)


_SCALING = ("tolerance", "most_sweeps")

GENERATORS: Mapping[str, RegisteredGenerator] = {
    "ipf": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "Iterative proportional fitting: the maximum-entropy table with the marginals of psi.",
        "any marginals, exact or noisy",
        "cells of the table of all attributes of the card",
        64,
        ipf,
        _SCALING,
    ),
    "graphical": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "The same model on a junction tree: a few smaller tables in place of one that is too large.",
        "any marginals, exact or noisy",
        "cells of all cliques of the junction tree",
        88,
        graphical,
        _SCALING,
    ),
    "support-raking": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "Records drawn from a smaller junction tree and weighted to match the marginals of "
        "psi: for marginals whose own junction tree is too large.",
        "any marginals, exact or noisy",
        "cells of all marginals; also drawn records times attributes",
        64,
        SupportRaking,
        version=2,
        former={1: partial(SupportRaking, meets_singles=False)},
    ),
    "spanning-tree": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "Chow-Liu tree: the pairs with the most mutual information; other pairs follow from the tree.",
        "any marginals, exact or noisy; only their pairs and single attributes are used",
        "cells of the largest tree of pairs that may be chosen",
        88,
        spanning_tree,
        _SCALING,
    ),
    "independent": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "Each attribute with its own marginal, independent of the others.",
        "any marginals, exact or noisy; only their single attributes are used",
        "levels of all attributes of the card",
        88,
        independent,
        _SCALING,
    ),
    "saturated": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "Every combination of values with its own count.",
        "one marginal on all attributes of the card, exact or noisy",
        "cells of the table of all attributes of the card",
        64,
        saturated,
        ("alpha",),
    ),
    "maximum-entropy": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "The maximum-entropy table with the means of psi, fitted by Newton's method: for "
        "moments and sums by group besides marginals.",
        "any marginals and moments, exact or noisy",
        "cells of the table of all attributes, times cells of the marginals and sums of moments",
        24,
        MaximumEntropy,
    ),
    "reduced-space": RegisteredGenerator(
        Tier.BY_CONSTRUCTION,
        "A density on a few drawn records that minimises the largest error in exact psi, by a linear "
        "program (Boedihardjo, Strohmer, Vershynin); for noisy psi, the maximum-entropy density.",
        "any marginals and moments, exact or noisy",
        "drawn records, times cells of the marginals and sums of moments",
        64,
        ReducedSpace,
    ),
}
"""In the order in which they are offered."""

BY_CONSTRUCTION = tuple(name for name, entry in GENERATORS.items() if entry.tier is Tier.BY_CONSTRUCTION)
"""Names of those whose fit sees psi only."""

_FITTED_WHOLE = 1_000_000
"""Cells of a table that is fitted as a whole although a smaller model might do."""

_FITTED_IN_TREE = 10_000_000
"""Cells of a junction tree above which drawn records are fitted in less time and memory."""

_LIBRARIES_MIB = 512
"""Address space that a job takes besides its model: libraries, psi and blocks of rows."""


def most_cells(name: str, *, model_cells: int, memory_mib: int) -> int:
    """Return the bound on the cells of a generator's model: the service's, or what memory allows.

    Args:
        memory_mib: Address space of a job, in MiB.
    """
    room = max(memory_mib - _LIBRARIES_MIB, 0) << 20
    return max(1, min(model_cells, room // GENERATORS[name].cell_bytes))


def generator_named(
    name: str, *, structural_zeros: Zeros, max_cells: int, digest: str = ""
) -> Generator:
    """A generator, ready to fit.

    Args:
        digest: The ``generator_digest`` that a card names, for an earlier version of the algorithm;
            any other digest, or an empty one, means the version of today.

    Raises:
        InvalidInputError: There is none of this name.
    """
    if name not in GENERATORS:
        raise InvalidInputError(field="generator", problem="no generator has this name")
    entry = GENERATORS[name]
    former = {_digest(name, version): make for version, make in entry.former.items()}
    return former.get(digest, entry.make)(structural_zeros, max_cells=max_cells)


def suited(
    cliques: Sequence[Clique], domain: Domain, *, zeros: Zeros, max_cells: int, moments: bool = False
) -> tuple[str, ...]:
    """Return the names of generators that can fit some marginals, the most suitable first.

    Exact methods come first. A table of all attributes with at most a million cells is fitted as a
    whole, which is fast; of a larger one, a junction tree of at most ten million cells. Above that,
    drawn records come first.
    """
    inside = zeros_inside(zeros, domain)

    def fit(name: str, most: int) -> bool:
        return fits(generator_named(name, structural_zeros=inside, max_cells=most), cliques, domain)

    names: tuple[str, ...] = ("support-raking", "graphical", "ipf")
    if moments:
        names = ("maximum-entropy", "reduced-space")
    elif domain.cells <= _FITTED_WHOLE:
        names = ("ipf", "graphical", "support-raking")
    elif fit("graphical", min(max_cells, _FITTED_IN_TREE)):
        names = ("graphical", "ipf", "support-raking")
    return tuple(name for name in names if fit(name, max_cells))


def fits(generator: Generator, cliques: Sequence[Clique], domain: Domain) -> bool:
    """Whether the model of a generator for some marginals is within its bound."""
    try:
        generator.check(cliques, domain)
    except TooLargeError:
        return False
    return True


def parameters_of(name: str) -> dict[str, str]:
    """Return the parameters of a generator, without structural zeros and the bound on cells."""
    generator: Any = GENERATORS[name].make()
    every = [field.name for field in fields(generator)]
    names = GENERATORS[name].parameters or every
    left_out = ("structural_zeros", "max_cells")
    return {name: str(getattr(generator, name)) for name in names if name not in left_out}


def takes_linear(name: str) -> bool:
    """Whether there is a generator of this name that takes linear statistics."""
    return name in GENERATORS and isinstance(GENERATORS[name].make(), LinearGenerator)


def generator_digest(name: str) -> str:
    """SHA-256, in hex, of a generator's name and algorithm version, as cards name it.

    Rows that psi, seed, name and version determine are the same on every installation; the golden rows
    of the tests hold each version to that. Sources are not part of it: see ``source_digest``.
    """
    return _digest(name, GENERATORS[name].version)


def is_digest_of(name: str, digest: str) -> bool:
    """Whether a digest names a version of a generator that this installation can run."""
    entry = GENERATORS[name]
    return digest in {_digest(name, version) for version in (entry.version, *entry.former)}


def _digest(name: str, version: int) -> str:
    identity = f"gencard.generator.v2\x00{name}\x00{version}"
    return hashlib.sha256(identity.encode()).hexdigest()


@cache
def source_digest() -> str:
    """SHA-256, in hex, of every source file of the core, in the order of their paths.

    Receipts and verdicts state it for information; nothing is refused because it differs.
    """
    hasher = hashlib.sha256(b"gencard.sources.v1\x00")
    for path, source in sorted(_sources_in(files("gencard.core"), "")):
        hasher.update(f"{path}\x00{len(source)}\x00".encode() + source)
    return hasher.hexdigest()


def _sources_in(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Path, which begins with ``path``, and bytes of every Python file below a folder of ours."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources_in(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield path + entry.name, entry.read_bytes()


# A trial on made-up records: whether a generator can fit such marginals, before any is measured.
#
# The trial uses the attributes and the marginals alone, which are public, and no record. Exact psi of
# the same shape is counted from made-up records: few, so that most cells of large marginals are empty,
# and many. The generator does a fraction of its work (``ApproximateGenerator.reduced``), which fits
# worse than all of it. Where the trial passes, a fit after the measurement fails in practice for records
# only that depend on each other far more strongly than the made-up ones.

_RECORDS = (1_000, 30_000)
"""Made-up records of the two trials."""

_MOST_DRAWS = 20
"""Draws of so many records, until there are enough outside structural zeros."""

_CLASSES = 5
"""Latent classes of the made-up records; each has its own shares of the levels."""

_OWN_SHARE = 0.7
"""Weight of the class's own shares; the rest is common to all classes."""

_LEFT_OUT = (8, 4, 2)
"""The remedy leaves out one marginal in so many, the largest first; each is tried in turn."""

_NAMED = 3


def check_fittable(
    generator: Generator, cliques: Sequence[Clique], domain: Domain, *, zeros: Zeros, max_cells: int
) -> None:
    """Refuse marginals that a generator would miss; of other methods than approximate ones do nothing.

    Verdicts are kept, so that the same marginals are tried once.

    Args:
        zeros: Structural zeros, which the made-up records keep.
        max_cells: Bound on the cells of the generators that the refusal may name.

    Raises:
        NotFittableError: The made-up records are missed by more than the generator allows; it names
            the marginals to leave out, or another generator.
        TooLargeError: The model would be too large.
    """
    if not isinstance(generator, ApproximateGenerator):
        return
    if not _passes(generator, tuple(cliques), domain, zeros):
        remedy = _remedy(generator, tuple(cliques), domain, zeros, max_cells)
        raise NotFittableError(remedy=remedy)


def made_up_psi(
    cliques: Sequence[Clique], domain: Domain, zeros: Zeros, records: int, *, rng: np.random.Generator
) -> Psi | None:
    """Exact marginals of records that nobody has; None where structural zeros leave none.

    Each record belongs to a latent class, and its attributes are independent given the class; shares of
    levels are unequal (Dirichlet), so that some levels are rare.
    """
    parts: list[np.ndarray] = []
    for _ in range(_MOST_DRAWS):
        classes = rng.integers(_CLASSES, size=records)
        codes = np.stack([_column(size, classes, rng) for size in domain.sizes], axis=1)
        parts.append(codes[~impossible_records(domain, codes, zeros)])
        if sum(map(len, parts)) >= records:
            break
    dataset = Dataset(domain, np.concatenate(parts)[:records])
    if not len(dataset):
        return None
    counts = count_all(dataset, cliques)
    return Psi(domain, tuple(Measurement(*each) for each in zip(cliques, counts, strict=True)))


def _column(size: int, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    own = rng.dirichlet(np.full(size, 0.3), size=_CLASSES)
    common = rng.dirichlet(np.full(size, 0.5))
    codes = np.empty(len(classes), dtype=np.int64)
    for each, shares in enumerate(_OWN_SHARE * own + (1 - _OWN_SHARE) * common):
        members = classes == each
        ends = np.cumsum(shares)
        levels = np.searchsorted(ends, rng.random(int(members.sum())) * ends[-1], side="right")
        codes[members] = np.minimum(levels, size - 1)
    return codes


@lru_cache(maxsize=256)
def _passes(
    generator: ApproximateGenerator, cliques: tuple[Clique, ...], domain: Domain, zeros: Zeros
) -> bool:
    """Whether the generator, with a fraction of its work, meets the marginals of both trials."""
    for seed, records in enumerate(_RECORDS):
        psi = made_up_psi(cliques, domain, zeros, records, rng=rng_of(seed))
        if psi is None:
            continue
        try:
            generator.reduced().fit(psi, domain)
        except NotConvergedError:
            return False
    return True


def _remedy(
    generator: ApproximateGenerator,
    cliques: tuple[Clique, ...],
    domain: Domain,
    zeros: Zeros,
    max_cells: int,
) -> str:
    """Say what to request instead: an exact generator that fits all, fewer marginals, or a tree."""
    if fits(graphical(zeros, max_cells=max_cells), cliques, domain):
        return "Use the generator graphical, which fits all of them"
    by_size = sorted(cliques, key=lambda clique: -domain.project(clique).cells)
    for part in _LEFT_OUT:
        dropped = by_size[: max(1, len(by_size) // part)]
        remaining = tuple(clique for clique in cliques if clique not in dropped)
        if remaining and _passes(generator, remaining, domain.covered_by(remaining), zeros):
            cliques_text = "; ".join(f"({', '.join(clique)})" for clique in dropped[:_NAMED])
            more = f" and {len(dropped) - _NAMED} more of the largest" if len(dropped) > _NAMED else ""
            return f"Leave out the marginals {cliques_text}{more}"
    tree = fits(spanning_tree(zeros, max_cells=max_cells), cliques, domain)
    return f"Use the generator {'spanning-tree' if tree else 'independent'}, or coarser levels"
