"""From psi to rows and back again: the same psi, generator and seed give the same bytes."""

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError, VerificationError
from gencard.core.generators.contract import Generator
from gencard.core.statistics.psi import Psi

_SEEDS = 2**64


def rng_of(seed: int) -> np.random.Generator:
    """The random numbers of a release: PCG64, whose stream numpy keeps for ever.

    Raises:
        InvalidNumberError: The seed is outside 0..2**64-1.
    """
    if not 0 <= seed < _SEEDS:
        raise InvalidNumberError(field="seed", expected="from 0 to 2**64 - 1")
    return np.random.Generator(np.random.PCG64(seed))


def synthesise(generator: Generator, psi: Psi, domain: Domain, rows: int, seed: int) -> Dataset:
    """Fit psi and draw ``rows`` records; a function of its arguments, to the byte."""
    return generator.fit(psi, domain).sample(rows, rng=rng_of(seed))


def replay(
    generator: Generator, psi: Psi, domain: Domain, rows: int, seed: int, *, digest: str
) -> Dataset:
    """Make a release again and compare it with the digest on its receipt.

    Raises:
        VerificationError: Other rows came out: the release was not made from this psi, generator
            and seed alone.
    """
    dataset = synthesise(generator, psi, domain, rows, seed)
    if dataset.digest() != digest:
        raise VerificationError(problem="the replayed rows do not match the digest")
    return dataset
