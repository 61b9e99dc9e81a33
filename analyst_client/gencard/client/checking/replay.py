"""Replay: the same psi, card and seed give the same rows, to the byte; so nothing else went in."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gencard.client.display import Displayable, Facts, Part
from gencard.client.files.rows import Numbers, is_parquet, parquet_problem, write_rows
from gencard.client.terms import stddevs, sum_stddevs
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.coding import Coding, Edges, StructuralZeros
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
class Replayed(Displayable):
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

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Replayed", [str(self), Facts([("Release", self.release)])]


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
    recorded = [measurement.stddev for measurement in psi.measurements]
    sums = [stddev for linear in psi.linear for stddev in linear.stddevs]
    agreed = (*stddevs(card.terms), *sum_stddevs(card.terms, coding))
    if not np.allclose([*recorded, *sums], agreed, rtol=_ROUNDING, atol=0):
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


if TYPE_CHECKING:
    import pandas as pd


def check_delivered_file(
    path: Path, dataset: Dataset, coding: Coding, drawing_seeds: Sequence[int]
) -> None:
    """Compare a file with the one that a release of these rows writes, with numbers or with intervals.

    Args:
        dataset: The codes that were read from the file.
        drawing_seeds: What numbers inside intervals may be drawn by, one for each receipt.

    Raises:
        VerificationError: The file is not as it was delivered; names what differs.
    """
    problems = [
        _file_problem(path, dataset, coding, numbers)
        for numbers in _variants(dataset, coding, drawing_seeds)
    ]
    if None not in problems:
        raise VerificationError(
            problem=f"{path.name} differs from what was delivered: {_nearest(problems)}"
        )


def check_delivered_frame(
    frame: "pd.DataFrame", dataset: Dataset, coding: Coding, drawing_seeds: Sequence[int]
) -> None:
    """Compare a frame with the one that a release of these rows gives, with numbers or with intervals.

    Raises:
        VerificationError: The frame is not as it was delivered; names what differs.
    """
    from gencard.client.files.frames import frame_of  # noqa: PLC0415 - pandas only where frames are

    problems = [
        _frame_problem(frame, frame_of(dataset, coding, numbers))
        for numbers in _variants(dataset, coding, drawing_seeds)
    ]
    if None not in problems:
        raise VerificationError(problem=f"the data differ from what was delivered: {_nearest(problems)}")


def _variants(dataset: Dataset, coding: Coding, seeds: Sequence[int]) -> list[Numbers | None]:
    """The forms in which a release delivers these codes: numbers by each seed, and intervals."""
    names = dataset.domain.attributes
    if any(isinstance(coding.attribute(name).coding, Edges) for name in names):
        return [*map(Numbers, dict.fromkeys(seeds)), None]
    return [None]


def _nearest(problems: list[str | None]) -> str:
    """The problem of the variant that the data come nearest to: values differ last of all."""
    mismatches = [problem for problem in problems if problem is not None]
    return next((problem for problem in mismatches if problem.startswith("the values")), mismatches[0])


def _file_problem(path: Path, dataset: Dataset, coding: Coding, numbers: Numbers | None) -> str | None:
    """What differs from the file that is written from these codes; None where nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / f"again{path.suffix.lower()}"
        write_rows(dataset, coding, again, numbers)
        if _same_bytes(path, again):
            return None
        return parquet_problem(path, again) if is_parquet(path) else _text_problem(path, again)


def _same_bytes(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while block := left.read(1 << 20):
            if block != right.read(1 << 20):
                return False
    return True


def _text_problem(path: Path, again: Path) -> str:
    """The first line of a CSV file that differs, by its number."""
    with path.open("rb") as left, again.open("rb") as right:
        lines = enumerate(zip_longest(left, right), start=1)
        number = next((number for number, (one, other) in lines if one != other), 1)
    return "the columns or their order" if number == 1 else f"the values in line {number}"


def _frame_problem(frame: "pd.DataFrame", expected: "pd.DataFrame") -> str | None:
    """What differs from the frame that was delivered; None where nothing does."""
    if list(frame.columns) != list(expected.columns):
        return "the columns or their order"
    if not frame.index.equals(expected.index):
        return "the index"
    for name in expected.columns:
        if frame[name].dtype != expected[name].dtype:
            return f"the type of '{name}'"
    for name in expected.columns:
        if not frame[name].equals(expected[name]):
            return f"the values of '{name}'"
    return None
