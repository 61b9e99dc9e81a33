"""PATE-GAN as a black box: it reads records, and what it keeps of them went through noisy votes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from gencard.boxes.entry import BoxEntry, Parameters, Surroundings, layers, noise_of, rate, whole
from gencard.boxes.net_options import MOST_VOTES, PateGanOptions, rho_of_votes, scale_of
from gencard.boxes.nets import FittedNet, NetBox, check_torch, declared, layout_of, repeatable
from gencard.core.card.budget import Claim, Neighbouring, decimal_of, delta_of
from gencard.core.card.privacy import Gaussian, InsideGenerator, Noise, Privacy
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.generators.contract import rng_of
from gencard.core.types import Progress, ignore_progress

CALIBRATED = "calibrated"

DEFAULTS: Parameters = {
    "epsilon": "1",
    "delta": "0.000001",
    "teachers": "50",
    "noise": CALIBRATED,
    "iterations": "200",
    "batch_size": "32",
    "teacher_steps": "2",
    "student_steps": "5",
    "embedding": "32",
    "generator": "128,128",
    "teacher": "16",
    "student": "64",
    "generator_rate": "0.0001",
    "critic_rate": "0.001",
}


def options_of(parameters: Parameters) -> PateGanOptions:
    """Read options from a card's parameters; "calibrated" noise is the least for all iterations."""
    epsilon = decimal_of(parameters["epsilon"], "epsilon")
    delta = delta_of(parameters["delta"], "delta")
    iterations = whole(parameters, "iterations", 1, 100_000)
    batch_size = whole(parameters, "batch_size", 2, 10_000)
    return PateGanOptions(
        epsilon=epsilon,
        delta=delta,
        teachers=whole(parameters, "teachers", 1, 10_000),
        noise=_noise(parameters["noise"], iterations * batch_size, epsilon, delta),
        iterations=iterations,
        batch_size=batch_size,
        teacher_steps=whole(parameters, "teacher_steps", 1, 1_000),
        student_steps=whole(parameters, "student_steps", 1, 1_000),
        embedding=whole(parameters, "embedding", 1, 10_000),
        generator=layers(parameters, "generator"),
        teacher=whole(parameters, "teacher", 1, 10_000),
        student=whole(parameters, "student", 1, 10_000),
        generator_rate=rate(parameters, "generator_rate"),
        critic_rate=rate(parameters, "critic_rate"),
    )


def _noise(word: str, votes: int, epsilon: Decimal, delta: Decimal) -> float:
    if word != CALIBRATED:
        return float(decimal_of(word, "noise"))
    if votes > MOST_VOTES:
        raise InvalidNumberError(
            field="iterations", expected=f"at most {MOST_VOTES} when multiplied by batch_size"
        )
    return scale_of(votes, float(epsilon), float(delta))


@dataclass(frozen=True, slots=True)
class PateGan(NetBox):
    """A generator against a student that knows the records by noisy votes of teachers [1]_.

    Each teacher tells the records of its shard from made-up rows. All vote on made-up rows, and noise
    falls on the number that say "real"; a student learns the outcomes, and the generator to please the
    student. Training stops before the votes cost more than was asked for: see ``net_options``.

    Args:
        noise: Who draws the noise on the votes. The seed is for all else, which needs no secret.
        values: For each attribute with numbers that of each code, NaN for missing: their range is
            declared, and nothing about them is learned outside of the votes.

    References:
        .. [1] J. Jordon, J. Yoon, M. van der Schaar, "PATE-GAN: Generating Synthetic Data with
           Differential Privacy Guarantees", ICLR 2019.
    """

    options: PateGanOptions
    noise: Noise
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> FittedNet:
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
            from gencard.boxes.net_training import trained_pate_gan  # noqa: PLC0415 - the extra

            return trained_pate_gan(layout, rows, self.options, self.noise, rng=rng, progress=progress)


def _make(parameters: Parameters, surroundings: Surroundings) -> PateGan:
    options = options_of(parameters)
    check_torch()
    return PateGan(options, noise_of(surroundings), surroundings.values)


def _claim(parameters: Parameters) -> Claim:
    options = options_of(parameters)
    return Claim(
        f"All {options.affordable * options.batch_size} noisy votes of one fit together keep epsilon "
        "and delta, however the teachers vote: a record is in front of one of them and moves a count "
        "by one at most. The number of records is the same for both.",
        options.epsilon,
        options.delta,
        Neighbouring.REPLACE_ONE,
    )


def _privacy(parameters: Parameters) -> Privacy:
    """All votes of one fit as zCDP: a sum of epsilons would leave no place for delta in the ledger."""
    options = options_of(parameters)
    votes = options.affordable * options.batch_size
    rho = rho_of_votes(votes, options.noise)
    return InsideGenerator(Gaussian(Neighbouring.REPLACE_ONE, rho, options.delta))


ENTRY = BoxEntry(
    description="A generative adversarial net trained on noisy votes of teachers (Jordon et al. 2018).",
    parameters=DEFAULTS,
    claim=_claim,
    make=_make,
    extra="deep",
    privacy=_privacy,
    libraries=("opendp", "torch"),
)
