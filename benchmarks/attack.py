"""Form of one attack in ``benchmarks.attacks``: name, success before, a function that tries it."""

from collections.abc import Callable
from dataclasses import dataclass

from scipy.stats import binomtest


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the tries of one attack.

    Args:
        successes: Tries in which the attacker named the secret. An attacker who learns nothing guesses.
        tries: Number of tries.
        note: How the tries ended, such as "40 refused".
    """

    successes: int
    tries: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack that succeeded, or a neighbour of one.

    Args:
        line: Number of the line of the threat list, such as "A1".
        name: What the attacker does, in a few words.
        before: Success before the defence, such as "40 of 40"; "not tried" for a neighbour.
        guessing: Success rate of an attacker who sees nothing; 0 if there is nothing to guess.
        least: Fewest tries that count as tried.
        run: Tries it. Takes whether few tries are enough, and returns the outcome.

    >>> Attack("A1", "read one level", "40 of 40", 0.5, 20, lambda quick: Outcome(12, 20)).p_value(
    ...     Outcome(20, 20)
    ... ) < 1e-5
    True
    """

    line: str
    name: str
    before: str
    guessing: float
    least: int
    run: Callable[[bool], Outcome]

    def p_value(self, outcome: Outcome) -> float:
        """Probability of at least so many successes by guessing; 1 if there were no tries."""
        if not outcome.tries or not outcome.successes:
            return 1.0
        if not self.guessing:
            return 0.0
        test = binomtest(outcome.successes, outcome.tries, self.guessing, alternative="greater")
        return float(test.pvalue)
