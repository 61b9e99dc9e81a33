"""Replay: recompute rows from psi, card and seed, which proves that they depend on nothing else."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gencard.client.common.display import Displayable, Facts, Part
from gencard.client.common.files.rows import difference, same_bytes, write_rows
from gencard.client.terms import number_stddevs, stddevs, sum_stddevs
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.derived_cells import computed_for, same_numbers, with_computed, zeros_for
from gencard.core.errors import InvalidPsiError, NotReplayableError, VerificationError
from gencard.core.generators.contract import Generator, Model, rng_of
from gencard.core.scale import Places
from gencard.core.statistics.linear import are_functions_of
from gencard.core.statistics.numbers_agree import check_numbers_agree
from gencard.core.statistics.places import places_of
from gencard.core.statistics.psi import Psi
from gencard.core.statistics.unit_sums import fine_cells
from gencard.run.levels import Midpoints, Numbers, Values
from gencard.wire.canonical import sha256
from gencard.wire.documents import Receipt
from gencard.wire.psi import coding_digest, psi_document

_MOST_CELLS = 1_000_000_000
"""Largest model for a replay; the controller's limit is lower."""


_ROUNDING = 1e-9
"""Relative tolerance of standard deviations: machines differ in the last digits of exp."""


@dataclass(frozen=True, slots=True)
class Replayed(Displayable):
    """A successful replay: every byte agrees."""

    release: str
    rows: int
    seed: int
    digest: str

    @classmethod
    def of(cls, receipt: Receipt) -> "Replayed":
        """The result for a receipt whose rows were recomputed."""
        return cls(receipt.name, receipt.rows, receipt.drawing_seed, receipt.rows_digest)

    def __str__(self) -> str:
        return f"Every byte agrees: {self.rows:,} rows with seed {self.seed}, SHA-256 {self.digest}."

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Replayed", [str(self), Facts([("Release", self.release)])]


def rebuilt(card: CardTerms, psi: Psi, receipt: Receipt, coding: Coding) -> Dataset:
    """The rows recomputed from psi, card and receipt.

    Raises:
        VerificationError: psi does not match card or receipt, or the recomputed rows differ.
        NotReplayableError: A black box generated the rows from records.
    """
    if receipt.seed is None or card.tier is not Tier.BY_CONSTRUCTION:
        raise NotReplayableError
    check_psi(card, psi, coding)
    if sha256(psi_document(psi)) != receipt.psi_digest:
        raise VerificationError(problem="the receipt names another psi")
    model = _fitted(card, psi.fitted, receipt.psi_digest, coding)
    dataset = model.sample(receipt.rows, rng=rng_of(receipt.seed))
    dataset = with_computed(dataset, computed_for(card, coding))
    if dataset.digest() != receipt.rows_digest:
        raise VerificationError(problem=_why_not(card))
    return dataset


@cache
def _fits() -> "KeptFits":
    """Fits of this process, so that replays of further releases of a card cost their draw only."""
    from gencard.core.generators.model_file import KeptFits  # noqa: PLC0415 - as below

    return KeptFits(most_fits=4)


def _fitted(card: CardTerms, psi: Psi, psi_digest: str, coding: Coding) -> Model:
    """Fit the card's generator to psi, or take the fit of an earlier replay."""
    # loads every generator, for a replay alone
    from gencard.core.generators.model_file import model_of, saved_fit  # noqa: PLC0415

    key = f"{psi_digest} {coding_digest(coding)} {card.generator_digest} {bool(card.derivations)}"
    if saved := _fits().fit(card.name, key):
        return model_of(saved)
    model = generator_of(card, coding).fit(psi, psi.domain)
    _fits().keep(card.name, key, saved_fit(model))
    return model


def generator_of(card: CardTerms, coding: Coding) -> Generator:
    """The generator that the card names, in its version, with the schema's structural zeros."""
    # loads every generator, for a replay alone
    from gencard.core.generators import registry  # noqa: PLC0415

    zeros = zeros_for(card, coding)
    return registry.generator_named(
        card.terms.generator,
        structural_zeros=zeros,
        max_cells=_MOST_CELLS,
        digest=card.generator_digest,
    )


def check_psi(card: CardTerms, psi: Psi, coding: Coding) -> None:
    """Raises VerificationError if psi does not hold the card's statistics, measured as agreed.

    Exact histograms and sums must agree with the marginals, and with each other.
    """
    linear = tuple(linear.statistic for linear in psi.linear)
    same = psi.cliques == card.terms.marginals and are_functions_of(linear, card.terms.moments, coding)
    cliques = (*card.terms.cliques, *card.terms.number_cliques)
    if (
        not same
        or psi.domain != coding.domain.covered_by(cliques)
        or not _same_numbers(card.terms, psi, coding)
    ):
        raise VerificationError(problem="psi does not hold the statistics that the card names")
    recorded = [measurement.stddev for measurement in psi.measurements]
    sums = [stddev for linear in psi.linear for stddev in linear.stddevs]
    agreed_stddevs = (*stddevs(card.terms), *sum_stddevs(card.terms, linear))
    recorded_numbers = [one.stddev for one in psi.histograms]
    recorded_numbers += [stddev for one in psi.sums for stddev in (one.stddev, one.counts_stddev)]
    agreed_stddevs = (*agreed_stddevs, *number_stddevs(card.terms, coding))
    if not np.allclose([*recorded, *sums, *recorded_numbers], agreed_stddevs, rtol=_ROUNDING, atol=0):
        raise VerificationError(problem="psi does not have the noise that the card names")
    counts = [
        *(one.values for one in psi.measurements),
        *(np.array(one.counts) for one in psi.histograms),
    ]
    if any(np.any(values % card.terms.transform.rounding) for values in counts):
        raise VerificationError(problem="psi is not rounded as the card says")
    try:
        check_numbers_agree(psi, coding)
    except InvalidPsiError as error:
        raise VerificationError(problem=error.message) from None


def _same_numbers(terms: Proposal, psi: Psi, coding: Coding) -> bool:
    """Whether psi has the histograms and sums of the terms, with as many counts as they have cells."""
    histograms = tuple((one.attribute, len(one.counts)) for one in psi.histograms)
    with_counts = tuple((one.sum, bool(one.counts)) for one in psi.sums)
    return histograms == tuple((name, fine_cells(coding, name)) for name in terms.histograms) and (
        with_counts == tuple((one, one.counts_beside(terms.marginals, coding)) for one in terms.sums)
    )


def _why_not(card: CardTerms) -> str:
    from gencard.core.generators import registry  # noqa: PLC0415 - as above

    if not registry.is_digest_of(card.terms.generator, card.generator_digest):
        return "the replayed rows differ, and this installation has another version of the generator"
    return "the replayed rows do not match the receipt"


if TYPE_CHECKING:
    import pandas as pd

    from gencard.core.generators.model_file import KeptFits


def places_by(card: CardTerms, psi: Callable[[], Psi], coding: Coding) -> dict[str, Places]:
    """Return the places of the numbers of a card's rows inside their levels, by attribute.

    Args:
        psi: Called if the card has histograms.

    Raises:
        VerificationError: psi does not hold the card's statistics.
    """
    if not card.terms.histograms:
        return {}
    known = psi()
    check_psi(card, known, coding)
    return places_of(known, coding)


def check_delivered_file(
    path: Path,
    dataset: Dataset,
    coding: Coding,
    drawing_seeds: Sequence[int],
    places: Mapping[str, Places] | None = None,
) -> None:
    """Compare a file with the one that a release of these rows writes, with numbers or with intervals.

    Args:
        dataset: The codes that were read from the file.
        drawing_seeds: Seeds of the numbers drawn within intervals, one for each receipt.
        places: Where numbers lie inside levels, as ``places_by`` returns it.

    Raises:
        VerificationError: The file differs from the delivered one; names the difference.
    """
    problems: list[str | None] = []
    for numbers in _variants(dataset, coding, drawing_seeds, places):
        problems.append(_file_problem(path, dataset, coding, numbers))
        if problems[-1] is None:
            return
    raise VerificationError(problem=f"{path.name} differs from the delivered file: {_nearest(problems)}")


def check_delivered_frame(
    frame: "pd.DataFrame",
    dataset: Dataset,
    coding: Coding,
    drawing_seeds: Sequence[int],
    places: Mapping[str, Places] | None = None,
) -> None:
    """Compare a frame with the one that a release of these rows gives, with numbers or with intervals.

    Args:
        places: As in ``check_delivered_file``.

    Raises:
        VerificationError: The frame differs from the delivered one; names the difference.
    """
    from gencard.run.frames import frame_of  # noqa: PLC0415 - loads pandas

    problems = [
        _frame_problem(frame, frame_of(dataset, coding, numbers))
        for numbers in _variants(dataset, coding, drawing_seeds, places)
    ]
    if None not in problems:
        raise VerificationError(problem=f"the data differ from the delivered ones: {_nearest(problems)}")


def _variants(
    dataset: Dataset, coding: Coding, seeds: Sequence[int], places: Mapping[str, Places] | None
) -> list[Values | None]:
    """The forms in which a release delivers these codes: numbers by each seed, levels, midpoints."""
    names = dataset.domain.attributes
    if any(isinstance(coding.attribute(name).coding, Edges) for name in names):
        seeds = list(dict.fromkeys(seeds))
        drawn = [Numbers(seed, places=places) for seed in seeds]
        if same_numbers(coding, names):
            drawn += [Numbers.of_rows(seed, dataset, coding, places) for seed in seeds]
        return [*drawn, None, Midpoints()]
    return [Midpoints(), None]


def _nearest(problems: list[str | None]) -> str:
    """The problem of the variant nearest to the data: one with a difference in values only."""
    mismatches = [problem for problem in problems if problem is not None]
    return next((problem for problem in mismatches if problem.startswith("the values")), mismatches[0])


def _file_problem(path: Path, dataset: Dataset, coding: Coding, values: Values | None) -> str | None:
    """Return the difference from the file that these codes give; None if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / f"again{path.suffix.lower()}"
        write_rows(dataset, coding, again, values)
        with path.open("rb") as left, again.open("rb") as right:
            if same_bytes(left, right):
                return None
        return difference(path, again)


def _frame_problem(frame: "pd.DataFrame", expected: "pd.DataFrame") -> str | None:
    """The first difference from the delivered frame; None if there is none."""
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
