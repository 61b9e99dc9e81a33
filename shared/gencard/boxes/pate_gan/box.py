"""PATE-GAN as a black box: it reads records, and what it keeps of them went through noisy votes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gencard.boxes.nets.extra import repeatable
from gencard.boxes.nets.kept import KeptNet, NetBox
from gencard.boxes.nets.layout import layout_of
from gencard.boxes.nets.modes import declared
from gencard.boxes.pate_gan.options import Options
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidDatasetError
from gencard.core.generators.replay import rng_of
from gencard.core.noise.mechanisms import Noise
from gencard.core.types import Progress, ignore_progress


@dataclass(frozen=True, slots=True)
class PateGan(NetBox):
    """A generator against a student that knows the records by noisy votes of teachers [1]_.

    Each teacher tells the records of its shard from made-up rows. All vote on made-up rows, and noise
    falls on the number that say "real"; a student learns the outcomes, and the generator to please the
    student. Training stops before the votes cost more than was asked for: see ``accountant``.

    Args:
        options: How they are trained.
        noise: Who draws the noise on the votes. The seed is for all else, which needs no secret.
        values: For each attribute with numbers that of each code, NaN for missing: their range is
            declared, and nothing about them is learned outside of the votes.

    References:
        .. [1] J. Jordon, J. Yoon, M. van der Schaar, "PATE-GAN: Generating Synthetic Data with
           Differential Privacy Guarantees", ICLR 2019.
    """

    options: Options
    noise: Noise
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptNet:
        """Train the nets.

        Raises:
            InvalidDatasetError: There are fewer records than teachers.
            InvalidInputError, InvalidNumberError: PyTorch is not there, numbers do not fit the domain,
                or the seed is out of range.
        """
        rng = rng_of(seed)
        if len(dataset) < self.options.teachers:
            raise InvalidDatasetError(problem="there are fewer records than teachers")
        layout = layout_of(dataset.domain, self.values, lambda _, numbers: declared(numbers))
        rows = layout.encoded(dataset, rng)
        with repeatable():
            from gencard.boxes.pate_gan.training import trained  # noqa: PLC0415 - the extra

            net = trained(layout, rows, self.options, self.noise, rng=rng, progress=progress)
        return KeptNet(net)
