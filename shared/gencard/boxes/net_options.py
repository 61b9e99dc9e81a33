r"""Options of the nets, the records that a step of training sees, and the privacy that votes spend.

The votes spend privacy exactly as discrete Laplace noise on one count composes. A record belongs to one
teacher, so replacing it moves the number of teachers that vote "real" by one at most. Of discrete
Laplace noise of scale b on a count that moves by one, the privacy loss is either :math:`\varepsilon_0`
or :math:`-\varepsilon_0` with :math:`\varepsilon_0 = 1/b`, never between: the ratio of the probabilities
of an integer is :math:`e^{1/b}` on one side and :math:`e^{-1/b}` on the other. The chance of the former
is :math:`p = 1 / (1 + e^{-\varepsilon_0})`: it is randomised response, the worst of all mechanisms with
:math:`\varepsilon_0`. Of T votes, each chosen in the knowledge of those before, the loss is at worst
:math:`(2X - T) \varepsilon_0` with X of the binomial law [1]_, and

.. math:: \delta(\varepsilon) = \sum_x P[X = x] \, [1 - e^{\varepsilon - (2x - T) \varepsilon_0}]_+

Nothing here depends on a record: neither how far the teachers agree, nor where training stops. The
moments accountants of [2]_ and [3]_ bound the same loss by its moments, so never by less, where they do
not look at the votes; where they do, what they call spent is itself computed from records.

References:
    .. [1] P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential Privacy",
       ICML 2015, Theorem 3.3.
    .. [2] N. Papernot et al., "Semi-supervised Knowledge Transfer for Deep Learning from Private
       Training Data", ICLR 2017, section 3.
    .. [3] J. Jordon, J. Yoon, M. van der Schaar, "PATE-GAN: Generating Synthetic Data with Differential
       Privacy Guarantees", ICLR 2019, section 4.
    .. [4] M. Bun, T. Steinke, "Concentrated Differential Privacy", TCC 2016, Prop. 1.4 and Lemma 1.7.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, nextafter, sqrt

import numpy as np

from gencard.boxes.nets import Layout, Rows, drawn_by
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray, IntArray

_ABOVE = 1 + 1e-6
"""More than the rounding errors of a sum of probabilities."""

_WIDE = 12
"""Standard deviations of X that are summed term by term; what lies beyond counts in full."""

MOST_VOTES = 1_000_000


def delta_of_votes(votes: int, scale: float, epsilon: float) -> float:
    """The least delta that T votes keep at an epsilon, rounded up.

    Args:
        votes: T, from 0 up.
        scale: Parameter b of the noise, in votes.
    """
    from scipy.special import expit  # noqa: PLC0415 - half of the start of every other box
    from scipy.stats import binom  # noqa: PLC0415

    one = nextafter(1 / scale, inf)
    share = float(expit(one))
    half = _WIDE * sqrt(votes * share * (1 - share)) + 1
    least = floor((votes + epsilon / one) / 2)
    low = max(least, 0, floor(votes * share - half))
    high = min(votes, floor(votes * share + half))
    places = np.arange(low, high + 1)
    over = np.maximum((2 * places - votes) * one - epsilon, 0.0)
    delta = float(binom.pmf(places, votes, share) @ -np.expm1(-over)) + binom.sf(high, votes, share)
    if low > least:
        delta += binom.cdf(low - 1, votes, share)
    return min(1.0, _ABOVE * float(delta))


def rho_of_votes(votes: int, scale: float) -> Decimal:
    r"""ZCDP of T votes, to nine places, rounded up: :math:`T \varepsilon_0^2 / 2` [4]_."""
    rho = Fraction(votes) / (2 * Fraction(scale) ** 2)
    return Decimal(ceil(rho * 10**9)) / 10**9


def votes_of(scale: float, epsilon: float, delta: float, *, most: int = MOST_VOTES) -> int:
    """The largest number of votes, up to ``most``, that keep (epsilon, delta)."""

    def kept(votes: int) -> bool:
        return delta_of_votes(votes, scale, epsilon) <= delta

    if kept(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def scale_of(votes: int, epsilon: float, delta: float) -> float:
    """The least noise, to a thousandth, rounded up, for so many votes to keep (epsilon, delta)."""
    low, high = 0.0, 1.0
    while delta_of_votes(votes, high, epsilon) > delta:
        low, high = high, 2 * high
    while high - low > high / 1000:
        middle = (low + high) / 2
        is_private = delta_of_votes(votes, middle, epsilon) <= delta
        low, high = (low, middle) if is_private else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class CtganOptions:
    """Options for building and training the nets.

    Args:
        epochs: Rounds of as many batches as the records fill.
        batch_size: Rows of a batch, a multiple of ``pac``.
        embedding: Numbers of noise that a row is made from.
        generator, discriminator: Units of each hidden layer.
        pac: Rows that the discriminator sees together.
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


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """Entries that can be a condition, and the records that meet each.

    Args:
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
    parts = np.split(counts, layout.starts[1 : layout.nominal]) if layout.nominal else []
    by_log = [logs / logs.sum() for logs in map(np.log1p, parts)]
    by_count = [part / part.sum() for part in parts]
    order = [np.argsort(column, kind="stable") for column in columns.T]
    return Conditions(
        len(columns),
        counts,
        np.cumsum(counts) - counts,
        np.concatenate([np.empty(0, dtype=np.int64), *order]),
        np.cumsum(np.concatenate([np.empty(0), *by_log])),
        np.concatenate([np.empty(0), *by_count]) / max(1, layout.nominal),
    )


@dataclass(frozen=True, slots=True)
class PateGanOptions:
    """Options for training teachers, student and generator.

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


@dataclass(frozen=True, slots=True, eq=False)
class Shards:
    """A partition of positions, which depends on their number and on randomness alone.

    Args:
        order: The positions, shard after shard.
        starts: Where each shard starts in ``order``.
        sizes: Positions of each, at least one; two shards differ by one at most.
    """

    order: IntArray
    starts: IntArray
    sizes: IntArray

    def drawn(self, batch: int, rng: np.random.Generator) -> IntArray:
        """Positions of each shard, with replacement: shape ``(shards, batch)``."""
        among = (rng.random((len(self.sizes), batch)) * self.sizes[:, None]).astype(np.int64)
        positions: IntArray = self.order[self.starts[:, None] + among]
        return positions


def shards_of(records: int, shards: int, rng: np.random.Generator) -> Shards:
    """Deal the records at random into shards of nearly equal size; no more shards than records."""
    sizes = np.full(shards, records // shards, dtype=np.int64)
    sizes[: records % shards] += 1
    return Shards(rng.permutation(records), np.cumsum(sizes) - sizes, sizes)
