"""Settings of an audit, fixed before any record is read."""

from dataclasses import dataclass, field

from gencard.core.card.budget import decimal_of
from gencard.core.card.terms import MOST_ROWS, AuditTerms
from gencard.core.domain import Clique
from gencard.core.errors import InvalidCliqueError, InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.typed_json import INTEGER_TEXT

MOST_ATTEMPTS = 1_000_000
_SEEDS = 2**64
_TERMS = AuditTerms()


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Settings of one audit; with box and dataset they determine every number of its report.

    Args:
        cliques: Phi, the marginals that the card releases; with ``linear``, its linear statistics.
        rows: Rows asked of the box in each run.
        seed: From which the audit's own choices and the seeds of all runs derive, 0 to 2**64 - 1.
        terms: Runs on each side, highest order of the blocks, level over all tries.
        attempt: Which try of the family of black boxes this is on the dataset, from 1.

    Raises:
        InvalidCliqueError: Phi is empty.
        InvalidNumberError: A number is out of its range.
    """

    cliques: tuple[Clique, ...]
    rows: int
    seed: int = field(metadata=written(scalar=INTEGER_TEXT))
    terms: AuditTerms = _TERMS
    attempt: int = 1
    linear: tuple[LinearStatistic, ...] = field(default=(), metadata=written(omit=True))

    def __post_init__(self) -> None:
        if not self.cliques and not self.linear:
            raise InvalidCliqueError(clique="", problem="Phi names no statistic")
        if not 2 <= self.rows <= MOST_ROWS:
            raise InvalidNumberError(field="audit.rows", expected=f"from 2 to {MOST_ROWS}")
        if not 0 <= self.seed < _SEEDS:
            raise InvalidNumberError(field="audit.seed", expected="from 0 to 2**64 - 1")
        if not 1 <= self.attempt <= MOST_ATTEMPTS:
            raise InvalidNumberError(field="audit.attempt", expected=f"from 1 to {MOST_ATTEMPTS}")

    @property
    def level(self) -> float:
        """The level at which this attempt is tested."""
        return level(float(decimal_of(self.terms.alpha, "audit.alpha")), self.attempt)


def level(alpha: float, attempt: int) -> float:
    r"""The part of ``alpha`` spent on one attempt, :math:`\alpha / (m (m + 1))`.

    The parts of all tries, however many, sum to ``alpha``: an honest generator that is submitted again
    and again is accused with at most that probability. A leak does not gain by the smaller levels,
    because the evidence of all tries is pooled (``pooling``).

    >>> [level(0.06, attempt) for attempt in (1, 2, 3)]
    [0.03, 0.01, 0.005]
    """
    return alpha / (attempt * (attempt + 1))
