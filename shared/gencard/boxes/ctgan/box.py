"""CTGAN as a black box: it reads records, promises nothing, and its fit can be kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gencard.boxes.ctgan.options import Options
from gencard.boxes.nets.extra import repeatable
from gencard.boxes.nets.kept import KeptNet, NetBox
from gencard.boxes.nets.layout import layout_of
from gencard.boxes.nets.modes import learned
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidDatasetError
from gencard.core.generators.replay import rng_of
from gencard.core.types import Progress, ignore_progress


@dataclass(frozen=True, slots=True)
class Ctgan(NetBox):
    """A conditional generative adversarial net [1]_.

    Numbers are modes of a mixture and places in them, all else is one-hot. The generator is asked for
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
            from gencard.boxes.ctgan.training import trained  # noqa: PLC0415 - the extra

            layout = layout_of(
                dataset.domain,
                self.values,
                lambda axis, numbers: learned(numbers, dataset.codes[:, axis], rng),
            )
            rows = layout.encoded(dataset, rng)
            return KeptNet(trained(layout, rows, self.options, rng=rng, progress=progress))
