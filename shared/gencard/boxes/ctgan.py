"""CTGAN as a black box, without a privacy guarantee; its fit can be saved."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gencard.boxes.entry import BoxEntry, Parameters, Surroundings, layers, rate, whole
from gencard.boxes.net_options import CtganOptions
from gencard.boxes.nets import FittedNet, NetBox, check_torch, layout_of, learned, repeatable
from gencard.core.card.budget import NO_CLAIM
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidDatasetError
from gencard.core.generators.contract import rng_of
from gencard.core.types import Progress, ignore_progress

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


def options_of(parameters: Parameters) -> CtganOptions:
    """Read options from a card's parameters."""
    return CtganOptions(
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

    Numbers are modes of a mixture and places in them, all else is one-hot. The generator is asked for
    a level of an attribute, rare ones more often than records have them, and the discriminator
    compares packs of its rows with packs of records that have these levels too.

    Args:
        values: For each attribute with numbers that of each code, NaN for missing.

    References:
        .. [1] L. Xu, M. Skoularidou, A. Cuesta-Infante, K. Veeramachaneni, "Modeling Tabular Data using
           Conditional GAN", NeurIPS 2019.
    """

    options: CtganOptions = field(default_factory=CtganOptions)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> FittedNet:
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
            from gencard.boxes.net_training import trained_ctgan  # noqa: PLC0415 - the extra

            layout = layout_of(
                dataset.domain,
                self.values,
                lambda axis, numbers: learned(numbers, dataset.codes[:, axis], rng),
            )
            rows = layout.encoded(dataset, rng)
            return trained_ctgan(layout, rows, self.options, rng=rng, progress=progress)


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
