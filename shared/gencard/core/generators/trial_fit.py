"""A trial on made-up records: whether a generator can fit such marginals, before any is measured.

The trial uses the attributes and the marginals alone, which are public, and no record. Exact psi of the
same shape is counted from made-up records: few, so that most cells of large marginals are empty, and
many. The generator does a fraction of its work (``ApproximateGenerator.reduced``), which fits worse
than all of it. Where the trial passes, a fit after the measurement fails in practice for records only
that depend on each other far more strongly than the made-up ones.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gencard.core.coding import impossible_records
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError, NotFittableError
from gencard.core.generators.contract import ApproximateGenerator, Generator, rng_of
from gencard.core.generators.maximum_entropy.family import graphical, spanning_tree
from gencard.core.generators.registry import Zeros, fits
from gencard.core.statistics.counting import count_all
from gencard.core.statistics.psi import Measurement, Psi

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
