"""What CTGAN can be told, read from the words of a card; defaults are the paper's."""

from dataclasses import dataclass

from gencard.boxes.entry import Parameters
from gencard.boxes.nets.words import layers, rate, whole
from gencard.core.errors import InvalidInputError

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
        embedding: Numbers of noise that a row is made from.
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
    """From the words of a card.

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
