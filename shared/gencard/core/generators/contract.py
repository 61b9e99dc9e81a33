"""The promise of the by-construction tier, made by a signature."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError, VerificationError
from gencard.core.statistics.psi import Psi


class Model(Protocol):
    """A fitted distribution over a domain."""

    @property
    def domain(self) -> Domain:
        """The attributes of the records that it draws."""
        ...

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw ``rows`` independent records; a function of (model, state of ``rng``) alone."""
        ...


class Generator(Protocol):
    """A way to turn measured statistics into a distribution.

    There is no parameter through which a record could enter. That is the whole of the promise
    G(D) = S(psi(D)): it holds because this signature cannot say anything else.
    """

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """Refuse marginals to which no model may be fitted, whatever their counts are.

        It allocates no table and depends on what is public alone, so that a card can be refused before
        any record is read. ``fit`` does it too.

        Raises:
            ModelTooLargeError: Names the attribute sets whose tables are largest.
            InvalidInputError: The generator needs a marginal that is not there.
        """
        ...

    def fit(self, psi: Psi, domain: Domain) -> Model:
        """Fit a model to ``psi``; deterministic, so that all randomness is in ``sample``.

        Raises:
            ModelTooLargeError, InvalidInputError: See ``check``; before anything is allocated.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: No model was found within the tolerance.
        """
        ...


@runtime_checkable
class LinearGenerator(Generator, Protocol):
    """One that takes linear statistics besides marginals."""

    def check_functions(self, functions: int, domain: Domain) -> None:
        """Refuse too many functions, cells of marginals counted; see ``check``.

        Raises:
            TooLargeError: For themselves, or for the cells of the model.
        """
        ...


@runtime_checkable
class ApproximateGenerator(Generator, Protocol):
    """One whose fit may end far from exact psi: it is tried on made-up records (``trial_fit``)."""

    def reduced(self) -> "ApproximateGenerator":
        """Return the same method with a fraction of the work, and no better fit."""
        ...

    def __hash__(self) -> int:
        """Hash of the settings, so that the verdict of a trial can be kept."""
        ...


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
