"""CTGAN as a black box, without a privacy guarantee; its fit can be saved."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gencard.boxes.entry import BoxEntry, Parameters, Surroundings, layers, rate, whole
from gencard.boxes.nets.fitted import KeptNet, NetBox, drawn_by
from gencard.boxes.nets.layout import Layout, Rows, check_torch, layout_of, learned, repeatable
from gencard.core.card.budget import NO_CLAIM
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidDatasetError, InvalidInputError
from gencard.core.generators.contract import rng_of
from gencard.core.types import FloatArray, IntArray, Progress, ignore_progress

DEFAULTS: Parameters = {
    "epochs": "300",
    "batch_size": "500",
    "embedding": "128",
    "generator": "256,256",
    "discriminator": "256,256",
    "generator_rate": "0.0002",
    "discriminator_rate": "0.0002",
    "pac": "10",
}


@dataclass(frozen=True, slots=True)
class Options:
    """How the nets are built and trained.

    Args:
        epochs: Rounds of as many batches as the records fill.
        batch_size: Rows of a batch, a multiple of ``pac``.
        embedding: FloatArray of noise that a row is made from.
        generator, discriminator: Units of each hidden layer.
        generator_rate, discriminator_rate: Learning rates of Adam.
        pac: Rows that the discriminator sees together.

    Raises:
        InvalidInputError: ``batch_size`` is no multiple of ``pac``.
    """

    epochs: int = 300
    batch_size: int = 500
    embedding: int = 128
    generator: tuple[int, ...] = (256, 256)
    discriminator: tuple[int, ...] = (256, 256)
    generator_rate: float = 2e-4
    discriminator_rate: float = 2e-4
    pac: int = 10

    def __post_init__(self) -> None:
        if self.batch_size % self.pac:
            raise InvalidInputError(field="batch_size", problem="must be a multiple of pac")


def options_of(parameters: Parameters) -> Options:
    """Options from a card's parameters.

    Raises:
        InvalidInputError, InvalidNumberError: A number is none or out of range, or they do not fit.
    """
    return Options(
        epochs=whole(parameters, "epochs", 1, 100_000),
        batch_size=whole(parameters, "batch_size", 2, 100_000),
        embedding=whole(parameters, "embedding", 1, 10_000),
        generator=layers(parameters, "generator"),
        discriminator=layers(parameters, "discriminator"),
        generator_rate=rate(parameters, "generator_rate"),
        discriminator_rate=rate(parameters, "discriminator_rate"),
        pac=whole(parameters, "pac", 1, 1_000),
    )


@dataclass(frozen=True, slots=True)
class Ctgan(NetBox):
    """A conditional generative adversarial net [1]_.

    FloatArray are modes of a mixture and places in them, all else is one-hot. The generator is asked for
    a level of an attribute, rare ones more often than records have them, and the discriminator
    compares packs of its rows with packs of records that have these levels too.

    Args:
        options: How the nets are built and trained.
        values: For each attribute with numbers that of each code, NaN for missing.

    References:
        .. [1] L. Xu, M. Skoularidou, A. Cuesta-Infante, K. Veeramachaneni, "Modeling Tabular Data using
           Conditional GAN", NeurIPS 2019.
    """

    options: Options = field(default_factory=Options)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptNet:
        """Train the nets; the same records and seed give the same nets to the last bit.

        Raises:
            InvalidDatasetError: There is no record.
            InvalidInputError, InvalidNumberError: PyTorch is not there, numbers do not fit the domain,
                or the seed is out of range.
        """
        rng = rng_of(seed)
        if not len(dataset):
            raise InvalidDatasetError(problem="it has no records")
        with repeatable():
            from gencard.boxes.nets.ctgan_training import trained  # noqa: PLC0415 - the extra

            layout = layout_of(
                dataset.domain,
                self.values,
                lambda axis, numbers: learned(numbers, dataset.codes[:, axis], rng),
            )
            rows = layout.encoded(dataset, rng)
            return KeptNet(trained(layout, rows, self.options, rng=rng, progress=progress))


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """Entries that can be a condition, and the records that meet each.

    Args:
        records: How many there are.
        counts: Records that have each nominal entry.
        starts: Of those records in ``order``, for each entry.
        order: Records by nominal attribute, and in each by level.
        by_log: Cumulative chances of the entries in training.
        by_count: Chances of the entries in sampling: every level as frequent as among the records.
    """

    records: int
    counts: IntArray
    starts: IntArray
    order: IntArray
    by_log: FloatArray
    by_count: FloatArray

    def __len__(self) -> int:
        return len(self.counts)

    def drawn(self, batch: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """A condition for each row of a batch, and a record that meets it, both by position.

        Without nominal attributes there are no conditions: zeros, and any records.
        """
        if not len(self):
            return np.zeros(batch, dtype=np.int64), rng.integers(self.records, size=batch)
        entries = drawn_by(self.by_log, rng.random(batch))
        among = (rng.random(batch) * self.counts[entries]).astype(np.int64)
        return entries, self.order[self.starts[entries] + among]


def conditions_of(layout: Layout, rows: Rows) -> Conditions:
    """The conditions of the records, of which there is at least one."""
    entries = int(layout.starts[layout.nominal])
    columns = rows.entries[:, : layout.nominal]
    counts = np.bincount(columns.ravel(), minlength=entries)
    by_log = [_shares(np.log1p(part)) for part in _by_attribute(layout, counts)]
    by_count = [_shares(part) for part in _by_attribute(layout, counts)]
    order = [np.argsort(column, kind="stable") for column in columns.T]
    return Conditions(
        len(columns),
        counts,
        np.cumsum(counts) - counts,
        np.concatenate([np.empty(0, dtype=np.int64), *order]),
        np.cumsum(np.concatenate([np.empty(0), *by_log])),
        np.concatenate([np.empty(0), *by_count]) / max(1, layout.nominal),
    )


def _by_attribute(layout: Layout, counts: IntArray) -> list[IntArray]:
    return np.split(counts, layout.starts[1 : layout.nominal]) if layout.nominal else []


def _shares(weights: IntArray | FloatArray) -> FloatArray:
    shares: FloatArray = weights / weights.sum()
    return shares


def _make(parameters: Parameters, surroundings: Surroundings) -> Ctgan:
    options = options_of(parameters)
    check_torch()
    return Ctgan(options, surroundings.values)


ENTRY = BoxEntry(
    description="A conditional generative adversarial net for tables (Xu et al. 2019).",
    parameters=DEFAULTS,
    claim=lambda _: NO_CLAIM,
    make=_make,
    extra="deep",
    libraries=("opendp", "scikit-learn", "torch"),
)
