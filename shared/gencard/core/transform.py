"""What is agreed to happen to exact counts before they are psi."""

from dataclasses import dataclass

from gencard.core.errors import InvalidNumberError

_LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Transform:
    """Checks that every cell must pass, then rounding. Part of Phi: psi is what the generator sees.

    One cell that fails refuses the whole measurement, without a word about which. Every record adds 1
    to its cell, so "contribution" below means 1; 0 switches a check off.

    Args:
        threshold: Fewest records in a cell that holds any.
        freedom: Fewest degrees of freedom, records minus cells, of a marginal.
        dominance_count: The n of the (n, k) rule.
        dominance_percent: Its k: most that the n largest contributions may be of their cell, in
            per cent. Switched on by ``dominance_count``.
        remainder_percent: The p per cent rule: least that a cell without its two largest
            contributions must be of the largest.
        zeros: An empty cell fails too, unless the schema declares it impossible.
        rounding: Counts become the nearest multiple of it.

    Raises:
        InvalidNumberError: A number is out of its range.
    """

    threshold: int = 0
    freedom: int = 0
    dominance_count: int = 0
    dominance_percent: int = 0
    remainder_percent: int = 0
    zeros: bool = False
    rounding: int = 1

    def __post_init__(self) -> None:
        for field, number, most in (
            ("threshold", self.threshold, _LARGEST),
            ("freedom", self.freedom, _LARGEST),
            ("dominance_count", self.dominance_count, _LARGEST),
            ("dominance_percent", self.dominance_percent, 100),
            ("remainder_percent", self.remainder_percent, 100),
            ("rounding", self.rounding, _LARGEST),
        ):
            lowest = 1 if field == "rounding" else 0
            if not lowest <= number <= most:
                expected = f"a whole number from {lowest} to {most}"
                raise InvalidNumberError(field=f"transform.{field}", expected=expected)

    @property
    def checks(self) -> bool:
        """Whether a measurement can be refused."""
        return self != Transform(rounding=self.rounding)

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Transform(threshold=10, rounding=5))
        'threshold 10, rounding 5'
        """
        names = [name for name in self.__slots__ if getattr(self, name) != getattr(AS_COUNTED, name)]
        parts = [f"{name.replace('_', ' ')} {getattr(self, name)}" for name in names]
        return ", ".join(parts) or "as counted"


AS_COUNTED = Transform()
"""Counts as they are, whatever they are."""

USUAL_CHECKS = Transform(
    threshold=10,
    freedom=10,
    dominance_count=2,
    dominance_percent=90,
    remainder_percent=10,
    rounding=5,
)
"""What statistical offices usually ask of a table before it leaves (SACRO's defaults)."""
