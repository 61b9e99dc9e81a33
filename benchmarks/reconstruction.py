"""The reconstruction audit: how often it errs, and how much it finds.

``python -m benchmarks.reconstruction [--quick] [--json FILE]``

False positives: rows that know nothing of the canaries (epsilon 0), among numbers and among levels; the
share of runs with a bound above 0 must be at most beta, but for the chance of so many runs.

Power: each canary goes through a local randomiser of known epsilon, and one row comes back for each.
Beside the mean bound of 20 runs stands what another program found for a randomiser of the same kind.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import exp, prod

import numpy as np
from scipy.stats import binom

from benchmarks import bench
from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.types import FloatArray
from gencard.measures.privacy.canaries import (
    Cube,
    Reconstruction,
    draw_cells,
    draw_points,
    reconstruct_cells,
    reconstruct_points,
)
from gencard.measures.privacy.canary_findings import hit_count, published_bound, sum_bound

Bounds = tuple[float, float, float]
"""Epsilon by the published sum (NaN among levels), the refined sum and the count."""

Run = Callable[[np.random.Generator], Bounds]

BETA = 0.05
KEPT = 0.8
"""Probability that a randomiser among numbers answers near the canary."""

REPLACE = Neighbouring.REPLACE_ONE
NAMES = ("published sum", "refined sum", "count")
NUMBERS = ((1, 1, 1), (2, 1, 1), (2, 5, 1), (3, 10, 3), (5, 5, 2), (10, 10, 2), (10, 10, 5), (20, 50, 2))
LEVELS = (
    (1, 1, (20,)),
    (4, 3, (3, 4, 5)),
    (10, 10, (2,) * 8),
    (5, 20, (9, 7, 6)),
    (10, 5, (2,) * 12),
    (8, 40, (10, 10, 10)),
    (20, 20, (6, 6, 6, 6)),
    (30, 10, (50, 40)),
)
"""m canaries, n rows, and attributes or their sizes."""


@dataclass(frozen=True, slots=True)
class Randomiser:
    """A local randomiser, replace-one ``epsilon`` exactly.

    Args:
        canaries: Their number, and that of the rows.
        attributes: Of the cube; 0 for one of 65,536 levels.
        known: What another program found, in the order of ``NAMES``.
    """

    canaries: int
    attributes: int
    epsilon: float
    known: tuple[float, ...] = ()

    def run(self, rng: np.random.Generator) -> Bounds:
        return _in_cube(self, rng) if self.attributes else _in_cells(self, rng)


POWER = (
    Randomiser(100, 2, 8.0, (0.60, 1.65, 2.94)),
    Randomiser(100, 5, 12.0, (3.23, 4.81, 6.86)),
    Randomiser(100, 5, 8.0, (0.0, 0.0, 2.80)),
    Randomiser(300, 10, 20.0, (8.14, 9.48, 13.23)),
    *(Randomiser(100, 5, epsilon) for epsilon in (6.0, 10.0, 14.0, 16.0)),
    *(Randomiser(100, 0, epsilon) for epsilon in (2.0, 4.0, 6.0, 8.0, 10.0)),
)


def bounds_of(guesses: Reconstruction, radius: float) -> Bounds:
    """All three, each by itself at the full level."""
    numbers = isinstance(guesses.space, Cube)
    return (
        published_bound(guesses, beta=BETA, neighbouring=REPLACE).epsilon if numbers else float("nan"),
        sum_bound(guesses, beta=BETA, neighbouring=REPLACE).epsilon,
        hit_count(guesses, radius).bound(beta=BETA, neighbouring=REPLACE).epsilon,
    )


def blind_numbers(m: int, n: int, d: int, rng: np.random.Generator) -> Bounds:
    """Rows in the middle of the cube, where they come nearest by chance."""
    rows = 0.25 + rng.random((n, d)) / 2
    return bounds_of(reconstruct_points(draw_points(d, m, rng=rng), rows), _radius(0.3 / n, d))


def blind_levels(m: int, n: int, sizes: tuple[int, ...], rng: np.random.Generator) -> Bounds:
    """Rows over all cells, each different while there are any."""
    domain = Domain.of({f"a{axis}": size for axis, size in enumerate(sizes)})
    cells = rng.choice(prod(sizes), n, replace=n > prod(sizes))
    rows = Dataset(domain, np.stack(np.unravel_index(cells, sizes), axis=1))
    return bounds_of(reconstruct_cells(draw_cells(domain, m, rng=rng), rows), 0)


def _in_cube(case: Randomiser, rng: np.random.Generator) -> Bounds:
    """Mostly a point of a ball, else of the cube; what leaves the cube comes in on the other side.

    The densities in the ball and outside differ by a factor of :math:`e^\\varepsilon`, exactly; what
    came in on the other side is no hit, which costs power where balls are wide.
    """
    m, d = case.canaries, case.attributes
    radius = _radius(KEPT / (1 - KEPT) / (exp(case.epsilon) - 1), d)
    canaries = draw_points(d, m, rng=rng)
    near = (canaries + radius * _in_ball(m, d, rng)) % 1
    rows = np.where(rng.random((m, 1)) < KEPT, near, rng.random((m, d)))
    return bounds_of(reconstruct_points(canaries, rows), radius)


def _in_cells(case: Randomiser, rng: np.random.Generator) -> Bounds:
    """Randomised response: the level itself, or any other."""
    size, m = 65_536, case.canaries
    domain = Domain.of({"a": size})
    canaries = draw_cells(domain, m, rng=rng)
    kept = rng.random((m, 1)) < exp(case.epsilon) / (exp(case.epsilon) + size - 1)
    others = (canaries.codes + rng.integers(1, size, (m, 1))) % size
    return bounds_of(
        reconstruct_cells(canaries, Dataset(domain, np.where(kept, canaries.codes, others))), 0
    )


def _radius(share: float, d: int) -> float:
    """Radius of the ball that has this share of the unit cube."""
    return float((share / np.exp(Cube(d).log_ball(np.ones(1))[0])) ** (1 / d))


def _in_ball(m: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Uniform points of the unit ball, shape ``(m, d)``."""
    directions = rng.normal(size=(m, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points: FloatArray = directions * rng.random((m, 1)) ** (1 / d)
    return points


def blind_cases() -> Iterator[tuple[tuple[str, int, int, str], Run]]:
    """Yield the cases for which false positives are counted."""
    for m, n, d in NUMBERS:
        yield ("numbers", m, n, str(d)), partial(blind_numbers, m, n, d)
    for m, n, sizes in LEVELS:
        shown = "x".join(map(str, sizes)) if len(set(sizes)) > 1 else f"{sizes[0]}^{len(sizes)}"
        yield ("levels", m, n, shown), partial(blind_levels, m, n, sizes)


def repeated(once: Run, runs: int, seed: int) -> FloatArray:
    """Bounds of independent runs, shape ``(runs, 3)``."""
    rng = np.random.default_rng([seed, runs])
    return np.array([once(rng) for _ in range(runs)])


def run(quick: bool) -> bench.Result:
    runs, repeats = (60, 4) if quick else (600, 20)
    blind = {label: repeated(once, runs, seed) for seed, (label, once) in enumerate(blind_cases())}
    power = {case: repeated(case.run, repeats, 99) for case in POWER}
    most = float(binom.isf(1e-4, runs, BETA))
    refuted = [int(np.nansum(bounds > 0, axis=0).max()) for bounds in blind.values()]
    above = [int(np.sum(bounds > case.epsilon)) for case, bounds in power.items()]
    return bench.Result(
        [_blind_table(blind, runs), _power_table(power, repeats)],
        [
            bench.Target("false positives, most of any case", max(refuted), most, "at most", "runs"),
            bench.Target(
                "bounds above the true epsilon", max(above), _allowed(repeats), "at most", "runs"
            ),
            bench.Target("cases of false positives", len(blind), 16, "at least"),
        ],
    )


def _allowed(repeats: int) -> float:
    """Most false positives of three bounds in each run, at level beta each."""
    return float(3 * binom.isf(1e-4, repeats, BETA))


def _blind_table(blind: dict[tuple[str, int, int, str], FloatArray], runs: int) -> bench.Table:
    return bench.Table(
        f"False positives at epsilon 0, in % of {runs} runs; beta is {100 * BETA:g} %",
        ("canaries are", "m", "n", "d", *NAMES),
        [(*label, *_shown(100 * _rate(bounds))) for label, bounds in blind.items()],
    )


def _rate(bounds: FloatArray) -> FloatArray:
    rate: FloatArray = np.where(np.isnan(bounds[0]), np.nan, (bounds > 0).mean(axis=0))
    return rate


def _power_table(power: dict[Randomiser, FloatArray], repeats: int) -> bench.Table:
    return bench.Table(
        f"Local randomiser, mean bound of {repeats} runs",
        ("m = n", "d", "true epsilon", *NAMES, "another program"),
        [
            (
                case.canaries,
                case.attributes or "65,536 levels",
                case.epsilon,
                *_shown(bounds.mean(axis=0)),
                ", ".join(f"{bound:.2f}" for bound in case.known),
            )
            for case, bounds in power.items()
        ],
    )


def _shown(figures: FloatArray) -> list[float | None]:
    return [None if np.isnan(figure) else round(float(figure), 2) for figure in figures]


if __name__ == "__main__":
    bench.main("reconstruction", run)
