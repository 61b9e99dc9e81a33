"""What PATE-GAN can be told, read from the words of a card, and what it comes to."""

from dataclasses import dataclass
from decimal import Decimal

from gencard.boxes.entry import Parameters
from gencard.boxes.nets.words import layers, rate, whole
from gencard.boxes.pate_gan.accountant import MOST_VOTES, scale_of, votes_of
from gencard.core.card.budget import decimal_of, delta_of
from gencard.core.errors import InvalidInputError, InvalidNumberError

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


@dataclass(frozen=True, slots=True)
class Options:
    """How teachers, student and generator are trained.

    Args:
        epsilon, delta: What all votes together keep.
        teachers: Each has a shard of the records of its own.
        noise: Parameter of the discrete Laplace noise on the number of teachers that vote "real".
        iterations: Steps of the generator, at most; the votes may not last for all of them.
        batch_size: Rows that are voted on in an iteration, and that every step sees.
        teacher_steps: Of all teachers, in an iteration.
        student_steps: On the labels of an iteration: labels that are out cost nothing more.
        embedding: Numbers of noise that a row is made from.
        generator: Units of each hidden layer.
        teacher, student: Units of their one hidden layer.
        generator_rate, critic_rate: Learning rates of Adam, the latter of teachers and student.

    Raises:
        InvalidInputError: The budget does not last for one iteration.
    """

    epsilon: Decimal
    delta: Decimal
    teachers: int
    noise: float
    iterations: int
    batch_size: int
    teacher_steps: int
    student_steps: int
    embedding: int
    generator: tuple[int, ...]
    teacher: int
    student: int
    generator_rate: float
    critic_rate: float

    def __post_init__(self) -> None:
        if not self.affordable:
            raise InvalidInputError(
                field="noise", problem="is too small: one batch of votes would exceed epsilon and delta"
            )

    @property
    def affordable(self) -> int:
        """Iterations whose votes keep epsilon and delta: known before a record is read."""
        most = min(self.iterations * self.batch_size, MOST_VOTES)
        votes = votes_of(self.noise, float(self.epsilon), float(self.delta), most=most)
        return votes // self.batch_size


def options_of(parameters: Parameters) -> Options:
    """From the words of a card; noise that is "calibrated" is the least that lasts for all iterations.

    Raises:
        InvalidInputError, InvalidNumberError: A number is none or out of range, or they do not fit.
    """
    epsilon = decimal_of(parameters["epsilon"], "epsilon")
    delta = delta_of(parameters["delta"], "delta")
    iterations = whole(parameters, "iterations", 1, 100_000)
    batch_size = whole(parameters, "batch_size", 2, 10_000)
    return Options(
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
