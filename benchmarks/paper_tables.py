"""The tables of two papers again: Houssiau et al. (2022), Table 1, and Raab (2022), Tables 2 and 3.

``python -m benchmarks.paper_tables [--quick] [--json FILE]``; 15 minutes of one core, on all there are.
"""

from typing import Any

from benchmarks import bench, mipfp
from benchmarks.contest import Contest, contested
from benchmarks.houssiau import FULL_FILE, PRINTED, TOLERANCE, Errors, errors
from benchmarks.ipf import APPLICATIONS
from benchmarks.raab import EPSILONS, Row, reproduced

_SYNTHESES = {3: 100, 5: 100, 7: 10}
"""Syntheses for each row of synthpop's tables, by number of attributes. The paper has 10."""

_CONTESTS = {3: 400, 5: 40, 7: 10}
"""Draws of each contest, by number of attributes."""

_CLOSE_CONTESTS = {(3, 1.0): 2_000, (3, 2.0): 10_000, (7, 0.01): 30}
"""Draws of contests whose noise is huge, or so small that both come near to the sampling error."""

_HIGHEST_EPSILON = 2.0
"""Ours must be better up to here."""

_ABOVE_PAPER = 1.25
"""Errors of Application 1 by the paper's: of what psi lacks, more is chance in so few records."""

_ERRORS = 3.0
"""Largest difference of our means from the paper's and from those of R, in standard errors."""


def run(quick: bool) -> bench.Result:
    applications = [one for name in APPLICATIONS for one in errors(name)]
    fits = {f"S{attributes}": mipfp.farthest(attributes) for attributes in (3, 5)}
    rows, contests = _quick() if quick else _full()
    return bench.Result(
        [
            _applications_table(applications),
            _utility_table(rows),
            _uniques_table(rows),
            _contests_table(contests),
        ],
        [*_fit_targets(applications, fits), *_noise_targets(rows, contests)],
        {"rows": [_figures(row) for row in rows]},
    )


def _quick() -> tuple[list[Row], list[Contest]]:
    settings = [(3, "catall", 0.0), (5, "ipf", 0.0), (3, "ipf", 0.1), (5, "ipf", 1.0)]
    rows = bench.on_all_cores(reproduced, [(*one, 10) for one in settings])
    return rows, bench.on_all_cores(contested, [(3, 0.1, 50), (5, 1.0, 10)])


def _full() -> tuple[list[Row], list[Contest]]:
    exact = [(size, method, 0.0) for method in ("catall", "ipf") for size in _SYNTHESES]
    noisy = [(size, "ipf", epsilon) for epsilon in EPSILONS for size in _SYNTHESES]
    rows = bench.on_all_cores(reproduced, [(*one, _SYNTHESES[one[0]]) for one in (*exact, *noisy)])
    contests = [
        (size, epsilon, _CLOSE_CONTESTS.get((size, epsilon), _CONTESTS[size]))
        for size, _, epsilon in noisy
    ]
    return rows, bench.on_all_cores(contested, contests)


def _applications_table(applications: list[Errors]) -> bench.Table:
    return bench.Table(
        "Houssiau et al. (2022), Table 1, on the first 50,000 records: errors of psi (L1), and root "
        f"mean squared ones of 50,000 and {FULL_FILE:,} rows; the paper's are on the full file",
        (
            *("application", "generator", "psi", "3-way, 50,000", f"3-way, {FULL_FILE:,}", "paper"),
            *("gap, 50,000", f"gap, {FULL_FILE:,}", "paper"),
        ),
        [
            (one.application, one.generator, one.psi, *one.three.values(), *_printed(one))
            for one in applications
        ],
    )


def _printed(one: Errors) -> tuple[float | None, ...]:
    """The rest of a row, where the paper prints anything for the application."""
    if not one.gap:
        return (None,) * 4
    three, gap = PRINTED[one.generator]
    return three, *one.gap.values(), gap


def _utility_table(rows: list[Row]) -> bench.Table:
    return bench.Table(
        "Raab (2022), Tables 2 and 3, by synthpop's own convention: mean S_pMSE here, there, in R",
        (
            *("set", "method", "epsilon", "two", "paper", "R", "three", "paper", "R"),
            *("not converged", "farthest, se"),
        ),
        [
            (
                *_name(row),
                *(float(row.scores.two.mean()), row.paper["two"], row.runs["two"]),
                *(float(row.scores.three.mean()), row.paper["three"], row.runs["three"]),
                f"{row.scores.unconverged} of {len(row.scores)}",
                max(row.deviations),
            )
            for row in rows
        ],
    )


def _uniques_table(rows: list[Row]) -> bench.Table:
    return bench.Table(
        "Replicated uniques, in %; worst three-way table (which one is the paper's is not known)",
        ("set", "method", "epsilon", "uniques", "paper", "R", "worst", "paper", "R"),
        [
            (
                *_name(row),
                *(float(row.scores.uniques.mean()), row.paper["ru_pct"], row.runs["ru_pct"]),
                *(row.scores.worst, row.paper["worst"], row.runs["worst_triple_by_mean"]),
            )
            for row in rows
        ],
    )


def _name(row: Row) -> tuple[bench.Cell, ...]:
    return f"S{row.attributes}", row.method, row.epsilon or "none"


def _contests_table(contests: list[Contest]) -> bench.Table:
    return bench.Table(
        "At equal true epsilon, on the same noisy counts: mean S_pMSE of our default and of synthpop, "
        "with the standard error of their difference",
        (
            *("set", "said", "true", "syntheses", "two, ours", "synthpop", "se", "three, ours"),
            *("synthpop", "se", "not converged", "synthpop"),
        ),
        [
            (
                *(f"S{one.attributes}", one.epsilon, 2 * one.epsilon, len(one.ours)),
                *(one.two.ours, one.two.theirs, one.two.error),
                *(one.three.ours, one.three.theirs, one.three.error),
                *(one.ours.unconverged, one.theirs.unconverged),
            )
            for one in contests
        ],
    )


def _fit_targets(applications: list[Errors], fits: dict[str, float]) -> list[bench.Target]:
    farthest = max(one.psi for one in applications)
    return [
        bench.Target("psi of the model", farthest, TOLERANCE, "at most"),
        bench.Target("errors to Houssiau's", _to_paper(applications), _ABOVE_PAPER, "at most", "x"),
        *(bench.Target(f"{name} beside mipfp", off, 1e-6, "at most") for name, off in fits.items()),
    ]


def _noise_targets(rows: list[Row], contests: list[Contest]) -> list[bench.Target]:
    farthest = max(max(row.deviations) for row in rows)
    private = [one for one in contests if one.epsilon <= _HIGHEST_EPSILON]
    two = max(one.two.ours / one.two.theirs for one in private)
    three = max(one.three.ours / one.three.theirs for one in private)
    unconverged = sum(one.ours.unconverged for one in contests)
    return [
        bench.Target("Raab's rows: farthest mean", farthest, _ERRORS, "at most", "se"),
        bench.Target("two-way S_pMSE to synthpop's, worst row", two, 1, "at most", "x"),
        bench.Target("three-way S_pMSE to synthpop's, worst row", three, 1, "at most", "x"),
        bench.Target("fits of ours that did not converge", float(unconverged), 0, "at most"),
    ]


def _to_paper(applications: list[Errors]) -> float:
    """The largest of the errors that the paper prints, ours by theirs, of as many rows as theirs."""
    return max(
        ours[FULL_FILE] / theirs
        for one in applications
        if one.gap
        for ours, theirs in zip((one.three, one.gap), PRINTED[one.generator], strict=True)
    )


def _figures(row: Row) -> dict[str, Any]:
    return {
        "set": f"S{row.attributes}",
        "method": row.method,
        "epsilon": row.epsilon,
        "deviations": row.deviations,
        "two": row.scores.two.tolist(),
        "three": row.scores.three.tolist(),
        "uniques": row.scores.uniques.tolist(),
    }


if __name__ == "__main__":
    bench.main("paper_tables", run)
