"""Replay: the same psi, card and seed give the same rows, to the byte; so nothing else went in."""

from dataclasses import dataclass

import numpy as np

from gencard.client.measuring import stddevs, sum_stddevs
from gencard.client.report import html
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.coding import Coding, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import NotReplayableError, VerificationError
from gencard.core.generators.contract import Generator, synthesise
from gencard.core.generators.registry import generator_digest, generator_named
from gencard.core.statistics.moments import statistics_of
from gencard.core.statistics.psi import Psi
from gencard.wire.documents.psi_document import psi_document
from gencard.wire.documents.receipt import Receipt
from gencard.wire.signatures.canonical import sha256

_MOST_CELLS = 1_000_000_000
"""Of a model that is rebuilt here; the controller's own bound is lower."""


_ROUNDING = 1e-9
"""How far a stddev may be from ours: machines differ in the last digits of exp."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A release that was made again: every byte agrees."""

    release: str
    rows: int
    seed: int
    digest: str

    @classmethod
    def of(cls, receipt: Receipt) -> "Replayed":
        """What is said once the rows of a receipt were made again."""
        return cls(receipt.name, receipt.rows, receipt.drawing_seed, receipt.rows_digest)

    def __str__(self) -> str:
        return f"Every byte agrees: {self.rows:,} rows with seed {self.seed}, SHA-256 {self.digest}."

    def _repr_html_(self) -> str:
        return html.panel("Replayed", html.paragraph(str(self)), html.facts([("Release", self.release)]))


def rebuilt(card: CardTerms, psi: Psi, receipt: Receipt, coding: Coding) -> Dataset:
    """The rows that this psi, card and receipt stand for.

    Raises:
        VerificationError: psi is not the card's or the receipt's, or the rows come out differently.
        NotReplayableError: A black box made the rows, from records.
    """
    if receipt.seed is None or card.tier is not Tier.BY_CONSTRUCTION:
        raise NotReplayableError
    check_psi(card, psi, coding)
    if sha256(psi_document(psi)) != receipt.psi_digest:
        raise VerificationError(problem="the receipt names another psi")
    dataset = synthesise(generator_of(card, coding), psi, psi.domain, receipt.rows, receipt.seed)
    if dataset.digest() != receipt.rows_digest:
        raise VerificationError(problem=_why_not(card))
    return dataset


def generator_of(card: CardTerms, coding: Coding) -> Generator:
    """The generator that the card names, ready to fit the card's psi."""
    zeros = _zeros(coding, _domain(card, coding))
    return generator_named(card.terms.generator, structural_zeros=zeros, max_cells=_MOST_CELLS)


def check_psi(card: CardTerms, psi: Psi, coding: Coding) -> None:
    """Raises VerificationError where psi does not hold the card's statistics, measured as agreed."""
    linear = tuple(linear.statistic for linear in psi.linear)
    same = psi.cliques == card.terms.marginals and linear == statistics_of(card.terms.moments, coding)
    if not same or psi.domain != _domain(card, coding):
        raise VerificationError(problem="psi does not hold the statistics that the card names")
    said = [measurement.stddev for measurement in psi.measurements]
    sums = [stddev for linear in psi.linear for stddev in linear.stddevs]
    agreed = (*stddevs(card.terms), *sum_stddevs(card.terms, coding))
    if not np.allclose([*said, *sums], agreed, rtol=_ROUNDING, atol=0):
        raise VerificationError(problem="psi does not have the noise that the card names")
    if any(np.any(m.values % card.terms.transform.rounding) for m in psi.measurements):
        raise VerificationError(problem="psi is not rounded as the card says")


def _domain(card: CardTerms, coding: Coding) -> Domain:
    return coding.domain.covered_by(card.terms.cliques)


def _zeros(coding: Coding, domain: Domain) -> tuple[StructuralZeros, ...]:
    """The declared zeros that psi's attributes can express."""
    return tuple(
        zeros for zeros in coding.structural_zeros if set(zeros.clique) <= set(domain.attributes)
    )


def _why_not(card: CardTerms) -> str:
    if generator_digest(card.terms.generator) != card.generator_digest:
        return "the replayed rows differ, and this installation has another version of the generator"
    return "the replayed rows do not match the receipt"
