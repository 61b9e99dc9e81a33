"""Findings from rows about planted canaries: bounds on epsilon, and numbers that bound nothing.

Four statistics are chosen before the run, and each gets a quarter of the level, so that all bounds hold
together with probability 1 - beta.
"""

from dataclasses import dataclass

import numpy as np

from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import InvalidNumberError
from gencard.core.types import FloatArray
from gencard.measures.privacy.attacks.neighbours import Membership
from gencard.measures.privacy.canaries.canaries import (
    Planted,
    points_of,
    reconstruct_cells,
    reconstruct_points,
)
from gencard.measures.privacy.canaries.counts import Guesses, hit_count, log_q_of
from gencard.measures.privacy.canaries.epsilon_bound import EpsilonBound, check_beta
from gencard.measures.privacy.canaries.sums import published_bound, sum_bound

STATISTICS = 4
"""Among which the level is shared."""

_BLIND = "there are so many rows, or so few cells, that random rows find every canary"


@dataclass(frozen=True, slots=True)
class CanaryPlan:
    """Choices that are fixed before the run.

    Args:
        beta: Probability, 0 to 1/2, that any of the bounds is too high.
        delta: Of the claims (epsilon, delta) that guesses are to bound.
        radius: In how many attributes a row may differ from a canary that it hits.
        guesses: Of how many canaries, those nearest to a row, it is guessed that they were put in.
        numbers: Attributes whose codes are in the order of numbers.

    Raises:
        InvalidNumberError: One of them is out of range.
    """

    beta: float
    delta: float
    radius: int
    guesses: int
    numbers: Clique = ()

    def __post_init__(self) -> None:
        check_beta(self.beta)
        if not 0 <= self.delta < 1:
            raise InvalidNumberError(field="delta", expected="at least 0 and below 1")
        if self.radius < 0 or self.guesses < 1:
            raise InvalidNumberError(
                field="The radius and the guesses", expected="at least 0 and at least 1"
            )


@dataclass(frozen=True, slots=True)
class CanaryFinding:
    """One statistic.

    Args:
        statistic: Its name.
        seen: What was seen, in words.
        bound: What follows, or None where the theorem does not apply.
        refusal: Why it does not, else empty.
    """

    statistic: str
    seen: str
    bound: EpsilonBound | None
    refusal: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CanaryFindings:
    """Results of one run with canaries.

    Args:
        canaries: How many were drawn.
        put_in: How many of them were in the dataset.
        rows: How many came back.
        findings: One of each statistic.
        membership: By distance, canaries put in beside those left out. It bounds nothing.
    """

    canaries: int
    put_in: int
    rows: int
    findings: tuple[CanaryFinding, ...]
    membership: Membership

    def against(
        self, epsilon: float, delta: float, neighbouring: Neighbouring
    ) -> tuple[CanaryFinding, ...]:
        """Findings that contradict a claim; those that do not speak of such claims do not."""
        return tuple(
            each
            for each in self.findings
            if each.bound is not None
            and (each.bound.delta >= delta and each.bound.neighbouring is neighbouring)
            and each.bound.refutes(epsilon, delta, neighbouring)
        )


def canary_findings(
    planted: Planted, synthetic: Dataset, plan: CanaryPlan, *, rng: np.random.Generator
) -> CanaryFindings:
    """Look for canaries in all rows that a generator made of the dataset they were planted in.

    Args:
        rng: For what rounding took from numbers, and to break ties; never seen by the generator.

    Raises:
        DomainMismatchError: The rows are over other attributes.
        InvalidDatasetError: There is no row, or all canaries were put in, or none.
        InvalidNumberError: More guesses than canaries.
    """
    check_same_domain(planted.dataset.domain, synthetic.domain)
    if plan.guesses > len(planted.points):
        raise InvalidNumberError(field="The number of guesses", expected="at most that of canaries")
    every = reconstruct_cells(planted.cells, synthetic).radii
    findings = (
        _published(planted, synthetic, plan, rng),
        *_among_cells(planted, synthetic, plan),
        _guessed(planted, every, plan, rng),
    )
    shares = every / len(synthetic.domain)
    membership = Membership(shares[planted.put_in], shares[~planted.put_in])
    return CanaryFindings(
        len(planted.points), int(planted.put_in.sum()), len(synthetic), findings, membership
    )


def _published(
    planted: Planted, synthetic: Dataset, plan: CanaryPlan, rng: np.random.Generator
) -> CanaryFinding:
    """By the attributes that are numbers, with a point in each row's cell for what rounding took."""
    if not plan.numbers:
        refusal = "no attribute is numeric, and the theorem covers numbers only"
        return CanaryFinding("published sum", "", None, refusal)
    axes = list(synthetic.domain.axes(plan.numbers))
    canaries = planted.points[planted.put_in][:, axes]
    reconstruction = reconstruct_points(canaries, points_of(synthetic, rng=rng)[:, axes])
    bound = published_bound(
        reconstruction, beta=plan.beta / STATISTICS, neighbouring=planted.neighbouring
    )
    return CanaryFinding("published sum", f"nu = {reconstruction.nu:.4g}", bound)


def _among_cells(
    planted: Planted, synthetic: Dataset, plan: CanaryPlan
) -> tuple[CanaryFinding, CanaryFinding]:
    """By all attributes, as levels."""
    reconstruction = reconstruct_cells(planted.cells.take(np.flatnonzero(planted.put_in)), synthetic)
    count, beta = hit_count(reconstruction, plan.radius), plan.beta / STATISTICS
    by_sum = sum_bound(reconstruction, beta=beta, neighbouring=planted.neighbouring)
    by_count = count.bound(beta=beta, neighbouring=planted.neighbouring)
    blind = log_q_of(reconstruction.space, 0, reconstruction.rows) == 0, count.log_q == 0
    return (
        _finding("refined sum", f"nu = {reconstruction.nu:.4g}", by_sum, blind[0]),
        _finding("count", f"{count.hits} of {count.canaries} found", by_count, blind[1]),
    )


def _finding(statistic: str, seen: str, bound: EpsilonBound, blind: bool) -> CanaryFinding:
    """Blind rows that are sure to find every canary leave no bound."""
    return CanaryFinding(statistic, seen, None if blind else bound, _BLIND if blind else "")


def _guessed(
    planted: Planted, radii: FloatArray, plan: CanaryPlan, rng: np.random.Generator
) -> CanaryFinding:
    """Guess that the nearest canaries were put in, ties in random order, and leave the others open."""
    shuffled = rng.permutation(len(radii))
    nearest = shuffled[np.argsort(radii[shuffled], kind="stable")][: plan.guesses]
    correct = int(planted.put_in[nearest].sum())
    guesses = Guesses(len(radii), plan.guesses, correct)
    bound = guesses.bound(
        delta=plan.delta, beta=plan.beta / STATISTICS, neighbouring=planted.neighbouring
    )
    return CanaryFinding("guesses", f"{correct} of {plan.guesses} correct", bound)
