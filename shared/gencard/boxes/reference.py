"""Boxes of known behaviour for audits and tests: honest, copying records, or adding a marginal."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from gencard.core.blackbox import BlackBox
from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.generators.contract import Generator, Model, rng_of
from gencard.core.json_codecs import written
from gencard.core.statistics.linear import LinearStatistic, Statistic, divided
from gencard.core.statistics.measure import measure_dataset
from gencard.core.typed_json import text_scalar

_MODELS_KEPT = 4


class ReferenceKind(StrEnum):
    """The boxes of this module."""

    HONEST = "honest"
    ADDS_MARGINAL = "adds_marginal"
    COPIES_ROWS = "copies_rows"


@dataclass(frozen=True, slots=True)
class ReferenceRecipe:
    """Recipe by which a box of this module is built.

    Args:
        cliques, linear: Phi.
        extra: The clique that ADDS_MARGINAL measures besides.
        share: Share of the rows that COPIES_ROWS copies.
        zeros: Cells that cannot occur, where a job builds the box.
        max_cells: Most cells of a model, where a job builds the box.

    Raises:
        InvalidInputError: ``extra`` or ``share`` is missing, or belongs to another kind.
    """

    kind: ReferenceKind
    generator: str
    cliques: tuple[Clique, ...]
    linear: tuple[LinearStatistic, ...] = field(default=(), metadata=written(omit=True))
    extra: Clique | None = field(default=None, metadata=written(omit=True))
    share: float | None = field(
        default=None, metadata=written(omit=True, scalar=text_scalar(str, float))
    )
    zeros: tuple[StructuralZeros, ...] = field(default=(), metadata=written(omit=True))
    max_cells: int = field(default=0, metadata=written(omit=True))

    def __post_init__(self) -> None:
        for kind, content in (
            (ReferenceKind.ADDS_MARGINAL, self.extra),
            (ReferenceKind.COPIES_ROWS, self.share),
        ):
            if (self.kind is kind) != (content is not None):
                raise InvalidInputError(field="recipe", problem="does not have the fields of its kind")


class Honest:
    """Measures Phi on its input, fits the generator and samples.

    ``fit`` is deterministic and an audit repeats the same psi many times, so the last few models are
    cached by the digest of psi. The cache changes the speed of the box, not its output.
    """

    def __init__(self, generator: Generator, statistics: Sequence[Statistic]) -> None:
        self.generator = generator
        self.statistics = tuple(statistics)
        self._models: dict[str, Model] = {}

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.model(dataset).sample(rows, rng=rng_of(seed))

    def model(self, dataset: Dataset) -> Model:
        """The model fitted to the input's psi, over the attributes that Phi names."""
        psi = measure_dataset(dataset, self.statistics)
        hasher = hashlib.sha256(repr(psi.domain).encode())
        for measurement in psi.measurements:
            hasher.update(measurement.values.tobytes())
        for linear in psi.linear:
            hasher.update(linear.values.tobytes())
        digest = hasher.hexdigest()
        if digest not in self._models:
            while len(self._models) >= _MODELS_KEPT:
                del self._models[next(iter(self._models))]
            self._models[digest] = self.generator.fit(psi, psi.domain)
        return self._models[digest]


@dataclass(frozen=True, slots=True)
class CopiesRows:
    """Each row is a random record of the input with probability ``share``, else an honest one.

    Args:
        share: From 0 (honest) to 1 (a bootstrap of the records).

    Raises:
        InvalidNumberError: The share is not from 0 to 1.
    """

    honest: BlackBox
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidNumberError(field="share", expected="from 0 to 1")

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        rng = rng_of(seed)
        honest_rows = self.honest(dataset, rows, seed=int(rng.integers(2**63)))
        copied = np.flatnonzero(rng.random(rows) < self.share)
        codes = honest_rows.codes.copy()
        codes[copied] = dataset.codes[rng.integers(len(dataset), size=len(copied))]
        return Dataset(honest_rows.domain, codes)


class AddsMarginal(Honest):
    """Fits ``extra`` besides the statistics of the card: the dishonest generator of the paper."""

    def __init__(self, generator: Generator, statistics: Sequence[Statistic], extra: Clique) -> None:
        cliques, linear = divided(statistics)
        super().__init__(generator, (*cliques, extra, *linear))
        self.extra = extra
